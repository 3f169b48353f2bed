//! Prepared keys for lookups.

use super::{Node, fingerprint};

/// A key that is prepared for lookups: the word that a lookup compares first ([`Node::word`]) is computed once. A key
/// longer than 4 GiB is never found in a document.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    text: &'k str,
    word: u64,
}

impl<'k> Key<'k> {
    /// Prepares `text` for lookups.
    #[inline]
    pub const fn new(text: &'k str) -> Self {
        Self { text, word: Self::word_of(text) }
    }

    /// Creates a key from its text and the result of [`Key::word_of`].
    pub(crate) const fn with_word(text: &'k str, word: u64) -> Self {
        Self { text, word }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // a lookup compares all bytes, so a key above 4 GiB equals no key
    pub(crate) const fn word_of(text: &str) -> u64 {
        Node::key(0, text.len() as u32, fingerprint(text.as_bytes())).word()
    }

    /// Returns kind, fingerprint and length in one word, as [`Node::word`] does for the node of this key.
    #[inline]
    pub(super) const fn word(&self) -> u64 {
        self.word
    }

    /// Returns the text of the key.
    #[inline]
    pub const fn as_str(&self) -> &'k str {
        self.text
    }
}

/// A step of a path.
pub(crate) enum Step<'k> {
    Key(Key<'k>),
    Index(usize),
}

/// Returns whether two texts are equal. The comparison of short texts, such as most keys, is inlined.
#[inline]
pub(crate) fn equal(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if len != b.len() {
        return false;
    }
    match len {
        0..=3 => a.iter().zip(b).all(|(a, b)| a == b),
        4..=7 => chunk::<4>(a, 0) == chunk(b, 0) && chunk::<4>(a, len - 4) == chunk(b, len - 4),
        8..=16 => chunk::<8>(a, 0) == chunk(b, 0) && chunk::<8>(a, len - 8) == chunk(b, len - 8),
        _ => a == b,
    }
}

#[inline]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_one_byte_are_not_equal() {
        for len in 0..40 {
            let text: Vec<u8> = (0..len).collect();
            assert!(equal(&text, &text.clone()));
            assert!(!equal(&text, &[&text[..], &[0]].concat()));
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] ^= 0x80;
                assert!(!equal(&text, &other), "byte {at} of {len}");
            }
        }
    }

    #[test]
    fn prepared_key_has_the_word_of_its_node() {
        let node = Node::key(7, 5, fingerprint(b"level"));
        assert_eq!(Key::new("level").word(), node.word());
    }
}
