//! An exposition, or a piece of one, to samples.

use std::borrow::Cow;
use std::collections::HashSet;

use tremor_pdk::{Batch, Result, Writer};

use crate::{
    config::{Config, EventIs, Format, NonFinite},
    family::Kind,
    numbers,
    parser::{Line, Parsed, Parser, Wrong},
};

/// What is kept from one message to the next, so that it is not allocated again.
#[derive(Default)]
pub(crate) struct Decoder {
    unescaped: String,
    /// Where the names of the labels of a sample are.
    names: Vec<(usize, usize)>,
}

/// A family as far as its lines have been read.
#[derive(Default)]
struct Family<'t> {
    name: &'t str,
    kind: Option<Kind>,
    help: Option<Cow<'t, str>>,
    unit: Option<&'t str>,
    has_samples: bool,
}

/// The families of an exposition: the one whose lines are being read, and those before it.
#[derive(Default)]
struct Families<'t> {
    current: Family<'t>,
    ended: HashSet<&'t str>,
}

impl<'t> Families<'t> {
    /// The family that a line of this name is of.
    fn enter(&mut self, name: &'t str, at: usize) -> Parsed<&mut Family<'t>> {
        if self.current.name != name {
            if self.ended.contains(name) {
                let what =
                    format!("`{name}` has other lines before this place: they stand together");
                return Err(Wrong::new(at, what));
            }
            self.ended.insert(self.current.name);
            self.current = Family { name, ..Family::default() };
        }
        Ok(&mut self.current)
    }

    /// The same for a line that stands before samples, at most once.
    fn describe(&mut self, name: &'t str, at: usize) -> Parsed<&mut Family<'t>> {
        let family = self.enter(name, at)?;
        if family.has_samples {
            let what = format!("expected this line before the samples of `{name}`");
            return Err(Wrong::new(at, what));
        }
        Ok(family)
    }

    /// The family of a sample.
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

/// Once means once.
fn set<T>(place: &mut Option<T>, value: T, at: usize, what: &str) -> Parsed<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Wrong::new(at, format!("expected one {what} line of a family"))),
    }
}

impl Decoder {
    /// Writes the value of a message.
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
                // The first description before the samples counts. A second one does not cost samples.
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

    /// The rest of a sample's line, after its name.
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
        room(text, start, writer)?;
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

    /// Labels; whether the one that is needed is among them.
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
            room(text, at, writer)?;
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
            return Err(Wrong::new(
                start,
                format!("the label `{}` is there twice", &text[start..end]),
            ));
        }
        writer.end_object();
        Ok(found)
    }
}

/// What each part of a value takes at least, in bytes.
const NODE: usize = 16;

/// Refuses a message that becomes larger than a message may, before it is.
fn room(text: &str, at: usize, writer: &Writer<'_>) -> Parsed<()> {
    if writer.nodes() <= Batch::decoded_at_most(text.len()) / NODE {
        return Ok(());
    }
    Err(Wrong::new(at, "up to here, the decoded message takes more memory than it may"))
}

fn time(parser: &mut Parser<'_>, writer: &mut Writer<'_>) -> Parsed<()> {
    if let Some(time) = parser.timestamp()? {
        writer.key("timestamp");
        writer.i64(time);
    }
    Ok(())
}
