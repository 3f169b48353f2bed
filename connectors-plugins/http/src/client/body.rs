//! Request bodies made of events.

use std::{
    io::{self, Write},
    ops::Range,
};

use flate2::write::GzEncoder;
use hyper::body::Bytes;
use tremor_pdk::{Error, Exceptions, Host, RawEvent, Result, template::TimeCache};

use super::{
    config::{Body, Compression, Config, Format},
    target::Target,
    text::{Escaping, MOST_TEXT, Text},
};

/// Length in bytes above which a body is compressed on a thread that may block. Shorter bodies are
/// compressed on the thread of the task.
const AT_ONCE: usize = 256 << 10;

/// The way in which events become bodies.
pub(crate) struct Bodies {
    format: Format,
    before: Option<Text>,
    after: Option<Text>,
    /// Text between two events.
    separator: String,
    escaping: Escaping,
    /// Maximum length of a body with several events, in bytes before compression.
    most: usize,
}

/// Events that become one body, with the texts around them.
#[derive(Default)]
pub(crate) struct Items<'b> {
    items: Vec<Item<'b>>,
    /// The texts of all items.
    texts: String,
}

#[derive(Clone)]
pub(crate) struct Item<'b> {
    pub(crate) event: RawEvent<'b>,
    before: Range<usize>,
    after: Range<usize>,
}

/// The last times in the texts around events.
#[derive(Default)]
pub(crate) struct Caches {
    before: TimeCache,
    after: TimeCache,
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
        let text = |key, template: Option<tremor_pdk::template::Template>| {
            template
                .map(|template| Text::new(key, Some(&template.to_string()), template, MOST_TEXT))
        };
        Ok(Self {
            format: *format,
            before: text("body.before_event", before_event),
            after: text("body.after_event", after_event),
            separator: separator.unwrap_or_default(),
            escaping: Escaping::new(escape, *format),
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

    /// Returns the first of `events` that fit into a body, and the remaining events. An event that cannot be a part of
    /// a body is added to `exceptions` instead.
    pub(crate) fn items<'b, 'e>(
        &self,
        target: &Target,
        mut events: &'e [RawEvent<'b>],
        caches: &mut Caches,
        exceptions: &mut Exceptions,
    ) -> (Items<'b>, &'e [RawEvent<'b>]) {
        let mut found = Items::default();
        // Both brackets of an array count.
        let mut length = target.prefix.len() + target.suffix.len() + 2;
        while let Some((event, rest)) = events.split_first() {
            let start = found.texts.len();
            match self.item(*event, caches, &mut found.texts) {
                Ok(item) => {
                    let around = found.texts.len() - start;
                    // A line feed or a comma belongs to each event.
                    length += around + event.raw().len() + self.separator.len().max(1);
                    if length > self.most && !found.items.is_empty() {
                        found.texts.truncate(start);
                        break;
                    }
                    found.items.push(item);
                }
                Err(error) => exceptions.reject(*event, error),
            }
            events = rest;
        }
        (found, events)
    }

    /// Appends the texts around an event to `texts`.
    ///
    /// # Errors
    /// An error of the kind bad data: the event is several lines, or has no text for a template.
    fn item<'b>(
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
        let mut render = |text: &Option<Text>, cache: &mut TimeCache| {
            let from = texts.len();
            let Some(text) = text else { return Ok(from..from) };
            let escape = |out: &mut String, at| self.escaping.apply(out, at);
            text.render(event.into(), texts, cache, escape)?;
            Ok(from..texts.len())
        };
        let before = render(&self.before, &mut caches.before);
        let both = before.and_then(|before| Ok((before, render(&self.after, &mut caches.after)?)));
        match both {
            Ok((before, after)) => Ok(Item { event, before, after }),
            Err(error) => {
                texts.truncate(start);
                Err(error)
            }
        }
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

impl<'b> Items<'b> {
    pub(crate) fn all(&self) -> &[Item<'b>] {
        &self.items
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

/// Compresses a body.
pub(crate) async fn compressed(
    host: &Host,
    body: Vec<u8>,
    compression: Compression,
) -> Result<Bytes> {
    let compress: fn(&[u8]) -> io::Result<Vec<u8>> = match compression {
        Compression::None => return Ok(body.into()),
        Compression::Gzip => |body| {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(body)?;
            encoder.finish()
        },
        Compression::Zstd => |body| zstd::stream::encode_all(body, zstd::DEFAULT_COMPRESSION_LEVEL),
    };
    let compressed = if body.len() > AT_ONCE {
        host.blocking(move || compress(&body)).await?
    } else {
        compress(&body)
    };
    compressed.map(Bytes::from).map_err(Error::internal)
}

#[cfg(test)]
mod tests;
