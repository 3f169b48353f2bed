//! What becomes of the events of a delivery that the sink has answered.

use std::{
    iter::{self, Peekable},
    vec,
};

use tremor_abi::batch::{HostBatch, Rejected};
use tremor_pdk::{Error, ErrorPolicy, Exception};

use crate::engine::{
    account::token::InFlight,
    handle::series::Retried,
    sink::{SinkSide, pending::Pending},
};

/// What is to be done about some events of a delivery.
struct Verdicts {
    /// Positions of events that the sink cannot take, in order.
    rejected: Peekable<vec::IntoIter<(usize, Error)>>,
    /// Whether the event at each position is delivered again.
    again: Vec<bool>,
    /// Why.
    error: Option<Error>,
}

impl SinkSide {
    /// Counts events that the peer has.
    pub(super) fn delivered(&self, events: usize, are_letters: bool) {
        self.router.stats.delivered(events);
        self.router.stats.letters(if are_letters { events } else { 0 });
    }

    /// Notes that the peer took events, or that it answered without taking any: `has_taken`.
    pub(super) fn progress(&mut self, has_taken: bool) {
        self.outage.end();
        if self.retries.progress(has_taken) {
            self.handle.recover(Retried::Deliver);
        }
    }

    /// Sees to the exceptions. What is to be delivered again is given back.
    pub(super) async fn account(
        &mut self,
        mut pending: Pending,
        exceptions: Vec<Exception>,
    ) -> Option<(Pending, Error)> {
        if exceptions.is_empty() {
            let (events, letters) = (pending.events(), pending.letters());
            self.delivered(events - letters, false);
            self.delivered(letters, true);
            pending.settle();
            return None;
        }
        let mut verdicts = Verdicts::of(exceptions, pending.events());
        let (place, attempts) = (pending.place(), pending.attempts.take());
        let weight = pending.weight;
        let mut rest = Vec::new();
        let mut begin = 0;
        for item in pending.into_items() {
            let end = begin + item.batch.len();
            rest.extend(self.account_item(item, begin, &mut verdicts).await);
            begin = end;
        }
        let error = verdicts.error?;
        let mut rest = Pending::of(place, weight, rest)?;
        rest.attempts = attempts;
        Some((rest, error))
    }

    /// Sees to one batch of a delivery, whose events begin at this position of it.
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
        if !rejected.is_empty() {
            self.router.reject(&batch, rejected, token.clone()).await;
        }
        if left == 0 {
            token.settle();
            return None;
        }
        let mut rest = batch;
        let mut again = again.iter();
        rest.retain(|_| again.next().copied().unwrap_or_default());
        Some(InFlight { batch: rest, token, is_letter })
    }

    /// The sink cannot take any event of the delivery.
    pub(super) async fn reject_all(&mut self, pending: Pending, error: &Error) {
        for InFlight { batch, token, .. } in pending.into_items() {
            let reject = |event| Rejected { event, error: error.clone() };
            let rejected = batch.events().iter().copied().map(reject).collect();
            self.router.reject(&batch, rejected, token).await;
        }
    }
}

impl Verdicts {
    /// Those about a delivery of so many events.
    fn of(exceptions: Vec<Exception>, events: usize) -> Self {
        let (mut rejected, mut again, mut error) = (Vec::new(), Vec::new(), None);
        for exception in exceptions {
            let policy = exception.error.policy();
            if matches!(policy, ErrorPolicy::RETRY | ErrorPolicy::RECONNECT) {
                again.resize(events, false);
                again[exception.events].fill(true);
                // Where another connection is needed for some, there is no use in trying on this one.
                if error.is_none() || policy == ErrorPolicy::RECONNECT {
                    error = Some(exception.error);
                }
            } else {
                rejected.extend(exception.events.map(|event| (event, exception.error.clone())));
            }
        }
        Self { rejected: rejected.into_iter().peekable(), again, error }
    }

    /// The next ones that the sink cannot take, of those before this position.
    fn rejected_before(&mut self, end: usize) -> impl Iterator<Item = (usize, Error)> {
        iter::from_fn(move || self.rejected.next_if(|(position, _)| *position < end))
    }
}
