//! Validation of the configuration, and the requests of the connector.

use hyper::header::{AUTHORIZATION, HeaderName};
use tremor_pdk::{RawEvent, prelude::*, template::Template, without_placeholders};

use super::{
    answer::verdict,
    config::{Config, Form},
};
use crate::{
    exchange::{
        Caches, Common, Endpoint, Item, Items, Part, Protocol, Response, Target, Targets, Text,
        Url, Verdict, answer::Remedies, header_value, push_json,
    },
    systems::{
        System,
        parts::{
            Members, append_member, check_json, check_length, endpoint_url, text, time, unsendable,
        },
    },
};

/// Path of the collector.
const PATH: &str = "/services/collector/event";

/// The validated configuration.
pub(crate) struct Settings {
    common: Common,
    form: Form,
    time: Text,
    /// Names and texts of the metadata of an event.
    metadata: Vec<(&'static str, Text)>,
    /// `true` if no event determines its index.
    is_index_fixed: bool,
    fields: Members,
}

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
            let name = HeaderName::from_static("x-splunk-request-channel");
            target.headers.insert(name, header_value("channel", channel)?);
        }
        let metadata = |(name, template): (&'static str, &Option<Template>)| {
            template.as_ref().map(|template| (name, text(name, template)))
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
        })
    }
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
        self.time.render(event.into(), texts, caches.of(0), |_, _| Ok(()))?;
        for ((name, text), number) in self.metadata.iter().zip(1..) {
            let before = texts.len();
            texts.push(',');
            if !append_member(name, text, event.into(), (&mut *caches, number), texts)? {
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
        Ok(Item { event, after: before.end..before.end, before, length })
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
}
