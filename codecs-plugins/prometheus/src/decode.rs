//! Decoding of an exposition, or a part of one, to samples.

use std::borrow::Cow;
use std::collections::HashSet;

use tremor_pdk::{Batch, Result, Writer};

use crate::{
    config::{Config, EventIs, Format, NonFinite},
    family::Kind,
    numbers,
    parser::{Line, Parsed, Parser, Wrong},
};

/// Decodes messages. One decoder is used for all messages, so that its buffers are reused.
#[derive(Default)]
pub(crate) struct Decoder {
    unescaped: String,
    /// Start and end of each label name of the current sample, in the text.
    names: Vec<(usize, usize)>,
}

/// The contents of the lines of a family that were read so far.
#[derive(Default)]
struct Family<'t> {
    name: &'t str,
    kind: Option<Kind>,
    help: Option<Cow<'t, str>>,
    unit: Option<&'t str>,
    has_samples: bool,
}

/// The families of an exposition: the family of the current line, and the families whose lines have ended.
#[derive(Default)]
struct Families<'t> {
    current: Family<'t>,
    ended: HashSet<&'t str>,
}

impl<'t> Families<'t> {
    /// Returns the family `name`, which becomes the current family.
    fn enter(&mut self, name: &'t str, at: usize) -> Parsed<&mut Family<'t>> {
        if self.current.name != name {
            if self.ended.contains(name) {
                let what = format!(
                    "expected the lines of `{name}` together, found other lines between them"
                );
                return Err(Wrong::new(at, what));
            }
            self.ended.insert(self.current.name);
            self.current = Family { name, ..Family::default() };
        }
        Ok(&mut self.current)
    }

    /// Returns the family of a `HELP`, `TYPE` or `UNIT` line, which must precede the samples of the family.
    fn describe(&mut self, name: &'t str, at: usize) -> Parsed<&mut Family<'t>> {
        let family = self.enter(name, at)?;
        if family.has_samples {
            let what = format!("expected this line before the samples of `{name}`");
            return Err(Wrong::new(at, what));
        }
        Ok(family)
    }

    /// Returns the family of a sample.
    fn of_sample(&mut self, name: &'t str, at: usize, format: Format) -> Parsed<&mut Family<'t>> {
        let Family { name: family, kind, .. } = self.current;
        let kind = kind.unwrap_or(Kind::Untyped);
        let is_of_it = !family.is_empty() && kind.has(family, name, format);
        if !is_of_it && family == name {
            let names: Vec<_> =
                kind.suffixes(format).iter().map(|suffix| format!("`{family}{suffix}`")).collect();
            let (names, kind) = (names.join(", "), kind.name());
            let what = format!("expected a sample of the {kind} `{family}`, which are {names}");
            return Err(Wrong::new(at, what));
        }
        let family = self.enter(if is_of_it { family } else { name }, at)?;
        family.has_samples = true;
        Ok(family)
    }
}

/// Sets a value that a family may have only once.
fn set<T>(slot: &mut Option<T>, value: T, at: usize, what: &str) -> Parsed<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Wrong::new(at, format!("expected one {what} line of a family"))),
    }
}

impl Decoder {
    /// Decodes a message and writes its value.
    pub(crate) fn decode(
        &mut self,
        config: Config,
        message: &[u8],
        writer: &mut Writer<'_>,
    ) -> Result<()> {
        let text = std::str::from_utf8(message)
            .map_err(|error| Wrong::new(error.valid_up_to(), "expected UTF-8").in_text(message))?;
        self.text(config, text, writer).map_err(|wrong| wrong.in_text(message))
    }

    fn text(&mut self, config: Config, text: &str, writer: &mut Writer<'_>) -> Parsed<()> {
        let mut parser = Parser::new(text, config.format);
        let mut families = Families::default();
        let (mut samples, mut has_ended) = (0_usize, false);
        let is_exposition = config.event == EventIs::Exposition;
        if is_exposition {
            writer.begin_array();
        }
        while let Some((at, line)) = parser.line()? {
            if has_ended {
                return Err(Wrong::new(at, "expected nothing after `# EOF`"));
            }
            match line {
                // Only the first `HELP` line before the samples counts. Other `HELP` lines are ignored instead of being
                // an error, so that no sample is lost.
                Line::Help { name, help } => {
                    if let Ok(family) = families.describe(name, at) {
                        family.help.get_or_insert(help);
                    }
                }
                Line::Type { name, kind } => {
                    set(&mut families.describe(name, at)?.kind, kind, at, "`TYPE`")?;
                }
                Line::Unit { name, unit } => {
                    set(&mut families.describe(name, at)?.unit, unit, at, "`UNIT`")?;
                }
                Line::Eof => has_ended = true,
                Line::Sample { name } => {
                    samples += 1;
                    if samples > 1 && !is_exposition {
                        return Err(Wrong::new(
                            at,
                            "expected one sample, found another: put the preprocessor `prometheus` \
                             before the codec, or set `event: exposition`",
                        ));
                    }
                    let family = families.of_sample(name, at, config.format)?;
                    self.sample(config, text, name, family, &mut parser, writer)?;
                    parser.end_line()?;
                }
            }
        }
        if is_exposition {
            if config.format == Format::OpenMetrics && !has_ended {
                return Err(Wrong::new(text.len(), "expected `# EOF`: the text is cut off"));
            }
            writer.end_array();
        } else if samples == 0 {
            return Err(Wrong::new(text.len(), "expected a sample"));
        }
        Ok(())
    }

