//! Decoding of an exposition, or a part of one, to samples.

use std::borrow::Cow;
use std::collections::HashMap;

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

/// The families of an exposition.
///
/// The format requires the lines of a family to be adjacent, and its descriptions to precede its samples. Exporters that
/// violate this lose no sample: the first description before the samples of a family counts.
#[derive(Default)]
struct Families<'t> {
    /// Name of the family of the current line.
    current: &'t str,
    all: HashMap<&'t str, Family<'t>>,
}

impl<'t> Families<'t> {
    /// Returns the family `name`, which becomes the current family.
    fn enter(&mut self, name: &'t str) -> &mut Family<'t> {
        self.current = name;
        self.all.entry(name).or_insert_with(|| Family { name, ..Family::default() })
    }

    /// Returns the family of a `HELP`, `TYPE` or `UNIT` line, or `None` if the line follows samples of the family.
    fn describe(&mut self, name: &'t str) -> Option<&mut Family<'t>> {
        Some(self.enter(name)).filter(|family| !family.has_samples)
    }

    /// Returns the family of a sample: the current family if possible.
    fn of_sample(&mut self, name: &'t str, format: Format) -> &Family<'t> {
        let starts = name.match_indices('_').map(|(at, _)| &name[..at]);
        let has = |family: &&str| {
            self.all
                .get(family)
                .is_some_and(|it| it.kind.unwrap_or_default().has(family, name, format))
        };
        let family = [self.current, name].into_iter().chain(starts).find(has).unwrap_or(name);
        let family = self.enter(family);
        family.has_samples = true;
        family
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
                Line::Help { name, help } => {
                    if let Some(family) = families.describe(name) {
                        family.help.get_or_insert(help);
                    }
                }
                Line::Type { name, kind } => {
                    if let Some(family) = families.describe(name) {
                        family.kind.get_or_insert(kind);
                    }
                }
                Line::Unit { name, unit } => {
                    if let Some(family) = families.describe(name) {
                        family.unit.get_or_insert(unit);
                    }
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
                    let family = families.of_sample(name, config.format);
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
        let mut kind = family.kind.unwrap_or_default();
        let needed = kind.needs(family.name, name);
        let lacks = |label| !self.has_number(*parser, label);
        // A sample that the type of its family does not allow is untyped, because Prometheus accepts the sample.
        if !kind.has(family.name, name, config.format) || needed.is_some_and(lacks) {
            kind = Kind::Untyped;
        }
        admit(text, parser.at, writer)?;
        writer.begin_object();
        writer.key("name");
        writer.str(name);
        if family.name != name && kind != Kind::Untyped {
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
        self.labels(text, parser, writer)?;
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
            self.labels(text, parser, writer)?;
            writer.key("value");
            writer.f64(parser.value()?);
            time(parser, writer)?;
            writer.end_object();
        }
        writer.end_object();
        Ok(())
    }

    /// Returns whether the label `wanted` of the sample at the position of `parser` is a number.
    fn has_number(&mut self, mut parser: Parser<'_>, wanted: &str) -> bool {
        let mut found = false;
        let read = parser.labels(&mut self.unescaped, |name, _, value| {
            found |= name == wanted && numbers::value(value).is_some();
            Ok(())
        });
        read.is_ok() && found
    }

    /// Reads and writes labels.
    fn labels<'t>(
        &mut self,
        text: &'t str,
        parser: &mut Parser<'t>,
        writer: &mut Writer<'_>,
    ) -> Parsed<()> {
        let Self { unescaped, names } = self;
        names.clear();
        writer.key("labels");
        writer.begin_object();
        parser.labels(unescaped, |name, at, value| {
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
        Ok(())
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
