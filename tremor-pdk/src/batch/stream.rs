//! Adding events of a stream.

use std::{marker::PhantomData, mem::MaybeUninit};

use serde::Serialize;
use tremor_abi::batch as abi;

use super::{Raw, Structured};
use crate::Result;

/// A stream within a source: a connection, a file, a partition. Events that are added by this handle belong to that
/// stream.
pub struct Stream<'b, F> {
    stream: abi::Stream<'b>,
    form: PhantomData<F>,
}

impl<'b, F> Stream<'b, F> {
    #[inline]
    pub(super) fn new(stream: abi::Stream<'b>) -> Self {
        Self { stream, form: PhantomData }
    }

    /// Ends the stream: the remainder of its last message is complete. A source that finishes ends all its streams.
    pub fn end(&mut self) {
        self.stream.end();
    }

    /// Ends a stream that was cut off: the remainder of its last message is incomplete. It goes to `err`; if the source
    /// is transactional, the pulls that brought the remainder fail instead.
    pub fn abort(&mut self) {
        self.stream.abort();
    }
}

impl Stream<'_, Structured> {
    /// Adds a value: anything that serde can serialise, written straight into the document of the batch.
    ///
    /// # Errors
    /// Kind bad data, if the value's own `Serialize` fails or the value does not fit a document; nothing is added then.
    pub fn push(&mut self, value: &(impl Serialize + ?Sized)) -> Result<()> {
        self.stream.push(value)
    }
}

impl Stream<'_, Raw> {
    /// Adds a whole message: one call, one copy.
    #[inline]
    pub fn push_message(&mut self, message: &[u8]) {
        self.stream.push_message(message);
    }

    /// Adds a part of a byte stream, cut anywhere. Preprocessors put messages together from the fragments of a stream;
    /// without a preprocessor the whole stream is one message.
    #[inline]
    pub fn push_fragment(&mut self, bytes: &[u8]) {
        self.stream.push_fragment(bytes);
    }

    /// Lets `read` fill up to `space` bytes of the batch's own buffer, and adds the bytes that it has read as a fragment,
    /// without a copy. Returns their number.
    ///
    /// # Errors
    /// The errors of `read`; nothing is added then.
    pub fn read_fragment<E>(
        &mut self,
        space: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.stream.read_fragment(space, read)
    }

    /// Adds a fragment as [`read_fragment`](Self::read_fragment) does, for functions that write to memory without reading
    /// it: no byte is written twice. `fill` returns the part that it has filled, from the first byte on, as
    /// `rustix::net::recv` does.
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
    /// The errors of `fill`; nothing is added then.
    ///
    /// # Panics
    /// Panics if `fill` returns anything else, or if the batch would reach 4 GiB.
    pub fn fill_fragment<E>(
        &mut self,
        space: usize,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<&mut [u8], E>,
    ) -> Result<usize, E> {
        self.stream.fill_fragment(space, fill)
    }

    /// Adds a whole message as [`fill_fragment`](Self::fill_fragment) adds a fragment: a datagram, also an empty one.
    ///
    /// # Errors
    /// The errors of `fill`; nothing is added then.
    ///
    /// # Panics
    /// Panics if [`fill_fragment`](Self::fill_fragment) would.
    pub fn fill_message<E>(
        &mut self,
        space: usize,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<&mut [u8], E>,
    ) -> Result<usize, E> {
        self.stream.fill_message(space, fill)
    }
}
