//! Handling of a sink's answers to deliveries: events are settled, delivered again, or rejected.

use std::{
    iter::{self, Peekable},
    time::Duration,
    vec,
};

use tremor_abi::batch::{HostBatch, Rejected};
use tremor_pdk::{Batch, Error, ErrorKind, ErrorPolicy, Exception};

use crate::engine::{
    handle::{connection::End, series::Retried},
    logging::losses::OverflowReason,
    route::fan_out::count_drop,
    sink::{Session, SinkSide, pending::Pending},
    tracking::token::{InFlight, Token},
};
use crate::flow::owner_of;

/// The exceptions in a sink's answer, by event.
struct Verdicts {
    /// Positions of events that cannot be delivered, in ascending order.
    rejected: Peekable<vec::IntoIter<(usize, Error)>>,
    /// `true` at the position of each event that has to be delivered again. Empty if there is no such event.
    again: Vec<bool>,
    /// Reason why events have to be delivered again. An error that requires another connection takes precedence.
    error: Option<Error>,
}

impl Session<'_> {
    /// Handles the sink's answer to the delivery in `slot`. Events that the peer did not accept are delivered again on
    /// this connection or on the next one, or are sent to `err`.
    pub(super) async fn answered(
        &mut self,
        slot: usize,
        result: Result<Vec<Exception>, Error>,
    ) -> Result<(), End> {
        let slots = &mut self.side.backlog.slots;
        self.side.router.stats.deliveries.end(slots.end(slot));
        // Most deliveries are accepted in full. Such deliveries are settled in their slot, so that their batches are
        // not moved.
        match result {
            Ok(exceptions) if exceptions.is_empty() => {
                let (events, letters) = slots.counts(slot);
                self.connection.event_passed();
                self.side.delivered(events - letters, false);
                self.side.delivered(letters, true);
                self.side.backlog.slots.settle(slot);
                self.side.progress(true);
                Ok(())
            }
            result => match slots.take(slot) {
                Some(pending) => self.not_accepted(pending, result).await,
                None => Ok(()),
            },
        }
    }

    /// Handles a delivery if the peer did not accept all of its events.
    async fn not_accepted(
        &mut self,
        pending: Pending,
        result: Result<Vec<Exception>, Error>,
    ) -> Result<(), End> {
        match result {
            Ok(exceptions) => {
                let all = pending.events();
                let undelivered = exceptions.iter().map(|it| it.events.len());
                let has_taken = undelivered.sum::<usize>() < all;
                if has_taken {
                    self.connection.event_passed();
                }
                let Some((mut remainder, error)) = self.side.account(pending, exceptions).await
                else {
                    self.side.progress(has_taken);
                    return Ok(());
                };
                let has_passed = remainder.events() < all;
                if has_passed {
                    self.side.progress(has_taken);
                }
                if error.policy() == ErrorPolicy::RECONNECT {
                    self.side.backlog.put_back(remainder);
                    return Err(End::of(error));
                }
                if has_passed {
                    // The peer makes progress, so the remaining events start without counted attempts.
                    remainder.attempts = None;
                    self.side.backlog.put_back(remainder);
                } else {
                    self.again(remainder, error).await;
                }
            }
            Err(error) if error.policy() == ErrorPolicy::DEAD_LETTER => {
                self.side.progress(false);
                self.side.reject_all(pending, &error).await;
            }
            Err(error) if error.policy() == ErrorPolicy::RETRY => self.again(pending, error).await,
            Err(error) => {
                self.side.backlog.put_back(pending);
                return Err(End::of(error));
            }
        }
        Ok(())
    }

    /// Schedules another attempt of a delivery of which the peer accepted no event. Sends the events to `err` if no
    /// attempt is left.
    async fn again(&mut self, mut pending: Pending, error: Error) {
        match self.side.retries.again(&mut pending, &error) {
            Ok(()) => {
                self.side.handle.retry(Retried::Deliver, &error, Duration::ZERO);
                if self.side.backlog.slots.is_empty() {
                    self.side.outage.begin();
                }
                self.side.backlog.put_back(pending);
            }
            Err(error) => {
                self.side.handle.note(&error);
                self.side.reject_all(pending, &error).await;
            }
        }
    }
}

impl SinkSide {
    /// Counts delivered events. `are_letters` is `true` if they are dead letters.
    pub(super) fn delivered(&self, events: usize, are_letters: bool) {
        self.router.stats.delivered(events);
        self.router.stats.letters(if are_letters { events } else { 0 });
    }

    /// Ends the outage and the series of retries, because the peer answered. `has_taken` is `true` if the peer accepted
    /// any event.
    pub(super) fn progress(&mut self, has_taken: bool) {
        self.outage.end();
        self.silent_since = None;
        if self.retries.progress(has_taken) {
            self.handle.recover(Retried::Deliver);
        }
    }

