//! Acknowledgement of single messages, for peers that redeliver each message until it is answered.

mod writer;

use std::{
    collections::BTreeMap,
    future::poll_fn,
    ops::Range,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

pub use self::writer::TicketWriter;
use crate::{Acks, Error, Exception, Form, InFlight, Result, TypedBatch, lock};

/// An implementation of [`Acks`] that reports to a source which of its messages are acknowledged and which have failed,
/// for peers that expect an answer to each message: Redis Streams, SQS, AMQP, Pub/Sub. For peers with positions, see
/// [`Watermarks`](crate::Watermarks).
///
/// A ticket is the information that an answer needs, such as a delivery tag. The source passes a ticket with each
/// event, and gets the ticket back when the event has ended. The peer decides whether to redeliver a failed message, so
/// an event that fails does not fail the flow ([`Acks::replays_failed`]).
///
/// Clones share their state and are cheap. The source uses one clone to push events, the runtime uses another clone to
/// report how pulls end ([`Source::acks`](crate::Source::acks)), and a task uses a third clone to answer the peer.
///
/// ```
/// # use tremor_pdk::{Acks, RawBatch, Result, Tickets};
/// # fn main() -> Result<()> {
/// # let mut batch = RawBatch::new();
/// # batch.set_pull(1);
/// let tickets = Tickets::new();
/// // In `pull`: each message with its ticket.
/// let mut writer = tickets.begin(&mut batch);
/// writer.push_message(0, "tag 1", b"first");
/// writer.push_message(0, "tag 2", b"second");
/// # drop(writer);
/// // In `acks`, for the runtime. Here, the example reports that the second message of pull 1 has failed.
/// let mut acks: Box<dyn Acks> = Box::new(tickets.clone());
/// acks.fail(1, &[1..2])?;
/// // In a task that answers the peer.
/// let progress = tickets.take();
/// assert_eq!(progress.acknowledged, ["tag 1"]);
/// assert_eq!(progress.failed[0].ticket, "tag 2");
/// # Ok(())
/// # }
/// ```
pub struct Tickets<T> {
    shared: Arc<Mutex<Shared<T>>>,
    most_in_flight: InFlight,
}

/// Tickets of events that have ended since the last call of [`Tickets::take`] or [`Tickets::progress`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketProgress<T> {
    /// Tickets of events that were delivered, dead-lettered or discarded on purpose.
    pub acknowledged: Vec<T>,
    /// Tickets of events that could not be delivered.
    pub failed: Vec<FailedTicket<T>>,
}

/// The ticket of an event that could not be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTicket<T> {
    /// The ticket that the source passed with the event.
    pub ticket: T,
    /// The error if the message could not be decoded. If the peer redelivered the message, decoding would fail again.
    /// `None` if a later attempt may succeed.
    pub undecodable: Option<Error>,
}

struct Shared<T> {
    /// Tickets of each pull in flight.
    pulls: BTreeMap<u64, Pull<T>>,
    progress: TicketProgress<T>,
    /// Waker of the task that waits for progress.
    waiting: Option<Waker>,
}

struct Pull<T> {
    /// Tickets with the positions of their events in the batch, in ascending order.
    tickets: Vec<(usize, T)>,
    undecodable: Vec<Exception>,
}

impl<T> Tickets<T> {
    /// Creates an object that has no tickets yet.
    pub fn new() -> Self {
        let shared =
            Shared { pulls: BTreeMap::new(), progress: TicketProgress::default(), waiting: None };
        Self { shared: Arc::new(Mutex::new(shared)), most_in_flight: InFlight::UNLIMITED }
    }

    /// Sets the limits of the events in flight: see [`Acks::most_in_flight`].
    #[must_use]
    pub fn at_most(self, most_in_flight: InFlight) -> Self {
        Self { most_in_flight, ..self }
    }

    /// Returns a writer that adds events to the batch of a pull.
    pub fn begin<'b, F: Form>(&'b self, batch: &'b mut TypedBatch<F>) -> TicketWriter<'b, T, F> {
        TicketWriter::new(self, batch)
    }

