//! Texts with the values of fields and with times, such as `{host}/{%file.name}` or `{:+%Y-%m-%d}`.

mod carried;
mod time;

use std::{fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};

use self::{carried::Source, time::TimeFormat};
pub use self::{carried::TemplateFields, time::TimeCache};
pub use crate::{EventParts, Field};
use crate::{EventRef, PathError, Shape, ValueRef};

/// A text in which fields in braces are replaced by their values. `{{` and `}}` are braces of the text.
///
/// `{FIELD:-DEFAULT}` is replaced by the default if the event has no text for the field. Values that have text are
/// texts, numbers and truth values. Without a default, a template with such a field has no text.
///
/// `{FIELD:+FORMAT}` is replaced by the time in the field, in a format of strftime. `{:+FORMAT}` is replaced by the
/// time when the event was read. `{FIELD:+FORMAT|ZONE:-DEFAULT}` has a time zone and a default; the time zone is UTC if
/// there is none. A time is an integer in ns since the Unix epoch, or text in the form of RFC 3339.
///
/// A format has at least one `%`. Formats and defaults contain no braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Box<[Part]>,
    /// The template as it was written.
    text: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Field { source: Source, default: Option<Box<str>> },
    Time(Box<Time>),
}

/// A time in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Time {
    /// `None` for the time when the event was read.
    source: Option<Source>,
    format: TimeFormat,
    default: Option<Box<str>>,
}

/// A syntax error of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Offset of the error, in bytes from the start of the text.
    pub offset: usize,
    problem: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid template: {} at offset {}", self.problem, self.offset)
    }
}

impl std::error::Error for TemplateError {}

/// A field that a template needs, but that has no text in an event.
#[derive(Clone, Copy, Debug)]
pub struct NoText<'t> {
    /// `None` for the time when the event was read.
    field: Option<&'t Field>,
    expected: &'static str,
    found: &'static str,
}

const TEXT: &str = "text, a number or a truth value";
const TIME: &str =
    "a time (an integer in ns since the Unix epoch, or text such as `2026-11-29T08:30:00Z`)";

impl NoText<'_> {
    /// Returns the field without text, or `None` for the time when the event was read.
    #[must_use]
    pub const fn field(&self) -> Option<&Field> {
        self.field
    }
}

impl fmt::Display for NoText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.expected)?;
        match self.field {
            Some(field) => write!(f, " as `{field}`")?,
            None => f.write_str(" when the event was read")?,
        }
        write!(f, ", found {}", self.found)?;
        // A directive such as `%F` is a valid name of metadata.
        match self.field.map(Field::to_string).as_deref().map(str::as_bytes) {
            Some([b'%', directive])
                if directive.is_ascii_alphabetic() && self.found == NO_FIELD =>
            {
                let directive = char::from(*directive);
                write!(f, "; for the time when the event was read, write `{{:+%{directive}}}`")
            }
            _ => Ok(()),
        }
    }
}

impl Template {
    /// Appends the text of the template for an event. After an error, `out` is unchanged.
    ///
    /// # Errors
    /// Returns the first field that has neither text nor a default.
    #[inline]
    pub fn render<'t>(&'t self, event: EventRef<'_>, out: &mut String) -> Result<(), NoText<'t>> {
        self.render_by(event, out, |_, format, ns, out| format.append(ns, out), |_, _| {})
    }

