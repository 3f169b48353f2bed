//! Validation of the configuration, and the requests of the connector.

use std::collections::HashSet;

use tremor_pdk::{
    ErrorPolicy, RawEvent, prelude::*, serde::de::IgnoredAny, template::Template,
    without_placeholders,
};

use super::{
    answer::{FILTER, outcomes},
    config::{Action, Config},
    position,
};
use crate::{
    exchange::{
        Caches, Common, Endpoint, Item, Items, Part, Protocol, Response, Target, Targets, Text,
        Url, escape_json, percent_encode,
    },
    systems::{
        System,
        parts::{check_length, endpoint_url, push_json_line, unsendable},
    },
};

/// Index of documents unless the configuration sets one.
const DEFAULT_INDEX: &str = "tremor-{:+%Y.%m.%d}";

/// Maximum length of the name of an index, in bytes, as Elasticsearch limits it.
const MOST_INDEX: usize = 255;

/// Maximum length of an ID or of a text for routing, in bytes, as Elasticsearch limits IDs.
const MOST_ID: usize = 512;

/// Value of `id` for IDs that are derived from positions.
const POSITION: &str = "position";

/// The validated configuration.
pub(crate) struct Settings {
    common: Common,
    action: Action,
    index: Text,
    /// `true` if all documents have the same index.
    is_index_fixed: bool,
    id: Id,
    routing: Option<Text>,
}

/// Origin of the IDs of documents.
enum Id {
    Server,
    Template(Text),
    Position,
}

impl System for Settings {
    const NAME: &str = "elasticsearch";
    const DESCRIPTION: &str =
        "Writes events as documents to Elasticsearch, OpenSearch, or systems with the same API.";
    type Config = Config;

    fn new(config: &Config, host: &Host) -> Result<Self> {
        let url: Url = without_placeholders("url", &config.url)?.parse()?;
        let target = Target::new(bulk_url(&url, config.pipeline.as_deref())?);
        let endpoint = Endpoint::new(url, &config.keys(), &mut Targets::fixed(), host)?;
        let text = |key: &str, template: &Template, most| {
            Text::new(key, Some(&template.to_string()), template.clone(), most)
        };
        let id = match config.id.as_ref().map(|id| (id, id.constant())) {
            None => Id::Server,
            Some((_, Some(POSITION))) => Id::Position,
            Some((id, None)) => Id::Template(text("id", id, MOST_ID)),
            Some((id, Some(_))) => {
                return Err(Error::configuration(format_args!(
                    "invalid `id` `{id}`: all events would be one document; expected `position`, or a template with \
                     a field, such as `{{order.id}}`"
                )));
            }
        };
        let index = match &config.index {
            Some(index) => index.clone(),
            None => DEFAULT_INDEX.parse().map_err(Error::internal)?,
        };
        if index.constant().is_some_and(|index| index.trim().is_empty()) {
            return Err(Error::configuration("invalid `index`: expected the name of an index"));
        }
        Ok(Self {
            common: Common::new(endpoint, target, "application/x-ndjson", config.max_body_bytes),
            action: config.action,
            index: text("index", &index, MOST_INDEX),
            is_index_fixed: index.fields().next().is_none(),
            id,
            routing: config.routing.as_ref().map(|routing| text("routing", routing, MOST_ID)),
        })
    }
}

impl Settings {
    /// Returns the items that have to be sent again because an earlier document with the same ID has to be, so that the
    /// last document of an ID is the one that remains. `again` has the items that the server did not accept.
    fn later_versions(&self, part: &Part<'_, '_>, again: &[(usize, Error)]) -> Vec<(usize, Error)> {
        if self.action == Action::Create || !matches!(self.id, Id::Template(_)) {
            return Vec::new();
        }
        let mut waiting = HashSet::new();
        let mut later = Vec::new();
        let mut again = again.iter().peekable();
        for (position, item) in part.items.iter().enumerate() {
            let action = &part.texts[item.before.clone()];
            match again.next_if(|(of, _)| *of == position) {
                Some((_, error)) if error.policy() == ErrorPolicy::RETRY => {
                    waiting.insert(action);
                }
                None if waiting.contains(action) => later.push((position, superseded())),
                _ => {}
            }
        }
        later
    }
}

#[cold]
fn superseded() -> Error {
    Error::full("sent again, because an earlier document with the same ID has to be sent again")
        .with_policy(ErrorPolicy::RETRY)
}