    /// Returns the tickets of events that have ended since the last call of this method or of [`Tickets::progress`],
    /// without waiting.
    pub fn take(&self) -> TicketProgress<T> {
        std::mem::take(&mut lock(&self.shared).progress)
    }

    /// Waits until an event has ended, and then returns the same tickets as [`Tickets::take`]. Only one task may wait.
    pub async fn progress(&self) -> TicketProgress<T> {
        poll_fn(|context| {
            let mut shared = lock(&self.shared);
            if shared.progress.is_empty() {
                shared.waiting = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut shared.progress))
        })
        .await
    }

    /// Returns the tickets of all events in flight, in the order of pulls. Use this method for a peer that redelivers a
    /// message unless it is notified regularly that the message is still being processed.
    pub fn in_flight(&self) -> Vec<T>
    where
        T: Clone,
    {
        let shared = lock(&self.shared);
        let tickets = shared.pulls.values().flat_map(|pull| &pull.tickets);
        tickets.map(|(_, ticket)| ticket.clone()).collect()
    }

    /// Records the tickets of the pull `number`.
    fn record(&self, number: u64, tickets: Vec<(usize, T)>) {
        let mut shared = lock(&self.shared);
        let new = || Pull { tickets: Vec::new(), undecodable: Vec::new() };
        shared.pulls.entry(number).or_insert_with(new).tickets.extend(tickets);
    }

    /// Applies `change` to the state, and wakes the task that waits for progress if there is any.
    fn update(&self, change: impl FnOnce(&mut Shared<T>)) {
        let waiting = {
            let shared = &mut *lock(&self.shared);
            change(shared);
            if shared.progress.is_empty() { None } else { shared.waiting.take() }
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl<T: Send + 'static> Acks for Tickets<T> {
    fn most_in_flight(&self) -> InFlight {
        self.most_in_flight
    }

    fn replays_failed(&self) -> bool {
        false
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        self.update(|Shared { pulls, progress, .. }| {
            let tickets = pulls.remove(&pull).into_iter().flat_map(|pull| pull.tickets);
            progress.acknowledged.extend(tickets.map(|(_, ticket)| ticket));
        });
        Ok(())
    }

    fn undecodable(&mut self, pull: u64, messages: &[Exception]) -> Result<()> {
        // The runtime calls `fail` for the same pull afterwards.
        if let Some(pull) = lock(&self.shared).pulls.get_mut(&pull) {
            pull.undecodable = messages.to_vec();
        }
        Ok(())
    }

    fn fail(&mut self, pull: u64, events: &[Range<usize>]) -> Result<()> {
        self.update(|Shared { pulls, progress, .. }| {
            let Some(Pull { tickets, undecodable }) = pulls.remove(&pull) else { return };
            for (position, ticket) in tickets {
                let range = events.get(events.partition_point(|range| range.end <= position));
                if range.is_some_and(|range| range.contains(&position)) {
                    let at =
                        undecodable.partition_point(|exception| exception.events.end <= position);
                    let found = undecodable
                        .get(at)
                        .filter(|exception| exception.events.contains(&position));
                    let undecodable = found.map(|exception| exception.error.clone());
                    progress.failed.push(FailedTicket { ticket, undecodable });
                } else {
                    progress.acknowledged.push(ticket);
                }
            }
        });
        Ok(())
    }
}

impl<T> TicketProgress<T> {
    /// Returns whether no event has ended.
    pub fn is_empty(&self) -> bool {
        self.acknowledged.is_empty() && self.failed.is_empty()
    }
}

impl<T> Default for TicketProgress<T> {
    fn default() -> Self {
        Self { acknowledged: Vec::new(), failed: Vec::new() }
    }
}

impl<T> Clone for Tickets<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), most_in_flight: self.most_in_flight }
    }
}

impl<T> Default for Tickets<T> {
    fn default() -> Self {
        Self::new()
    }
}

shows!(Tickets<T>);

#[cfg(test)]
mod tests;
