//! The writer's end: appends to a byte buffer without asking for room byte by byte.
//!
//! All `unsafe` of the JSON writer is here. Invariant of [`Output`]: `at <= end`, both within the
//! allocation of `out`, `end` at the end of its capacity, and everything before `at` initialised.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::escape::{self, BLOCK};
use crate::codec::buffer::Bytes;

/// Room for what surrounds a string (two quotes, one byte behind it) and for a last block that is
/// stored whole although only its beginning counts.
const STRING_SLACK: usize = BLOCK + 3;

/// Bytes that become base64 in one step; a multiple of three, so that only the last step pads.
const CHUNK: usize = 768;

/// Appends to a buffer; what was written is part of it once this is dropped.
pub(super) struct Output<'o> {
    out: &'o mut Bytes,
    at: *mut u8,
    end: *mut u8,
}

impl<'o> Output<'o> {
    /// Starts at the end of `out`.
    #[inline]
    pub(super) fn new(out: &'o mut Bytes) -> Self {
        let (len, capacity) = (out.len(), out.capacity());
        let start = out.as_mut_ptr();
        // SAFETY: length and capacity are within the allocation.
        let (at, end) = unsafe { (start.add(len), start.add(capacity)) };
        Self { out, at, end }
    }

    #[inline]
    fn room(&self) -> usize {
        self.end.addr() - self.at.addr()
    }

