//! An asynchronous byte stream over TLS.

use std::{
    fmt,
    future::poll_fn,
    io::{self, IoSlice, IoSliceMut, Read, Write},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_io::{AsyncRead, AsyncWrite};

use super::{refusal::Role, session::Session};
use crate::{Host, net::within::within};

/// Maximum time of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A TLS connection over a byte stream, created by a [`TlsAcceptor`](super::TlsAcceptor) or a
/// [`TlsConnector`](super::TlsConnector).
///
/// Written data is encrypted and buffered. The stream sends buffered data when possible; flush the stream to make sure
/// that all data was sent. A read that returns 0 means that the peer has closed the session. Reading from a connection
/// that was cut off returns an error of the kind `UnexpectedEof`, because data may be missing.
pub struct TlsStream<S> {
    stream: S,
    session: Box<Session>,
}

impl<S> TlsStream<S> {
    /// Returns a reference to the underlying connection.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns the underlying connection and its TLS state.
    pub(in crate::net) fn into_parts(self) -> (S, Session) {
        (self.stream, *self.session)
    }

    /// Returns the protocol on which both sides have agreed (ALPN), if any.
    pub fn protocol(&self) -> Option<&str> {
        self.session.protocol().and_then(|protocol| std::str::from_utf8(protocol).ok())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    /// Performs the handshake. Errors state why the handshake failed.
    pub(super) async fn handshake(
        host: &Host,
        mut stream: S,
        session: Session,
        role: Role,
    ) -> io::Result<Self> {
        let mut session = Box::new(session);
        let handshake = poll_fn(|context| {
            let mut io = Polled { stream: &mut stream, context };
            ready(session.handshake(&mut io).and_then(|()| io.flush()))
        });
        let timed_out = || io::Error::new(io::ErrorKind::TimedOut, role.timeout_message());
        within(host, HANDSHAKE_TIMEOUT, handshake).await.unwrap_or_else(|| Err(timed_out()))?;
        Ok(Self { stream, session })
    }

    /// Sends all encrypted data.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut io = Polled { stream: &mut self.stream, context };
        ready(self.session.send(&mut io))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let mut io = Polled { stream: &mut this.stream, context };
        ready(this.session.read(&mut io, buffer))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        match buffers.iter_mut().find(|buffer| !buffer.is_empty()) {
            Some(buffer) => self.poll_read(context, buffer),
            None => Poll::Ready(Ok(0)),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(buffer)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let is_nothing = slices.iter().all(|slice| slice.is_empty());
        loop {
            let count = self.session.write(slices)?;
            // If the buffer is full, its data is sent before more data is encrypted.
            let sent = self.poll_send(context)?;
            if count > 0 || is_nothing {
                return Poll::Ready(Ok(count));
            }
            if sent.is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Closes the session, and then the sending direction of the underlying connection.
    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.session.close();
        std::task::ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_close(context)
    }
}

/// Adapts an asynchronous stream to rustls: a pending operation is an error of the kind `WouldBlock`.
struct Polled<'a, 'b, S> {
    stream: &'a mut S,
    context: &'a mut Context<'b>,
}

impl<S: AsyncRead + Unpin> Read for Polled<'_, '_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        or_wait(Pin::new(&mut *self.stream).poll_read(self.context, buffer))
    }
}

impl<S: AsyncWrite + Unpin> Write for Polled<'_, '_, S> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        or_wait(Pin::new(&mut *self.stream).poll_write(self.context, buffer))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        or_wait(Pin::new(&mut *self.stream).poll_write_vectored(self.context, slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        or_wait(Pin::new(&mut *self.stream).poll_flush(self.context))
    }
}

fn or_wait<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn ready<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

impl<S: fmt::Debug> fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").field("stream", &self.stream).finish_non_exhaustive()
    }
}
