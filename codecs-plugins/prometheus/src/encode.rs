//! Encoding of samples to text.

use std::collections::HashMap;
use std::fmt::{Display, Write};

use tremor_pdk::{Error, Result, Shape, ValueRef};

use crate::{
    config::{Config, EventIs, Format},
    family::{Kind, Written, is_label_name, is_metric_name},
    numbers,
};

/// Returns the message of a value.
pub(crate) fn encode(config: Config, value: ValueRef<'_>) -> Result<String> {
    let mut text = String::new();
    match config.event {
        EventIs::Sample => {
            let sample = Sample::read(value, config.format)?;
            head(&sample.written, sample.help, sample.unit, config.format, &mut text);
            sample.write(config.format, &mut text)?;
        }
        EventIs::Exposition => {
            let Some(samples) = value.as_array() else {
                return Err(wrong("an array of samples", value, ", or set `event: sample`"));
            };
            let mut groups = Groups::default();
            for value in samples {
                groups.add(&Sample::read(value, config.format)?, config.format)?;
            }
            groups.write(config.format, &mut text);
            if config.format == Format::OpenMetrics {
                text.push_str("# EOF\n");
            }
        }
    }
    Ok(text)
}

/// Samples by family, in the order of the first sample of each family.
#[derive(Default)]
struct Groups<'v> {
    indices: HashMap<String, usize>,
    groups: Vec<Group<'v>>,
}

struct Group<'v> {
    written: Written,
    help: Option<&'v str>,
    unit: Option<&'v str>,
    lines: String,
}

impl<'v> Groups<'v> {
    fn add(&mut self, sample: &Sample<'v>, format: Format) -> Result<()> {
        let Sample { written, help, unit, .. } = sample;
        let index = *self.indices.entry(written.family.clone()).or_insert(self.groups.len());
        if index == self.groups.len() {
            let (written, lines) = (written.clone(), String::new());
            self.groups.push(Group { written, help: *help, unit: *unit, lines });
        }
        let group = &mut self.groups[index];
        if group.written.kind == Kind::Untyped {
            group.written.kind = written.kind;
        }
        // A sample that the type of its family does not allow was decoded as untyped.
        if ![group.written.kind, Kind::Untyped].contains(&written.kind) {
            let (one, other) = (group.written.kind.name(), written.kind.name());
            let family = &written.family;
            return Err(Error::bad_data(format_args!(
                "`{family}` is a {one} in one sample and a {other} in another one"
            )));
        }
        group.help = group.help.or(*help);
        group.unit = group.unit.or(*unit);
        sample.write(format, &mut group.lines)
    }

    fn write(&self, format: Format, text: &mut String) {
        for Group { written, help, unit, lines } in &self.groups {
            head(written, *help, *unit, format, text);
            text.push_str(lines);
        }
    }
}

/// Writes the `HELP`, `TYPE` and `UNIT` lines of a family.
fn head(
    Written { family, kind }: &Written,
    help: Option<&str>,
    unit: Option<&str>,
    format: Format,
    text: &mut String,
) {
    if let Some(help) = help {
        put(text, format_args!("# HELP {family} "));
        escape(help, format == Format::OpenMetrics, text);
        text.push('\n');
    }
    put(text, format_args!("# TYPE {family} {}\n", kind.line_name(format)));
    if let (Some(unit), Format::OpenMetrics) = (unit, format) {
        put(text, format_args!("# UNIT {family} {unit}\n"));
    }
}

/// A sample in the representation of events.
struct Sample<'v> {
    name: &'v str,
    written: Written,
    help: Option<&'v str>,
    unit: Option<&'v str>,
    labels: Option<ValueRef<'v>>,
    value: f64,
    timestamp: Option<i64>,
    exemplar: Option<ValueRef<'v>>,
}

impl<'v> Sample<'v> {
    fn read(value: ValueRef<'v>, format: Format) -> Result<Self> {
        let Some(object) = value.as_object() else {
            return Err(wrong("a sample, which is an object", value, ""));
        };
        let (mut name, mut family, mut kind) = (None, None, Kind::Untyped);
        let (mut help, mut unit, mut labels, mut number) = (None, None, None, None);
        let (mut timestamp, mut exemplar) = (None, None);
        for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            match key {
                "name" => name = Some(metric_name(key, value)?),
                "family" => family = Some(metric_name(key, value)?),
                "type" => {
                    let known = value.as_str().and_then(Kind::of_event);
                    kind =
                        known.ok_or_else(|| wrong("the type of a metric as `type`", value, ""))?;
                }
                "help" => help = Some(text("help", value)?).filter(|help| !help.is_empty()),
                "unit" => unit = Some(unit_text(value)?).filter(|unit| !unit.is_empty()),
                "labels" => labels = Some(value),
                "value" => number = Some(float(value)?),
                "timestamp" => timestamp = Some(time(value)?),
                "exemplar" => exemplar = Some(value),
                other => return Err(unknown(other)),
            }
        }
        let missing = |key: &str| Error::bad_data(format_args!("a sample needs the key `{key}`"));
        let name = name.ok_or_else(|| missing("name"))?;
        let value = number.ok_or_else(|| missing("value"))?;
        let family = family.unwrap_or(name);
        // The event may have been decoded from either version of the format.
        let is_of_it =
            kind.has(family, name, Format::Text) || kind.has(family, name, Format::OpenMetrics);
        let written = kind.written(family, name, format);
        if !is_of_it || !written.kind.has(&written.family, name, format) {
            return Err(Error::bad_data(format_args!(
                "`{name}` is not the name of a sample of the {} `{family}`",
                kind.name()
            )));
        }
        Ok(Self { name, written, help, unit, labels, value, timestamp, exemplar })
    }

    /// Writes the line of the sample.
    fn write(&self, format: Format, text: &mut String) -> Result<()> {
        text.push_str(self.name);
        let needed = self.written.kind.needs(&self.written.family, self.name);
        let found = self.labels.map_or(Ok(false), |it| labels(it, needed, false, text))?;
        if let Some(needed) = needed.filter(|_| !found) {
            let name = self.name;
            return Err(Error::bad_data(format_args!(
                "`{name}` needs the label `{needed}`, a number"
            )));
        }
        point(self.value, self.timestamp, format, text);
        if let (Some(exemplar), Format::OpenMetrics) = (self.exemplar, format) {
            text.push_str(" # ");
            write_exemplar(exemplar, format, text)?;
        }
        text.push('\n');
        Ok(())
    }
}

