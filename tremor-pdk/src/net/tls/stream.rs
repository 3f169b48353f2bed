//! A connection of TLS, for whatever reads and writes asynchronously.

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

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection of TLS over another one, which [`TlsAcceptor`](super::TlsAcceptor) and
/// [`TlsConnector`](super::TlsConnector) make.
///
/// What is written is sent when it is flushed, or when there is enough of it. A read that ends without an error
/// is the end that the peer has announced; a connection that is cut off is an error of the kind "unexpected
/// end": something may be missing.
pub struct TlsStream<S> {
    stream: S,
    session: Box<Session>,
}

impl<S> TlsStream<S> {
    /// The connection that it goes over.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The connection, and what there is of TLS about it.
    pub(in crate::net) fn into_parts(self) -> (S, Session) {
        (self.stream, *self.session)
    }

    /// The protocol that both sides have agreed on, if they have named any (ALPN).
    pub fn protocol(&self) -> Option<&str> {
        self.session.protocol().and_then(|it| std::str::from_utf8(it).ok())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    /// Goes through the handshake; otherwise says why there is none.
    pub(super) async fn shake_hands(
        host: &Host,
        mut stream: S,
        session: Session,
        role: Role,
    ) -> io::Result<Self> {
        let mut session = Box::new(session);
        let shaking = poll_fn(|context| {
            let mut io = Polled { stream: &mut stream, context };
            ready(session.shake_hands(&mut io).and_then(|()| io.flush()))
        });
        let too_slow = || io::Error::new(io::ErrorKind::TimedOut, role.is_too_slow());
        within(host, PATIENCE, shaking).await.unwrap_or_else(|| Err(too_slow()))?;
        Ok(Self { stream, session })
    }

    /// Sends what is to be sent.
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
        match buffers.iter_mut().find(|it| !it.is_empty()) {
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
        let is_nothing = slices.iter().all(|it| it.is_empty());
        loop {
            let count = self.session.write(slices)?;
            // Once there is enough, it is sent before there is more.
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

    /// Says that nothing more is sent, and closes that side of the connection below.
    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.session.close();
        std::task::ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_close(context)
    }
}

/// A stream as rustls sees it: one that would block where it is pending.
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
