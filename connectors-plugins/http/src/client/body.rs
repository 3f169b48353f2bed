//! Request bodies made of events.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use hyper::body::Bytes;
use tremor_pdk::{Error, Exceptions, Host, RawBatch, RawEvent, Result};

use super::config::{Compression, Format};

/// Length in bytes above which a body is compressed on a thread that may block. Shorter bodies are
/// compressed on the thread of the task.
const AT_ONCE: usize = 256 << 10;

/// Returns one body with the events of a delivery, and exceptions for the events that `format`
/// cannot represent. Returns `None` instead of a body without events.
pub(crate) fn of_batch(batch: &RawBatch, format: Format) -> (Option<Vec<u8>>, Exceptions) {
    let bytes = batch.iter().map(RawEvent::raw).map(<[u8]>::len).sum::<usize>();
    let mut body = Vec::with_capacity(bytes + batch.len() + 2);
    let mut exceptions = Exceptions::none();
    for event in batch {
        let message = event.raw();
        if format == Format::Array {
            body.push(if body.is_empty() { b'[' } else { b',' });
            body.extend_from_slice(message);
            continue;
        }
        let line = message.strip_suffix(b"\n").unwrap_or(message);
        if let Some(at) = memchr::memchr(b'\n', line) {
            exceptions.reject(event, several_lines(at));
            continue;
        }
        body.extend_from_slice(line);
        body.push(b'\n');
    }
    if format == Format::Array && !body.is_empty() {
        body.push(b']');
    }
    (Some(body).filter(|body| !body.is_empty()), exceptions)
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

    use super::of_batch;
    use crate::client::config::Format;

    #[test]
    fn events_become_lines_or_an_array() {
        let mut batch = RawBatch::new();
        let of_batch = |batch: &RawBatch, format| of_batch(batch, format).0;
        assert_eq!(of_batch(&batch, Format::Ndjson), None);
        assert_eq!(of_batch(&batch, Format::Array), None);
        batch.push_message(b"1");
        batch.push_message(b"[2]\n");
        batch.stream(0).end();
        assert_eq!(of_batch(&batch, Format::Ndjson).unwrap(), b"1\n[2]\n");
        assert_eq!(of_batch(&batch, Format::Array).unwrap(), b"[1,[2]\n]");
    }

    #[test]
    fn message_of_several_lines_is_left_out_of_ndjson() {
        let mut batch = RawBatch::new();
        for message in ["1\n2", "3", "\n\n", "4\n"] {
            batch.push_message(message.as_bytes());
        }
        let (body, exceptions) = of_batch(&batch, Format::Ndjson);
        assert_eq!(body.unwrap(), b"3\n4\n");
        let exceptions = exceptions.into();
        let positions = tremor_pdk::testing::exceptions(exceptions).into_iter().map(|it| it.events);
        assert_eq!(positions.collect::<Vec<_>>(), [0..1, 2..3]);
    }
}