fn write_exemplar(exemplar: ValueRef<'_>, format: Format, text: &mut String) -> Result<()> {
    let Some(object) = exemplar.as_object() else {
        return Err(wrong("an object as `exemplar`", exemplar, ""));
    };
    let (mut value, mut timestamp, mut its_labels) = (None, None, None);
    for (key, part) in object.iter().filter(|(_, part)| !part.is_null()) {
        match key {
            "labels" => its_labels = Some(part),
            "value" => value = Some(float(part)?),
            "timestamp" => timestamp = Some(time(part)?),
            other => return Err(unknown(other)),
        }
    }
    let value = value.ok_or_else(|| Error::bad_data("an exemplar needs the key `value`"))?;
    match its_labels {
        Some(value) => labels(value, None, true, text).map(drop)?,
        None => text.push_str("{}"),
    }
    point(value, timestamp, format, text);
    Ok(())
}

/// Writes labels. Returns whether the `needed` label is present. Without labels, braces are written only if they are
/// `wanted`.
fn labels(
    value: ValueRef<'_>,
    needed: Option<&str>,
    wanted: bool,
    text: &mut String,
) -> Result<bool> {
    let Some(object) = value.as_object() else {
        return Err(wrong("an object as `labels`", value, ""));
    };
    let (mut separator, mut found) = ('{', false);
    for (name, value) in object.iter().filter(|(_, value)| !value.is_null()) {
        if !is_label_name(name) {
            return Err(Error::bad_data(format_args!(
                "{name:?} cannot name a label: expected letters, digits and `_`, and no digit first"
            )));
        }
        put(text, format_args!("{separator}{name}=\""));
        separator = ',';
        let start = text.len();
        match value.shape() {
            Shape::String(value) => escape(value, true, text),
            Shape::F64(value) => text.push_str(&numbers::value_text(value)),
            Shape::Bool(_) | Shape::I64(_) | Shape::U64(_) | Shape::Number(_) => put(text, value),
            _ => return Err(wrong(&format!("text as the label `{name}`"), value, "")),
        }
        if needed == Some(name) && numbers::value(&text[start..]).is_some() {
            found = true;
        }
        text.push('"');
    }
    match separator {
        '{' if wanted => text.push_str("{}"),
        '{' => {}
        _ => text.push('}'),
    }
    Ok(found)
}

/// Writes a value and its time.
fn point(value: f64, timestamp: Option<i64>, format: Format, text: &mut String) {
    put(text, format_args!(" {}", numbers::value_text(value)));
    if let Some(time) = timestamp {
        put(text, format_args!(" {}", numbers::timestamp_text(time, format)));
    }
}

fn metric_name<'v>(key: &str, value: ValueRef<'v>) -> Result<&'v str> {
    value.as_str().filter(|name| is_metric_name(name)).ok_or_else(|| {
        let expected = format!("the name of a metric (letters, digits, `_` and `:`) as `{key}`");
        wrong(&expected, value, "")
    })
}

fn text<'v>(key: &str, value: ValueRef<'v>) -> Result<&'v str> {
    value.as_str().ok_or_else(|| wrong(&format!("text as `{key}`"), value, ""))
}

/// Returns the text of a unit, which must consist of characters that are valid in the name of a
/// metric.
fn unit_text(value: ValueRef<'_>) -> Result<&str> {
    let is_good = |unit: &&str| unit.is_empty() || is_metric_name(&format!("_{unit}"));
    let unit = value.as_str().filter(is_good);
    unit.ok_or_else(|| wrong("a unit (letters, digits, `_` and `:`) as `unit`", value, ""))
}

fn float(value: ValueRef<'_>) -> Result<f64> {
    let number = value.cast_f64().or_else(|| numbers::value(value.as_str()?));
    number.ok_or_else(|| wrong("a number, `NaN`, `+Inf` or `-Inf` as `value`", value, ""))
}

fn time(value: ValueRef<'_>) -> Result<i64> {
    let time = value.whole().and_then(|time| i64::try_from(time).ok());
    time.ok_or_else(|| wrong("ns since the Unix epoch as `timestamp`", value, ""))
}

fn escape(raw: &str, has_quotes: bool, text: &mut String) {
    for character in raw.chars() {
        match character {
            '\\' => text.push_str(r"\\"),
            '\n' => text.push_str(r"\n"),
            '"' if has_quotes => text.push_str("\\\""),
            other => text.push(other),
        }
    }
}

/// Appends to a `String`, which cannot fail.
fn put(text: &mut String, what: impl Display) {
    let _ = write!(text, "{what}");
}

#[cold]
fn unknown(key: &str) -> Error {
    Error::bad_data(format_args!("unknown key `{}`", shown(key)))
}

#[cold]
fn wrong(expected: &str, found: ValueRef<'_>, help: &str) -> Error {
    let found = shown(&found.to_string());
    Error::bad_data(format_args!("expected {expected}, found {found}{help}"))
}

/// Returns the text with which an error quotes a value.
fn shown(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
