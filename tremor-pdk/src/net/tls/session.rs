//! One connection's TLS, over any socket that does not block.

use std::io::{self, BufRead, IoSlice, Read, Write};

use rustls::Connection;

use super::refusal::{Role, explain};

/// The state of TLS of one connection. Every method does what can be done, and answers with "would block"
/// where the socket does.
pub(in crate::net) struct Session {
    connection: Connection,
    role: Role,
    /// Whether it has said that nothing more is sent.
    is_closed: bool,
}

impl Session {
    pub(super) fn new(connection: Connection, role: Role) -> Self {
        Self { connection, role, is_closed: false }
    }

    /// Whether the peers do not trust each other yet.
    pub(in crate::net) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The protocol that both sides have agreed on.
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Goes through the handshake.
    ///
    /// # Errors
    /// "Would block": it goes on when the socket is ready. Others say why there is no connection.
    pub(super) fn shake_hands(&mut self, socket: &mut (impl Read + Write)) -> io::Result<()> {
        loop {
            let sent = self.send(socket);
            if !self.is_handshaking() || sent.as_ref().is_err_and(|error| !is_wait(error)) {
                return sent;
            }
            if self.receive(socket)? == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    self.role.has_hung_up_early(),
                ));
            }
        }
    }

    /// Reads what the peer has sent. No byte: it has said that nothing more comes.
    ///
    /// # Errors
    /// "Would block", and those of the socket and of the protocol. A peer that closes the connection without
    /// having said that nothing more comes is an unexpected end: something may be missing.
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

    /// Takes what was read of the socket, and adds what that comes to. No bytes say that the peer has closed
    /// the connection. Whether the peer has said that nothing more comes.
    ///
    /// # Errors
    /// As [`Self::read`]. What came before is added.
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
                let early =
                    || io::Error::new(io::ErrorKind::UnexpectedEof, self.role.has_hung_up_early());
                return Err(if is_early { early() } else { cut_off() });
            }
            if bytes.is_empty() || count == 0 {
                return Ok(false);
            }
        }
    }

    /// Writes what there is room for, which is sent with [`Self::send`].
    pub(in crate::net) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.connection.writer().write_vectored(slices)
    }

    /// Sends what is to be sent, all of it.
    ///
    /// # Errors
    /// "Would block", and those of the socket.
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

    /// Has it say that nothing more is sent, once.
    pub(in crate::net) fn close(&mut self) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.connection.send_close_notify();
        }
    }

    /// Reads once from the socket. How many bytes.
    fn receive(&mut self, socket: &mut (impl Read + Write)) -> io::Result<usize> {
        let count = loop {
            match self.connection.read_tls(socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        if let Err(error) = self.connection.process_new_packets() {
            // The peer hears why, if there is room for that.
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
    let message = "the peer has closed the connection without saying that it has sent everything (no \
                   `close_notify`): something may be missing";
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}
