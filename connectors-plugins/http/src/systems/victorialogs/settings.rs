//! Validation of the configuration, and the requests of the connector.

use hyper::header::HeaderValue;
use tremor_pdk::{RawEvent, prelude::*, without_placeholders};

use super::config::Config;
use crate::{
    exchange::{
        Caches, Common, Endpoint, Item, Items, Protocol, Target, Targets, Url, percent_encode,
    },
    systems::{
        System,
        parts::{check_length, endpoint_url, json_lines, json_object},
    },
};

/// Path of the API for JSON lines.
const PATH: &str = "/insert/jsonline";

/// The validated configuration.
pub(crate) struct Settings {
    common: Common,
}

impl System for Settings {
    const NAME: &str = "victorialogs";
    const DESCRIPTION: &str = "Sends events as log entries to VictoriaLogs.";
    type Config = Config;

    fn new(config: &Config, host: &Host) -> Result<Self> {
        let url: Url = without_placeholders("url", &config.url)?.parse()?;
        let mut target = Target::new(endpoint_url(&url, PATH, &query(config)?)?);
        let endpoint = Endpoint::new(url, &config.keys(), &mut Targets::fixed(), host)?;
        if let Some(tenant) = config.tenant {
            for (name, number) in [("accountid", tenant.account), ("projectid", tenant.project)] {
                if endpoint.headers.contains_key(name) {
                    return Err(Error::configuration(format_args!(
                        "invalid `headers.{name}`: `tenant` sets this header; remove one of the two"
                    )));
                }
                target.headers.insert(name, HeaderValue::from(number));
            }
        }
        Ok(Self {
            common: Common::new(endpoint, target, "application/stream+json", config.max_body_bytes),
        })
    }
}

/// Returns the parameters that name fields.
fn query(config: &Config) -> Result<String> {
    let one = |field: &Option<String>| field.iter().cloned().collect::<Vec<_>>();
    let extra = config.extra_fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut query = String::new();
    for (key, parameter, fields) in [
        ("stream_fields", "_stream_fields", config.stream_fields.clone()),
        ("time_field", "_time_field", one(&config.time_field)),
        ("message_field", "_msg_field", one(&config.message_field)),
        ("ignore_fields", "ignore_fields", config.ignore_fields.clone()),
        ("extra_fields", "extra_fields", extra),
    ] {
        for (number, field) in fields.iter().enumerate() {
            if field.is_empty() || field.starts_with('=') || field.contains(',') {
                return Err(Error::configuration(format_args!(
                    "invalid `{key}` entry `{}`: expected the name of a field, without a comma",
                    field.escape_debug()
                )));
            }
            match number {
                0 if query.is_empty() => {}
                0 => query.push('&'),
                _ => query.push(','),
            }
            if number == 0 {
                query.push_str(parameter);
                query.push('=');
            }
            let start = query.len();
            query.push_str(&without_placeholders(key, field)?);
            percent_encode(&mut query, start);
        }
    }
    Ok(query)
}

impl Protocol for Settings {
    fn common(&self) -> &Common {
        &self.common
    }

    fn item<'b>(
        &self,
        event: RawEvent<'b>,
        _: &mut Caches,
        texts: &mut String,
    ) -> Result<Item<'b>> {
        let length = json_object(event)?.len() + 1;
        check_length(length, self.common.max_body_bytes)?;
        let none = texts.len()..texts.len();
        Ok(Item::new(event, none.clone(), none, length))
    }

    fn body(&self, _: &Target, _: &Items<'_>, part: &[Item<'_>]) -> Vec<u8> {
        json_lines(part)
    }
}
