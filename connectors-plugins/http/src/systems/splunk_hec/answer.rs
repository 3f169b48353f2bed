//! Responses of the HTTP Event Collector whose status is not a success.

use tremor_pdk::{Error, serde::Deserialize};

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
