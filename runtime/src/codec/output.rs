//! The writers' end: appends to a byte buffer without asking for room byte by byte.
//!
//! Invariant of [`Output`]: `at <= end`, both within the allocation of `out`, `end` at the end of
//! its capacity, and everything before `at` initialised.

use super::buffer::Bytes;

/// Bytes that are copied in one step.
pub(super) const BLOCK: usize = 32;

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
    pub(super) fn reserve(&mut self, bytes: usize) {
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

    /// Appends a few bytes for which there is room already.
    ///
    /// # Safety
    /// There must be room for them.
    #[inline]
    pub(super) unsafe fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        debug_assert!(self.room() >= N);
        // SAFETY: the caller has made room; an array of bytes need not be aligned.
        unsafe {
            self.at.cast::<[u8; N]>().write(bytes);
            self.at = self.at.add(N);
        }
    }

    /// Appends a whole block and takes back all but its first `count` bytes.
    ///
    /// # Safety
    /// There must be room for the whole block, and `count` must not be larger than it.
    #[inline]
    pub(super) unsafe fn put_part(&mut self, block: &[u8; BLOCK], count: usize) {
        debug_assert!(self.room() >= BLOCK && count <= BLOCK);
        // SAFETY: the caller has made room, and all of the block is written.
        unsafe {
            self.at.cast::<[u8; BLOCK]>().write(*block);
            self.at = self.at.add(count);
        }
    }

    /// Appends a few bytes.
    #[inline]
    pub(super) fn word<const N: usize>(&mut self, word: [u8; N]) {
        self.reserve(N);
        // SAFETY: room was just made.
        unsafe { self.put(word) };
    }

    /// Appends bytes.
    #[inline]
    pub(super) fn text(&mut self, text: &[u8]) {
        self.reserve(text.len());
        // SAFETY: room was just made, and `text` cannot overlap a buffer borrowed exclusively.
        unsafe {
            self.at.copy_from_nonoverlapping(text.as_ptr(), text.len());
            self.at = self.at.add(text.len());
        }
    }

    /// Appends the first `len` bytes of `haystack`; false, and nothing appended, if it is shorter.
    /// What the haystack holds beyond is read, so that a short text is a block like any other.
    #[inline]
    pub(super) fn start_of(&mut self, haystack: &[u8], len: usize) -> bool {
        if len <= BLOCK
            && let Some(block) = haystack.first_chunk()
        {
            self.reserve(BLOCK);
            // SAFETY: room was just made.
            unsafe { self.put_part(block, len) };
            return true;
        }
        haystack.get(..len).map(|text| self.text(text)).is_some()
    }

    /// Replaces the last byte by another one if it is `old`, else appends the other one.
    #[inline]
    pub(super) fn replace_last(&mut self, old: u8, new: u8) {
        self.reserve(1);
        let written = self.at.addr() - self.out.as_ptr().addr();
        // SAFETY: there is a byte before `at` if anything was written, and room was just made.
        unsafe {
            if written > 0 && self.at.sub(1).read() == old {
                self.at = self.at.sub(1);
            }
            self.put([new]);
        }
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        self.commit();
    }
}
