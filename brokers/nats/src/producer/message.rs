//! Conversion of events to messages.

use async_nats::{HeaderMap, HeaderName, HeaderValue, Subject};
use bytes::Bytes;
use tremor_pdk::{
    RawEvent,
    metadata::{FieldPath, Text},
    prelude::*,
};

use super::config::{Settings, check_chosen};

/// A message with its own copy of the event's data, so that another thread can send it.
pub(super) struct Message {
    /// Position of the event in the batch.
    pub(super) position: usize,
    pub(super) subject: Subject,
    pub(super) headers: Option<HeaderMap>,
    pub(super) payload: Bytes,
}

/// Returns the messages of a batch. Events that cannot be converted are added to `refused`.
pub(super) fn all(
    batch: &RawBatch,
    settings: &Settings,
    refused: &mut Vec<(usize, Error)>,
) -> Vec<Message> {
    let fixed = settings.subject.fixed().map(Subject::from);
    // Copy all payloads into one buffer, which the messages share.
    let length = batch.iter().map(RawEvent::raw).map(<[u8]>::len).sum();
    let mut payloads = Vec::with_capacity(length);
    let mut messages = Vec::with_capacity(batch.len());
    let mut ends = Vec::with_capacity(batch.len());
    for event in batch {
        let position = event.position();
        match one(event, settings, fixed.as_ref()) {
            Ok((subject, headers)) => {
                payloads.extend_from_slice(event.raw());
                ends.push(payloads.len());
                messages.push(Message { position, subject, headers, payload: Bytes::new() });
            }
            Err(error) => refused.push((position, error)),
        }
    }
    let payloads = Bytes::from(payloads);
    let mut start = 0;
    for (message, end) in messages.iter_mut().zip(ends) {
        message.payload = payloads.slice(start..end);
        start = end;
    }
    messages
}

/// Returns the subject and the headers of the message for an event.
///
/// # Errors
/// Returns an error of kind "bad data" if a template has no text, or the metadata contains an invalid value.
fn one(
    event: RawEvent<'_>,
    settings: &Settings,
    fixed: Option<&Subject>,
) -> Result<(Subject, Option<HeaderMap>)> {
    let subject = match fixed {
        Some(subject) => subject.clone(),
        None => subject(&settings.subject, event)?,
    };
    let mut headers = headers(&settings.headers, settings.server_headers, event)?;
    if let Some(path) = &settings.message_id
        && let Some(value) = path.get(event)
    {
        let text = value.as_str();
        let id = text.and_then(|it| it.parse::<HeaderValue>().ok());
        let id = id.ok_or_else(|| path.wrong("message_id", "a single-line text", event))?;
        headers.get_or_insert_default().insert(async_nats::header::NATS_MESSAGE_ID, id);
    }
    Ok((subject, headers))
}

fn subject(of: &Text, event: RawEvent<'_>) -> Result<Subject> {
    let subject = of.get("subject", event)?;
    check_chosen(&subject)
        .map_err(|why| Error::bad_data(format_args!("`subject` of the event, `{of}`: {why}")))?;
    Ok(Subject::from(&*subject))
}

/// Prefix of the names of headers that control the server.
const SERVER_PREFIX: &str = "Nats-";

fn headers(
    path: &FieldPath,
    with_server_headers: bool,
    event: RawEvent<'_>,
) -> Result<Option<HeaderMap>> {
    let Some(value) = path.get(event) else { return Ok(None) };
    let expected = "an object whose values are single-line texts or lists of such texts";
    let object = value.as_object().ok_or_else(|| path.wrong("headers", expected, event))?;
    let mut headers = HeaderMap::new();
    let mut add = |name: &str, value: ValueRef<'_>| -> Result<()> {
        let header = name.parse::<HeaderName>().ok();
        let header = header.zip(value.as_str().and_then(|it| it.parse::<HeaderValue>().ok()));
        let (header, value) = header.ok_or_else(|| {
            Error::bad_data(format_args!(
                "`headers` of the event, `{path}`: expected {expected}, found another value or name at `{}`",
                name.escape_debug()
            ))
        })?;
        headers.append(header, value);
        Ok(())
    };
    for (name, value) in object {
        // Leave these headers out. If the headers of events come from another broker, its publishers could otherwise
        // control this server, for example delete messages.
        let begins = name.as_bytes().get(..SERVER_PREFIX.len());
        if !with_server_headers
            && begins.is_some_and(|it| it.eq_ignore_ascii_case(SERVER_PREFIX.as_bytes()))
        {
            continue;
        }
        match value.as_array() {
            None => add(name, value)?,
            Some(list) => list.iter().try_for_each(|value| add(name, value))?,
        }
    }
    Ok(Some(headers).filter(|headers| !headers.is_empty()))
}
