//! Records made from the metadata of events.

use std::borrow::Cow;

use tremor_pdk::{
    RawEvent,
    metadata::{FieldPath, Text},
    prelude::*,
};

use super::{
    config::{Settings, check_topic},
    native::{Headers, Record},
};

/// Creates the record of an event, without its payload.
///
/// # Errors
/// An error of the kind bad data if a template has no text, or the metadata contains a value of a wrong type or range.
pub(super) fn of<'b>(event: RawEvent<'b>, settings: &'b Settings) -> Result<Record<'b>> {
    let key = match &settings.key {
        Text::At(path) => path
            .get(event)
            .map(|it| bytes(it).ok_or_else(|| path.wrong("key", "a text or bytes", event)))
            .transpose()?
            .map(Cow::Borrowed),
        text => Some(match text.get("key", event)? {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }),
    };
    let partition = number(settings.partition.as_ref(), event, "partition", i32::MAX.into())?;
    Ok(Record {
        topic: topic(event, settings)?,
        key,
        headers: headers(&settings.headers, event)?,
        partition: partition.and_then(|it| i32::try_from(it).ok()),
        is_tombstone: is_tombstone(event),
        timestamp: number(settings.timestamp.as_ref(), event, "timestamp", i64::MAX)?,
    })
}

/// Returns the topic of an event.
///
/// # Errors
/// An error of the kind bad data if the event has no topic or an invalid one.
pub(super) fn topic<'b>(event: RawEvent<'b>, settings: &'b Settings) -> Result<Cow<'b, str>> {
    let topic = settings.topic.get("topic", event)?;
    if settings.topic.fixed().is_none() {
        check_topic(&topic).map_err(|why| {
            Error::bad_data(format_args!("`topic` of the event, `{}`: {why}", settings.topic))
        })?;
    }
    Ok(topic)
}

/// Returns whether the metadata marks the record as one without a value. `kafka_consumer` sets the
/// same key, `%kafka.tombstone`.
fn is_tombstone(event: RawEvent<'_>) -> bool {
    event.metadata().and_then(|it| it.get("kafka")?.get("tombstone")?.as_bool()).unwrap_or_default()
}

fn bytes(value: ValueRef<'_>) -> Option<&[u8]> {
    value.as_str().map(str::as_bytes).or_else(|| value.as_bytes())
}

/// Returns the number at `path`, which has to be from 0 to `most`.
fn number(
    path: Option<&FieldPath>,
    event: RawEvent<'_>,
    name: &str,
    most: i64,
) -> Result<Option<i64>> {
    let Some(path) = path else { return Ok(None) };
    let Some(value) = path.get(event) else { return Ok(None) };
    let number =
        value.whole().and_then(|it| i64::try_from(it).ok()).filter(|it| (0..=most).contains(it));
    let expected = format_args!("a whole number from 0 to {most}");
    number.map(Some).ok_or_else(|| path.wrong(name, expected, event))
}

fn headers(path: &FieldPath, event: RawEvent<'_>) -> Result<Option<Headers>> {
    let Some(value) = path.get(event) else { return Ok(None) };
    let expected = "an object of texts, bytes and null, and of lists of them";
    let object = value.as_object().ok_or_else(|| path.wrong("headers", expected, event))?;
    let mut headers = Headers::with_capacity(object.len());
    let mut push = |name: &str, value: ValueRef<'_>| {
        let bytes = bytes(value);
        if bytes.is_none() && !value.is_null() {
            let message = format_args!(
                "`headers` of the event, `{path}`: expected {expected}, found another value at `{}`",
                name.escape_debug()
            );
            return Err(Error::bad_data(message));
        }
        headers.push(name, bytes);
        Ok(())
    };
    for (name, value) in object {
        match value.as_array() {
            None => push(name, value)?,
            Some(list) => list.iter().try_for_each(|value| push(name, value))?,
        }
    }
    Ok(Some(headers))
}