/// Returns the URL of the bulk API of a server.
fn bulk_url(url: &Url, pipeline: Option<&str>) -> Result<Url> {
    let mut query = String::new();
    if let Some(pipeline) = pipeline {
        query.push_str("pipeline=");
        let start = query.len();
        query.push_str(&without_placeholders("pipeline", pipeline)?);
        percent_encode(&mut query, start);
        query.push('&');
    }
    query.push_str(FILTER);
    endpoint_url(url, "/_bulk", &query)
}

impl Protocol for Settings {
    fn common(&self) -> &Common {
        &self.common
    }

    /// Appends the line with the action for a document.
    fn item<'b>(
        &self,
        event: RawEvent<'b>,
        caches: &mut Caches,
        texts: &mut String,
    ) -> Result<Item<'b>> {
        let start = texts.len();
        let document = event.raw().trim_ascii();
        if !document.starts_with(b"{") || !document.ends_with(b"}") {
            return Err(unsendable(
                "expected a JSON object; use the codec `json` and events that are objects",
            ));
        }
        let mut add = |name: &str, number, text: &Text| {
            texts.push_str(name);
            let from = texts.len();
            text.render(event.into(), texts, caches.of(number), |_, _| Ok(()))?;
            if texts.len() == from {
                return Err(text.error("its text for the event is empty"));
            }
            escape_json(texts, from);
            texts.push('"');
            Ok(())
        };
        add(self.action.start(), 0, &self.index)?;
        if let Id::Template(id) = &self.id {
            add(r#","_id":""#, 1, id)?;
        }
        if let Some(routing) = &self.routing {
            add(r#","routing":""#, 2, routing)?;
        }
        if matches!(self.id, Id::Position) {
            texts.push_str(r#","_id":""#);
            position::append_id(event.into(), document, texts)?;
            texts.push('"');
        }
        texts.push_str("}}\n");
        let before = start..texts.len();
        let length = before.len() + document.len() + 1;
        check_length(length, self.common.max_body_bytes)?;
        let after = before.end..before.end;
        Ok(Item::new(event, before, after, length))
    }

    /// Returns the lines of the items: for each, its action and its document.
    fn body(&self, _: &Target, items: &Items<'_>, part: &[Item<'_>]) -> Vec<u8> {
        let mut body = Vec::with_capacity(part.iter().map(|item| item.length).sum());
        for item in part {
            body.extend_from_slice(items.texts[item.before.clone()].as_bytes());
            push_json_line(&mut body, item.event);
        }
        body
    }

    /// Returns a length that suffices for the errors of all items.
    fn response_bytes(&self, count: usize) -> usize {
        (64 << 10) + count.saturating_mul(4 << 10)
    }

    fn rejected(
        &self,
        response: &Response<'_>,
        part: &Part<'_, '_>,
    ) -> Result<Vec<(usize, Error)>> {
        let outcomes = match outcomes(response, part.items.len()) {
            Ok(outcomes) => outcomes,
            Err(error) => return Ok(unread(response, part, error.message())),
        };
        // A document with the ID of a `create` exists already, because the event was delivered before.
        let has_id = self.action == Action::Create && !matches!(self.id, Id::Server);
        let is_delivered = |status| has_id && status == 409;
        let mut rejected: Vec<_> = outcomes
            .iter()
            .enumerate()
            .filter(|(_, outcome)| !outcome.is_written() && !is_delivered(outcome.status))
            .map(|(position, outcome)| (position, outcome.error(response, self.is_index_fixed)))
            .collect();
        rejected.extend(self.later_versions(part, &rejected));
        Ok(rejected)
    }
}

/// Returns the errors of all items after a response that cannot be read. A document that is not JSON may be the cause,
/// and would be sent again without end, so it becomes a dead letter.
fn unread(response: &Response<'_>, part: &Part<'_, '_>, why: &str) -> Vec<(usize, Error)> {
    let again = Error::bad_data(format_args!(
        "cannot read the response of `{}`: {why}; the documents are sent again",
        response.url
    ));
    let again = again.with_policy(ErrorPolicy::RETRY);
    let judge = |item: &Item<'_>| match serde_json::from_slice::<IgnoredAny>(item.event.raw()) {
        Ok(_) => again.clone(),
        Err(error) => unsendable(&format!("it is not JSON: {error}")),
    };
    part.items.iter().map(judge).enumerate().collect()
}
