//! Validation of the configuration, and the requests of the connector.

use std::fmt::Write;

use hyper::header::HeaderName;
use tremor_pdk::{RawEvent, prelude::*, without_placeholders};

use super::{
    config::Config,
    metadata::Metadata,
    push::{Entry, Push, most_added},
};
use crate::{
    Compression, Escape,
    exchange::{
        Caches, Common, Endpoint, Escaping, Item, Items, Protocol, STORED_HEAD, Target, Targets,
        Text, Url, header_value, put_stored_head,
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
const NANOSECONDS: usize = 9;

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

    /// Appends the labels of an event, and behind them the time and the structured metadata of its line.
    fn item<'b>(
        &self,
        event: RawEvent<'b>,
        caches: &mut Caches,
        texts: &mut String,
    ) -> Result<Item<'b>> {
        let most = self.common.max_body_bytes;
        let start = texts.len();
        if !self.labels.append(event.into(), caches, texts)? {
            return Err(unsendable(
                "it has no field of a template in `labels`; add a label with a constant value or with a default",
            ));
        }
        let before = start..texts.len();
        match &self.time {
            Some(time) => time.render(event.into(), texts, caches.of(0), |_, _| Ok(()))?,
            None => {
                let ns = caches.distinct_ns(event.ingest_ns());
                let _ = write!(texts, "{ns:010}");
            }
        }
        let metadata = self.metadata.append(event.into(), caches, texts)?;
        let after = before.end..texts.len();
        let line = String::from_utf8_lossy(event.raw()).len();
        let length = most_added(before.len(), line, metadata, most);
        check_length(self.ends(&self.common.target) + length, most)?;
        Ok(Item { event, before, after, length })
    }

    /// Returns the streams of the items, in the order of their first lines. The lines of a stream are in the order of
    /// the items. Without compression, the body is a block of snappy; otherwise it becomes one.
    fn body(&self, _: &Target, items: &Items<'_>, part: &[Item<'_>]) -> Vec<u8> {
        let mut push = Push::default();
        for item in part {
            let labels = &items.texts[item.before.clone()];
            let (time, metadata) = self.metadata.read(&items.texts[item.after.clone()]);
            let (seconds, nanoseconds) = time.split_at(time.len() - NANOSECONDS);
            let entry = Entry {
                seconds: seconds.parse().unwrap_or_default(),
                nanoseconds: nanoseconds.parse().unwrap_or_default(),
                line: String::from_utf8_lossy(item.event.raw()),
                metadata,
            };
            push.add(labels, entry);
        }
        let length = push.len();
        let mut body = Vec::with_capacity(STORED_HEAD + length);
        if self.common.endpoint.compression == Compression::None {
            put_stored_head(length, &mut body);
        }
        push.put(&mut body);
        body
    }
}