    /// Appends the text as [`Template::render`] does, and formats a time only if it differs from the one before in a
    /// part that the format shows. Use each cache with one template only.
    ///
    /// # Errors
    /// Returns the first field that has neither text nor a default.
    pub fn render_cached<'t>(
        &'t self,
        event: EventRef<'_>,
        out: &mut String,
        cache: &mut TimeCache,
    ) -> Result<(), NoText<'t>> {
        let append = |number, format: &TimeFormat, ns, out: &mut String| {
            cache.append(number, format, ns, out)
        };
        self.render_by(event, out, append, |_, _| {})
    }

    /// Appends the text as [`Template::render_cached`] does, and calls `escape` after the value of each field was
    /// appended, with `out` and the offset in bytes at which the value begins. What `escape` leaves behind that offset
    /// is the value in the text. Defaults, times and what stands outside of braces are not escaped, because the author
    /// of the template chose them.
    ///
    /// # Errors
    /// Returns the first field that has neither text nor a default.
    pub fn render_escaped<'t>(
        &'t self,
        event: EventRef<'_>,
        out: &mut String,
        cache: &mut TimeCache,
        escape: impl FnMut(&mut String, usize),
    ) -> Result<(), NoText<'t>> {
        let append = |number, format: &TimeFormat, ns, out: &mut String| {
            cache.append(number, format, ns, out)
        };
        self.render_by(event, out, append, escape)
    }

    #[inline]
    fn render_by<'t>(
        &'t self,
        event: EventRef<'_>,
        out: &mut String,
        mut append: impl FnMut(usize, &TimeFormat, i128, &mut String) -> bool,
        mut escape: impl FnMut(&mut String, usize),
    ) -> Result<(), NoText<'t>> {
        let before = out.len();
        for (number, part) in self.parts.iter().enumerate() {
            let (default, error) = match part {
                Part::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Part::Field { source, default } => {
                    let shape = source.get(event).map(ValueRef::shape);
                    let start = out.len();
                    if shape.is_some_and(|shape| push(shape, out)) {
                        escape(out, start);
                        continue;
                    }
                    let found = shape.map_or(NO_FIELD, |found| source.name(found, event));
                    (default, NoText { field: Some(source.field()), expected: TEXT, found })
                }
                Part::Time(time) => {
                    let before = out.len();
                    let found = match time.ns(event) {
                        Ok(ns) if append(number, &time.format, ns, out) => continue,
                        Ok(_) => "a time outside of the years -9999 to 9999",
                        Err(found) => found,
                    };
                    out.truncate(before);
                    (&time.default, NoText { field: time.field(), expected: TIME, found })
                }
            };
            match default {
                Some(default) => out.push_str(default),
                None => {
                    out.truncate(before);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns the text of a template that has neither fields nor times, with `{{` and `}}` replaced by braces.
    #[must_use]
    pub fn constant(&self) -> Option<&str> {
        match &*self.parts {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the text before the first field or time, with `{{` and `}}` replaced by braces.
    #[must_use]
    pub fn prefix(&self) -> &str {
        match self.parts.first() {
            Some(Part::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns the fixed text of the template, with `value` in place of each field and time, and with `{{` and `}}`
    /// replaced by braces.
    #[must_use]
    pub fn shape(&self, value: &str) -> String {
        let text = |part: &Part| match part {
            Part::Text(text) => text.to_string(),
            _ => value.to_owned(),
        };
        self.parts.iter().map(text).collect()
    }

    /// Returns the text as [`Template::shape`] does, with each field or time that has a default replaced by it.
    #[must_use]
    pub fn shape_of_defaults(&self, value: &str) -> String {
        let text = |part: &Part| match part {
            Part::Text(text) => text.to_string(),
            Part::Field { default, .. } => default.as_deref().unwrap_or(value).to_owned(),
            Part::Time(time) => time.default.as_deref().unwrap_or(value).to_owned(),
        };
        self.parts.iter().map(text).collect()
    }

    /// Returns the fields that the template reads.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Field { source, .. } => Some(source.field()),
            Part::Time(time) => time.field(),
        })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

const NO_FIELD: &str = "no such field";

impl Time {
    fn field(&self) -> Option<&Field> {
        self.source.as_ref().map(Source::field)
    }

    /// Returns the time in ns since the Unix epoch, or a description of the value that is not a time.
    fn ns(&self, event: EventRef<'_>) -> Result<i128, &'static str> {
        let Some(source) = &self.source else { return Ok(event.ingest_ns().into()) };
        match source.get(event).map(ValueRef::shape) {
            Some(Shape::I64(ns)) => Ok(ns.into()),
            Some(Shape::U64(ns)) => Ok(ns.into()),
            Some(Shape::String(text)) => time::parse(text).ok_or("another text"),
            Some(shape) => Err(source.name(shape, event)),
            None => Err(NO_FIELD),
        }
    }
}

/// Appends text, a number or a truth value. Returns `false` for a value of another type.
#[inline]
fn push(value: Shape<'_>, out: &mut String) -> bool {
    match value {
        Shape::String(text) | Shape::Number(text) => out.push_str(text),
        Shape::Bool(value) => out.push_str(if value { "true" } else { "false" }),
        Shape::I64(number) => out.push_str(itoa::Buffer::new().format(number)),
        Shape::U64(number) => out.push_str(itoa::Buffer::new().format(number)),
        Shape::F64(number) if number.is_finite() => {
            out.push_str(zmij::Buffer::new().format_finite(number));
        }
        _ => return false,
    }
    true
}

/// Returns the length of the path at the start of `text`: up to `}` or `:` outside of quotes, or the whole text.
fn path_length(text: &str) -> usize {
    let (mut in_quotes, mut is_escaped) = (false, false);
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_quotes => is_escaped = true,
            b'"' => in_quotes = !in_quotes,
            b'}' | b':' if !in_quotes => return position,
            _ => {}
        }
    }
    text.len()
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut at = 0;
        while let Some(length) = text[at..].find(['{', '}']) {
            plain.push_str(&text[at..at + length]);
            at += length;
            let rest = &text[at..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                plain.push_str(&rest[..1]);
                at += 2;
                continue;
            }
            if rest.starts_with('}') {
                return Err(expected(at, "`}}` for a brace of the text, or `{` before the field"));
            }
            let (part, behind) = parse_part(text, at + 1)?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain).into()));
            }
            parts.push(part);
            at = behind;
        }
        plain.push_str(&text[at..]);
        if !plain.is_empty() {
            parts.push(Part::Text(plain.into()));
        }
        Ok(Self { parts: parts.into(), text: text.into() })
    }
}