    /// Makes room for `bytes` more bytes.
    #[inline]
    fn reserve(&mut self, bytes: usize) {
        if self.room() < bytes {
            self.grow(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        self.commit();
        self.out.reserve(bytes);
        let (len, capacity) = (self.out.len(), self.out.capacity());
        let start = self.out.as_mut_ptr();
        // SAFETY: length and capacity are within the allocation.
        (self.at, self.end) = unsafe { (start.add(len), start.add(capacity)) };
    }

    /// Makes what was written part of the buffer.
    fn commit(&mut self) {
        let len = self.at.addr() - self.out.as_ptr().addr();
        // SAFETY: `at` is within the capacity and everything before it is initialised.
        unsafe { self.out.set_len(len) };
    }

    /// Appends one byte.
    ///
    /// # Safety
    /// There must be room for it.
    #[inline]
    unsafe fn put(&mut self, byte: u8) {
        debug_assert!(self.room() > 0);
        // SAFETY: the caller has made room.
        unsafe {
            self.at.write(byte);
            self.at = self.at.add(1);
        }
    }

    /// Appends one byte.
    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.reserve(1);
        // SAFETY: room was just made.
        unsafe { self.put(byte) };
    }

    /// Appends a closing bracket in the place of a comma, if there is one, and a comma behind it.
    #[inline]
    pub(super) fn close(&mut self, bracket: u8) {
        self.reserve(2);
        // SAFETY: an opening bracket at least was written, so the byte before `at` is ours; and
        // room was just made.
        unsafe {
            debug_assert!(self.at.addr() > self.out.as_ptr().addr() + self.out.len());
            if self.at.sub(1).read() == b',' {
                self.at = self.at.sub(1);
            }
            self.put(bracket);
            self.put(b',');
        }
    }

    /// Appends a few bytes known beforehand.
    #[inline]
    pub(super) fn word<const N: usize>(&mut self, word: &[u8; N]) {
        self.reserve(N);
        // SAFETY: room was just made; an array of bytes need not be aligned.
        unsafe {
            self.at.cast::<[u8; N]>().write(*word);
            self.at = self.at.add(N);
        }
    }

    /// Appends bytes as they are.
    #[inline]
    fn text(&mut self, text: &[u8]) {
        self.reserve(text.len());
        // SAFETY: room was just made, and `text` cannot overlap a buffer borrowed exclusively.
        unsafe {
            self.at.copy_from_nonoverlapping(text.as_ptr(), text.len());
            self.at = self.at.add(text.len());
        }
    }

    /// Appends an integer and a comma.
    #[inline]
    pub(super) fn integer(&mut self, value: impl itoa::Integer) {
        match itoa::Buffer::new().format(value).as_bytes() {
            [digit] => self.word(&[*digit, b',']),
            [ten, one] => self.word(&[*ten, *one, b',']),
            digits => {
                self.text(digits);
                self.byte(b',');
            }
        }
    }

    /// Appends a finite float and a comma.
    #[inline]
    pub(super) fn float(&mut self, value: f64) {
        self.text(zmij::Buffer::new().format_finite(value).as_bytes());
        self.byte(b',');
    }

    /// Appends binary data as a string of base64, and a comma.
    pub(super) fn base64(&mut self, data: &[u8]) {
        self.byte(b'"');
        for chunk in data.chunks(CHUNK) {
            let mut text = [0; CHUNK / 3 * 4];
            let len = STANDARD.encode_slice(chunk, &mut text).unwrap_or_default();
            debug_assert_ne!(len, 0, "four characters for three bytes");
            self.text(&text[..len]);
        }
        self.word(b"\",");
    }

    /// Appends the first `len` bytes of `haystack` in quotes and with escapes, and the byte behind
    /// it; false, and nothing written, if the haystack is shorter. What the haystack holds beyond
    /// is read, not written: the more there is, the fewer special cases.
    #[inline]
    pub(super) fn string(&mut self, haystack: &[u8], len: usize, behind: u8) -> bool {
        if len > haystack.len() {
            return false;
        }
        self.reserve(len + STRING_SLACK);
        // SAFETY: room was just made.
        unsafe { self.put(b'"') };
        let mut rest = haystack;
        let mut left = len;
        loop {
            let Some(block) = rest.first_chunk() else {
                self.escaped(&rest[..left]);
                break;
            };
            let dirty = self.block(block);
            if left <= BLOCK {
                if u64::from(dirty) & ((1 << left) - 1) != 0 {
                    self.escaped(&rest[..left]);
                    break;
                }
                // SAFETY: `block` has stored that many bytes and more.
                self.at = unsafe { self.at.add(left) };
                break;
            }
            if dirty != 0 {
                self.escaped(&rest[..left]);
                break;
            }
            // SAFETY: `block` has stored that many bytes.
            self.at = unsafe { self.at.add(BLOCK) };
            rest = &rest[BLOCK..];
            left -= BLOCK;
        }
        // SAFETY: the slack was kept.
        unsafe {
            self.at.cast::<[u8; 2]>().write([b'"', behind]);
            self.at = self.at.add(2);
        }
        true
    }

    /// Appends text with escapes, keeping the slack behind it.
    #[inline(never)]
    fn escaped(&mut self, mut text: &[u8]) {
        while !text.is_empty() {
            self.reserve(text.len() + STRING_SLACK);
            let left = text.len().min(BLOCK);
            let dirty = match text.first_chunk() {
                Some(block) => self.block(block),
                None => self.block(&escape::padded(text)),
            };
            let clean = left.min(dirty.trailing_zeros() as usize);
            // SAFETY: `block` has stored BLOCK bytes, and `clean` is at most that.
            self.at = unsafe { self.at.add(clean) };
            text = &text[clean..];
            if let (true, [byte, rest @ ..]) = (clean < left, text) {
                self.text(escape::of(*byte));
                text = rest;
            }
        }
        self.reserve(STRING_SLACK);
    }

    /// Stores a whole block without moving on; which of its bytes need an escape.
    #[inline]
    fn block(&mut self, block: &[u8; BLOCK]) -> u32 {
        debug_assert!(self.room() >= BLOCK);
        // SAFETY: `string` keeps room for what is left of it and for one more block.
        unsafe { self.at.copy_from_nonoverlapping(block.as_ptr(), BLOCK) };
        escape::dirty(block)
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        self.commit();
    }
}
