//! Responses of the bulk API.

use std::collections::BTreeMap;

use hyper::StatusCode;
use memchr::memmem;
use serde_json::Value as Json;
use tremor_pdk::{Error, ErrorPolicy, Result, serde::Deserialize};

use crate::exchange::{Response, answer::excerpt};

/// Parts of the response that the connector reads, as the parameter `filter_path` of a request. Each item has a status,
/// so filtering keeps the positions of items.
pub(crate) const FILTER: &str = "filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason,\
                                 items.*.error.caused_by.reason,items.*.error.index";

/// Maximum number of bytes of the error of a document that a message quotes.
const SHOWN: usize = 500;

/// Result of an item of a request.
#[derive(Debug, Deserialize)]
#[serde(crate = "tremor_pdk::serde")]
pub(crate) struct Outcome {
    pub(crate) status: u16,
    #[serde(default)]
    error: Json,
}

#[derive(Deserialize)]
#[serde(crate = "tremor_pdk::serde")]
struct Bulk {
    /// Each item is an object with the action as its only key.
    items: Vec<BTreeMap<String, Outcome>>,
}

/// Reads the response to a request with `count` items. Returns the result of each item, or nothing if all documents
/// were written.
///
/// # Errors
/// The reason why the response cannot be read: it is not JSON, is incomplete, or has another number of items.
pub(crate) fn outcomes(response: &Response<'_>, count: usize) -> Result<Vec<Outcome>> {
    let answer = response.answer;
    if let Some(why) = &answer.undecoded {
        return Err(Error::bad_data(why));
    }
    if answer.is_cut {
        return Err(Error::bad_data(format_args!("it is longer than {} bytes", answer.body.len())));
    }
    if is_all_written(&answer.body, count) {
        return Ok(Vec::new());
    }
    let bulk: Bulk = serde_json::from_slice(&answer.body).map_err(Error::bad_data)?;
    let outcomes = bulk.items.into_iter().map(|item| {
        let mut results = item.into_values();
        results.next().filter(|_| results.next().is_none())
    });
    let outcomes: Option<Vec<_>> = outcomes.collect();
    let outcomes =
        outcomes.ok_or_else(|| Error::bad_data("an item does not have exactly one action"))?;
    if outcomes.len() != count {
        return Err(Error::bad_data(format_args!(
            "it has {} items, but the request had {count}",
            outcomes.len()
        )));
    }
    Ok(outcomes)
}

/// Returns whether a filtered response reports success for all items, without parsing each of them.
fn is_all_written(body: &[u8], count: usize) -> bool {
    let items = body.strip_prefix(br#"{"errors":false,"items":["#);
    let items = items.and_then(|rest| rest.trim_ascii_end().strip_suffix(b"]}"));
    items.is_some_and(|items| memmem::find_iter(items, br#""status":2"#).count() == count)
}

impl Outcome {
    /// Returns whether the document was written.
    pub(crate) fn is_written(&self) -> bool {
        StatusCode::from_u16(self.status).is_ok_and(|status| status.is_success())
    }

    /// Returns whether the server refuses the document for the moment. `is_index_fixed` is `true` if all documents have
    /// the same index.
    fn is_retried(&self, is_index_fixed: bool) -> bool {
        match self.status {
            // The credentials do not suffice for the index. Other documents may have another index.
            401 | 403 if is_index_fixed => true,
            408 | 429 | 500.. => true,
            // An index that is read-only, for example because the disk is full.
            _ => self.error["type"] == "cluster_block_exception",
        }
    }

    /// Returns the error for a document that was not written.
    pub(crate) fn error(&self, response: &Response<'_>, is_index_fixed: bool) -> Error {
        let Response { url, secrets, .. } = response;
        let mut text = String::new();
        let error = &self.error;
        let index = error["index"].as_str().map(|index| format!("index `{index}`"));
        let parts = [
            error.as_str().or(error["type"].as_str()),
            error["reason"].as_str(),
            error["caused_by"]["reason"].as_str(),
            index.as_deref(),
        ];
        for part in parts.into_iter().flatten() {
            text.push_str(": ");
            text.push_str(part);
        }
        let text = excerpt(&secrets.redacted(text.as_bytes(), SHOWN), SHOWN);
        let remedy = match self.status {
            401 | 403 => "; check the privileges of `auth` for the index",
            _ if text.contains("op_type of create") => "; a data stream needs `action: create`",
            _ => "",
        };
        let message =
            format!("`{url}` refused the document with the status {}{text}{remedy}", self.status);
        if !self.is_retried(is_index_fixed) {
            return Error::bad_data(message).with_policy(ErrorPolicy::DEAD_LETTER);
        }
        let error = match self.status {
            401 | 403 => Error::authentication(message),
            _ => Error::full(message),
        };
        error.with_policy(ErrorPolicy::RETRY)
    }
}
