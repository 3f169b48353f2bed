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
        self.add_for(descriptor, token, Flags::empty())
    }

    /// As [`Self::add`], for a descriptor that is also written to. Of room where there was none is told as of
    /// something to read.
    pub(super) fn add_both(&self, descriptor: impl AsFd, token: u64) -> Result<(), Errno> {
        self.add_for(descriptor, token, Flags::OUT)
    }

    fn add_for(&self, descriptor: impl AsFd, token: u64, flags: Flags) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(token);
        let flags = flags | Flags::IN | Flags::PRI | Flags::RDHUP | Flags::ET;
        epoll::add(&self.epoll, descriptor, data, flags)
    }

    /// Says what can be read that could not before: all of it, where there are so many descriptors at most.
    pub(super) fn look(&self, most: usize, mut each: impl FnMut(Readable)) -> io::Result<()> {
        let ends = Flags::PRI | Flags::RDHUP | Flags::HUP | Flags::ERR;
        let mut space = [const { MaybeUninit::uninit() }; EVENTS];
        // Each comes once, unless there is more of it meanwhile: that does not go on for ever.
        for _ in 0..=most / EVENTS {
            let events = match epoll::wait(&self.epoll, &mut space, Some(&Timespec::default())) {
                Ok((events, _)) => events,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            for event in &*events {
                let (data, flags) = (event.data, event.flags);
                each(Readable { token: data.u64(), reads_to_end: flags.intersects(ends) });
            }
            if events.len() < EVENTS {
                break;
            }
        }
        Ok(())
    }

    /// Ready when there is something to [look](Self::look) at.
    pub(super) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.watch.poll_ready(context)
    }
}
