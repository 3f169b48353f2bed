//! Compression of request bodies.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use hyper::{body::Bytes, header::HeaderValue};
use tremor_pdk::{Error, Host, Result};

use crate::Compression;

/// Length in bytes above which a body is compressed on a thread that may block. Shorter bodies are
/// compressed on the thread of the task.
const AT_ONCE: usize = 256 << 10;

impl Compression {
    /// Returns the `Content-Encoding` of compressed bodies.
    pub(crate) fn encoding(self) -> Option<HeaderValue> {
        match self {
            Self::None => None,
            Self::Gzip => Some(HeaderValue::from_static("gzip")),
            Self::Zstd => Some(HeaderValue::from_static("zstd")),
        }
    }

    /// Compresses a body.
    pub(crate) async fn apply(self, host: &Host, body: Vec<u8>) -> Result<Bytes> {
        let compress: fn(&[u8]) -> io::Result<Vec<u8>> = match self {
            Self::None => return Ok(body.into()),
            Self::Gzip => |body| {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(body)?;
                encoder.finish()
            },
            Self::Zstd => |body| zstd::stream::encode_all(body, zstd::DEFAULT_COMPRESSION_LEVEL),
        };
        let compressed = if body.len() > AT_ONCE {
            host.blocking(move || compress(&body)).await?
        } else {
            compress(&body)
        };
        compressed.map(Bytes::from).map_err(Error::internal)
    }
}
