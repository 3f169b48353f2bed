//! Read buffers that many TLS connections share.

use std::{io, os::fd::AsFd};

use rustix::net::{RecvFlags, recv};

use super::session::Session;

/// Maximum number of bytes that are read from a socket at once: several TLS records.
const SPACE: usize = 64 << 10;

/// Buffers for encrypted and decrypted data. All connections of a source share them, so that a connection without data
/// needs no buffers.
#[derive(Default)]
pub(in crate::net) struct Buffers {
    /// Encrypted data; empty before the first read, and [`SPACE`] bytes long afterwards.
    sealed: Vec<u8>,
    plain: Vec<u8>,
}

/// Result of a read from the socket.
pub(in crate::net) struct Read {
    /// Number of bytes that were read from the socket.
    pub(in crate::net) count: usize,
    /// `true` if the peer has closed the TLS session.
    pub(in crate::net) is_end: bool,
}

impl Buffers {
    /// Returns the number of bytes to read at once if `space` bytes are available.
    pub(in crate::net) fn bound(space: usize) -> usize {
        space.min(SPACE)
    }

    /// Returns the decrypted data of the last read.
    pub(in crate::net) fn plain(&self) -> &[u8] {
        &self.plain
    }
}

impl Session {
    /// Reads at most `space` bytes from the socket once, and decrypts all of them into the buffers. No decrypted data
    /// is left in the session, because the operating system would not report it as readable.
    ///
    /// # Errors
    /// Returns the errors of the socket and of TLS. Data that was decrypted before the error is in the buffers.
    pub(in crate::net) fn read_socket(
        &mut self,
        socket: impl AsFd,
        space: usize,
        buffers: &mut Buffers,
    ) -> io::Result<Read> {
        let Buffers { sealed, plain } = buffers;
        plain.clear();
        if sealed.is_empty() {
            sealed.resize(SPACE, 0);
        }
        let space = Buffers::bound(space);
        let (count, _) = recv(socket, &mut sealed[..space], RecvFlags::empty())?;
        let is_end = self.take(&sealed[..count], plain)?;
        Ok(Read { count, is_end })
    }
}
