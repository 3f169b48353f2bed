//! The header of a chunk.

use tremor_pdk::{Error, Result};

/// First bytes of every chunk.
const MAGIC: &[u8] = &[0x1e, 0x0f];

/// Length of the header of a chunk in bytes.
pub(super) const HEADER: usize = 12;

/// Maximum number of chunks of a message.
pub(super) const MAX_CHUNKS: u8 = 128;

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Number that the chunks of a message share.
    pub(super) id: u64,
    /// Position of the chunk in the message, from 0.
    pub(super) position: u8,
    /// Number of chunks of the message.
    pub(super) count: u8,
}

impl Chunk {
    /// Reads the header of a datagram. Returns `None` if the datagram is not a chunk.
    ///
    /// # Errors
    /// The header is incomplete or invalid.
    pub(super) fn read(datagram: &[u8]) -> Result<Option<Self>> {
        let Some(header) = datagram.strip_prefix(MAGIC) else { return Ok(None) };
        let length = datagram.len();
        let Some((id, [position, count, ..])) = header.split_first_chunk() else {
            return Err(invalid(format_args!(
                "its header has {length} bytes; expected {HEADER} bytes"
            )));
        };
        let (id, position, count) = (u64::from_be_bytes(*id), *position, *count);
        if !(1..=MAX_CHUNKS).contains(&count) {
            return Err(invalid(format_args!(
                "its message has {count} chunks; expected 1 to {MAX_CHUNKS}"
            )));
        }
        if position >= count {
            return Err(invalid(format_args!(
                "its position is {position} in a message of {count} chunks; expected 0 to {}",
                count - 1
            )));
        }
        Ok(Some(Self { id, position, count }))
    }
}

#[cold]
pub(super) fn invalid(cause: impl std::fmt::Display) -> Error {
    Error::bad_data(format_args!("invalid chunk of GELF: {cause}"))
}
