//! Many descriptors that one owner waits for, without a task or a waker for each.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    task::{Context, Poll},
};

use rustix::{
    event::{
        Timespec,
        epoll::{self, EventFlags as Flags},
    },
    io::Errno,
};
use tremor_abi::host::Interest;

use crate::{Host, Result, host::Watch};

/// How many descriptors are seen to at a time.
const EVENTS: usize = 256;

/// Descriptors to read, each known to the operating system once. Of each its owner hears when there is
/// something new to read, and not again while it has not read that.
pub(super) struct Poller {
    epoll: OwnedFd,
    watch: Watch,
}

/// There is something to read.
#[derive(Clone, Copy)]
pub(super) struct Readable {
    /// What the descriptor was added with.
    pub(super) token: u64,
    /// It is to be read until there is nothing left, since nothing is told again: the peer has closed its side,
    /// or has sent urgent data, where a read stops short of what is after it.
    pub(super) reads_to_end: bool,
}

impl Poller {
    pub(super) fn new(host: &Host) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let watch = host.watch(epoll.as_raw_fd(), Interest::READABLE)?;
        Ok(Self { epoll, watch })
    }

    /// Adds a descriptor, until it is closed.
    pub(super) fn add(&self, descriptor: impl AsFd, token: u64) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(token);
        epoll::add(&self.epoll, descriptor, data, Flags::IN | Flags::PRI | Flags::RDHUP | Flags::ET)
    }

    /// Says what can be read that could not before. There may be more if asked again.
    pub(super) fn look(&self, mut each: impl FnMut(Readable)) -> io::Result<()> {
        let ends = Flags::PRI | Flags::RDHUP | Flags::HUP | Flags::ERR;
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let events = match epoll::wait(&self.epoll, &mut events, Some(&Timespec::default())) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in events {
            let (data, flags) = (event.data, event.flags);
            each(Readable { token: data.u64(), reads_to_end: flags.intersects(ends) });
        }
        Ok(())
    }

    /// Ready when there is something to [look](Self::look) at.
    pub(super) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.watch.poll_ready(context)
    }
}