    /// Reads a sample after its name, and writes its value.
    fn sample<'t>(
        &mut self,
        config: Config,
        text: &'t str,
        name: &'t str,
        family: &Family<'t>,
        parser: &mut Parser<'t>,
        writer: &mut Writer<'_>,
    ) -> Parsed<()> {
        let kind = family.kind.unwrap_or(Kind::Untyped);
        let start = parser.at;
        admit(text, start, writer)?;
        writer.begin_object();
        writer.key("name");
        writer.str(name);
        if family.name != name {
            writer.key("family");
            writer.str(family.name);
        }
        writer.key("type");
        writer.str(kind.name());
        for (key, text) in [("help", family.help.as_deref()), ("unit", family.unit)] {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                writer.key(key);
                writer.str(text);
            }
        }
        let needed = kind.needs(family.name, name);
        let found = self.labels(text, needed, parser, writer)?;
        if let Some(needed) = needed.filter(|_| !found) {
            let what = format!("expected the label `{needed}` in a sample of a {}", kind.name());
            return Err(Wrong::new(start, what));
        }
        writer.key("value");
        match parser.value()? {
            value if !value.is_finite() && config.non_finite == NonFinite::Text => {
                writer.str(&numbers::value_text(value));
            }
            value => writer.f64(value),
        }
        time(parser, writer)?;
        if parser.takes_exemplar() {
            writer.key("exemplar");
            writer.begin_object();
            self.labels(text, None, parser, writer)?;
            writer.key("value");
            writer.f64(parser.value()?);
            time(parser, writer)?;
            writer.end_object();
        }
        writer.end_object();
        Ok(())
    }

    /// Reads and writes labels. Returns whether the `needed` label is present.
    fn labels<'t>(
        &mut self,
        text: &'t str,
        needed: Option<&str>,
        parser: &mut Parser<'t>,
        writer: &mut Writer<'_>,
    ) -> Parsed<bool> {
        let Self { unescaped, names } = self;
        names.clear();
        let mut found = false;
        writer.key("labels");
        writer.begin_object();
        parser.labels(unescaped, |name, at, value| {
            if needed == Some(name) {
                found = true;
                if numbers::value(value).is_none() {
                    let what = format!("expected a number as the label `{name}`");
                    return Err(Wrong::new(at, what));
                }
            }
            admit(text, at, writer)?;
            names.push((at, at + name.len()));
            writer.key(name);
            writer.str(value);
            Ok(())
        })?;
        names.sort_unstable_by_key(|(start, end)| &text[*start..*end]);
        let is_twice =
            |pair: &&[(usize, usize)]| text[pair[0].0..pair[0].1] == text[pair[1].0..pair[1].1];
        if let Some(pair) = names.windows(2).find(is_twice) {
            let (start, end) = pair[0].max(pair[1]);
            return Err(Wrong::new(start, format!("duplicate label `{}`", &text[start..end])));
        }
        writer.end_object();
        Ok(found)
    }
}

/// Bytes of each node of a document. The limit on the decoded form is checked by counting nodes;
/// this check does not count text.
const NODE: usize = 16;

/// Returns an error if the number of nodes exceeds the limit on the decoded form of `text`.
fn admit(text: &str, at: usize, writer: &Writer<'_>) -> Parsed<()> {
    if writer.nodes() <= Batch::decoded_at_most(text.len()) / NODE {
        return Ok(());
    }
    Err(Wrong::new(at, "the decoded message exceeds its memory limit"))
}

fn time(parser: &mut Parser<'_>, writer: &mut Writer<'_>) -> Parsed<()> {
    if let Some(time) = parser.timestamp()? {
        writer.key("timestamp");
        writer.i64(time);
    }
    Ok(())
}
