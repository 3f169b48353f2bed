//! Adapter from an asynchronous stream to the blocking traits that the protocol library uses.

use std::{
    io::{self, Read, Write},
    pin::Pin,
    task::{Context, Poll},
};

use super::budget::Share;
use tremor_pdk::net::futures_io::{AsyncRead, AsyncWrite};

/// A stream for the duration of one poll. An operation that would have to wait fails with
/// `WouldBlock`, and the task is woken when the operation can continue.
pub(super) struct Shim<'s, 'c, S> {
    pub(super) stream: &'s mut S,
    pub(super) context: &'s mut Context<'c>,
}

fn blocking<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl<S: AsyncRead + Unpin> Read for Shim<'_, '_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        blocking(Pin::new(&mut *self.stream).poll_read(self.context, buffer))
    }
}

/// A stream whose read bytes count in the budget as part of an incomplete message.
pub(super) struct Counted<'s, 'c, S> {
    pub(super) shim: Shim<'s, 'c, S>,
    pub(super) share: &'s mut Share,
}

impl<S: AsyncRead + Unpin> Read for Counted<'_, '_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.shim.read(buffer)?;
        if self.share.read(count) {
            return Ok(count);
        }
        self.share.is_over = true;
        Err(io::Error::other("all connections together buffer too much"))
    }
}

impl<S: AsyncWrite + Unpin> Write for Counted<'_, '_, S> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.shim.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.shim.flush()
    }
}

impl<S: AsyncWrite + Unpin> Write for Shim<'_, '_, S> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        blocking(Pin::new(&mut *self.stream).poll_write(self.context, buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        blocking(Pin::new(&mut *self.stream).poll_flush(self.context))
    }
}
