//! The two buffers of a batch, and functions that all decoders share.

use std::ops::Range;

pub use tremor_abi::{ByteBuffer as Bytes, NodeBuffer as Nodes, batch::Span};

use super::{Error, ErrorKind};

/// Returns the range of bytes of a span. Returns an error if the span exceeds a buffer of `available` bytes.
pub(super) fn range(span: Span, available: usize) -> Result<Range<usize>, Error> {
    let range = span.range();
    if range.end <= available {
        return Ok(range);
    }
    Err(Error::bad_data("the message lies outside its batch"))
}

/// Returns the index of the next node. Returns an error if the indices of `additional` more nodes would exceed 32 bits.
pub(super) fn next_index(nodes: &Nodes, additional: usize) -> Result<u32, Error> {
    match u32::try_from(nodes.len() + additional) {
        #[allow(clippy::cast_possible_truncation)] // the index is at most the sum, which fits
        Ok(_) => Ok(nodes.len() as u32),
        Err(_) => Err(Error::new(
            ErrorKind::TooLarge,
            "the batch would have more than 4,294,967,295 nodes",
        )),
    }
}
