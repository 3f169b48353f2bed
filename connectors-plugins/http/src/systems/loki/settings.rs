//! Validation of the configuration, and the requests of the connector.

use hyper::header::HeaderName;
use tremor_pdk::{EventRef, RawEvent, prelude::*, without_placeholders};

use super::{
    config::Config,
    metadata::Metadata,
    push::{Entry, Push, most_added},
};
use crate::{
    Compression, Escape,
    exchange::{
        Caches, Common, Endpoint, Escaping, Item, Items, Line, Protocol, STORED_HEAD, Target,
        Targets, Text, Url, header_value, put_stored_head,
    },
    systems::{
        System,
        parts::{Members, check_length, endpoint_url, time, unsendable},
    },
};

/// `Content-Type` of requests: a message of protobuf as a block of snappy.
const CONTENT: &str = "application/x-protobuf";

/// Path of the push API.
const PATH: &str = "/loki/api/v1/push";

/// Number of digits of the nanoseconds in the text of a time. The digits before them are the seconds.
const DIGITS: usize = 9;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Upper limit of `max_body_bytes`. A block of snappy has less than 4 GiB.
const MOST_BODY: u64 = 1 << 30;

/// The validated configuration.
pub(crate) struct Settings {
    common: Common,
    /// The tenant, if it depends on events.
    targets: Option<Targets>,
    /// `None` for the time when an event was read.
    time: Option<Text>,
    labels: Members,
    metadata: Metadata,
}

impl System for Settings {
    const NAME: &str = "loki";
    const DESCRIPTION: &str =
        "Sends events as lines of log streams to Grafana Loki, or to a system with its push API.";
    type Config = Config;

    fn new(config: &Config, host: &Host) -> Result<Self> {
        let url: Url = without_placeholders("url", &config.url)?.parse()?;
        let mut target = Target::new(endpoint_url(&url, PATH, "")?);
        let endpoint = Endpoint::new(url, &config.keys(), &mut Targets::fixed(), host)?;
        let mut targets = Targets::new(Escaping::new(Escape::Json, false), None);
        if let Some(tenant) = &config.tenant {
            let name = HeaderName::from_static("x-scope-orgid");
            if endpoint.headers.contains_key(&name) {
                return Err(Error::configuration(
                    "invalid `headers.x-scope-orgid`: `tenant` sets this header; remove one of the two",
                ));
            }
            if let Some(tenant) = targets.add_header("tenant", &name, &tenant.to_string())? {
                target.headers.insert(name, header_value("tenant", &tenant)?);
            }
        }
        if config.labels.is_empty() {
            return Err(Error::configuration(
                "invalid `labels`: expected at least one label, such as `{ job: app }`",
            ));
        }
        if config.max_body_bytes.get() > MOST_BODY {
            return Err(Error::configuration(format_args!(
                "invalid `max_body_bytes` {}: expected at most {MOST_BODY} bytes",
                config.max_body_bytes.get()
            )));
        }
        let (labels, metadata) = (&config.labels, &config.structured_metadata);
        labels.keys().try_for_each(|name| check_name("labels", name))?;
        metadata.keys().try_for_each(|name| check_name("structured_metadata", name))?;
        Ok(Self {
            common: Common::new(endpoint, target, CONTENT, config.max_body_bytes),
            targets: (!targets.is_empty()).then_some(targets),
            time: config.time.as_ref().map(|key| time(Some(key), "%s%9f")).transpose()?,
            labels: Members::labels("labels", labels, 1),
            metadata: Metadata::new("structured_metadata", metadata, 1 + labels.len()),
        })
    }
}

/// Checks the name of a label, as Loki does.
fn check_name(key: &str, name: &str) -> Result<()> {
    let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if begins && name.bytes().all(is_sound) {
        return Ok(());
    }
    Err(Error::configuration(format_args!(
        "invalid `{key}` entry `{}`: expected a name of letters, digits and `_` that does not begin with a digit",
        name.escape_debug()
    )))
}

