//! Conversion of messages to events. The payload becomes the content of the event, and everything else becomes
//! metadata.

use std::time::Instant;

use async_nats::{HeaderMap, Message, Subject};
use tremor_pdk::{Raw, RawBatch, Result, TicketWriter, Writer};

use super::info::Info;

/// Ticket of a message in flight: the time at which the flow took it, and its reply subject.
pub(super) type Ticket = (Instant, Subject);

/// Adds a message of a stream to the batch.
pub(super) fn push_stream(
    writer: &mut TicketWriter<'_, Ticket, Raw>,
    ticket: Ticket,
    message: &Message,
    info: &Info<'_>,
) -> Result<()> {
    writer.push_message(0, ticket, &message.payload);
    let Some(mut event) = writer.last_mut() else { return Ok(()) };
    event.write_metadata(|writer| {
        writer.begin_object();
        writer.key("nats");
        writer.begin_object();
        writer.key("subject");
        writer.str(&message.subject);
        writer.key("stream");
        writer.str(info.stream);
        writer.key("consumer");
        writer.str(info.consumer);
        for (key, number) in [
            ("sequence", info.stream_sequence),
            ("consumer_sequence", info.consumer_sequence),
            ("pending", info.pending),
            ("deliveries", info.deliveries),
            ("timestamp", info.timestamp / 1_000_000),
        ] {
            writer.key(key);
            // The conversion never saturates, because these numbers stay within an `i64`.
            writer.i64(i64::try_from(number).unwrap_or(i64::MAX));
        }
        write_headers(writer, message.headers.as_ref());
        writer.end_object();
        writer.end_object();
    })
}

/// Adds a message of core NATS to the batch.
pub(super) fn push_core(batch: &mut RawBatch, message: &Message) -> Result<()> {
    batch.push_message(&message.payload);
    let Some(mut event) = batch.last_mut() else { return Ok(()) };
    event.write_metadata(|writer| {
        writer.begin_object();
        writer.key("nats");
        writer.begin_object();
        writer.key("subject");
        writer.str(&message.subject);
        if let Some(reply) = &message.reply {
            writer.key("reply");
            writer.str(reply);
        }
        write_headers(writer, message.headers.as_ref());
        writer.end_object();
        writer.end_object();
    })
}

/// Writes headers as an object. A name that occurs several times gets an array of its values.
fn write_headers(writer: &mut Writer<'_>, headers: Option<&HeaderMap>) {
    let Some(headers) = headers.filter(|headers| !headers.is_empty()) else { return };
    writer.key("headers");
    // Sort by name, because the map has no fixed order.
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