    /// Counts the accepted events of a delivery and settles them. Rejects the events that cannot be delivered. Returns
    /// the events that have to be delivered again, if any, with the reason. A batch with such events keeps its token
    /// until they are delivered.
    pub(super) async fn account(
        &mut self,
        mut pending: Pending,
        exceptions: Vec<Exception>,
    ) -> Option<(Pending, Error)> {
        let mut verdicts = Verdicts::of(exceptions, pending.events());
        let (position, attempts) = (pending.position(), pending.attempts.take());
        let weight = pending.weight;
        let mut remainder = Vec::new();
        let mut begin = 0;
        for item in pending.into_items() {
            let end = begin + item.batch.len();
            remainder.extend(self.account_item(item, begin, &mut verdicts).await);
            begin = end;
        }
        let error = verdicts.error?;
        let mut remainder = Pending::of(position, weight, remainder)?;
        remainder.attempts = attempts;
        Some((remainder, error))
    }

    /// Handles one batch of a delivery. `begin` is the position of the batch's first event in the delivery. Returns the
    /// events that have to be delivered again, if any.
    async fn account_item(
        &mut self,
        item: InFlight,
        begin: usize,
        verdicts: &mut Verdicts,
    ) -> Option<InFlight> {
        let InFlight { batch, token, is_letter } = item;
        let rejected: Vec<_> = verdicts
            .rejected_before(begin + batch.len())
            .map(|(position, error)| Rejected { event: batch.events()[position - begin], error })
            .collect();
        let again = verdicts.again.get(begin..).unwrap_or_default();
        let again = &again[..again.len().min(batch.len())];
        let left = again.iter().filter(|again| **again).count();
        self.delivered(batch.len() - rejected.len() - left, is_letter);
        let rejected = self.overflow(&batch, rejected, &token).await;
        if !rejected.is_empty() {
            self.router.reject(&batch, rejected, token.clone()).await;
        }
        if left == 0 {
            token.settle();
            return None;
        }
        let mut remainder = batch;
        let mut again = again.iter();
        remainder.retain(|_| again.next().copied().unwrap_or_default());
        Some(InFlight { batch: remainder, token, is_letter })
    }

    /// Drops the events that a full queue on disk has refused, or passes them on to the port `err`, as `queue.when_full`
    /// sets. Returns the other rejected events.
    async fn overflow(
        &mut self,
        batch: &Batch,
        rejected: Vec<Rejected>,
        token: &Token,
    ) -> Vec<Rejected> {
        let Some(when_full) = self.when_disk_is_full else { return rejected };
        let is_full = |it: &Rejected| it.error.kind() == ErrorKind::FULL;
        let (full, rejected): (Vec<_>, _) = rejected.into_iter().partition(is_full);
        if full.is_empty() {
            return rejected;
        }
        let why = OverflowReason::QueueFull;
        if when_full.drops() {
            let sink = owner_of(self.handle.name());
            count_drop(sink, full.len(), why, &self.router.stats, &self.control);
            return rejected;
        }
        let events: Vec<_> = full.into_iter().map(|it| it.event).collect();
        let mut batch = batch.clone();
        batch.set_events(&events);
        self.router.pass_on(InFlight::new(batch, token.clone()), why).await;
        rejected
    }

    /// Rejects all events of a delivery.
    pub(super) async fn reject_all(&mut self, pending: Pending, error: &Error) {
        for InFlight { batch, token, .. } in pending.into_items() {
            let reject = |event| Rejected { event, error: error.clone() };
            let rejected = batch.events().iter().copied().map(reject).collect();
            self.router.reject(&batch, rejected, token).await;
        }
    }
}

impl Verdicts {
    /// Collects the exceptions of a delivery of `events` events.
    fn of(exceptions: Vec<Exception>, events: usize) -> Self {
        let (mut rejected, mut again, mut error) = (Vec::new(), Vec::new(), None);
        for exception in exceptions {
            let policy = exception.error.policy();
            if matches!(policy, ErrorPolicy::RETRY | ErrorPolicy::RECONNECT) {
                again.resize(events, false);
                again[exception.events].fill(true);
                // If some events need another connection, retrying the other events on this connection is of no use.
                if error.is_none() || policy == ErrorPolicy::RECONNECT {
                    error = Some(exception.error);
                }
            } else {
                rejected.extend(exception.events.map(|event| (event, exception.error.clone())));
            }
        }
        Self { rejected: rejected.into_iter().peekable(), again, error }
    }

    /// Removes and returns the rejected events before the position `end`.
    fn rejected_before(&mut self, end: usize) -> impl Iterator<Item = (usize, Error)> {
        iter::from_fn(move || self.rejected.next_if(|(position, _)| *position < end))
    }
}
