//! Acknowledgements of single messages: what a peer wants that redelivers each message until it has an answer.

mod writer;

use std::{
    collections::BTreeMap,
    future::poll_fn,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard},
    task::{Poll, Waker},
};

pub use self::writer::TicketWriter;
use crate::{Acks, Error, Exception, Form, InFlight, Result, TypedBatch, lock::lock};

/// Tells a source which of its messages are acknowledged and which have failed, for peers that want an answer to each
/// message: Redis Streams, SQS, AMQP, Pub/Sub. For a peer with positions see [`Watermarks`](crate::Watermarks).
///
/// A ticket is what the answer needs, such as a delivery tag. The source gives one with each event, and gets it back when
/// the event has ended. The peer redelivers messages that have failed, so an event that fails and that nothing handles
/// does not fail the flow ([`Acks::brings_again`]).
///
/// Cheap to clone: the source has one to push events, the runtime has one to report how pulls end
/// ([`Source::acks`](crate::Source::acks)), and a task has one to answer the peer.
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
/// // In `acks`, for the runtime, which reports that the second message of the pull has failed.
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

/// Tickets of events that have ended since the last report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketProgress<T> {
    /// Tickets of events that are done with: delivered, dead-lettered or discarded on purpose.
    pub acknowledged: Vec<T>,
    /// Tickets of events that could not be delivered.
    pub failed: Vec<FailedTicket<T>>,
}

/// The ticket of an event that could not be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTicket<T> {
    /// The ticket.
    pub ticket: T,
    /// Error of a message that could not be decoded: to redeliver the message is of no use. `None` if a later attempt may
    /// succeed.
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
    /// Tickets with the positions of their events in the batch, in order.
    tickets: Vec<(usize, T)>,
    undecodable: Vec<Exception>,
}

impl<T> Tickets<T> {
    /// Makes an object without a ticket.
    pub fn new() -> Self {
        let shared =
            Shared { pulls: BTreeMap::new(), progress: TicketProgress::default(), waiting: None };
        Self { shared: Arc::new(Mutex::new(shared)), most_in_flight: InFlight::UNLIMITED }
    }

    /// Sets the limits of what is in flight: see [`Acks::most_in_flight`].
    #[must_use]
    pub fn at_most(self, most_in_flight: InFlight) -> Self {
        Self { most_in_flight, ..self }
    }

    /// Begins to push events to the batch of a pull.
    pub fn begin<'b, F: Form>(&'b self, batch: &'b mut TypedBatch<F>) -> TicketWriter<'b, T, F> {
        TicketWriter::new(self, batch)
    }

    /// Returns the tickets of events that have ended since the last report.
    pub fn take(&self) -> TicketProgress<T> {
        std::mem::take(&mut self.lock().progress)
    }

    /// Waits for the end of an event, and returns as [`Tickets::take`] does. One task may wait.
    pub async fn progress(&self) -> TicketProgress<T> {
        poll_fn(|context| {
            let mut shared = self.lock();
            if shared.progress.is_empty() {
                shared.waiting = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut shared.progress))
        })
        .await
    }

    /// Returns the tickets of all events in flight, in the order of pulls: for a peer that redelivers messages unless it is
    /// told that they are still processed.
    pub fn in_flight(&self) -> Vec<T>
    where
        T: Clone,
    {
        let shared = self.lock();
        let tickets = shared.pulls.values().flat_map(|pull| &pull.tickets);
        tickets.map(|(_, ticket)| ticket.clone()).collect()
    }

    /// Records the tickets of a pull.
    fn record(&self, number: u64, tickets: Vec<(usize, T)>) {
        let mut shared = self.lock();
        let new = || Pull { tickets: Vec::new(), undecodable: Vec::new() };
        shared.pulls.entry(number).or_insert_with(new).tickets.extend(tickets);
    }

    /// Changes what is known of tickets, and wakes the task that waits for progress.
    fn update(&self, change: impl FnOnce(&mut Shared<T>)) {
        let waiting = {
            let shared = &mut *self.lock();
            change(shared);
            if shared.progress.is_empty() { None } else { shared.waiting.take() }
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Shared<T>> {
        lock(&self.shared)
    }
}

impl<T: Send + 'static> Acks for Tickets<T> {
    fn most_in_flight(&self) -> InFlight {
        self.most_in_flight
    }

    fn brings_again(&self) -> bool {
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
        // The failure of the pull follows.
        if let Some(pull) = self.lock().pulls.get_mut(&pull) {
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
                    let at = undecodable.partition_point(|it| it.events.end <= position);
                    let found = undecodable.get(at).filter(|it| it.events.contains(&position));
                    let undecodable = found.map(|it| it.error.clone());
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
