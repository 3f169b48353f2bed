//! Pushing events with their tickets.

use std::ops::Deref;

use serde::Serialize;

use super::{FailedTicket, Tickets};
use crate::{Batch, EventMut, Result};

/// Pushes events to the batch of a pull, each with its ticket: see [`Tickets::begin`]. The methods of [`Batch`] that only
/// read can be called as well.
pub struct TicketWriter<'b, T> {
    all: &'b Tickets<T>,
    batch: &'b mut Batch,
    /// Tickets with the positions of their events, which `all` does not have yet.
    tickets: Vec<(usize, T)>,
}

impl<'b, T> TicketWriter<'b, T> {
    pub(super) fn new(all: &'b Tickets<T>, batch: &'b mut Batch) -> Self {
        Self { all, batch, tickets: Vec::new() }
    }

    /// Pushes a value, as [`Stream::push`](crate::Stream::push) does.
    ///
    /// # Errors
    /// The errors of [`Stream::push`](crate::Stream::push); no event is pushed then, and the ticket fails as that of a message
    /// that could not be decoded.
    pub fn push(
        &mut self,
        stream: u64,
        ticket: T,
        value: &(impl Serialize + ?Sized),
    ) -> Result<()> {
        let position = self.batch.len();
        match self.batch.stream(stream).push(value) {
            Ok(()) => self.tickets.push((position, ticket)),
            Err(error) => {
                let failed = FailedTicket { ticket, undecodable: Some(error.clone()) };
                self.all.update(|shared| shared.progress.failed.push(failed));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Pushes a whole message.
    #[inline]
    pub fn push_message(&mut self, stream: u64, ticket: T, message: &[u8]) {
        self.tickets.push((self.batch.len(), ticket));
        self.batch.stream(stream).push_message(message);
    }

    /// Returns the last event, to set its metadata.
    #[inline]
    pub fn last_mut(&mut self) -> Option<EventMut<'_>> {
        self.batch.last_mut()
    }
}

impl<T> Deref for TicketWriter<'_, T> {
    type Target = Batch;

    fn deref(&self) -> &Batch {
        self.batch
    }
}

impl<T> Drop for TicketWriter<'_, T> {
    /// Records the tickets, before the runtime has the batch.
    fn drop(&mut self) {
        if !self.tickets.is_empty() {
            self.all.record(self.batch.pull(), std::mem::take(&mut self.tickets));
        }
    }
}

impl<T> std::fmt::Debug for TicketWriter<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketWriter")
    }
}
