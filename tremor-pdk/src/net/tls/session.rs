//! The TLS state of one connection, over any non-blocking socket.

use std::io::{self, BufRead, IoSlice, Read, Write};

use rustls::Connection;

use super::refusal::{Role, explain};

/// The TLS state of one connection. No method blocks: if the socket would block, the methods return an error of the
/// kind `WouldBlock`.
pub(in crate::net) struct Session {
    connection: Connection,
    role: Role,
    /// `true` once [`Session::close`] was called.
    is_closed: bool,
}

impl Session {
    pub(super) fn new(connection: Connection, role: Role) -> Self {
        Self { connection, role, is_closed: false }
    }

    /// Returns whether the handshake is not finished.
    pub(in crate::net) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Returns the protocol on which both sides have agreed (ALPN).
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Performs the handshake.
    ///
    /// # Errors
    /// Returns `WouldBlock` if the socket is not ready: call the method again when the socket is ready. Other errors
    /// state why the handshake failed.
    pub(super) fn handshake(&mut self, socket: &mut (impl Read + Write)) -> io::Result<()> {
        loop {
            let sent = self.send(socket);
            if !self.is_handshaking() || sent.as_ref().is_err_and(|error| !is_wait(error)) {
                return sent;
            }
            if self.receive(socket)? == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    self.role.early_close_message(),
                ));
            }
        }
    }

    /// Reads decrypted data. Returns 0 if the peer has closed the session.
    ///
    /// # Errors
    /// Returns `WouldBlock` if the socket is not ready, and the errors of the socket and of TLS. If the peer closes the
    /// connection without closing the session, the error is `UnexpectedEof`, because data may be missing.
    pub(in crate::net) fn read(
        &mut self,
        socket: &mut (impl Read + Write),
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if is_wait(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(cut_off());
                }
                result => return result,
            }
            self.receive(socket)?;
        }
    }

    /// Decrypts `bytes`, which were read from the socket, and appends the result to `plain`. Pass empty `bytes` if the
    /// peer has closed the connection. Returns `true` if the peer has closed the session.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read`]. Data that was decrypted before the error is appended.
    pub(in crate::net) fn take(
        &mut self,
        mut bytes: &[u8],
        plain: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let is_end = bytes.is_empty();
        loop {
            let count = self.connection.read_tls(&mut bytes)?;
            let processed = self.connection.process_new_packets();
            let mut reader = self.connection.reader();
            while let Ok(chunk) = reader.fill_buf()
                && !chunk.is_empty()
            {
                plain.extend_from_slice(chunk);
                let length = chunk.len();
                reader.consume(length);
            }
            let state = processed.map_err(|error| self.refused(&error))?;
            if state.peer_has_closed() {
                return Ok(true);
            }
            if is_end {
                let is_early = self.is_handshaking();
                let early = || {
                    io::Error::new(io::ErrorKind::UnexpectedEof, self.role.early_close_message())
                };
                return Err(if is_early { early() } else { cut_off() });
            }
            if bytes.is_empty() || count == 0 {
                return Ok(false);
            }
        }
    }

    /// Encrypts as many bytes of `slices` as can be buffered, and returns the number of these bytes. [`Self::send`]
    /// sends the encrypted data.
    pub(in crate::net) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.connection.writer().write_vectored(slices)
    }

    /// Sends all encrypted data.
    ///
    /// # Errors
    /// Returns `WouldBlock` if the socket is not ready, and the errors of the socket.
    pub(in crate::net) fn send(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Closes the session: queues a `close_notify` alert, unless the session was closed before.
    pub(in crate::net) fn close(&mut self) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.connection.send_close_notify();
        }
    }

    /// Reads encrypted data once from the socket. Returns the number of bytes.
    fn receive(&mut self, socket: &mut (impl Read + Write)) -> io::Result<usize> {
        let count = loop {
            match self.connection.read_tls(socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        if let Err(error) = self.connection.process_new_packets() {
            // Sends the peer an alert with the reason, if the system accepts it.
            let _ = self.send(socket);
            return Err(self.refused(&error));
        }
        Ok(count)
    }

    fn refused(&self, error: &rustls::Error) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, explain(error, self.role))
    }
}

fn is_wait(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

fn cut_off() -> io::Error {
    let message = "the peer closed the connection without closing the TLS session (no \
                   `close_notify`): data may be missing";
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}
