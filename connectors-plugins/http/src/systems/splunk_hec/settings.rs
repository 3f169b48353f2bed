//! Validation of the configuration, and the requests of the connector.

use std::{fmt::Write, time::Duration};

use hyper::{
    header::{AUTHORIZATION, HeaderName},
    http::uri::PathAndQuery,
};
use tremor_pdk::{RawEvent, prelude::*, template::Template, without_placeholders};

use super::{
    answer::{acknowledgement_id, is_acknowledged, verdict},
    config::{Acknowledgement, Config, Form},
};
use crate::{
    exchange::{
        Caches, Channel, Channels, Common, Endpoint, Item, Items, Part, Protocol, Question,
        Response, Target, Targets, Text, Url, Verdict, answer::Remedies, header_value, push_json,
    },
    systems::{
        System,
        parts::{
            Members, append_member, check_json, check_length, endpoint_url, member_start, text,
            time, unsendable,
        },
    },
};

/// Path of the collector.
const PATH: &str = "/services/collector/event";
/// Path of the acknowledgements of the indexer.
const ACKNOWLEDGEMENTS: &str = "/services/collector/ack";

/// The validated configuration.
pub(crate) struct Settings {
    common: Common,
    form: Form,
    time: Text,
    /// Beginnings and texts of the metadata of an event.
    metadata: Vec<(String, Text)>,
    /// `true` if no event determines its index.
    is_index_fixed: bool,
    fields: Members,
    /// `None` if the answer of the collector is enough.
    acknowledgements: Option<Acknowledgements>,
}

/// Acknowledgements of the indexer.
struct Acknowledgements {
    url: Url,
    /// Time to wait for one.
    within: Duration,
    channels: Channels,
}

/// Header with the channel of a request.
const CHANNEL: HeaderName = HeaderName::from_static("x-splunk-request-channel");

impl System for Settings {
    const NAME: &str = "splunk_hec";
    const DESCRIPTION: &str = "Sends events to the HTTP Event Collector of Splunk.";
    type Config = Config;

    fn new(config: &Config, host: &Host) -> Result<Self> {
        let url: Url = without_placeholders("url", &config.url)?.parse()?;
        let mut target = Target::new(endpoint_url(&url, PATH, "")?);
        if config.auth.is_some() {
            return Err(Error::configuration(
                "invalid `auth`: `token` has the credentials; remove `auth`",
            ));
        }
        let is_authorization = |name: &String| name.eq_ignore_ascii_case(AUTHORIZATION.as_str());
        if config.headers.keys().any(is_authorization) {
            return Err(Error::configuration(
                "invalid `headers.authorization`: `token` sets this header; remove it from `headers`",
            ));
        }
        if config.token.trim().is_empty() {
            return Err(Error::configuration(
                "invalid `token`: expected the token of an HTTP Event Collector",
            ));
        }
        let authorization = format!("Splunk {}", config.token);
        header_value("token", &authorization)?;
        let mut headers = config.headers.clone();
        headers.insert(AUTHORIZATION.to_string(), authorization);
        let mut keys = config.keys();
        keys.headers = &headers;
        let endpoint = Endpoint::new(url, &keys, &mut Targets::fixed(), host)?;
        if let Some(channel) = &config.channel {
            target.headers.insert(CHANNEL, header_value("channel", channel)?);
        }
        let acknowledgements = match (config.acknowledgement, &config.channel) {
            (Acknowledgement::Collector, _) => None,
            (Acknowledgement::Indexer, Some(_)) => {
                return Err(Error::configuration(
                    "invalid `channel`: with `acknowledgement: indexer`, each request in flight has a channel of its \
                     own; remove `channel`",
                ));
            }
            (Acknowledgement::Indexer, None) => Some(Acknowledgements {
                url: replaced_path(&target.url)?,
                within: config.acknowledgement_timeout.get(),
                channels: Channels::new(CHANNEL),
            }),
        };
        let metadata = |(name, template): (&str, &Option<Template>)| {
            template.as_ref().map(|template| (member_start(name), text(name, template)))
        };
        let templates = [
            ("host", &config.host),
            ("source", &config.source),
            ("sourcetype", &config.sourcetype),
            ("index", &config.index),
        ];
        Ok(Self {
            common: Common::new(endpoint, target, "application/json", config.max_body_bytes),
            form: config.event,
            time: time(config.time.as_ref(), "%s.%3f")?,
            metadata: templates.into_iter().filter_map(metadata).collect(),
            is_index_fixed: config.index.as_ref().is_none_or(|index| index.constant().is_some()),
            fields: Members::new("fields", &config.fields, 1 + templates.len()),
            acknowledgements,
        })
    }
}

