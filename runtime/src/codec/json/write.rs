//! Writes the tokens of JSON text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::escape;
use super::scan::{Baseline, Scan};
use crate::codec::output::{BLOCK, Output};

/// Capacity in bytes that is needed in addition to a string: two quotes, one byte after the string, and one block,
/// because the last block is always stored completely.
const SLACK: usize = BLOCK + 3;

/// Number of bytes that are encoded as base64 in one step. The number is a multiple of three, so that only the last
/// step adds padding.
const CHUNK: usize = 768;

impl Output<'_> {
    /// Appends a truth value and a comma.
    #[inline]
    pub(super) fn bool(&mut self, value: bool) {
        if value { self.word(*b"true,") } else { self.word(*b"false,") }
    }

    /// Appends a signed integer and a comma.
    #[inline]
    pub(super) fn signed(&mut self, value: i64) {
        match u64::try_from(value) {
            Ok(value) => self.unsigned(value),
            Err(_) => self.number(itoa::Buffer::new().format(value)),
        }
    }

    /// Appends an unsigned integer and a comma.
    #[inline]
    pub(super) fn unsigned(&mut self, value: u64) {
        #[allow(clippy::cast_possible_truncation)] // a digit
        if value < 10 {
            self.word([b'0' + value as u8, b',']);
        } else {
            self.number(itoa::Buffer::new().format(value));
        }
    }

    /// Appends a finite float and a comma.
    #[inline]
    pub(super) fn float(&mut self, value: f64) {
        self.number(zmij::Buffer::new().format_finite(value));
    }

    /// Appends the text of a number and a comma.
    #[inline]
    pub(super) fn number(&mut self, digits: &str) {
        self.text(digits.as_bytes());
        self.word([b',']);
    }

    /// Appends the end of a container and a comma. The end replaces the comma after the last value of the container.
    #[inline]
    pub(super) fn close(&mut self, bracket: u8) {
        self.replace_last(b',', bracket);
        self.word([b',']);
    }

    /// Appends binary data as a string of base64, and a comma.
    pub(super) fn base64(&mut self, data: &[u8]) {
        self.word([b'"']);
        for chunk in data.chunks(CHUNK) {
            let mut text = [0; CHUNK / 3 * 4];
            let len = STANDARD.encode_slice(chunk, &mut text).unwrap_or_default();
            debug_assert_ne!(len, 0, "four characters for three bytes");
            self.text(&text[..len]);
        }
        self.word(*b"\",");
    }

    /// Appends the first `len` bytes of `haystack` as a string, followed by the byte `behind`. Returns `false` and
    /// appends nothing if `haystack` is shorter. Bytes of `haystack` after the first `len` may be read, so that a short
    /// string can be processed as a block.
    #[inline(always)]
    pub(super) fn string(
        &mut self,
        scan: impl Scan,
        haystack: &[u8],
        len: usize,
        behind: u8,
    ) -> bool {
        if len > haystack.len() {
            return false;
        }
        self.reserve(len + SLACK);
        // SAFETY: `reserve` made capacity for the string and the slack.
        unsafe { self.put([b'"']) };
        let (mut rest, mut left) = (haystack, len);
        loop {
            let Some(block) = rest.first_chunk() else {
                self.escaped(&rest[..left]);
                break;
            };
            let dirty = scan.dirty(block);
            if left <= BLOCK && u64::from(dirty) & ((1 << left) - 1) == 0 {
                // SAFETY: the capacity exceeds the remaining bytes by the slack, which is more than a block.
                unsafe { self.put_part(block, left) };
                break;
            }
            if dirty != 0 {
                self.escaped(&rest[..left]);
                break;
            }
            // SAFETY: more than a block remains of the reserved string.
            unsafe { self.put_part(block, BLOCK) };
            rest = &rest[BLOCK..];
            left -= BLOCK;
        }
        // SAFETY: the slack is still reserved; `escaped` reserves it again.
        unsafe { self.put([b'"', behind]) };
        true
    }

    /// Appends text with escapes, and then reserves the slack again.
    #[inline(never)]
    fn escaped(&mut self, mut text: &[u8]) {
        while !text.is_empty() {
            self.reserve(BLOCK);
            let padded;
            let block = if let Some(block) = text.first_chunk() {
                block
            } else {
                padded = escape::padded(text);
                &padded
            };
            let dirty = Baseline.dirty(block).trailing_zeros() as usize;
            let clean = dirty.min(text.len()).min(BLOCK);
            // SAFETY: `reserve` made capacity for a block.
            unsafe { self.put_part(block, clean) };
            text = &text[clean..];
            if let (true, [byte, rest @ ..]) = (dirty < BLOCK, text) {
                self.text(escape::of(*byte));
                text = rest;
            }
        }
        self.reserve(SLACK);
    }
}
