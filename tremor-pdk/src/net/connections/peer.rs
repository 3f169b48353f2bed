//! One connection.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::io::Errno;

use super::super::{
    appetite::Appetite,
    link::Raw,
    secure::{Buffers, Session},
    stream::receive,
};
use crate::RawBatch;

/// How much a connection may bring at once while others have something too, in bytes.
const TURN: usize = 64 << 10;

/// A connection.
pub(super) struct Peer {
    socket: OwnedFd,
    tls: Option<Box<Session>>,
    /// What it is called: the address of the other side.
    pub(super) name: Box<str>,
    appetite: Appetite,
    /// Whether its turn is to come.
    pub(super) is_queued: bool,
    /// Whether a read that leaves room may have left something: it is read until there is nothing.
    pub(super) reads_to_end: bool,
    /// Whether it has brought a byte.
    pub(super) has_brought: bool,
    /// When it was last read; of a handshake, when it began.
    pub(super) active_ns: u64,
}

/// What a turn came to.
pub(super) enum Turn {
    Read {
        /// Whether there may be more, of which the system says nothing.
        has_more: bool,
    },
    /// The peer has closed the connection.
    Ended,
    Aborted(io::Error),
    /// The handshake has failed.
    Refused(io::Error),
}

impl Peer {
    pub(super) fn new(socket: OwnedFd, tls: Option<Session>, name: Box<str>, now_ns: u64) -> Self {
        Self {
            socket,
            tls: tls.map(Box::new),
            name,
            appetite: Appetite::default(),
            is_queued: false,
            reads_to_end: false,
            has_brought: false,
            active_ns: now_ns,
        }
    }

    /// Whether the sides do not trust each other yet.
    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Reads once, straight into the batch.
    pub(super) fn read(
        &mut self,
        stream: u64,
        batch: &mut RawBatch,
        is_alone: bool,
        buffers: &mut Buffers,
    ) -> Turn {
        let room = (batch.limit().bytes as usize).saturating_sub(batch.bytes().len());
        let space = self.appetite.space(if is_alone { room } else { room.min(TURN) });
        if self.tls.is_some() {
            return self.read_secure(stream, batch, space, buffers);
        }
        let socket = self.socket.as_fd();
        let mut stream = batch.stream(stream);
        match stream.fill_fragment(space, |space| receive(socket, space)) {
            Ok(0) => {
                // Of a stream that never began nothing ends.
                if self.has_brought {
                    stream.end();
                }
                Turn::Ended
            }
            Ok(count) => {
                self.has_brought = true;
                self.appetite.learn(count, space);
                // A read that leaves room has emptied the socket: what comes after it is told.
                Turn::Read { has_more: count == space || self.reads_to_end }
            }
            Err(Errno::AGAIN) => Turn::Read { has_more: false },
            Err(Errno::INTR) => Turn::Read { has_more: true },
            Err(error) => {
                if self.has_brought {
                    stream.abort();
                }
                Turn::Aborted(error.into())
            }
        }
    }

    /// As [`Self::read`], with TLS. The system says when there is room to send what it had no room for.
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
            self.has_brought = true;
            stream.push_fragment(buffers.plain());
        }
        if matches!(&read, Ok(read) if read.is_end) {
            tls.close();
        }
        // The answers of a handshake, why there is none, and that nothing more is sent.
        let sent = match tls.send(&mut Raw(&self.socket)) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        };
        match read.and_then(|read| if read.is_end { Ok(read) } else { sent.map(|()| read) }) {
            Ok(read) if read.is_end => {
                if self.has_brought {
                    stream.end();
                }
                Turn::Ended
            }
            Ok(read) => {
                self.appetite.learn(read.count, space);
                Turn::Read { has_more: read.count == space || self.reads_to_end }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Turn::Read { has_more: false }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                Turn::Read { has_more: true }
            }
            // What has come before the end of a handshake is trusted by nobody.
            Err(error) if tls.is_handshaking() => Turn::Refused(error),
            Err(error) => {
                if self.has_brought {
                    stream.abort();
                }
                Turn::Aborted(error)
            }
        }
    }
}
