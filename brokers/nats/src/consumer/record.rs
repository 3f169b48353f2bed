//! A message as an event: its payload is a message, and the rest of it is metadata.

use async_nats::{HeaderMap, jetstream};
use tremor_pdk::{Batch, Error, Result, Writer};

/// Adds one of a stream, and says how often it has come.
pub(super) fn push_stream(batch: &mut Batch, message: &jetstream::Message) -> Result<i64> {
    let info = message.info().map_err(|error| {
        Error::bad_data(format_args!("the server does not say what message that is: {error}"))
    })?;
    batch.push_message(&message.payload);
    if let Some(mut event) = batch.last_mut() {
        event.write_metadata(|writer| {
            writer.begin_object();
            writer.key("subject");
            writer.str(&message.subject);
            writer.key("stream");
            writer.str(info.stream);
            writer.key("consumer");
            writer.str(info.consumer);
            // Numbers of messages begin with 1, and are no larger than an i64.
            for (key, number) in [
                ("stream_sequence", info.stream_sequence),
                ("consumer_sequence", info.consumer_sequence),
                ("pending", info.pending),
            ] {
                writer.key(key);
                writer.i64(i64::try_from(number).unwrap_or(i64::MAX));
            }
            writer.key("deliveries");
            writer.i64(info.delivered);
            writer.key("timestamp");
            let ms = info.published.unix_timestamp_nanos() / 1_000_000;
            writer.i64(i64::try_from(ms).unwrap_or(i64::MAX));
            write_headers(writer, message.headers.as_ref());
            writer.end_object();
        })?;
    }
    Ok(info.delivered)
}

/// Adds one of core NATS.
pub(super) fn push_core(batch: &mut Batch, message: &async_nats::Message) -> Result<()> {
    batch.push_message(&message.payload);
    let Some(mut event) = batch.last_mut() else { return Ok(()) };
    event.write_metadata(|writer| {
        writer.begin_object();
        writer.key("subject");
        writer.str(&message.subject);
        if let Some(reply) = &message.reply {
            writer.key("reply");
            writer.str(reply);
        }
        write_headers(writer, message.headers.as_ref());
        writer.end_object();
    })
}

/// An object: a name that comes several times has an array of its values.
fn write_headers(writer: &mut Writer<'_>, headers: Option<&HeaderMap>) {
    let Some(headers) = headers.filter(|headers| !headers.is_empty()) else { return };
    writer.key("headers");
    // In the order of names, whatever order the map has.
    let mut all: Vec<_> = headers.iter().map(|(name, values)| (name.to_string(), values)).collect();
    all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    writer.begin_object();
    for (name, values) in all {
        writer.key(&name);
        if let [value] = &values[..] {
            writer.str(value.as_str());
            continue;
        }
        writer.begin_array();
        values.iter().for_each(|value| writer.str(value.as_str()));
        writer.end_array();
    }
    writer.end_object();
}
