//! The two buffers of a batch as codecs see them, and what every decoder does with them.

use std::ops::Range;

pub use tremor_abi::{ByteBuffer as Bytes, NodeBuffer as Nodes, batch::Span};

use super::{Error, ErrorKind};

/// The bytes that a span names in a buffer of `available` bytes.
pub(super) fn range(span: Span, available: usize) -> Result<Range<usize>, Error> {
    let range = span.range();
    if range.end <= available {
        return Ok(range);
    }
    Err(Error::bad_data("the message lies outside its batch"))
}

/// The index that the next node will have.
pub(super) fn next_index(nodes: &Nodes, additional: usize) -> Result<u32, Error> {
    match u32::try_from(nodes.len() + additional) {
        #[allow(clippy::cast_possible_truncation)] // it is at most the sum
        Ok(_) => Ok(nodes.len() as u32),
        Err(_) => {
            Err(Error::new(ErrorKind::TooLarge, "the batch has more nodes than 32 bits count"))
        }
    }
}
