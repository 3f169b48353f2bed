//! How much a message may become, and what codecs keep for the next.

use tremor_abi::{batch::Batch, document::Node};

use super::{Error, ErrorKind};

/// Room to work in that is kept from one message to the next, in bytes: what a larger one took is
/// given back.
pub(super) const KEPT: usize = 1 << 20;

/// How many nodes a message of so many bytes may become.
#[inline]
pub(super) const fn nodes(message: usize) -> usize {
    Batch::decoded_at_most(message) / size_of::<Node>()
}

/// Whether so many nodes are no more than a message of so many bytes may become.
#[inline]
pub(super) fn admit(message: usize, count: usize) -> Result<(), Error> {
    if count <= nodes(message) { Ok(()) } else { Err(too_many(message)) }
}

/// A message of so many bytes has more values than it may have.
#[cold]
fn too_many(message: usize) -> Error {
    let most = Batch::decoded_at_most(message);
    Error::new(
        ErrorKind::TooLarge,
        format!(
            "the decoded message takes more than {most} bytes of memory, which are the most for a \
             message of {message} bytes"
        ),
    )
}
