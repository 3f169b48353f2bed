//! Which of many sockets are ready.

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

/// How many are told at once.
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

    /// Tells of this socket, by this number, for as long as it is ready.
    pub(crate) fn add(&self, socket: impl AsFd, number: usize, flags: EventFlags) -> Result {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(number as u64), flags)?)
    }

    /// The numbers of sockets that are ready, as soon as there is one, or after this time.
    pub(crate) fn wait(&mut self, most: Duration) -> Result<impl Iterator<Item = usize>> {
        let most = Timespec::try_from(most)?;
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.events),
            Some(&most),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let number = |event: &Event| usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
        Ok(self.events.iter().map(number))
    }
}
