//! The hash of a key of an object. The function is a part of the ABI, because the host and plugins read indexes that
//! the other side has built.
//!
//! The function multiplies 64 by 64 bits to 128 bits and combines the halves, 16 bytes per step, like wyhash and its
//! descendants. Every object has a random seed, so that keys with equal hashes in one object have different hashes in
//! another, and a sender cannot prepare keys whose hashes are equal. A change of this function requires a new major
//! version of the ABI.

use std::hash::{BuildHasher, Hasher, RandomState};

const K0: u64 = 0xa076_1d64_78bd_642f;
const K1: u64 = 0xe703_7ed1_a0b4_28db;
const K2: u64 = 0x8ebc_6af0_9c88_c6e3;

/// Returns a random seed for a new index.
pub(super) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns the hash of `key` with `seed`.
#[inline]
pub(super) fn hash(seed: u64, key: &[u8]) -> u64 {
    let len = key.len();
    let mut state = seed ^ K0;
    let (low, high) = match len {
        0 => (0, 0),
        1..=3 => (u64::from(key[0]), u64::from(key[len / 2]) << 8 | u64::from(key[len - 1])),
        4..=7 => (read_u32(key, 0), read_u32(key, len - 4)),
        8..=16 => (read_u64(key, 0), read_u64(key, len - 8)),
        _ => {
            let mut at = 0;
            while at + 16 < len {
                state = fold(read_u64(key, at) ^ state, read_u64(key, at + 8) ^ K1);
                at += 16;
            }
            (read_u64(key, len - 16), read_u64(key, len - 8))
        }
    };
    fold(fold(low ^ state, high ^ K1 ^ seed) ^ len as u64, K2)
}

#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    #[allow(clippy::cast_possible_truncation)] // each cast takes half of the product
    let folded = (product as u64) ^ ((product >> 64) as u64);
    folded
}

#[inline]
fn read_u32(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u64::from(u32::from_le_bytes(word))
}

#[inline]
fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// A builder of hashers for keys that are already hashes.
#[derive(Clone, Copy, Default)]
pub(super) struct Identity;

impl BuildHasher for Identity {
    type Hasher = IdentityHasher;

    #[inline]
    fn build_hasher(&self) -> IdentityHasher {
        IdentityHasher(0)
    }
}

/// A hasher that returns its input unchanged; see [`Identity`].
pub(super) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash(self.0, bytes);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Hasher for a borrowed form of a key. The result equals the result of [`hash`] for the bytes of the key. The
/// implementation of `Hash` for `str` writes all bytes in one call, and then a terminator of one byte, which is
/// ignored. The field contains the seed before that call, and the hash afterwards.
pub(super) struct KeyHasher(pub(super) u64);

impl Hasher for KeyHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash(self.0, bytes);
    }

    #[inline]
    fn write_u8(&mut self, _terminator: u8) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, hash::Hash};

    use super::*;

    #[test]
    fn hash_function_is_fixed() {
        let text = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let hashes = [0, 1, 3, 4, 7, 8, 16, 17, 32, 36].map(|len| hash(42, &text[..len]));
        assert_eq!(
            hashes,
            [
                0x8a15_cc44_a9ae_9f1d,
                0x81dd_c761_1aee_b318,
                0x5042_86b6_6468_9392,
                0xf63f_36d6_b6be_3c52,
                0x7f13_8c2d_a08e_78e6,
                0x0189_da64_1220_f997,
                0x95b2_5f4e_4047_1c57,
                0x0af7_2223_cc06_62be,
                0xa751_9298_1d38_b325,
                0x3c8c_fa10_1cfa_4484
            ]
        );
    }

    #[test]
    fn borrowed_key_hashes_like_its_bytes() {
        for key in ["", "a", "größe", "a key of more than sixteen bytes"] {
            let mut hasher = KeyHasher(7);
            key.hash(&mut hasher);
            assert_eq!(hasher.finish(), hash(7, key.as_bytes()));
        }
    }

    #[test]
    fn similar_keys_have_different_hashes() {
        let hashes: HashSet<u64> =
            (0..100_000).map(|n| hash(1, format!("key_{n}").as_bytes()) >> 32).collect();
        assert!(hashes.len() > 99_990, "{} distinct halves", hashes.len());
    }
}
