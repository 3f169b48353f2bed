//! What the metadata of an event say of its record.

use tremor_pdk::{
    RawEvent,
    metadata::{Place, Text},
    prelude::*,
};

use super::{
    config::{Settings, check_topic},
    native::{Headers, Record},
};

/// # Errors
/// Kind bad data: the metadata have something there that cannot be that.
pub(super) fn of<'b>(event: RawEvent<'b>, settings: &'b Settings) -> Result<Record<'b>> {
    let key = match &settings.key {
        Text::Fixed(key) => Some(key.as_bytes()),
        Text::At(place) => place
            .get(event)
            .map(|it| bytes(it).ok_or_else(|| place.wrong("key", "a text or bytes", event)))
            .transpose()?,
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

/// # Errors
/// Kind bad data: the metadata have no topic, or something that cannot be one.
pub(super) fn topic<'b>(event: RawEvent<'b>, settings: &'b Settings) -> Result<&'b str> {
    let place = match &settings.topic {
        Text::Fixed(topic) => return Ok(topic),
        Text::At(place) => place,
    };
    let topic = place.get(event).and_then(ValueRef::as_str);
    let topic = topic.ok_or_else(|| place.wrong("topic", "a text", event))?;
    check_topic(topic)
        .map_err(|why| Error::bad_data(format_args!("`topic` of the event, `{place}`: {why}")))?;
    Ok(topic)
}

/// As the metadata of `kafka_consumer` say of a record without a value.
fn is_tombstone(event: RawEvent<'_>) -> bool {
    event.metadata().and_then(|it| it.get("tombstone")?.as_bool()).unwrap_or_default()
}

fn bytes(value: ValueRef<'_>) -> Option<&[u8]> {
    value.as_str().map(str::as_bytes).or_else(|| value.as_bytes())
}

/// A number of 0 to `most`.
fn number(
    place: Option<&Place>,
    event: RawEvent<'_>,
    name: &str,
    most: i64,
) -> Result<Option<i64>> {
    let Some(place) = place else { return Ok(None) };
    let Some(value) = place.get(event) else { return Ok(None) };
    let number = value.as_i64().filter(|it| (0..=most).contains(it));
    let expected = format_args!("a whole number of 0 to {most}");
    number.map(Some).ok_or_else(|| place.wrong(name, expected, event))
}

fn headers(place: &Place, event: RawEvent<'_>) -> Result<Option<Headers>> {
    let Some(value) = place.get(event) else { return Ok(None) };
    let expected = "an object of texts, bytes and null, and of lists of them";
    let object = value.as_object().ok_or_else(|| place.wrong("headers", expected, event))?;
    let mut headers = Headers::with_capacity(object.len());
    let mut push = |name: &str, value: ValueRef<'_>| {
        let bytes = bytes(value);
        if bytes.is_none() && !value.is_null() {
            let message = format_args!(
                "`headers` of the event, `{place}`: expected {expected}, found another value at `{}`",
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
