//! A connection that a source and a sink use at the same time, with or without TLS.

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
use crate::{RawBatch, lock};

/// A connection that a source reads while a sink writes to it, with or without TLS: see
/// [`StreamSource`](super::StreamSource).
pub struct Link<S> {
    socket: S,
    tls: Option<Mutex<Secured>>,
    /// Number of the stream that a source reads into.
    stream: u64,
    /// `true` once a source reads the connection.
    has_reader: AtomicBool,
}

/// TLS state that the source and the sink share. The lock is held only during calls that do not wait.
struct Secured {
    session: Session,
    buffers: Buffers,
    /// Result with which reading has ended: `Ok` if the peer has closed the session. `None` while data may arrive.
    end: Option<io::Result<()>>,
}

impl<S: StreamSocket> Link<S> {
    /// Creates a link without TLS.
    pub fn new(socket: S) -> Self {
        Self { socket, tls: None, stream: 0, has_reader: AtomicBool::new(false) }
    }

    /// Creates a link over a TLS connection.
    #[cfg(feature = "tls")]
    pub fn secure(stream: super::tls::TlsStream<S>) -> Self {
        let (socket, session) = stream.into_parts();
        let secured = Secured { session, buffers: Buffers::default(), end: None };
        let tls = Some(Mutex::new(secured));
        Self { socket, tls, stream: 0, has_reader: AtomicBool::new(false) }
    }

    /// Sets the number of the stream that a source reads into; 0 by default.
    ///
    /// Use a new number for each connection of a connector, so that operators that keep state for each stream do not
    /// combine events of two connections.
    #[must_use]
    pub fn with_stream(mut self, number: u64) -> Self {
        self.stream = number;
        self
    }

    /// Returns the number of the stream that a source reads into.
    pub(super) fn stream(&self) -> u64 {
        self.stream
    }

    /// Returns a reference to the socket.
    pub fn get_ref(&self) -> &S {
        &self.socket
    }

    /// Returns whether the operating system has reported that the peer closed its side.
    pub(super) fn is_hung_up(&self) -> bool {
        self.socket.registered().is_hung_up()
    }

    /// Records that a source reads the connection.
    pub(super) fn add_reader(&self) {
        self.has_reader.store(true, Ordering::Relaxed);
    }

    /// Returns whether a source reads the connection.
    pub(super) fn has_reader(&self) -> bool {
        self.has_reader.load(Ordering::Relaxed)
    }

    /// Reads at most `space` bytes into the stream of the batch, and returns the number of bytes; 0 if the peer has
    /// closed the connection.
    ///
    /// # Errors
    /// Returns the errors of the socket and of TLS.
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

    /// Reads up to 4 KiB and discards them. Returns the number of bytes; 0 if the peer has closed the connection.
    ///
    /// # Errors
    /// Returns the errors of [`Self::poll_fill`].
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

    /// Writes as many bytes of `slices` as can be buffered, and returns the number of these bytes.
    ///
    /// # Errors
    /// Returns the errors of the socket and of TLS.
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
                // Data that was encrypted before is sent first, so that the buffer does not grow.
                session.send(&mut socket)?;
                let count = session.write(slices)?;
                match session.send(&mut socket) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                    _ => Ok(count),
                }
            }
        })
    }

    /// Completes when the operating system has accepted all written data.
    ///
    /// # Errors
    /// Returns the errors of the socket.
    pub(super) fn poll_flush(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let Some(tls) = &self.tls else { return Poll::Ready(Ok(())) };
        let socket = self.socket.registered();
        socket.poll_write_with(context, |socket| lock(tls).session.send(&mut Raw(socket)))
    }

    /// Closes the sending direction, after the operating system has accepted all written data.
    ///
    /// # Errors
    /// Returns the errors of the socket.
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
    /// Reads into the buffers until they contain decrypted data or the connection ends. Returns the number of decrypted
    /// bytes.
    fn read(&mut self, socket: impl AsFd, space: usize) -> io::Result<usize> {
        loop {
            if let Some(end) = &self.end {
                let error = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
                return end.as_ref().map(|()| 0).map_err(error);
            }
            match self.session.read_socket(socket.as_fd(), space, &mut self.buffers) {
                Ok(read) if read.is_end => self.end = Some(Ok(())),
                Ok(_) => {}
                Err(error) if is_transient(&error) => return Err(error),
                Err(error) => {
                    // Sends the peer an alert with the reason, if the system accepts it.
                    let _ = self.session.send(&mut Raw(socket.as_fd()));
                    self.end = Some(Err(error));
                }
            }
            let count = self.buffers.plain().len();
            if count > 0 {
                return Ok(count);
            }
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// A writer for a socket. Writing after the peer has gone returns an error instead of raising `SIGPIPE`.
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
