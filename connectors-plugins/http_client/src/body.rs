//! Bodies, made of events.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use hyper::body::Bytes;
use tremor_pdk::{Batch, Error, EventRef, Host, Result};

use crate::config::{Compression, Format};

/// What is longer is compressed on a thread for such work, in bytes.
const AT_ONCE: usize = 256 << 10;

/// One body of the events of a delivery; none where there are no events.
pub(crate) fn of_batch(batch: &Batch, format: Format) -> Option<Vec<u8>> {
    let messages = || batch.iter().filter_map(EventRef::raw);
    let count = messages().count();
    if count == 0 {
        return None;
    }
    let mut body = Vec::with_capacity(messages().map(<[u8]>::len).sum::<usize>() + count + 2);
    match format {
        Format::Raw | Format::Ndjson => {
            for message in messages() {
                body.extend_from_slice(message);
                if !message.ends_with(b"\n") {
                    body.push(b'\n');
                }
            }
        }
        Format::Array => {
            for message in messages() {
                body.push(if body.is_empty() { b'[' } else { b',' });
                body.extend_from_slice(message);
            }
            body.push(b']');
        }
    }
    Some(body)
}

/// The body as it is sent.
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
    use tremor_pdk::Batch;

    use super::of_batch;
    use crate::config::Format;

    #[test]
    fn events_become_lines_or_an_array() {
        let mut batch = Batch::new();
        assert_eq!(of_batch(&batch, Format::Ndjson), None);
        batch.push_message(b"1");
        batch.push_message(b"[2]\n");
        batch.stream(0).end();
        assert_eq!(of_batch(&batch, Format::Ndjson).unwrap(), b"1\n[2]\n");
        assert_eq!(of_batch(&batch, Format::Array).unwrap(), b"[1,[2]\n]");
    }
}
