//! Events as messages.

use async_nats::{HeaderMap, HeaderName, HeaderValue, Subject};
use bytes::Bytes;
use tremor_pdk::{
    RawEvent,
    metadata::{Place, Text},
    prelude::*,
};

use super::config::{Settings, check_chosen};

/// A message that can be sent from another thread.
pub(super) struct Message {
    /// Of its event in the batch.
    pub(super) position: usize,
    pub(super) subject: Subject,
    pub(super) headers: Option<HeaderMap>,
    pub(super) payload: Bytes,
}

/// The messages of a batch. Events of which there can be none are added to `refused`.
pub(super) fn all(
    batch: &RawBatch,
    settings: &Settings,
    refused: &mut Vec<(usize, Error)>,
) -> Vec<Message> {
    let fixed = match &settings.subject {
        Text::Fixed(subject) => Some(Subject::from(subject.as_str())),
        Text::At(_) => None,
    };
    // One copy of all of them, which the messages share.
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

/// # Errors
/// Kind bad data: the metadata have something that cannot be that.
fn one(
    event: RawEvent<'_>,
    settings: &Settings,
    fixed: Option<&Subject>,
) -> Result<(Subject, Option<HeaderMap>)> {
    let subject = match (fixed, &settings.subject) {
        (Some(subject), _) => subject.clone(),
        (None, Text::Fixed(subject)) => subject.as_str().into(),
        (None, Text::At(place)) => subject(place, event)?,
    };
    let mut headers = headers(&settings.headers, settings.server_headers, event)?;
    if let Some(place) = &settings.message_id
        && let Some(value) = place.get(event)
    {
        let text = value.as_str();
        let id = text.and_then(|it| it.parse::<HeaderValue>().ok());
        let id = id.ok_or_else(|| place.wrong("message_id", "a text in one line", event))?;
        headers.get_or_insert_default().insert(async_nats::header::NATS_MESSAGE_ID, id);
    }
    Ok((subject, headers))
}

fn subject(place: &Place, event: RawEvent<'_>) -> Result<Subject> {
    let subject = place.get(event).and_then(ValueRef::as_str);
    let subject = subject.ok_or_else(|| place.wrong("subject", "a text", event))?;
    check_chosen(subject)
        .map_err(|why| Error::bad_data(format_args!("`subject` of the event, `{place}`: {why}")))?;
    Ok(subject.into())
}

/// How the names of headers begin that tell the server what to do.
const SERVERS: &str = "Nats-";

fn headers(place: &Place, servers_as_well: bool, event: RawEvent<'_>) -> Result<Option<HeaderMap>> {
    let Some(value) = place.get(event) else { return Ok(None) };
    let expected = "an object of texts in one line, and of lists of them";
    let object = value.as_object().ok_or_else(|| place.wrong("headers", expected, event))?;
    let mut headers = HeaderMap::new();
    let mut add = |name: &str, value: ValueRef<'_>| -> Result<()> {
        let header = name.parse::<HeaderName>().ok();
        let header = header.zip(value.as_str().and_then(|it| it.parse::<HeaderValue>().ok()));
        let (header, value) = header.ok_or_else(|| {
            Error::bad_data(format_args!(
                "`headers` of the event, `{place}`: expected {expected}, found another value or name at `{}`",
                name.escape_debug()
            ))
        })?;
        headers.append(header, value);
        Ok(())
    };
    for (name, value) in object {
        // Of another broker, say: a publisher there must not be able to drop messages of this one.
        let begins = name.as_bytes().get(..SERVERS.len());
        if !servers_as_well && begins.is_some_and(|it| it.eq_ignore_ascii_case(SERVERS.as_bytes()))
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
