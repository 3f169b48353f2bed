//! Pushing events with their tickets.

use std::ops::Deref;

use serde::Serialize;

use super::{FailedTicket, Tickets};
use crate::{EventMut, Form, Raw, Result, Structured, TypedBatch};

/// Pushes events to the batch of a pull, each with its ticket: see [`Tickets::begin`]. The methods of [`TypedBatch`] that
/// only read can be called as well.
pub struct TicketWriter<'b, T, F: Form> {
    all: &'b Tickets<T>,
    batch: &'b mut TypedBatch<F>,
    /// Tickets with the positions of their events, which `all` does not have yet.
    tickets: Vec<(usize, T)>,
}

impl<'b, T, F: Form> TicketWriter<'b, T, F> {
    pub(super) fn new(all: &'b Tickets<T>, batch: &'b mut TypedBatch<F>) -> Self {
        Self { all, batch, tickets: Vec::new() }
    }

    /// Returns the last event, to set its metadata.
    #[inline]
    pub fn last_mut(&mut self) -> Option<EventMut<'_>> {
        self.batch.last_mut()
    }
}

impl<T> TicketWriter<'_, T, Structured> {
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
}

impl<T> TicketWriter<'_, T, Raw> {
    /// Pushes a whole message.
    #[inline]
    pub fn push_message(&mut self, stream: u64, ticket: T, message: &[u8]) {
        self.tickets.push((self.batch.len(), ticket));
        self.batch.stream(stream).push_message(message);
    }
}

impl<T, F: Form> Deref for TicketWriter<'_, T, F> {
    type Target = TypedBatch<F>;

    fn deref(&self) -> &TypedBatch<F> {
        self.batch
    }
}

impl<T, F: Form> Drop for TicketWriter<'_, T, F> {
    /// Records the tickets, before the runtime has the batch.
    fn drop(&mut self) {
        if !self.tickets.is_empty() {
            self.all.record(self.batch.pull(), std::mem::take(&mut self.tickets));
        }
    }
}

impl<T, F: Form> std::fmt::Debug for TicketWriter<'_, T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketWriter")
    }
}