impl Settings {
    /// Returns the line that an item is.
    fn entry<'e>(
        &'e self,
        texts: &'e str,
        item: &'e Item<'_>,
    ) -> Entry<'e, impl Iterator<Item = (&'e str, &'e str)> + Clone> {
        let Line { seconds, nanoseconds, replaced, .. } = item.line;
        let (mut line, mut metadata) = (item.event.raw(), "");
        if !item.after.is_empty() {
            metadata = &texts[item.after.clone()];
        }
        if replaced > 0 {
            let text;
            (text, metadata) = metadata.split_at(replaced);
            line = text.as_bytes();
        }
        Entry { seconds, nanoseconds, line, metadata: self.metadata.read(metadata) }
    }
}

impl Protocol for Settings {
    fn common(&self) -> &Common {
        &self.common
    }

    fn targets(&self) -> Option<&Targets> {
        self.targets.as_ref()
    }

    fn ends(&self, _: &Target) -> usize {
        STORED_HEAD
    }

    /// Appends the structured metadata of an event, and behind it the labels, unless an item of the body has the same
    /// ones. Before the metadata is the line, if the message is not UTF-8 and therefore not the line itself.
    fn item<'b>(
        &self,
        event: RawEvent<'b>,
        caches: &mut Caches,
        texts: &mut String,
    ) -> Result<Item<'b>> {
        let most = self.common.max_body_bytes;
        let start = texts.len();
        if start == 0 {
            caches.forget_shared();
        }
        let (seconds, nanoseconds) = match &self.time {
            Some(time) => {
                time.render(event.into(), texts, caches.of(0), |_, _| Ok(()))?;
                let (seconds, nanoseconds) = texts[start..].split_at(texts.len() - start - DIGITS);
                let number = (seconds.parse(), nanoseconds.parse());
                texts.truncate(start);
                (number.0.unwrap_or_default(), number.1.unwrap_or_default())
            }
            None => {
                let ns = caches.distinct_ns(event.ingest_ns());
                #[allow(clippy::cast_possible_truncation)] // less than a second
                ((ns / SECOND).cast_signed(), (ns % SECOND) as u32)
            }
        };
        let mut line = event.raw().len();
        let is_line = simdutf8::basic::from_utf8(event.raw()).is_ok();
        if !is_line {
            // Do not copy a long message.
            check_length(line, most)?;
            texts.push_str(&String::from_utf8_lossy(event.raw()));
            line = texts.len() - start;
        }
        let metadata = self.metadata.append(event.into(), caches, texts)?;
        let after = start..texts.len();
        let metadata_id = self.labels.is_by_metadata().then(|| EventRef::from(event).metadata_id());
        let known = metadata_id.and_then(|id| caches.shared_of(id));
        if known.is_none() && !self.labels.append(event.into(), caches, texts)? {
            return Err(unsendable(
                "it has no field of a template in `labels`; add a label with a constant value or with a default",
            ));
        }
        let labels = known.as_ref().map_or(texts.len() - after.end, |known| known.text.len());
        let length = most_added(labels, line, metadata, most);
        check_length(self.ends(&self.common.target) + length, most)?;
        let labels = known.unwrap_or_else(|| caches.share(texts, after.end, metadata_id));
        let replaced = if is_line { 0 } else { line };
        let line = Line { labels: labels.number, seconds, nanoseconds, replaced };
        Ok(Item { line, ..Item::new(event, labels.text, after, length) })
    }

    /// Returns the streams of the items, in the order of their first lines. The lines of a stream are in the order of
    /// the items. Without compression, the body is a block of snappy; otherwise it becomes one.
    fn body(&self, _: &Target, items: &Items<'_>, part: &[Item<'_>]) -> Vec<u8> {
        let texts = &*items.texts;
        let mut push = Push::with_capacity(part.len());
        for item in part {
            let length = self.entry(texts, item).len();
            push.add(item.line.labels, length, || &texts[item.before.clone()]);
        }
        let length = push.len();
        let mut body = Vec::with_capacity(STORED_HEAD + length);
        if self.common.endpoint.compression == Compression::None {
            put_stored_head(length, &mut body);
        }
        push.put(&mut body, |position, length, body| {
            self.entry(texts, &part[position]).put(length, body);
        });
        body
    }
}
