//! Adapter between the host's sockets and hyper.

use std::{
    cell::RefCell,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use tremor_pdk::net::futures_io::{AsyncRead, AsyncWrite};

/// Maximum number of bytes per read.
const CHUNK: usize = 64 << 10;

thread_local! {
    /// Buffer for reads, whose bytes are then copied to hyper's buffer. hyper's buffer may be
    /// uninitialised, and clearing it before a read would cost as much as the copy.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK]);
}

/// Receives notifications about a connection of the client or the server.
pub(crate) trait Observer: Unpin {
    /// `true` if hyper shuts the connection down at its end; `false` if the caller does that.
    const CLOSES: bool;

    /// Records that the peer has sent bytes.
    fn received(&self);
}

/// A connection of TCP, or of a protocol on top of TCP.
pub(crate) struct Io<S, O> {
    pub(crate) stream: S,
    observer: O,
}

impl<S, O> Io<S, O> {
    pub(crate) const fn new(stream: S, observer: O) -> Self {
        Self { stream, observer }
    }
}

/// Reads once, at most `most` bytes, and passes the bytes to `take`.
pub(crate) fn poll_read_some<S: AsyncRead + Unpin>(
    stream: &mut S,
    context: &mut Context<'_>,
    most: usize,
    take: impl FnOnce(&[u8]),
) -> Poll<io::Result<usize>> {
    READ.with_borrow_mut(|chunk| {
        let most = most.min(CHUNK);
        let count = ready!(Pin::new(stream).poll_read(context, &mut chunk[..most]))?;
        take(&chunk[..count]);
        Poll::Ready(Ok(count))
    })
}

impl<S: AsyncRead + Unpin, O: Observer> Read for Io<S, O> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let most = to.remaining();
        let read = poll_read_some(&mut self.stream, context, most, |bytes| to.put_slice(bytes));
        if ready!(read)? > 0 {
            self.observer.received();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin, O: Observer> Write for Io<S, O> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if O::CLOSES {
            Pin::new(&mut self.stream).poll_close(context)
        } else {
            self.poll_flush(context)
        }
    }
}
