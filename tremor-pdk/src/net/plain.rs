//! Replacements of the TLS types for builds without the feature `tls`. The types have no values, so that their methods
//! cannot be called.

use std::{
    io::{self, IoSlice, Write},
    os::fd::AsFd,
};

use crate::Result;

/// The acceptor of TLS connections; has no value.
#[derive(Clone, Debug)]
pub(super) enum TlsAcceptor {}

/// The state of a TLS connection; has no value.
pub(super) enum Session {}

/// The buffers of TLS connections; always empty.
#[derive(Default)]
pub(super) struct Buffers {}

/// Result of a read from the socket.
pub(super) struct Read {
    pub(super) count: usize,
    pub(super) is_end: bool,
}

impl TlsAcceptor {
    pub(super) fn session(&self) -> Result<Session> {
        match *self {}
    }
}

impl Buffers {
    pub(super) fn bound(space: usize) -> usize {
        space
    }

    #[expect(
        clippy::unused_self,
        reason = "the method of the feature `tls` has the same signature and uses `self`"
    )]
    pub(super) fn plain(&self) -> &[u8] {
        &[]
    }
}

impl Session {
    pub(super) fn is_handshaking(&self) -> bool {
        match *self {}
    }

    pub(super) fn read_socket(
        &mut self,
        _socket: impl AsFd,
        _space: usize,
        _buffers: &mut Buffers,
    ) -> io::Result<Read> {
        match *self {}
    }

    pub(super) fn write(&mut self, _slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match *self {}
    }

    pub(super) fn send(&mut self, _socket: &mut impl Write) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn close(&mut self) {
        match *self {}
    }
}
