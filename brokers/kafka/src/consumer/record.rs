//! Conversion of records to events.

use tremor_pdk::{PositionWriter, Raw, Result, Writer};

use super::client::Record;

/// Adds a record to the batch: its value as the message, everything else as metadata.
pub(super) fn push(
    writer: &mut PositionWriter<'_, i64, Raw>,
    stream: u64,
    record: Record<'_>,
) -> Result<()> {
    writer.push_message(stream, record.offset() + 1, record.value().unwrap_or_default());
    match writer.last_mut() {
        Some(mut event) => event.write_metadata(|writer| write(writer, record)),
        None => Ok(()),
    }
}

fn write(writer: &mut Writer<'_>, record: Record<'_>) {
    writer.begin_object();
    writer.key("kafka");
    writer.begin_object();
    writer.key("topic");
    writer.str(record.topic());
    writer.key("partition");
    writer.i64(record.partition().into());
    writer.key("offset");
    writer.i64(record.offset());
    if let Some(time) = record.timestamp() {
        writer.key("timestamp");
        writer.i64(time);
    }
    if let Some(key) = record.key() {
        writer.key("key");
        write_bytes(writer, key);
    }
    if record.value().is_none() {
        writer.key("tombstone");
        writer.bool(true);
    }
    let mut headers = record.headers().peekable();
    if headers.peek().is_some() {
        writer.key("headers");
        write_headers(writer, headers.collect());
    }
    writer.end_object();
    writer.end_object();
}

/// Writes text if the bytes are UTF-8, otherwise bytes.
fn write_bytes(writer: &mut Writer<'_>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => writer.str(text),
        Err(_) => writer.bytes(bytes),
    }
}

/// Writes headers as an object. A name that occurs several times gets an array of its values.
fn write_headers(writer: &mut Writer<'_>, mut headers: Vec<(&str, Option<&[u8]>)>) {
    // The sort is stable, so the values of one name stay in order.
    headers.sort_by_key(|(name, _)| *name);
    let write_value = |writer: &mut Writer<'_>, value: Option<&[u8]>| match value {
        Some(value) => write_bytes(writer, value),
        None => writer.null(),
    };
    writer.begin_object();
    for same in headers.chunk_by(|(one, _), (other, _)| one == other) {
        let Some((name, value)) = same.first() else { continue };
        writer.key(name);
        if same.len() == 1 {
            write_value(writer, *value);
            continue;
        }
        writer.begin_array();
        same.iter().for_each(|(_, value)| write_value(writer, *value));
        writer.end_array();
    }
    writer.end_object();
}
