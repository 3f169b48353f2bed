//! The text of a message, and its tokens.

use std::{cell::Cell, ops::Range};

use tremor_abi::document::{Node, fingerprint};

use crate::codec::json::numbers;
use crate::codec::json::scan::Scan;
use crate::codec::output::BLOCK;

/// Number of digits up to which a number always fits a `u64`.
const SAFE_DIGITS: usize = 19;

/// A message that is being read.
///
/// Invariant: `end + BLOCK <= bytes.len()`.
#[derive(Clone, Copy)]
pub(super) struct Text<'b> {
    bytes: &'b [u8],
    /// Offset of the next byte.
    at: usize,
    /// Offset after the last byte of the message.
    end: usize,
    /// `true` if blanks were skipped. A reference, because a field that changes takes a register from the loops.
    has_blanks: &'b Cell<bool>,
}

impl<'b> Text<'b> {
    pub(super) fn new(
        bytes: &'b [u8],
        message: Range<usize>,
        has_blanks: &'b Cell<bool>,
    ) -> Option<Self> {
        let is_padded = message.end.checked_add(BLOCK).is_some_and(|end| end <= bytes.len());
        is_padded.then_some(Self { bytes, at: message.start, end: message.end, has_blanks })
    }

    /// Returns the next byte without consuming it.
    #[inline(always)]
    pub(super) fn peek(&self) -> Option<u8> {
        if self.at >= self.end {
            return None;
        }
        // SAFETY: `at < end`, and `end` is within `bytes` (the invariant).
        Some(unsafe { *self.bytes.get_unchecked(self.at) })
    }

    /// Skips blanks and returns the next byte without consuming it.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        if byte > b' ' {
            return Some(byte);
        }
        self.has_blanks.set(true);
        self.at = behind_blanks(self.bytes, self.at, self.end);
        self.peek()
    }

    /// Consumes the next byte.
    #[inline(always)]
    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    /// Returns the number of remaining bytes.
    pub(super) fn len(&self) -> usize {
        self.end - self.at
    }

    /// Returns whether only blanks remain.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.next().is_none() && self.at == self.end
    }

    /// Consumes a key and the colon after it.
    #[inline(always)]
    pub(super) fn key(&mut self, scan: impl Scan) -> Option<Node> {
        if self.next()? != b'"' {
            return None;
        }
        let (start, len) = self.string(scan)?;
        if self.next()? != b':' {
            return None;
        }
        self.at += 1;
        // SAFETY: `string` returned a range within the message, which is within `bytes`.
        let key = unsafe { self.bytes.get_unchecked(start..start + len as usize) };
        Some(Node::key(start as u64, len, fingerprint(key)))
    }

    /// Consumes a string, whose opening quote is the next byte. Returns the offset and length of its text.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // messages are below 4 GiB
    pub(super) fn string(&mut self, scan: impl Scan) -> Option<(usize, u32)> {
        let start = self.at + 1;
        let mut at = start;
        while at < self.end {
            // SAFETY: `at < end`, and at least `BLOCK` bytes follow `end` in `bytes` (the invariant).
            let block = unsafe { &*self.bytes.as_ptr().add(at).cast::<[u8; BLOCK]>() };
            let dirty = scan.dirty(block);
            if dirty != 0 {
                at += dirty.trailing_zeros() as usize;
                self.at = at;
                let is_whole = self.peek()? == b'"';
                self.at += 1;
                return is_whole.then_some((start, (at - start) as u32));
            }
            at += BLOCK;
        }
        None
    }

    /// Consumes `word` and returns `node`.
    #[inline(always)]
    pub(super) fn word(&mut self, word: &[u8], node: Node) -> Option<Node> {
        let end = self.at + word.len();
        if end > self.end || self.bytes.get(self.at..end)? != word {
            return None;
        }
        self.at = end;
        Some(node)
    }

    /// Consumes digits. Returns the value and the number of the digits. The value is correct only for up to
    /// [`SAFE_DIGITS`] digits.
    #[inline(always)]
    fn digits(&mut self) -> (u64, usize) {
        let (start, mut value) = (self.at, 0_u64);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        (value, self.at - start)
    }

    /// Consumes a number.
    #[inline(always)]
    pub(super) fn number(&mut self) -> Option<Node> {
        let start = self.at;
        let is_negative = self.peek() == Some(b'-');
        self.at += usize::from(is_negative);
        let first = self.peek();
        let (value, count) = self.digits();
        if count == 0 || (first == Some(b'0') && count > 1) {
            return None;
        }
        if matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            let (node, end) = self.float(start)?;
            self.at = end;
            return Some(node);
        }
        if count > SAFE_DIGITS {
            return None;
        }
        if !is_negative {
            return Some(Node::u64(value));
        }
        // A negative zero becomes a float, because an integer cannot keep its sign.
        let node = || 0_i64.checked_sub_unsigned(value).map(Node::i64);
        if value == 0 { Some(Node::f64(-0.0)) } else { node() }
    }

    /// Returns the float whose text begins at `start`, and the position after it. The integer part was already
    /// consumed.
    #[inline(never)]
    fn float(mut self, start: usize) -> Option<(Node, usize)> {
        let is_complete = |count: usize| (count > 0).then_some(());
        if self.peek() == Some(b'.') {
            self.at += 1;
            is_complete(self.digits().1)?;
        }
        let has_exponent = matches!(self.peek(), Some(b'e' | b'E'));
        if has_exponent {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            is_complete(self.digits().1)?;
        }
        let text = self.bytes.get(start..self.at)?;
        let node = if text.len() <= numbers::SHORT && !has_exponent {
            Node::f64(std::str::from_utf8(text).ok()?.parse().ok()?)
        } else {
            numbers::node(text, start)?
        };
        Some((node, self.at))
    }
}

/// Returns the position of the first byte that is not blank, or `end`.
#[inline(never)]
fn behind_blanks(bytes: &[u8], at: usize, end: usize) -> usize {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    let blanks = bytes.get(at..end).unwrap_or_default().iter().take_while(|byte| is_blank(byte));
    at + blanks.count()
}
