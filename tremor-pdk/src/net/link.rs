//! A connection of which two sides are used at the same time, with TLS or without.

use std::{
    fmt,
    io::{self, IoSlice, Write},
    os::fd::AsFd,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use super::{
    secure::{Buffers, Session},
    stream::{StreamSocket, receive, send_slices},
};
use crate::{RawBatch, lock::lock};

/// A connection that a source reads while a sink writes it, with TLS or without: see
/// [`StreamSource`](super::StreamSource).
pub struct Link<S> {
    socket: S,
    tls: Option<Mutex<Secured>>,
    /// Number of the stream that a source reads into.
    stream: u64,
    /// Whether a source reads it.
    has_reader: AtomicBool,
}

/// What both sides need of TLS. It is held for calls that do not wait.
struct Secured {
    session: Session,
    buffers: Buffers,
    /// How reading has ended.
    over: Option<io::Result<()>>,
}

impl<S: StreamSocket> Link<S> {
    /// Over a connection as it is.
    pub fn new(socket: S) -> Self {
        Self { socket, tls: None, stream: 0, has_reader: AtomicBool::new(false) }
    }

    /// Over a connection of TLS.
    #[cfg(feature = "tls")]
    pub fn secure(stream: super::tls::TlsStream<S>) -> Self {
        let (socket, session) = stream.into_parts();
        let secured = Secured { session, buffers: Buffers::default(), over: None };
        let tls = Some(Mutex::new(secured));
        Self { socket, tls, stream: 0, has_reader: AtomicBool::new(false) }
    }

    /// Sets the number of the stream that a source reads into, which is 0 otherwise. Count the connections of a
    /// connector, because operators keep a state for each stream and must not join bytes of two connections.
    #[must_use]
    pub fn with_stream(mut self, number: u64) -> Self {
        self.stream = number;
        self
    }

    /// Returns the number of the stream that a source reads into.
    pub(super) fn stream(&self) -> u64 {
        self.stream
    }

    /// The connection below.
    pub fn get_ref(&self) -> &S {
        &self.socket
    }

    /// Whether the peer has closed its side, as far as the operating system has said.
    pub(super) fn is_hung_up(&self) -> bool {
        self.socket.registered().is_hung_up()
    }

    /// A source reads it from now on.
    pub(super) fn add_reader(&self) {
        self.has_reader.store(true, Ordering::Relaxed);
    }

    /// Whether a source reads it.
    pub(super) fn has_reader(&self) -> bool {
        self.has_reader.load(Ordering::Relaxed)
    }

    /// Reads at most `space` bytes into the stream of the batch, and returns the number of bytes: 0 if the peer has ended
    /// the connection.
    ///
    /// # Errors
    /// Those of the socket, and of the protocol.
    pub(super) fn poll_fill(
        &self,
        context: &Context<'_>,
        batch: &mut RawBatch,
        space: usize,
    ) -> Poll<io::Result<usize>> {
        self.socket.registered().poll_read_with(context, |socket| match &self.tls {
            None => Ok(batch
                .stream(self.stream)
                .fill_fragment(space, |space| receive(socket, space))?),
            Some(tls) => {
                let secured = &mut *lock(tls);
                let count = secured.read(socket, space)?;
                if count > 0 {
                    batch.stream(self.stream).push_fragment(secured.buffers.plain());
                }
                Ok(count)
            }
        })
    }

    /// Reads what is of no use to anybody. How many bytes that were.
    ///
    /// # Errors
    /// As [`Self::poll_fill`].
    pub(super) fn poll_skip(&self, context: &Context<'_>) -> Poll<io::Result<usize>> {
        self.socket.registered().poll_read_with(context, |socket| match &self.tls {
            None => {
                let mut bytes = [0; 4_096];
                let received =
                    rustix::net::recv(socket, &mut bytes, rustix::net::RecvFlags::empty());
                Ok(received?.0)
            }
            Some(tls) => lock(tls).read(socket, 4_096),
        })
    }

    /// Takes what there is room for. How many bytes.
    ///
    /// # Errors
    /// Those of the socket, and of the protocol.
    pub(super) fn poll_send(
        &self,
        context: &Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.socket.registered().poll_write_with(context, |socket| match &self.tls {
            None => send_slices(socket, slices),
            Some(tls) => {
                let session = &mut lock(tls).session;
                let mut socket = Raw(socket);
                // What is there is sent before there is more.
                session.send(&mut socket)?;
                let count = session.write(slices)?;
                match session.send(&mut socket) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                    _ => Ok(count),
                }
            }
        })
    }

    /// Ready once the operating system has everything.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn poll_flush(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let Some(tls) = &self.tls else { return Poll::Ready(Ok(())) };
        let socket = self.socket.registered();
        socket.poll_write_with(context, |socket| lock(tls).session.send(&mut Raw(socket)))
    }

    /// Says that nothing more is sent. Ready once the operating system has that.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn poll_close(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = &self.tls {
            lock(tls).session.close();
        }
        std::task::ready!(self.poll_flush(context))?;
        let socket = self.socket.registered().get_ref();
        Poll::Ready(Ok(rustix::net::shutdown(socket, rustix::net::Shutdown::Write)?))
    }
}

impl Secured {
    /// Reads until there is something, which the buffers have then.
    fn read(&mut self, socket: impl AsFd, space: usize) -> io::Result<usize> {
        loop {
            if let Some(over) = &self.over {
                let error = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
                return over.as_ref().map(|()| 0).map_err(error);
            }
            match self.session.read_socket(socket.as_fd(), space, &mut self.buffers) {
                Ok(read) if read.is_end => self.over = Some(Ok(())),
                Ok(_) => {}
                Err(error) if is_passing(&error) => return Err(error),
                Err(error) => {
                    // The peer hears why, if there is room for that.
                    let _ = self.session.send(&mut Raw(socket.as_fd()));
                    self.over = Some(Err(error));
                }
            }
            let count = self.buffers.plain().len();
            if count > 0 {
                return Ok(count);
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// A socket, to write to without a signal where the peer is gone.
pub(super) struct Raw<D>(pub(super) D);

impl<D: AsFd> Write for Raw<D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send_slices(&self.0, &[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        send_slices(&self.0, slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S> fmt::Debug for Link<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("is_secure", &self.tls.is_some()).finish_non_exhaustive()
    }
}
