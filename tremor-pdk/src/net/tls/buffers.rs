//! Reading a socket that many connections share the room for.

use std::{io, os::fd::AsFd};

use rustix::net::{RecvFlags, recv};

use super::session::Session;

/// How much is read of a socket at a time, at most, in bytes: some records.
const SPACE: usize = 64 << 10;

/// Room for what a socket brings and for what that comes to: a connection that has nothing needs none.
#[derive(Default)]
pub(in crate::net) struct Buffers {
    /// Either none or all of it is there.
    sealed: Vec<u8>,
    plain: Vec<u8>,
}

/// What a read of the socket came to.
pub(in crate::net) struct Read {
    /// How many bytes the socket had.
    pub(in crate::net) count: usize,
    /// Whether the peer has said that nothing more comes.
    pub(in crate::net) is_end: bool,
}

impl Buffers {
    /// How much is read of a socket at a time, where there is so much room.
    pub(in crate::net) fn bound(space: usize) -> usize {
        space.min(SPACE)
    }

    /// What the last read came to.
    pub(in crate::net) fn plain(&self) -> &[u8] {
        &self.plain
    }
}

impl Session {
    /// Reads the socket once, so many bytes at most, and leaves what that comes to in the buffers: all of it, so
    /// that nothing waits here which the system says nothing of.
    ///
    /// # Errors
    /// Those of the socket, and of the protocol. What came before is in the buffers.
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
