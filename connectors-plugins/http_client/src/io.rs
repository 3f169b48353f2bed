//! A connection as hyper reads and writes it.

use std::{
    cell::RefCell,
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use tremor_pdk::net::futures_io::{AsyncRead, AsyncWrite};

/// How much is read at once, in bytes.
const CHUNK: usize = 16 << 10;

thread_local! {
    /// Read to, and copied to hyper's buffer: that may be uninitialised, and clearing it costs as much.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK]);
}

/// What requests go through: a connection of TCP, or what is on top of it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for S {}

/// A connection.
pub(crate) struct Io {
    stream: Box<dyn Stream>,
    /// Whether a byte has come since that was last set to false.
    has_read: Arc<AtomicBool>,
}

impl Io {
    pub(crate) fn new(stream: Box<dyn Stream>, has_read: Arc<AtomicBool>) -> Self {
        Self { stream, has_read }
    }
}

impl Read for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        READ.with_borrow_mut(|chunk| {
            let most = to.remaining().min(CHUNK);
            let read = Pin::new(&mut *self.stream).poll_read(context, &mut chunk[..most]);
            let count = ready!(read)?;
            if count > 0 {
                self.has_read.store(true, Ordering::Relaxed);
            }
            to.put_slice(&chunk[..count]);
            Poll::Ready(Ok(()))
        })
    }
}

impl Write for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_close(context)
    }
}
