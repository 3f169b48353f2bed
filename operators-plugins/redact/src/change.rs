//! Changes of texts that were found.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use tremor_pdk::{Error, Result};

/// Characters that stay, and the character that replaces the others.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug)]
pub struct Mask {
    /// Number of characters at the beginning that stay.
    #[serde(default)]
    pub keep_first: usize,
    /// Number of characters at the end that stay. A text of no more characters than stay is masked as a whole.
    #[serde(default)]
    pub keep_last: usize,
    /// Character that replaces each of the others.
    #[serde(default = "star")]
    pub with: char,
}

fn star() -> char {
    '*'
}

/// The new form of a text that was found.
pub(crate) enum Change {
    /// A constant text.
    Replace(Box<str>),
    /// The text with some of its characters replaced.
    Mask(Mask),
    /// The SHA-256 of the text.
    Sha256,
    /// The HMAC-SHA-256 of the text. The state already contains the key.
    Hmac(Box<Hmac<Sha256>>),
}

impl Change {
    pub(crate) fn replace(text: &str) -> Self {
        Self::Replace(text.into())
    }

    /// Returns the keyed hash with this key.
    ///
    /// # Errors
    /// The key cannot be used. The error does not contain it.
    pub(crate) fn hmac(key: &str) -> Result<Self> {
        let state = Hmac::new_from_slice(key.as_bytes());
        Ok(Self::Hmac(Box::new(state.map_err(|_| Error::configuration("invalid `key`"))?)))
    }

    /// Returns whether the new form of any data is text.
    pub(crate) const fn is_text(&self) -> bool {
        matches!(self, Self::Sha256 | Self::Hmac(_) | Self::Replace(_))
    }

    /// Appends the new form of `found`. The result is UTF-8 if `found` is.
    pub(crate) fn apply(&self, found: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Replace(text) => out.extend_from_slice(text.as_bytes()),
            Self::Mask(mask) => mask.apply(found, out),
            Self::Sha256 => hex(&Sha256::digest(found), out),
            Self::Hmac(state) => {
                let mut state = state.clone();
                state.update(found);
                hex(&state.finalize().into_bytes(), out);
            }
        }
    }
}

impl Mask {
    fn apply(&self, found: &[u8], out: &mut Vec<u8>) {
        // Data that is not UTF-8 consists of characters of one byte.
        let text = std::str::from_utf8(found).ok();
        let count = text.map_or(found.len(), |text| text.chars().count());
        let kept = self.keep_first.saturating_add(self.keep_last);
        let (first, last) = if kept >= count { (0, 0) } else { (self.keep_first, self.keep_last) };
        let offset = |character: usize| match text {
            Some(text) => text.char_indices().nth(character).map_or(text.len(), |(at, _)| at),
            None => character,
        };
        let (start, end) = (offset(first), offset(count - last));
        out.extend_from_slice(&found[..start]);
        let mut buffer = [0; 4];
        let with = self.with.encode_utf8(&mut buffer).as_bytes();
        for _ in 0..count - first - last {
            out.extend_from_slice(with);
        }
        out.extend_from_slice(&found[end..]);
    }
}

/// Appends bytes in hexadecimal digits.
fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Change, Mask};

    fn changed(change: &Change, found: &[u8]) -> String {
        let mut out = b"before ".to_vec();
        change.apply(found, &mut out);
        String::from_utf8(out[7..].to_vec()).unwrap()
    }

    /// The vectors are those of FIPS 180-2 and of the test cases 2 and 6 of RFC 4231.
    #[test]
    fn hashes_are_those_of_the_standards() {
        for (text, expected) in [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            assert_eq!(changed(&Change::Sha256, text.as_bytes()), expected);
        }
        for (key, text, expected) in [
            (
                "Jefe".to_owned(),
                "what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            ("k".repeat(200), "", ""),
        ] {
            let hash = changed(&Change::hmac(&key).unwrap(), text.as_bytes());
            assert!(expected.is_empty() || hash == expected, "{hash}");
            assert_eq!(hash.len(), 64);
        }
    }

    #[test]
    fn mask_keeps_first_and_last_characters() {
        for (first, last, with, text, expected) in [
            (0, 4, '*', "4111-1111", "*****1111"),
            (1, 1, '*', "ärger", "ä***r"),
            (2, 0, '•', "日本語", "日本•"),
            (0, 0, '*', "ab", "**"),
            (1, 1, '*', "ab", "**"),
            (2, 2, '*', "abc", "***"),
            (usize::MAX, usize::MAX, '*', "abc", "***"),
            (1, 1, '*', "", ""),
        ] {
            let mask = Mask { keep_first: first, keep_last: last, with };
            assert_eq!(changed(&Change::Mask(mask), text.as_bytes()), expected, "{text}");
        }
        let mut out = Vec::new();
        Mask { keep_first: 1, keep_last: 1, with: '*' }.apply(b"\xffab\xfe", &mut out);
        assert_eq!(out, b"\xff**\xfe");
    }

    proptest! {
        #[test]
        fn masked_text_has_as_many_characters(
            text in ".{0,20}", first in 0..12_usize, last in 0..12_usize,
        ) {
            let mask = Mask { keep_first: first, keep_last: last, with: '\u{1f600}' };
            let masked: Vec<_> = changed(&Change::Mask(mask), text.as_bytes()).chars().collect();
            let text: Vec<_> = text.chars().collect();
            prop_assert_eq!(masked.len(), text.len());
            let kept = if first + last < text.len() { (first, text.len() - last) } else { (0, text.len()) };
            for (at, (old, new)) in text.iter().zip(&masked).enumerate() {
                let is_kept = at < kept.0 || at >= kept.1;
                prop_assert_eq!(*new, if is_kept { *old } else { '\u{1f600}' });
            }
        }
    }
}
