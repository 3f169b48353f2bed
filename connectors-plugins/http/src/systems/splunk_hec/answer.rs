//! Responses of the HTTP Event Collector.

use std::collections::BTreeMap;

use tremor_pdk::{Error, Result, serde::Deserialize};

use crate::exchange::{
    Response, Verdict,
    answer::{SHOWN, printable},
};

/// A response, such as `{"text":"Invalid data format","code":6,"invalid-event-number":3}`.
#[derive(Deserialize)]
#[serde(crate = "tremor_pdk::serde")]
struct Answer {
    text: String,
    code: u16,
    /// Position of the first event that the server refuses.
    #[serde(rename = "invalid-event-number")]
    position: Option<usize>,
}

/// Returns the verdict on a request with `count` events, or `None` if the status decides. `is_index_fixed` is `true` if
/// no event determines its index.
pub(crate) fn verdict(
    response: &Response<'_>,
    count: usize,
    is_index_fixed: bool,
) -> Option<Verdict> {
    let answer: Answer = serde_json::from_slice(&response.answer.body).ok()?;
    let Response { url, secrets, .. } = response;
    let text = printable(&secrets.redacted(answer.text.as_bytes(), SHOWN));
    let (status, code) = (response.answer.status.as_u16(), answer.code);
    let message = format!("`{url}` answered with {status}: code {code}: {text}");
    let configuration = |remedy: &str| {
        Some(Verdict::Again(Error::configuration(format_args!("{message}; {remedy}"))))
    };
    match code {
        1..=4 => {
            Some(Verdict::Again(Error::authentication(format_args!("{message}; check `token`"))))
        }
        7 if is_index_fixed => configuration("check `index` and the indexes that the token allows"),
        10 | 11 => configuration(
            "the token needs a channel, so set `channel` to a GUID, or disable its indexer acknowledgement",
        ),
        5 | 6 | 7 | 12 | 13 | 15 => {
            Some(match answer.position.filter(|position| *position < count) {
                Some(position) => Verdict::Item(position, Error::bad_data(message)),
                None => Verdict::Contents(Error::bad_data(message)),
            })
        }
        _ => None,
    }
}

/// A response to a request that the collector has accepted, such as `{"text":"Success","code":0,"ackId":7}`.
#[derive(Deserialize)]
#[serde(crate = "tremor_pdk::serde")]
struct Accepted {
    #[serde(rename = "ackId", alias = "ackID")]
    id: Option<u64>,
}

/// A response to a question for acknowledgements, such as `{"acks":{"7":true}}`.
#[derive(Deserialize)]
#[serde(crate = "tremor_pdk::serde")]
struct Acknowledgements {
    acks: BTreeMap<String, bool>,
}

/// Returns the ID by which the indexer acknowledges the events of an accepted request.
///
/// # Errors
/// The response has no ID. The error is final, because the collector has accepted the events, and would accept them
/// again with each repetition.
pub(crate) fn acknowledgement_id(response: &Response<'_>) -> Result<u64> {
    let accepted = serde_json::from_slice::<Accepted>(&response.answer.body);
    accepted.ok().and_then(|accepted| accepted.id).ok_or_else(|| {
        let url = response.url;
        Error::configuration(format_args!(
            "`{url}` accepted a request without an `ackId`: enable indexer acknowledgement for the token, or remove \
             `acknowledgement: indexer`"
        ))
    })
}

/// Returns whether the indexer acknowledges the events of the only request in question.
pub(crate) fn is_acknowledged(response: &Response<'_>) -> bool {
    let found = serde_json::from_slice::<Acknowledgements>(&response.answer.body);
    found.is_ok_and(|found| found.acks.len() == 1 && found.acks.into_values().all(|it| it))
}
