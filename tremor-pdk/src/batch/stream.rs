//! The handle with which a source adds events of one stream to a batch.

use std::{marker::PhantomData, mem::MaybeUninit};

use serde::Serialize;
use tremor_abi::batch as abi;

use super::{Raw, Structured};
use crate::Result;

/// A stream of a source, such as a connection, a file or a partition. Events that are added with this handle belong
/// to that stream.
pub struct Stream<'b, F> {
    stream: abi::Stream<'b>,
    form: PhantomData<F>,
}

impl<'b, F> Stream<'b, F> {
    #[inline]
    pub(super) fn new(stream: abi::Stream<'b>) -> Self {
        Self { stream, form: PhantomData }
    }

    /// Ends the stream, whose last message is complete. A source does not have to call this before it returns
    /// [`Pull::Finished`](crate::Pull::Finished), which ends all its streams.
    pub fn end(&mut self) {
        self.stream.end();
    }

    /// Ends a stream that was cut off. If only a part of its last message was added, this message will never be
    /// completed.
    ///
    /// The incomplete message goes to `err`. If the source is transactional, the pulls that read the message fail
    /// instead.
    pub fn abort(&mut self) {
        self.stream.abort();
    }
}

impl Stream<'_, Structured> {
    /// Adds a value of any type that serde can serialise. The value is written directly into the document of the
    /// batch.
    ///
    /// # Errors
    /// Returns an error of the kind bad data if the value's `Serialize` fails or the value cannot be stored in a
    /// document. The batch is unchanged after an error.
    pub fn push(&mut self, value: &(impl Serialize + ?Sized)) -> Result<()> {
        self.stream.push(value)
    }
}

impl Stream<'_, Raw> {
    /// Adds a whole message, which is copied once.
    #[inline]
    pub fn push_message(&mut self, message: &[u8]) {
        self.stream.push_message(message);
    }

    /// Adds a part of a byte stream, cut at any position.
    ///
    /// Preprocessors assemble messages from the fragments of a stream. Without a preprocessor, the whole stream is one
    /// message.
    #[inline]
    pub fn push_fragment(&mut self, bytes: &[u8]) {
        self.stream.push_fragment(bytes);
    }

    /// Calls `read` with a slice of `space` bytes in the buffer of the batch, and adds the bytes that were read as a
    /// fragment, without a copy. Returns the number of bytes that were read.
    ///
    /// # Errors
    /// Returns the errors of `read`; nothing is added then.
    pub fn read_fragment<E>(
        &mut self,
        space: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.stream.read_fragment(space, read)
    }

    /// Adds a fragment as [`read_fragment`](Self::read_fragment) does, for functions that accept uninitialised
    /// memory.
    ///
    /// The memory does not have to be filled with zeros first. `fill` returns the part that it has filled, which starts
    /// with the first byte of its argument, as `rustix::net::recv` does.
    ///
    /// ```
    /// # use tremor_pdk::RawBatch;
    /// let mut batch = RawBatch::new();
    /// let filled = batch.stream(1).fill_fragment(16, |space| {
    ///     Ok::<_, std::io::Error>(space[..2].write_copy_of_slice(b"hi"))
    /// });
    /// assert_eq!(filled.unwrap(), 2);
    /// ```
    ///
    /// # Errors
    /// Returns the errors of `fill`; nothing is added then.
    ///
    /// # Panics
    /// Panics if `fill` returns a slice that does not start with the first byte of its argument, or if the batch would
    /// exceed 4 GiB with `space` more bytes.
    pub fn fill_fragment<E>(
        &mut self,
        space: usize,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<&mut [u8], E>,
    ) -> Result<usize, E> {
        self.stream.fill_fragment(space, fill)
    }

    /// Adds a whole message as [`fill_fragment`](Self::fill_fragment) adds a fragment, for example a datagram. The
    /// message may be empty.
    ///
    /// # Errors
    /// Returns the errors of `fill`; nothing is added then.
    ///
    /// # Panics
    /// Panics in the cases of [`fill_fragment`](Self::fill_fragment).
    pub fn fill_message<E>(
        &mut self,
        space: usize,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<&mut [u8], E>,
    ) -> Result<usize, E> {
        self.stream.fill_message(space, fill)
    }
}
