//! Request bodies made of events.

use tremor_pdk::{Error, RawEvent, Result, template::Template};

use super::config::{Body, Config, Format};
use crate::exchange::{Caches, Escaping, Item, Items, MOST_TEXT, Target, Text};

/// The way in which events become bodies.
pub(crate) struct Bodies {
    format: Format,
    before: Option<Text>,
    after: Option<Text>,
    /// Text between two events.
    separator: String,
    escaping: Escaping,
    /// Maximum length of a body with several events, in bytes before compression.
    pub(crate) most: usize,
}

impl Bodies {
    /// Validates the keys about bodies, except for the prefix and the suffix.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let Config { format, preset, max_body_bytes, .. } = config;
        let wrong = |key: &str, why: &str| {
            Err(Error::configuration(format_args!("invalid `{key}`: {why}")))
        };
        if config.body.is_some() && preset.is_some() {
            return wrong(
                "body",
                "expected no texts around events with `preset`, which determines bodies",
            );
        }
        let body = config.body.clone().unwrap_or_default();
        let Body { before_event, separator, after_event, escape, .. } = body;
        if separator.is_some() && *format != Format::Joined {
            return wrong("body.separator", "only bodies with `format: joined` have a separator");
        }
        let text = |key, template: Option<Template>| {
            template
                .map(|template| Text::new(key, Some(&template.to_string()), template, MOST_TEXT))
        };
        Ok(Self {
            format: *format,
            before: text("body.before_event", before_event),
            after: text("body.after_event", after_event),
            separator: separator.unwrap_or_default(),
            escaping: Escaping::new(escape, *format == Format::Ndjson),
            most: usize::try_from(max_body_bytes.get()).unwrap_or(usize::MAX),
        })
    }

    /// Returns the body of a request with one event, whose message is `message`.
    ///
    /// # Errors
    /// An error of the kind bad data: the event has no text for a template.
    pub(crate) fn single(
        &self,
        target: &Target,
        event: RawEvent<'_>,
        message: &[u8],
        caches: &mut Caches,
    ) -> Result<Vec<u8>> {
        let mut texts = String::new();
        let Item { before, after, .. } = self.item(event, caches, &mut texts)?;
        let (before, after) = (texts[before].as_bytes(), texts[after].as_bytes());
        Ok([target.prefix.as_bytes(), before, message, after, target.suffix.as_bytes()].concat())
    }

    /// Returns the length of a body without events, in bytes.
    pub(crate) fn ends(target: &Target) -> usize {
        // Both brackets of an array count.
        target.prefix.len() + target.suffix.len() + 2
    }

    /// Appends the texts around an event to `texts`.
    ///
    /// # Errors
    /// An error of the kind bad data: the event is several lines, or has no text for a template.
    pub(crate) fn item<'b>(
        &self,
        event: RawEvent<'b>,
        caches: &mut Caches,
        texts: &mut String,
    ) -> Result<Item<'b>> {
        if self.format == Format::Ndjson
            && let Some(position) = memchr::memchr(b'\n', line(event))
        {
            return Err(several_lines(position));
        }
        let start = texts.len();
        let mut render = |number, text: &Option<Text>| {
            let from = texts.len();
            let Some(text) = text else { return Ok::<_, Error>(from..from) };
            let escape = |out: &mut String, at| self.escaping.apply(out, at);
            text.render(event.into(), texts, caches.of(number), escape)?;
            Ok(from..texts.len())
        };
        let (before, after) = (render(0, &self.before)?, render(1, &self.after)?);
        // A line feed or a comma belongs to each event.
        let length = after.end - start + event.raw().len() + self.separator.len().max(1);
        Ok(Item::new(event, before, after, length))
    }

    /// Returns one body with some of the items.
    pub(crate) fn body(&self, target: &Target, items: &Items<'_>, part: &[Item<'_>]) -> Vec<u8> {
        let (start, between, end) = match self.format {
            Format::Raw | Format::Ndjson => ("", "", ""),
            Format::Array => ("[", ",", "]"),
            Format::Joined => ("", &*self.separator, ""),
        };
        let length = |item: &Item<'_>| {
            item.before.len() + item.event.raw().len() + item.after.len() + between.len() + 1
        };
        let length = part.iter().map(length).sum::<usize>();
        let ends = target.prefix.len() + target.suffix.len() + start.len() + end.len();
        let mut body = Vec::with_capacity(length + ends);
        body.extend_from_slice(target.prefix.as_bytes());
        body.extend_from_slice(start.as_bytes());
        for (number, item) in part.iter().enumerate() {
            if number > 0 {
                body.extend_from_slice(between.as_bytes());
            }
            body.extend_from_slice(items.texts[item.before.clone()].as_bytes());
            let is_line = self.format == Format::Ndjson;
            body.extend_from_slice(if is_line { line(item.event) } else { item.event.raw() });
            body.extend_from_slice(items.texts[item.after.clone()].as_bytes());
            if is_line {
                body.push(b'\n');
            }
        }
        body.extend_from_slice(end.as_bytes());
        body.extend_from_slice(target.suffix.as_bytes());
        body
    }
}

/// Returns the message of an event without the line feed at its end.
fn line(event: RawEvent<'_>) -> &[u8] {
    event.raw().strip_suffix(b"\n").unwrap_or(event.raw())
}

#[cold]
fn several_lines(position: usize) -> Error {
    Error::bad_data(format_args!(
        "cannot add the message to a body with `format: ndjson`: it contains a line feed at byte {position}, after \
         which the server would read another message; use a codec that escapes line feeds, such as `json`, or \
         `format: raw`"
    ))
}

#[cfg(test)]
mod tests;
