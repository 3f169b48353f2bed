//! One connection.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use super::super::{appetite::Appetite, stream::receive};
use crate::Batch;

/// How much a connection may bring at once while others have something too, in bytes.
const TURN: usize = 64 << 10;

/// A connection.
pub(super) struct Peer {
    socket: OwnedFd,
    /// What it is called: the address of the other side.
    pub(super) name: Box<str>,
    appetite: Appetite,
    /// Whether its turn is to come.
    pub(super) is_queued: bool,
    /// Whether a read that leaves room may have left something: it is read until there is nothing.
    pub(super) reads_to_end: bool,
    /// Whether it has brought a byte.
    pub(super) has_brought: bool,
    /// When it was last read.
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
    Aborted(Errno),
}

impl Peer {
    pub(super) fn new(socket: OwnedFd, name: Box<str>, now_ns: u64) -> Self {
        Self {
            socket,
            name,
            appetite: Appetite::default(),
            is_queued: false,
            reads_to_end: false,
            has_brought: false,
            active_ns: now_ns,
        }
    }

    /// Reads once, straight into the batch.
    pub(super) fn read(&mut self, stream: u64, batch: &mut Batch, is_alone: bool) -> Turn {
        let room = (batch.limit().bytes as usize).saturating_sub(batch.bytes().len());
        let space = self.appetite.space(if is_alone { room } else { room.min(TURN) });
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
                Turn::Aborted(error)
            }
        }
    }
}
