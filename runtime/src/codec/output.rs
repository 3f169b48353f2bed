//! Output of the encoders: appends to a byte buffer without checking the capacity for each byte.
//!
//! Invariant of [`Output`]: `at <= end`, both within the allocation of `out`; `end` is the end of its capacity, and all
//! bytes before `at` are initialised.

use super::buffer::Bytes;

/// Number of bytes that are copied in one step.
pub(super) const BLOCK: usize = 32;

/// A writer that appends to a buffer. The written bytes become a part of the buffer when the output is dropped.
pub(super) struct Output<'o> {
    out: &'o mut Bytes,
    at: *mut u8,
    end: *mut u8,
}

impl<'o> Output<'o> {
    /// Creates an output that starts at the end of `out`.
    #[inline]
    pub(super) fn new(out: &'o mut Bytes) -> Self {
        let (len, capacity) = (out.len(), out.capacity());
        let start = out.as_mut_ptr();
        // SAFETY: length and capacity are within the allocation or one past its end.
        let (at, end) = unsafe { (start.add(len), start.add(capacity)) };
        Self { out, at, end }
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.end.addr() - self.at.addr()
    }

    /// Reserves capacity for at least `bytes` more bytes.
    #[inline]
    pub(super) fn reserve(&mut self, bytes: usize) {
        if self.capacity() < bytes {
            self.grow(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        self.commit();
        self.out.reserve(bytes);
        let (len, capacity) = (self.out.len(), self.out.capacity());
        let start = self.out.as_mut_ptr();
        // SAFETY: length and capacity are within the allocation or one past its end.
        (self.at, self.end) = unsafe { (start.add(len), start.add(capacity)) };
    }

    /// Makes the written bytes a part of the buffer.
    fn commit(&mut self) {
        let len = self.at.addr() - self.out.as_ptr().addr();
        // SAFETY: `at` is within the capacity, and all bytes before it are initialised (the invariant).
        unsafe { self.out.set_len(len) };
    }

    /// Appends `N` bytes without checking the capacity.
    ///
    /// # Safety
    /// At least `N` bytes of capacity must be left, as after [`reserve`](Self::reserve).
    #[inline]
    pub(super) unsafe fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        debug_assert!(self.capacity() >= N);
        // SAFETY: the caller ensures the capacity, and an array of bytes has an alignment of 1.
        unsafe {
            self.at.cast::<[u8; N]>().write(bytes);
            self.at = self.at.add(N);
        }
    }

    /// Writes a whole block, and appends only its first `count` bytes.
    ///
    /// # Safety
    /// At least [`BLOCK`] bytes of capacity must be left, and `count` must be at most [`BLOCK`].
    #[inline]
    pub(super) unsafe fn put_part(&mut self, block: &[u8; BLOCK], count: usize) {
        debug_assert!(self.capacity() >= BLOCK && count <= BLOCK);
        // SAFETY: the caller ensures the capacity, and the whole block is initialised by the write.
        unsafe {
            self.at.cast::<[u8; BLOCK]>().write(*block);
            self.at = self.at.add(count);
        }
    }

    /// Appends `N` bytes.
    #[inline]
    pub(super) fn word<const N: usize>(&mut self, word: [u8; N]) {
        self.reserve(N);
        // SAFETY: `reserve` made capacity for `N` bytes.
        unsafe { self.put(word) };
    }

    /// Appends bytes.
    #[inline]
    pub(super) fn text(&mut self, text: &[u8]) {
        self.reserve(text.len());
        // SAFETY: `reserve` made capacity for `text`, which cannot overlap a buffer that is borrowed exclusively.
        unsafe {
            self.at.copy_from_nonoverlapping(text.as_ptr(), text.len());
            self.at = self.at.add(text.len());
        }
    }

    /// Appends the first `len` bytes of `haystack`. Returns `false` and appends nothing if `haystack` is shorter. Bytes
    /// of `haystack` after the first `len` may be read, so that a short text can be copied as a block.
    #[inline]
    pub(super) fn start_of(&mut self, haystack: &[u8], len: usize) -> bool {
        if len <= BLOCK
            && let Some(block) = haystack.first_chunk()
        {
            self.reserve(BLOCK);
            // SAFETY: `reserve` made capacity for a block, and `len` is at most a block.
            unsafe { self.put_part(block, len) };
            return true;
        }
        haystack.get(..len).map(|text| self.text(text)).is_some()
    }

    /// Replaces the last byte with `new` if it is `old`, and appends `new` otherwise.
    #[inline]
    pub(super) fn replace_last(&mut self, old: u8, new: u8) {
        self.reserve(1);
        let written = self.at.addr() - self.out.as_ptr().addr();
        // SAFETY: a byte precedes `at` if `written > 0`, and `reserve` made capacity for one byte.
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
