//! Where the keys of a large object stand.

use std::hash::{Hash, Hasher};

use abi_stable::{StableAbi, std_types::RHashMap};

use super::hash::{self, Identity, KeyHasher};

/// From the hash of a key to its position. Where two keys have one hash, the later takes the next
/// free number of a fixed sequence; so keys are only ever added, and removing one builds the index
/// anew.
#[repr(C)]
#[derive(StableAbi)]
pub(super) struct Index {
    positions: RHashMap<u64, usize, Identity>,
    seed: u64,
}

impl Index {
    /// An index of `keys`, numbered as they come.
    pub(super) fn new<'k>(keys: impl ExactSizeIterator<Item = &'k str>) -> Self {
        let positions = RHashMap::with_capacity_and_hasher(2 * keys.len(), Identity);
        let mut index = Self { positions, seed: hash::seed() };
        for (position, key) in keys.enumerate() {
            index.insert(key, position);
        }
        index
    }

    /// Adds a key that is not there yet.
    pub(super) fn insert(&mut self, key: &str, position: usize) {
        self.insert_hash(hash::hash(self.seed, key.as_bytes()), position);
    }

    /// The position of the key of which `is_it` holds.
    #[inline]
    pub(super) fn find(&self, key: &str, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        self.find_hash(hash::hash(self.seed, key.as_bytes()), is_it)
    }

    /// As [`Index::find`], for any borrowed form of a key: those hash as the key itself.
    pub(super) fn find_borrowed<Q: Hash + ?Sized>(
        &self,
        key: &Q,
        is_it: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut hasher = KeyHasher(self.seed);
        key.hash(&mut hasher);
        self.find_hash(hasher.finish(), is_it)
    }

    fn insert_hash(&mut self, mut hash: u64, position: usize) {
        while self.positions.contains_key_p(&hash) {
            hash = next(hash);
        }
        self.positions.insert(hash, position);
    }

    #[inline]
    fn find_hash(&self, mut hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        loop {
            let position = *self.positions.get_p(&hash)?;
            if is_it(position) {
                return Some(position);
            }
            hash = next(hash);
        }
    }
}

/// Visits every number before it comes back: a search ends at the first free one.
#[inline]
const fn next(hash: u64) -> u64 {
    hash.wrapping_add(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_hash_are_all_found() {
        let mut index = Index::new(std::iter::empty());
        for position in 0..5 {
            index.insert_hash(7, position);
        }
        for position in 0..5 {
            assert_eq!(index.find_hash(7, |found| found == position), Some(position));
        }
        assert_eq!(index.find_hash(7, |_| false), None);
        assert_eq!(index.find_hash(8, |_| true), None);
    }
}
