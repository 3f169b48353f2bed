//! Validation of the configuration, and the requests of the connector.

use std::{borrow::Cow, fmt::Write};

use hyper::http::uri::PathAndQuery;
use sha2::{Digest, Sha256};
use tremor_pdk::{ErrorPolicy, RawEvent, prelude::*, without_placeholders};

use super::{answer::verdict, config::Config};
use crate::{
    exchange::{
        Caches, Common, Endpoint, Item, Items, Part, Protocol, Response, Target, Targets, Url,
        Verdict, answer::Remedies, header_value, percent_encode,
    },
    systems::{
        System,
        parts::{check_length, endpoint_url, json_lines, json_object},
    },
};

/// Settings that the connector sets itself.
const OWN: [&str; 7] = [
    "query",
    "database",
    "user",
    "password",
    "async_insert",
    "wait_for_async_insert",
    "insert_deduplication_token",
];

/// The validated configuration.
pub(crate) struct Settings {
    common: Common,
    deduplicate: bool,
}

impl System for Settings {
    const NAME: &str = "clickhouse";
    const DESCRIPTION: &str = "Inserts events as rows into a table of ClickHouse.";
    type Config = Config;

    fn new(config: &Config, host: &Host) -> Result<Self> {
        let url: Url = without_placeholders("url", &config.url)?.parse()?;
        let mut target = Target::new(endpoint_url(&url, "/", &query(config)?)?);
        let mut headers = config.headers.clone();
        for (key, name, value) in [
            ("user", "x-clickhouse-user", &config.user),
            ("password", "x-clickhouse-key", &config.password),
        ] {
            if headers.keys().any(|header| header.eq_ignore_ascii_case(name)) {
                return Err(Error::configuration(format_args!(
                    "invalid `headers.{name}`: `{key}` sets this header; remove it from `headers`"
                )));
            }
            let Some(value) = value else { continue };
            if config.auth.is_some() {
                return Err(Error::configuration(format_args!(
                    "invalid `auth`: `{key}` is set as well; remove one of the two"
                )));
            }
            let value =
                if key == "user" { without_placeholders(key, value)? } else { value.clone() };
            let header = header_value(key, &value)?;
            if key == "user" {
                target.headers.insert(name, header);
            } else {
                headers.insert(name.to_owned(), value);
            }
        }
        let mut keys = config.keys();
        keys.headers = &headers;
        let endpoint = Endpoint::new(url, &keys, &mut Targets::fixed(), host)?;
        Ok(Self {
            common: Common::new(endpoint, target, "application/x-ndjson", config.max_body_bytes),
            deduplicate: config.deduplicate,
        })
    }
}

/// Returns the query of the URL: the statement and the settings.
fn query(config: &Config) -> Result<String> {
    let mut statement = "INSERT INTO ".to_owned();
    if let Some(database) = &config.database {
        push_identifier(&mut statement, "database", database)?;
        statement.push('.');
    }
    push_identifier(&mut statement, "table", &config.table)?;
    statement.push_str(" FORMAT JSONEachRow");
    let mut query = "query=".to_owned();
    let push = |query: &mut String, text: &str| {
        let start = query.len();
        query.push_str(text);
        percent_encode(query, start);
    };
    push(&mut query, &statement);
    if !config.settings.contains_key("wait_end_of_query") {
        query.push_str("&wait_end_of_query=1");
    }
    if !config.settings.contains_key("date_time_input_format") {
        query.push_str("&date_time_input_format=best_effort");
    }
    if config.async_insert {
        query.push_str("&async_insert=1&wait_for_async_insert=1");
    }
    for (name, value) in &config.settings {
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_sound) || OWN.contains(&&**name) {
            return Err(Error::configuration(format_args!(
                "invalid `settings` entry `{}`: expected the name of a setting that the connector does not set itself",
                name.escape_debug()
            )));
        }
        query.push('&');
        query.push_str(name);
        query.push('=');
        push(&mut query, &without_placeholders("settings", value)?);
    }
    Ok(query)
}

/// Appends a quoted identifier.
fn push_identifier(out: &mut String, key: &str, name: &str) -> Result<()> {
    let name = without_placeholders(key, name)?;
    if name.is_empty() {
        return Err(Error::configuration(format_args!("invalid `{key}`: expected a name")));
    }
    out.push('`');
    for char in name.chars() {
        if matches!(char, '`' | '\\') {
            out.push('\\');
        }
        out.push(char);
    }
    out.push('`');
    Ok(())
}

impl Protocol for Settings {
    fn common(&self) -> &Common {
        &self.common
    }

    fn remedies(&self) -> Remedies<'static> {
        Remedies { credentials: "`user`, `password`, `auth`", ..Remedies::default() }
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

    /// Returns the URL with a token that is the same each time the same rows are sent.
    fn url<'t>(&self, target: &'t Target, body: &[u8]) -> Result<Cow<'t, Url>> {
        if !self.deduplicate {
            return Ok(Cow::Borrowed(&target.url));
        }
        let mut text = format!("{}&insert_deduplication_token=", target.url.target);
        for byte in Sha256::digest(body).iter().take(16) {
            let _ = write!(text, "{byte:02x}");
        }
        let path = PathAndQuery::try_from(text).map_err(Error::internal)?;
        Ok(Cow::Owned(Url { target: path, ..target.url.clone() }))
    }

    fn verdict(&self, response: &Response<'_>, _: &Part<'_, '_>) -> Option<Verdict> {
        verdict(response)
    }

    /// Reads an exception that occurred after the status was sent.
    fn rejected(&self, response: &Response<'_>, _: &Part<'_, '_>) -> Result<Vec<(usize, Error)>> {
        match verdict(response) {
            None => Ok(Vec::new()),
            Some(Verdict::Contents(error) | Verdict::Item(_, error) | Verdict::Again(error)) => {
                Err(error.with_policy(ErrorPolicy::RETRY))
            }
        }
    }
}
