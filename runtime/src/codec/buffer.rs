//! The two buffers of a batch as codecs see them, and what every decoder does with them.

use std::ops::Range;

use abi_stable::std_types::RVec;
use tremor_abi::document::Node;

use super::{Error, ErrorKind};

/// The bytes of a batch: raw messages, and whatever decoding had to copy aside.
pub type Bytes = RVec<u8>;

/// The nodes of a batch: decoded documents one behind the other.
pub type Nodes = RVec<Node>;

/// Where a message lies in the bytes of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    /// The bytes that this span names in a buffer of `available` bytes.
    pub(super) fn range(self, available: usize) -> Result<Range<usize>, Error> {
        let start = self.start as usize;
        match start.checked_add(self.len as usize) {
            Some(end) if end <= available => Ok(start..end),
            _ => Err(Error::bad_data("the message lies outside its batch")),
        }
    }
}

/// The index that the next node will have.
pub(super) fn next_index(nodes: &Nodes, additional: usize) -> Result<u32, Error> {
    match u32::try_from(nodes.len() + additional) {
        #[allow(clippy::cast_possible_truncation)] // it is at most the sum
        Ok(_) => Ok(nodes.len() as u32),
        Err(_) => Err(Error::new(ErrorKind::TooLarge, "the batch has more nodes than 32 bits count")),
    }
}
