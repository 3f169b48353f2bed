//! Readiness of many sockets.

use std::{
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, Event, EventData, EventFlags},
    },
    io::Errno,
};

use crate::Result;

/// Maximum number of sockets that are reported at once.
const AT_ONCE: usize = 256;

pub(crate) struct Poll {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poll {
    pub(crate) fn new() -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(AT_ONCE) })
    }

    /// Adds a socket. It is reported as `number` whenever it is ready.
    pub(crate) fn add(&self, socket: impl AsFd, number: usize, flags: EventFlags) -> Result {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(number as u64), flags)?)
    }

    /// Waits until a socket is ready, for `timeout` at most, and returns the numbers of all ready sockets.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<impl Iterator<Item = usize>> {
        let timeout = Timespec::try_from(timeout)?;
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.events),
            Some(&timeout),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let number = |event: &Event| usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
        Ok(self.events.iter().map(number))
    }
}
