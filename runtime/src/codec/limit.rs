//! Limits of the size of decoded messages, and of the buffers that codecs keep.

use tremor_abi::{batch::Batch, document::Node};

use super::{Error, ErrorKind};

/// Maximum size in bytes of a work buffer that is kept for the next message. Larger buffers are freed.
pub(super) const KEPT: usize = 1 << 20;

/// Returns the maximum number of nodes of a message of `message` bytes.
#[inline]
pub(super) const fn nodes(message: usize) -> usize {
    Batch::decoded_at_most(message) / size_of::<Node>()
}

/// Returns an error if `count` exceeds the maximum number of nodes of a message of `message` bytes.
#[inline]
pub(super) fn admit(message: usize, count: usize) -> Result<(), Error> {
    if count <= nodes(message) { Ok(()) } else { Err(too_many(message)) }
}

/// Returns the error for a message of `message` bytes that has too many values.
#[cold]
fn too_many(message: usize) -> Error {
    let most = Batch::decoded_at_most(message);
    Error::new(
        ErrorKind::TooLarge,
        format!(
            "the decoded message takes more than {most} bytes of memory, the limit for a message \
             of {message} bytes"
        ),
    )
}
