//! The sink: sends events to the peer.

use std::{future::poll_fn, sync::Arc};

use tremor_pdk::prelude::*;

use crate::session::{Frames, Link};

/// Sends each event as a message. A batch counts as delivered once the operating system has all its
/// bytes, because WebSocket has no acknowledgements.
#[derive(Debug)]
pub struct Sender {
    link: Arc<Link>,
    frames: Frames,
}

impl Sender {
    pub(crate) fn new(link: Arc<Link>, frames: Frames) -> Self {
        Self { link, frames }
    }
}

impl Sink for Sender {
    type Batch = RawBatch;

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        let mut exceptions = Exceptions::none();
        for event in batch {
            match self.frames.message(event.raw()) {
                Ok(message) => self.link.send(message),
                Err(error) => exceptions.reject(event, error),
            }
        }
        self.link.wake();
        let written = poll_fn(|context| self.link.poll_written(context)).await;
        written.map_err(|end| {
            Error::connection_lost(format!("cannot send to `{}`: {end}", self.link.peer))
        })?;
        exceptions.into()
    }
}
