//! Validation of the configuration, and the requests of the connector.

use std::{collections::HashMap, fmt::Write};

use hyper::header::HeaderName;
use tremor_pdk::{RawEvent, prelude::*, without_placeholders};

use super::config::Config;
use crate::{
    Escape,
    exchange::{
        Caches, Common, Endpoint, Escaping, Item, Items, Protocol, Target, Targets, Text, Url,
        header_value, push_json,
    },
    systems::{
        System,
        parts::{Members, check_length, endpoint_url, time, unsendable},
    },
};

/// Path of the push API.
const PATH: &str = "/loki/api/v1/push";

/// Length of what separates a line and its stream from others, in bytes.
const AROUND: usize = r#"{"stream":,"values":[["",""],]},"#.len();

/// The validated configuration.
pub(crate) struct Settings {
    common: Common,
    /// The tenant, if it depends on events.
    targets: Option<Targets>,
    /// `None` for the time when an event was read.
    time: Option<Text>,
    labels: Members,
    metadata: Members,
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
        let (labels, metadata) = (&config.labels, &config.structured_metadata);
        labels.keys().try_for_each(|name| check_name("labels", name))?;
        metadata.keys().try_for_each(|name| check_name("structured_metadata", name))?;
        Ok(Self {
            common: Common::new(endpoint, target, "application/json", config.max_body_bytes),
            targets: (!targets.is_empty()).then_some(targets),
            time: config.time.as_ref().map(|key| time(Some(key), "%s%9f")).transpose()?,
            labels: Members::new("labels", labels, 1),
            metadata: Members::new("structured_metadata", metadata, 1 + labels.len()),
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
        r#"{"streams":[]}"#.len()
    }

    /// Appends the labels of an event, and behind them its time and its structured metadata: `TIME,{…}` or `TIME`.
    fn item<'b>(
        &self,
        event: RawEvent<'b>,
        caches: &mut Caches,
        texts: &mut String,
    ) -> Result<Item<'b>> {
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
                let _ = write!(texts, "{ns}");
            }
        }
        let end = texts.len();
        texts.push(',');
        if !self.metadata.append(event.into(), caches, texts)? {
            texts.truncate(end);
        }
        let after = before.end..texts.len();
        let length = before.len() + after.len() + escaped_length(event.raw()) + AROUND;
        check_length(self.ends(&self.common.target) + length, self.common.max_body_bytes)?;
        Ok(Item { event, before, after, length })
    }

    /// Returns the streams of the items, in the order of their first lines. The lines of a stream are in the order of
    /// the items.
    fn body(&self, _: &Target, items: &Items<'_>, part: &[Item<'_>]) -> Vec<u8> {
        let mut streams: Vec<(&str, Vec<&Item<'_>>)> = Vec::new();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        for item in part {
            let labels = &items.texts[item.before.clone()];
            let number = *numbers.entry(labels).or_insert(streams.len());
            if number == streams.len() {
                streams.push((labels, Vec::new()));
            }
            streams[number].1.push(item);
        }
        let mut body = String::with_capacity(part.iter().map(|item| item.length).sum());
        body.push_str(r#"{"streams":["#);
        for (number, (labels, lines)) in streams.iter().enumerate() {
            body.push_str(if number == 0 { r#"{"stream":"# } else { r#",{"stream":"# });
            body.push_str(labels);
            body.push_str(r#","values":["#);
            for (number, item) in lines.iter().enumerate() {
                let after = &items.texts[item.after.clone()];
                let (time, metadata) = after.split_at(after.find(',').unwrap_or(after.len()));
                body.push_str(if number == 0 { "[\"" } else { ",[\"" });
                body.push_str(time);
                body.push_str("\",\"");
                push_json(&mut body, &String::from_utf8_lossy(item.event.raw()));
                body.push('"');
                body.push_str(metadata);
                body.push(']');
            }
            body.push_str("]}");
        }
        body.push_str("]}");
        body.into_bytes()
    }
}

/// Returns the maximum length of a message as a string of JSON, in bytes. Bytes that are not UTF-8 become `U+FFFD`.
fn escaped_length(message: &[u8]) -> usize {
    let of_other = if std::str::from_utf8(message).is_ok() { 1 } else { 3 };
    let length = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        0x20..0x80 => 1,
        _ => of_other,
    };
    message.iter().map(length).sum()
}
