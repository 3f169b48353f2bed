//! The source: the requests that wait.

use std::{future::poll_fn, sync::Arc};

use tremor_pdk::{Acks, Task, prelude::*};

use crate::{
    config::Respond,
    room::{Ends, Room},
    server::Server,
};

/// The source of one connection of the runtime's.
pub struct Requests {
    server: Arc<Server>,
    /// What accepts connections; none after the end.
    accepts: Option<Task>,
    _keeps_time: Task,
}

impl Requests {
    pub(crate) fn new(server: Arc<Server>, accepts: Task, keeps_time: Task) -> Self {
        Self { server, accepts: Some(accepts), _keeps_time: keeps_time }
    }
}

/// A pull that waits for requests. Dropped before its end it was given up: the flow drains, or is paused.
struct Pulls<'r> {
    room: &'r Room,
    has_ended: bool,
}

impl<'r> Pulls<'r> {
    fn new(room: &'r Room) -> Self {
        room.set_given_up(false);
        Self { room, has_ended: false }
    }
}

impl Drop for Pulls<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.room.set_given_up(true);
        }
    }
}

impl Source for Requests {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        let mut pulls = Pulls::new(&self.server.room);
        poll_fn(|context| self.server.room.poll_pull(context, batch)).await?;
        pulls.has_ended = true;
        Ok(Pull::Events)
    }

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        let hears = self.server.settings.config.respond == Respond::Delivered;
        hears.then(|| Box::new(Ends(self.server.room.clone())) as Box<dyn Acks>)
    }

    /// Requests that are not in the flow are refused, and the others are answered by now.
    async fn close(&mut self) -> Result<()> {
        self.accepts = None;
        self.server.drain().await;
        Ok(())
    }

    fn on_circuit_breaker(&mut self, open: bool) -> Result<()> {
        self.server.room.set_sink_down(open);
        Ok(())
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.server.end();
    }
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Requests")
    }
}
