//! The writer that adds events with their tickets to a batch.

use std::ops::Deref;

use serde::Serialize;

use super::{FailedTicket, Tickets};
use crate::{Error, EventMut, Form, Raw, Result, Structured, TypedBatch};

/// A writer that adds events to the batch of a pull, each with its ticket: see [`Tickets::begin`]. Dereferences to
/// [`TypedBatch`] for reading.
pub struct TicketWriter<'b, T, F: Form> {
    all: &'b Tickets<T>,
    batch: &'b mut TypedBatch<F>,
    /// Tickets that are not recorded in `all` yet, with the positions of their events.
    tickets: Vec<(usize, T)>,
}

impl<'b, T, F: Form> TicketWriter<'b, T, F> {
    pub(super) fn new(all: &'b Tickets<T>, batch: &'b mut TypedBatch<F>) -> Self {
        Self { all, batch, tickets: Vec::new() }
    }

    /// Reports the ticket of a message that cannot become an event as failed and undecodable. Adds no event.
    pub fn reject(&mut self, ticket: T, error: Error) {
        let failed = FailedTicket { ticket, undecodable: Some(error) };
        self.all.update(|shared| shared.progress.failed.push(failed));
    }

    /// Returns the event that was added last, to set its metadata.
    #[inline]
    pub fn last_mut(&mut self) -> Option<EventMut<'_>> {
        self.batch.last_mut()
    }
}

impl<T> TicketWriter<'_, T, Structured> {
    /// Adds a value of `stream`, as [`Stream::push`](crate::Stream::push) does.
    ///
    /// # Errors
    /// Returns the errors of [`Stream::push`](crate::Stream::push). After an error, no event is added, and the ticket
    /// is reported as failed and undecodable.
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
                self.reject(ticket, error.clone());
                return Err(error);
            }
        }
        Ok(())
    }
}

impl<T> TicketWriter<'_, T, Raw> {
    /// Adds a whole message of `stream`.
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
    /// Records the tickets before the runtime gets the batch.
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