/// Replaces the time at the end of `texts`, from the offset `at`, by a decimal number. Only the seconds of the time are
/// negative: -0.25 s are the second -1 and a fraction of 750 ms.
#[cold]
fn negate_fraction(texts: &mut String, at: usize) {
    let (seconds, fraction) = texts[at..].split_once('.').unwrap_or_default();
    let number = |text: &str| text.parse::<i64>().unwrap_or_default();
    let ms = (number(seconds) * 1_000 + number(fraction)).unsigned_abs();
    texts.truncate(at);
    let _ = write!(texts, "-{}.{:03}", ms / 1_000, ms % 1_000);
}

/// Returns the URL of the acknowledgements for the one of the collector.
fn replaced_path(collector: &Url) -> Result<Url> {
    let text = collector.target.as_str().replacen(PATH, ACKNOWLEDGEMENTS, 1);
    let target = PathAndQuery::try_from(text).map_err(Error::configuration)?;
    Ok(Url { target, ..collector.clone() })
}

impl Protocol for Settings {
    fn common(&self) -> &Common {
        &self.common
    }

    fn remedies(&self) -> Remedies<'static> {
        Remedies { credentials: "`token`", ..Remedies::default() }
    }

    /// Appends the envelope of an event up to the event itself. An event in the form of text is a part of that.
    fn item<'b>(
        &self,
        event: RawEvent<'b>,
        caches: &mut Caches,
        texts: &mut String,
    ) -> Result<Item<'b>> {
        let start = texts.len();
        texts.push_str(r#"{"time":"#);
        let at = texts.len();
        self.time.render(event.into(), texts, caches.of(0), |_, _| Ok(()))?;
        if texts[at..].starts_with('-') {
            negate_fraction(texts, at);
        }
        for ((start, text), number) in self.metadata.iter().zip(1..) {
            let before = texts.len();
            texts.push(',');
            if !append_member(start, text, event.into(), (&mut *caches, number), texts)? {
                texts.truncate(before);
            }
        }
        let before = texts.len();
        texts.push_str(r#","fields":"#);
        if !self.fields.append(event.into(), caches, texts)? {
            texts.truncate(before);
        }
        texts.push_str(r#","event":"#);
        let message = event.raw().trim_ascii();
        if message.is_empty() {
            return Err(unsendable("it is empty, and Splunk refuses empty events"));
        }
        let length = match self.form {
            Form::Json => {
                check_json(message)?;
                message.len()
            }
            Form::Text => {
                // Do not copy a long message.
                check_length(message.len(), self.common.max_body_bytes)?;
                texts.push('"');
                push_json(texts, &String::from_utf8_lossy(message));
                texts.push('"');
                0
            }
        };
        let before = start..texts.len();
        let length = before.len() + length + "}\n".len();
        check_length(length, self.common.max_body_bytes)?;
        let after = before.end..before.end;
        Ok(Item::new(event, before, after, length))
    }

    fn body(&self, _: &Target, items: &Items<'_>, part: &[Item<'_>]) -> Vec<u8> {
        let mut body = Vec::with_capacity(part.iter().map(|item| item.length).sum());
        for item in part {
            body.extend_from_slice(items.texts[item.before.clone()].as_bytes());
            if self.form == Form::Json {
                body.extend_from_slice(item.event.raw().trim_ascii());
            }
            body.extend_from_slice(b"}\n");
        }
        body
    }

    fn verdict(&self, response: &Response<'_>, part: &Part<'_, '_>) -> Option<Verdict> {
        verdict(response, part.items.len(), self.is_index_fixed)
    }

    fn channel(&self) -> Option<Channel> {
        self.acknowledgements.as_ref().map(|it| it.channels.take())
    }

    fn question(&self, response: &Response<'_>) -> Result<Option<Question>> {
        let Some(Acknowledgements { url, within, .. }) = &self.acknowledgements else {
            return Ok(None);
        };
        let body = format!(r#"{{"acks":[{}]}}"#, acknowledgement_id(response)?).into();
        Ok(Some(Question { url: url.clone(), body, within: *within }))
    }

    fn is_processed(&self, response: &Response<'_>) -> bool {
        is_acknowledged(response)
    }
}
