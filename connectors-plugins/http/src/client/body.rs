//! Request bodies made of events.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use hyper::body::Bytes;
use tremor_pdk::{Error, Host, RawEvent, Result};

use super::config::{Compression, Format};

/// Length in bytes above which a body is compressed on a thread that may block. Shorter bodies are
/// compressed on the thread of the task.
const AT_ONCE: usize = 256 << 10;

/// Checks whether `format` can represent an event.
///
/// # Errors
/// An error of the kind bad data if the event is several lines.
pub(crate) fn check(event: RawEvent<'_>, format: Format) -> Result<()> {
    let position = memchr::memchr(b'\n', line(event)).filter(|_| format == Format::Ndjson);
    position.map_or(Ok(()), |position| Err(several_lines(position)))
}

/// Returns one body with these events. For `ndjson`, each event has to be a line.
pub(crate) fn of_events(events: &[RawEvent<'_>], format: Format) -> Vec<u8> {
    let bytes = events.iter().map(|event| event.raw().len()).sum::<usize>();
    let mut body = Vec::with_capacity(bytes + events.len() + 2);
    for event in events {
        if format == Format::Array {
            body.push(if body.is_empty() { b'[' } else { b',' });
            body.extend_from_slice(event.raw());
        } else {
            body.extend_from_slice(line(*event));
            body.push(b'\n');
        }
    }
    if format == Format::Array {
        body.push(b']');
    }
    body
}

/// Returns the message of an event without the line feed at its end.
fn line(event: RawEvent<'_>) -> &[u8] {
    event.raw().strip_suffix(b"\n").unwrap_or(event.raw())
}

#[cold]
fn several_lines(position: usize) -> Error {
    Error::bad_data(format_args!(
        "cannot add the message to a body with `format: ndjson`: it contains a line feed at byte {position}, after \
         which the server would read another message; use a codec that escapes line feeds, such as `json`, or \
         `format: raw`"
    ))
}

/// Compresses a body.
pub(crate) async fn compressed(
    host: &Host,
    body: Vec<u8>,
    compression: Compression,
) -> Result<Bytes> {
    let compress: fn(&[u8]) -> io::Result<Vec<u8>> = match compression {
        Compression::None => return Ok(body.into()),
        Compression::Gzip => |body| {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(body)?;
            encoder.finish()
        },
        Compression::Zstd => |body| zstd::stream::encode_all(body, zstd::DEFAULT_COMPRESSION_LEVEL),
    };
    let compressed = if body.len() > AT_ONCE {
        host.blocking(move || compress(&body)).await?
    } else {
        compress(&body)
    };
    compressed.map(Bytes::from).map_err(Error::internal)
}

#[cfg(test)]
mod tests {
    use tremor_pdk::RawBatch;

    use super::{check, of_events};
    use crate::client::config::Format;

    #[test]
    fn events_become_lines_or_an_array() {
        let mut batch = RawBatch::new();
        batch.push_message(b"1");
        batch.push_message(b"[2]\n");
        batch.stream(0).end();
        let events: Vec<_> = batch.iter().collect();
        assert_eq!(of_events(&events, Format::Ndjson), b"1\n[2]\n");
        assert_eq!(of_events(&events, Format::Array), b"[1,[2]\n]");
    }

    #[test]
    fn message_of_several_lines_does_not_fit_into_ndjson() {
        let mut batch = RawBatch::new();
        for message in ["1\n2", "3", "\n\n", "4\n"] {
            batch.push_message(message.as_bytes());
        }
        let fits = |format| batch.iter().map(|it| check(it, format).is_ok()).collect::<Vec<_>>();
        assert_eq!(fits(Format::Ndjson), [false, true, false, true]);
        assert_eq!(fits(Format::Array), [true; 4]);
    }
}