fn expected(offset: usize, expected: &str) -> TemplateError {
    TemplateError { offset, problem: format!("expected {expected}") }
}

/// Parses the field or the time that begins at `start`, behind the brace. Returns it with the offset behind its end.
fn parse_part(text: &str, start: usize) -> Result<(Part, usize), TemplateError> {
    let end = start + path_length(&text[start..]);
    let field: Field = text[start..end]
        .parse()
        .map_err(|invalid: PathError| expected(start + invalid.offset, invalid.expected))?;
    let mut behind = end;
    let mut format = None;
    if text[end..].starts_with(":+") {
        let from = end + 2;
        let end = part_end(text, from)?;
        behind = text[from..end].find(":-").map_or(end, |length| from + length);
        let parsed = TimeFormat::parse(&text[from..behind]);
        format = Some(
            parsed.map_err(|(offset, problem)| TemplateError { offset: from + offset, problem })?,
        );
    } else if start == end {
        return Err(expected(start, "a field, or `{{` for a brace of the text"));
    }
    let mut default = None;
    if text[behind..].starts_with(":-") {
        let from = behind + 2;
        behind = part_end(text, from)?;
        default = Some(text[from..behind].into());
    }
    if !text[behind..].starts_with('}') {
        let message = match format {
            Some(_) => "`}` after the format of the time",
            None => "`}` after the field, `:-` and a default, or `:+` and the format of a time",
        };
        return Err(expected(behind, message));
    }
    let part = match format {
        None => Part::Field { source: field.into(), default },
        Some(format) => {
            let source = (start < end).then(|| field.into());
            Part::Time(Box::new(Time { source, format, default }))
        }
    };
    Ok((part, behind + 1))
}

/// Returns the offset of the brace that ends the format or the default at `from`, or of the end of the text.
///
/// # Errors
/// The brace is missing if another part begins before it.
fn part_end(text: &str, from: usize) -> Result<usize, TemplateError> {
    let end = text[from..].find(['{', '}']).map_or(text.len(), |length| from + length);
    if text[end..].starts_with('{') {
        return Err(expected(
            end,
            "`}` before this `{`, because a format or a default contains no braces",
        ));
    }
    Ok(end)
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error| D::Error::custom(format_args!("`{text}`: {error}")))
    }
}

/// Value of the keyword `format` in the JSON schema of a template. By this value, the runtime finds the templates in
/// the configuration of a sink.
pub(crate) const FORMAT: &str = "template";

impl JsonSchema for Template {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Template".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": FORMAT,
            "description": "A text with fields in braces, such as `{host}/{%file.name}` or \
                `{level:-none}` with a default; `{time:+%F}` and `{:+%F|local}` are times; `{{` and `}}` are braces.",
        })
    }
}

#[cfg(test)]
mod tests;
