//! Compression of request bodies.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use hyper::{body::Bytes, header::HeaderValue};
use tremor_pdk::{Error, Host, Result};

use crate::{Compression, protobuf::put_varint};

/// Maximum number of bytes that [`put_stored_head`] appends.
pub(crate) const STORED_HEAD: usize = 10;

/// Tag of a literal of snappy whose length minus 1 follows in four bytes.
const LONG_LITERAL: u8 = 63 << 2;

/// Length in bytes above which a body is compressed on a thread that may block. Shorter bodies are
/// compressed on the thread of the task.
const AT_ONCE: usize = 256 << 10;

impl Compression {
    /// Returns the `Content-Encoding` of compressed bodies, if they have one.
    pub(crate) fn encoding(self) -> Option<HeaderValue> {
        match self {
            Self::None | Self::SnappyBlock => None,
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
            Self::SnappyBlock => |body| Ok(snap::raw::Encoder::new().compress_vec(body)?),
        };
        let compressed = if body.len() > AT_ONCE {
            host.blocking(move || compress(&body)).await?
        } else {
            compress(&body)
        };
        compressed.map(Bytes::from).map_err(Error::internal)
    }
}

/// Appends the head of a [block of snappy](https://github.com/google/snappy/blob/main/format_description.txt) whose data
/// is not compressed: the number of bytes, and the tag of one literal. The `length` bytes of the data have to follow, at
/// most 4 GiB.
pub(crate) fn put_stored_head(length: usize, out: &mut Vec<u8>) {
    let length = length as u64;
    put_varint(length, out);
    if let Some(last) = length.checked_sub(1) {
        out.push(LONG_LITERAL);
        out.extend_from_slice(&last.to_le_bytes()[..4]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use snap::raw::Decoder;

    use super::{STORED_HEAD, put_stored_head};

    fn stored(data: &[u8]) -> Vec<u8> {
        let mut block = Vec::new();
        put_stored_head(data.len(), &mut block);
        assert!(block.len() <= STORED_HEAD);
        block.extend_from_slice(data);
        block
    }

    proptest! {
        #[test]
        fn stored_block_contains_its_data(data in vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(Decoder::new().decompress_vec(&stored(&data)).unwrap(), data);
        }
    }

    #[test]
    fn long_stored_block_contains_its_data() {
        for length in [0xffff, 0x1_0000, 0x1_0001, 0xff_ffff, 0x100_0000, 0x100_0001] {
            let data = vec![b'x'; length];
            assert_eq!(Decoder::new().decompress_vec(&stored(&data)).unwrap(), data);
        }
    }
}
