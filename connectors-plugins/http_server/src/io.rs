//! A connection as hyper reads and writes it.

use std::{
    cell::RefCell,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use tremor_pdk::net::futures_io::{AsyncRead, AsyncWrite};

use crate::peer::{Clock, Peer, Phase};

/// How much is read at once, in bytes.
const CHUNK: usize = 64 << 10;

thread_local! {
    /// Read to, and copied to hyper's buffer: that may be uninitialised, and clearing it costs as much.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK]);
}

/// A connection, of TCP or what is on top of it.
pub(crate) struct Io<S> {
    pub(crate) stream: S,
    peer: Arc<Peer>,
    clock: Arc<Clock>,
}

impl<S> Io<S> {
    pub(crate) fn new(stream: S, peer: Arc<Peer>, clock: Arc<Clock>) -> Self {
        Self { stream, peer, clock }
    }
}

/// Reads once, and has `take` look at that.
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

impl<S: AsyncRead + Unpin> Read for Io<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let most = to.remaining();
        let read = poll_read_some(&mut self.stream, context, most, |bytes| to.put_slice(bytes));
        let count = ready!(read)?;
        if count > 0 && self.peer.phase() == Phase::Idle {
            self.peer.begin(Phase::Head, &self.clock);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Write for Io<S> {
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

    /// The connection is closed when hyper is done with it: what the peer still sends is read before that.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
