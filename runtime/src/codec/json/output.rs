//! The writer's end: appends to a byte buffer without asking for room byte by byte.
//!
//! All `unsafe` of the JSON writer is here. Invariant of [`Output`]: `at <= end`, both within the
//! allocation of `out`, `end` at the end of its capacity, and everything before `at` initialised.

use super::escape::{self, BLOCK};
use crate::codec::buffer::Bytes;

/// Room for what surrounds a string (two quotes, one byte behind it) and for a last block that is
/// stored whole although only its beginning counts.
const STRING_SLACK: usize = BLOCK + 3;

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

    /// Takes the last byte back, which this writer must have written.
    #[inline]
    pub(super) fn remove_last(&mut self) {
        debug_assert!(self.at.addr() > self.out.as_ptr().addr() + self.out.len());
        // SAFETY: at least one byte was written.
        self.at = unsafe { self.at.sub(1) };
    }

    /// Appends the text as it is.
    #[inline]
    pub(super) fn append(&mut self, text: &[u8]) {
        self.reserve(text.len());
        // SAFETY: room was just made, and `text` cannot overlap a buffer borrowed exclusively.
        unsafe {
            self.at.copy_from_nonoverlapping(text.as_ptr(), text.len());
            self.at = self.at.add(text.len());
        }
    }

    /// Appends a word and the byte behind it.
    #[inline]
    pub(super) fn word<const N: usize>(&mut self, word: &[u8; N], behind: u8) {
        self.reserve(N + 1);
        // SAFETY: room was just made.
        unsafe {
            self.at.cast::<[u8; N]>().write(*word);
            self.at = self.at.add(N);
            self.put(behind);
        }
    }

    /// Appends text that needs no escape and the byte behind it.
    #[inline]
    pub(super) fn text(&mut self, text: &[u8], behind: u8) {
        self.reserve(text.len() + 1);
        // SAFETY: room was just made, and `text` cannot overlap a buffer borrowed exclusively.
        unsafe {
            self.at.copy_from_nonoverlapping(text.as_ptr(), text.len());
            self.at = self.at.add(text.len());
            self.put(behind);
        }
    }

    /// Appends an integer and the byte behind it.
    #[inline]
    pub(super) fn integer(&mut self, value: impl itoa::Integer, behind: u8) {
        self.text(itoa::Buffer::new().format(value).as_bytes(), behind);
    }

    /// Appends a finite float and the byte behind it.
    #[inline]
    pub(super) fn float(&mut self, value: f64, behind: u8) {
        self.text(zmij::Buffer::new().format_finite(value).as_bytes(), behind);
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
                self.append(escape::of(*byte));
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
