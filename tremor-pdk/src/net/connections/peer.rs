//! A single connection of a server.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::io::Errno;

use super::super::{
    link::Raw,
    origin::peer_origin,
    proxy_protocol::Reader,
    read_size::ReadSize,
    secure::{Buffers, Session},
    stream::receive,
};
use crate::{Origin, RawBatch};

/// Maximum number of bytes to read from a connection at once while other connections have data, too.
const TURN: usize = 64 << 10;

/// A connection of a server.
pub(super) struct Peer {
    socket: OwnedFd,
    tls: Option<Box<Session>>,
    /// Reader of the header of the PROXY protocol, until the header is complete.
    header: Option<Box<Reader>>,
    /// Origin of the data, whose text is the name of the peer in messages: its address.
    pub(super) origin: Origin,
    read_size: ReadSize,
    /// `true` while the connection is in the queue of connections that may have data.
    pub(super) is_queued: bool,
    /// `true` if a read may return less data than is available, so that the socket must be read until it returns
    /// `EAGAIN`.
    pub(super) reads_to_end: bool,
    /// `true` once a byte was received.
    pub(super) has_data: bool,
    /// Monotonic time of the last read in ns; during the handshake, the time at which the connection was accepted.
    pub(super) active_ns: u64,
}

/// Result of a read.
pub(super) enum Turn {
    Read {
        /// `true` if there may be more data that the operating system will not report again.
        has_more: bool,
    },
    /// The peer closed the connection.
    Ended,
    Aborted(io::Error),
    /// The header of the PROXY protocol or the handshake failed.
    Refused(io::Error),
}

impl Peer {
    pub(super) fn new(socket: OwnedFd, tls: Option<Session>, origin: Origin, now_ns: u64) -> Self {
        Self {
            socket,
            tls: tls.map(Box::new),
            header: None,
            origin,
            read_size: ReadSize::default(),
            is_queued: false,
            reads_to_end: false,
            has_data: false,
            active_ns: now_ns,
        }
    }

    /// Lets the connection begin with a header of the PROXY protocol.
    pub(super) fn expect_header(&mut self) {
        self.header = Some(Box::default());
    }

    /// Returns the reader of the header of the PROXY protocol, unless the header is complete or not expected.
    pub(super) fn header(&self) -> Option<&Reader> {
        self.header.as_deref()
    }

    /// Returns whether the header of the PROXY protocol or the TLS handshake is not finished.
    pub(super) fn is_handshaking(&self) -> bool {
        self.header.is_some() || self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Reads the header of the PROXY protocol.
    fn read_header(&mut self, mut header: Box<Reader>) -> Turn {
        match header.read(&self.socket) {
            Ok(client) => {
                if let Some(client) = client {
                    self.origin = peer_origin(client);
                }
                // The data after the header may have arrived with it.
                Turn::Read { has_more: true }
            }
            Err(error) => {
                self.header = Some(header);
                if error.kind() == io::ErrorKind::WouldBlock {
                    Turn::Read { has_more: false }
                } else {
                    Turn::Refused(error)
                }
            }
        }
    }

    /// Reads once, directly into the batch.
    pub(super) fn read(
        &mut self,
        stream: u64,
        batch: &mut RawBatch,
        is_alone: bool,
        buffers: &mut Buffers,
    ) -> Turn {
        if let Some(header) = self.header.take() {
            return self.read_header(header);
        }
        let capacity = batch.limit().bytes.saturating_sub(batch.bytes().len());
        let space = self.read_size.space(if is_alone { capacity } else { capacity.min(TURN) });
        if self.tls.is_some() {
            return self.read_secure(stream, batch, space, buffers);
        }
        let socket = self.socket.as_fd();
        let mut stream = batch.stream(stream);
        match stream.fill_fragment(space, |space| receive(socket, space)) {
            Ok(0) => {
                // A connection without data has no stream to end.
                if self.has_data {
                    stream.end();
                }
                Turn::Ended
            }
            Ok(count) => {
                self.has_data = true;
                self.read_size.adjust(count, space);
                // A short read has emptied the socket, and the system reports data that arrives later.
                Turn::Read { has_more: count == space || self.reads_to_end }
            }
            Err(Errno::AGAIN) => Turn::Read { has_more: false },
            Err(Errno::INTR) => Turn::Read { has_more: true },
            Err(error) => {
                if self.has_data {
                    stream.abort();
                }
                Turn::Aborted(error.into())
            }
        }
    }

    /// Reads once like [`Self::read`], with TLS. If encrypted data could not be sent because the buffer of the
    /// operating system was full, the system reports when it can be sent.
    fn read_secure(
        &mut self,
        stream: u64,
        batch: &mut RawBatch,
        space: usize,
        buffers: &mut Buffers,
    ) -> Turn {
        let Some(tls) = &mut self.tls else { return Turn::Ended };
        let mut stream = batch.stream(stream);
        let space = Buffers::bound(space);
        let read = tls.read_socket(&self.socket, space, buffers);
        if !buffers.plain().is_empty() {
            self.has_data = true;
            stream.push_fragment(buffers.plain());
        }
        if matches!(&read, Ok(read) if read.is_end) {
            tls.close();
        }
        // Sends the answers of a handshake, the alert of a handshake that failed, and the end of the session.
        let sent = match tls.send(&mut Raw(&self.socket)) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        };
        match read.and_then(|read| if read.is_end { Ok(read) } else { sent.map(|()| read) }) {
            Ok(read) if read.is_end => {
                if self.has_data {
                    stream.end();
                }
                Turn::Ended
            }
            Ok(read) => {
                self.read_size.adjust(read.count, space);
                Turn::Read { has_more: read.count == space || self.reads_to_end }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Turn::Read { has_more: false }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                Turn::Read { has_more: true }
            }
            // Data that arrived before the end of the handshake is not trusted.
            Err(error) if tls.is_handshaking() => Turn::Refused(error),
            Err(error) => {
                if self.has_data {
                    stream.abort();
                }
                Turn::Aborted(error)
            }
        }
    }
}
