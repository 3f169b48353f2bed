//! Request bodies in memory, and a free list of buffers for long bodies.

use std::{
    ops::Deref,
    sync::{Mutex, MutexGuard},
};

use hyper::body::Bytes;
use tremor_pdk::lock;

/// A request body.
pub(crate) enum Content {
    /// A body that arrived as one part.
    Part(Bytes),
    /// A body that was assembled from several parts.
    Whole(Vec<u8>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Part(Bytes::new())
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Part(bytes) => bytes,
            Self::Whole(bytes) => bytes,
        }
    }
}

/// Free list of buffers for long bodies. Without the list, the allocator would return blocks of
/// this size to the system, which has to clear them before each use.
#[derive(Default)]
pub(crate) struct Spare(Mutex<Vec<Vec<u8>>>);

impl Spare {
    /// Maximum number of free buffers.
    const MOST: usize = 8;

    /// Lengths of the buffers that are kept, in bytes. Shorter buffers are cheap to allocate.
    const LENGTHS: std::ops::RangeInclusive<usize> = 64 << 10..=1 << 20;

    fn all(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        lock(&self.0)
    }

    /// Returns an empty buffer for a body of `length` bytes. 0 means that the length is unknown.
    pub(crate) fn take(&self, length: usize) -> Vec<u8> {
        let kept = if Self::LENGTHS.contains(&length) { self.all().pop() } else { None };
        let mut memory = kept.unwrap_or_default();
        memory.reserve_exact(length.min(*Self::LENGTHS.end()));
        memory
    }

    /// Adds the buffer of a body to the list, if its capacity is suitable and the list is not full.
    pub(crate) fn put(&self, content: Content) {
        if let Content::Whole(mut memory) = content
            && Self::LENGTHS.contains(&memory.capacity())
        {
            memory.clear();
            let mut all = self.all();
            if all.len() < Self::MOST {
                all.push(memory);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Content, Spare};

    #[test]
    fn only_buffers_of_long_bodies_are_reused() {
        let spare = Spare::default();
        for length in [10, 2 << 20] {
            spare.put(Content::Whole(Vec::with_capacity(length)));
            assert!(spare.all().is_empty());
        }
        for _ in 0..20 {
            spare.put(Content::Whole(vec![1; 100 << 10]));
        }
        assert_eq!(spare.all().len(), Spare::MOST);
        let memory = spare.take(70 << 10);
        assert!(memory.is_empty() && memory.capacity() == 100 << 10);
        assert_eq!(spare.take(10).capacity(), 10);
        assert_eq!(spare.all().len(), Spare::MOST - 1);
    }
}
