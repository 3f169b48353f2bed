//! A set of descriptors whose owner waits for all of them together, without a task or a waker for each descriptor.

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

/// Maximum number of readiness events that one call of epoll returns.
const EVENTS: usize = 256;

/// A set of descriptors to read. Each descriptor is registered with the operating system once, edge-triggered: new data
/// is reported once, and not again until more data arrives.
pub(super) struct Poller {
    epoll: OwnedFd,
    watch: Watch,
}

/// A descriptor that has data to read.
#[derive(Clone, Copy)]
pub(super) struct Readable {
    /// The token with which the descriptor was added.
    pub(super) token: u64,
    /// `true` if the descriptor has to be read until no data is left, because the system will not report its data
    /// again: the peer has closed its side, or has sent urgent data, before which reads stop.
    pub(super) reads_to_end: bool,
}

impl Poller {
    pub(super) fn new(host: &Host) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let watch = host.watch(epoll.as_raw_fd(), Interest::READABLE)?;
        Ok(Self { epoll, watch })
    }

    /// Adds a descriptor. Closing the descriptor also removes it from the set.
    pub(super) fn add(&self, descriptor: impl AsFd, token: u64) -> Result<(), Errno> {
        self.add_for(descriptor, token, Flags::empty())
    }

    /// Adds a descriptor that is also written to. When the descriptor can be written again after its buffer was full,
    /// it is reported as if it had data to read.
    pub(super) fn add_both(&self, descriptor: impl AsFd, token: u64) -> Result<(), Errno> {
        self.add_for(descriptor, token, Flags::OUT)
    }

    fn add_for(&self, descriptor: impl AsFd, token: u64, flags: Flags) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(token);
        let flags = flags | Flags::IN | Flags::PRI | Flags::RDHUP | Flags::ET;
        epoll::add(&self.epoll, descriptor, data, flags)
    }

    /// Calls `each` for the descriptors that became readable since the last call. `most` is the maximum number of
    /// descriptors in the set.
    pub(super) fn check(&self, most: usize, mut each: impl FnMut(Readable)) -> io::Result<()> {
        let ends = Flags::PRI | Flags::RDHUP | Flags::HUP | Flags::ERR;
        let mut space = [const { MaybeUninit::uninit() }; EVENTS];
        // A descriptor is reported again only if more data arrives meanwhile, so the number of rounds is limited.
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

    /// Completes when [`check`](Self::check) would report a descriptor.
    pub(super) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.watch.poll_ready(context)
    }
}
