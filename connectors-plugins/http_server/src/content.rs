//! The bodies of requests in memory, and the memory of those that are long.

use std::{
    ops::Deref,
    sync::{Mutex, MutexGuard, PoisonError},
};

use hyper::body::Bytes;

/// A body.
pub(crate) enum Content {
    /// As it has come at once.
    Part(Bytes),
    /// Put together.
    Whole(Vec<u8>),
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

/// Memory of bodies that are in the flow, for those that come: the allocator gives memory of this size back to
/// the system, which has to clear it each time.
#[derive(Default)]
pub(crate) struct Spare(Mutex<Vec<Vec<u8>>>);

impl Spare {
    /// How many there are at most.
    const MOST: usize = 8;

    /// How long one is that is kept, in bytes. A shorter one costs little.
    const LENGTHS: std::ops::RangeInclusive<usize> = 64 << 10..=1 << 20;

    fn all(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for a body of about this length.
    pub(crate) fn take(&self, length: usize) -> Vec<u8> {
        let kept = if Self::LENGTHS.contains(&length) { self.all().pop() } else { None };
        let mut memory = kept.unwrap_or_default();
        memory.reserve_exact(length.min(*Self::LENGTHS.end()));
        memory
    }

    /// Keeps the memory of a body, if it is of use.
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
    fn the_memory_of_a_long_body_is_used_again_and_that_of_others_is_not() {
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
