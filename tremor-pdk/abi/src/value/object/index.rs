//! The index of the keys of a large object.

use std::hash::{Hash, Hasher};

use abi_stable::{StableAbi, std_types::RHashMap};

use super::hash::{self, Identity, KeyHasher};

/// A map from the hashes of keys to the positions of the keys. If another key has the same hash, the next free number
/// of a fixed sequence is used instead of the hash. Therefore no key can be removed from an index; an object of which a
/// key is removed builds a new index.
#[repr(C)]
#[derive(StableAbi)]
pub(super) struct Index {
    positions: RHashMap<u64, usize, Identity>,
    seed: u64,
}

impl Index {
    /// Creates an index of `keys`. The position of a key is its number in the iterator, from 0.
    pub(super) fn new<'k>(keys: impl ExactSizeIterator<Item = &'k str>) -> Self {
        let positions = RHashMap::with_capacity_and_hasher(2 * keys.len(), Identity);
        let mut index = Self { positions, seed: hash::seed() };
        for (position, key) in keys.enumerate() {
            index.insert(key, position);
        }
        index
    }

    /// Adds a key that is not in the index.
    pub(super) fn insert(&mut self, key: &str, position: usize) {
        self.insert_hash(hash::hash(self.seed, key.as_bytes()), position);
    }

    /// Returns the position of `key`. `is_key` returns whether the key at the given position equals `key`.
    #[inline]
    pub(super) fn find(&self, key: &str, is_key: impl Fn(usize) -> bool) -> Option<usize> {
        self.find_hash(hash::hash(self.seed, key.as_bytes()), is_key)
    }

    /// Returns the position of a key in any borrowed form, whose hash equals that of the key; see [`Index::find`].
    pub(super) fn find_borrowed<Q: Hash + ?Sized>(
        &self,
        key: &Q,
        is_key: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut hasher = KeyHasher(self.seed);
        key.hash(&mut hasher);
        self.find_hash(hasher.finish(), is_key)
    }

    fn insert_hash(&mut self, mut hash: u64, position: usize) {
        while self.positions.contains_key_p(&hash) {
            hash = next(hash);
        }
        self.positions.insert(hash, position);
    }

    #[inline]
    fn find_hash(&self, mut hash: u64, is_key: impl Fn(usize) -> bool) -> Option<usize> {
        loop {
            let position = *self.positions.get_p(&hash)?;
            if is_key(position) {
                return Some(position);
            }
            hash = next(hash);
        }
    }
}

/// Returns the next number of the sequence. The sequence visits every number before it repeats, so a search ends at the
/// first free number.
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
