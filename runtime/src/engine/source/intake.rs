//! The part of a source that only one task at a time may use. It pulls, preprocesses, and tracks which pulls have not
//! ended.
//!
//! Only the source's own task waits for data. In the steady state, in which data is always available, helper tasks may
//! pull as well. They leave results that they cannot handle to the source's own task.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use tremor_abi::batch::{Event, HostBatch, Limit};
use tremor_pdk::{Acks, Batch, InFlight, Pull, Result};

use crate::clock::Clock;
use crate::engine::{
    handle::status::Bound,
    processors::{Busy, Processors},
    route::router::{Egress, Ticket},
    source::preprocessors::{Next, Preprocessed, Preprocessors, StreamEnd},
    tracking::token::{Ended, Ledger, Token},
    tuning::{SHORTEST_WAIT, STEADY},
};
use crate::{dynamic::DynSource, memory::FlowMemory};

/// State of an intake that is kept across connections.
#[derive(Default)]
pub(crate) struct IntakeState {
    /// Number of the source, which is stored in each of its events.
    pub(crate) id: u32,
    /// The preprocessors, in the order in which they run. For connectors of bytes, the last preprocessor joins the
    /// fragments that the others did not form into messages. No bytes are buffered between connections.
    pub(crate) preprocessors: Preprocessors,
}

/// The intake of one connection.
pub(crate) struct Intake {
    pub(crate) state: IntakeState,
    source: Box<dyn DynSource>,
    /// Receiver of the acknowledgements. `None` if the source wants none.
    acks: Option<Box<dyn Acks>>,
    /// Collects the pulls that have ended. `None` if the source wants no acknowledgements.
    pub(crate) ledger: Option<Arc<Ledger>>,
    /// Limits of the events in flight.
    most_in_flight: InFlight,
    /// Number of pulls that read something. Pulls are numbered from 1, so this is the number of the last pull.
    pulls: u64,
    /// Number of events of the last pull, and number of bytes of all pulls since the last output. They are counted in
    /// the metrics with the next output.
    uncounted: (usize, usize),
    /// The pulls whose end was not reported to the source, in order. Pulls in between that were reported are included.
    open: VecDeque<Open>,
    /// Events and bytes of the pulls whose end was not reported to the source.
    in_flight: Amount,
    /// Number of consecutive pulls that filled their batch without waiting.
    full_pulls: usize,
    /// Set in the steady state, in which helpers may pull. Counts the source as busy.
    steady: Option<Busy>,
    processors: Processors,
    clock: Clock,
    memory: FlowMemory,
    /// Result of a helper's pull that the source's own task still has to handle, or error of `acks` that the first pull
    /// has to report.
    deferred: Option<Result<Pull>>,
    /// `true` while aborted streams are preprocessed only so that their remainder can be dropped.
    discards: bool,
    /// Time at which preprocessors were last called because of their timer.
    timed_at: Option<Instant>,
}

/// A pull whose end was not reported, or that began after such a pull.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Events and bytes that the pull read.
    amount: Amount,
    /// `true` once the end of the pull was reported to the source.
    is_reported: bool,
}

/// Number of events, and of bytes as [`Limit::bytes`] counts them.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    events: usize,
    bytes: usize,
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.events += other.events;
        self.bytes += other.bytes;
    }

    fn subtract(&mut self, other: Self) {
        self.events -= other.events;
        self.bytes -= other.bytes;
    }

    /// Returns whether the amount is below both limits. A limit of 0 counts as 1.
    fn is_below(self, most: &InFlight) -> bool {
        self.events < most.events.max(1) && self.bytes < most.bytes.max(1)
    }
}

impl Intake {
    pub(crate) fn new(
        state: IntakeState,
        mut source: Box<dyn DynSource>,
        processors: Processors,
        clock: Clock,
    ) -> Self {
        // This function returns no error, so the first pull reports an error of `acks`.
        let (acks, deferred) = match source.acks() {
            Ok(acks) => (acks, None),
            Err(error) => (None, Some(Err(error))),
        };
        Self {
            state,
            source,
            ledger: acks.as_ref().map(|acks| Arc::new(Ledger::of(acks.replays_failed()))),
            most_in_flight: acks.as_ref().map_or(InFlight::UNLIMITED, |acks| acks.most_in_flight()),
            acks,
            pulls: 0,
            uncounted: (0, 0),
            open: VecDeque::new(),
            in_flight: Amount::default(),
            full_pulls: 0,
            steady: None,
            processors,
            clock,
            memory: FlowMemory::default(),
            deferred,
            discards: false,
            timed_at: None,
        }
    }

    /// Sets the memory of the flow. Pulls begin only while the flow may borrow memory.
    pub(crate) fn with_memory(self, memory: FlowMemory) -> Self {
        Self { memory, ..self }
    }

    /// Polls a pull of the source's own task, and passes the events to the preprocessors. [`Intake::next`] returns
    /// their output.
    ///
    /// `waited` is `true` if this pull was polled before. Before the first poll of a pull, the source is notified of
    /// the pulls that have ended.
    pub(crate) fn poll_pull(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut Batch,
        waited: bool,
    ) -> Poll<Result<Pull>> {
        if let Some(deferred) = self.deferred.take() {
            return Poll::Ready(deferred);
        }
        if !waited && let Err(error) = self.report_ended() {
            return Poll::Ready(Err(error));
        }
        if !waited {
            self.prepare(batch);
        }
        let polled = self.source.poll_pull(context, batch);
        let has_more = batch.is_full() && matches!(polled, Poll::Ready(Ok(Pull::Events)));
        if has_more && !waited {
            self.full_pulls += 1;
            if self.full_pulls >= STEADY && self.steady.is_none() {
                self.steady = Some(self.processors.busy());
            }
        } else {
            self.leave_steady();
        }
        if polled.is_ready() {
            self.take(batch);
        }
        polled
    }

    /// Pulls once for a helper, without waiting. Notifies the source of pulls that have ended first. Returns whether
    /// the source has more data, so that a helper may pull again. Any other result is left to the source's own task.
    pub(crate) fn try_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> bool {
        if !self.is_steady() || !self.may_pull() || !self.memory.is_open() {
            return false;
        }
        let polled = match self.report_ended() {
            Ok(()) => {
                self.prepare(batch);
                self.source.poll_pull(context, batch)
            }
            Err(error) => Poll::Ready(Err(error)),
        };
        let has_more = batch.is_full() && matches!(polled, Poll::Ready(Ok(Pull::Events)));
        match polled {
            Poll::Ready(Ok(Pull::Events)) => {}
            Poll::Ready(result) => self.deferred = Some(result),
            Poll::Pending => self.source.give_up(batch),
        }
        self.take(batch);
        if !has_more {
            self.leave_steady();
        }
        has_more
    }

    /// Stores the number of the next pull in `batch`, and lowers the limits of `batch` so that it cannot exceed the
    /// limits of the events in flight.
    fn prepare(&self, batch: &mut Batch) {
        batch.set_pull(self.pulls + 1);
        let (limit, most) = (batch.limit(), &self.most_in_flight);
        let least =
            |wanted: u32, most: usize| u32::try_from(most).map_or(wanted, |it| it.min(wanted));
        batch.set_limit(Limit {
            events: least(limit.events, most.events.max(1)),
            bytes: least(limit.bytes, most.bytes.max(1)),
        });
    }

    /// Returns whether the limits of the events in flight allow another pull. Pulls whose bytes a preprocessor buffers
    /// do not count, because their messages can be completed only by further pulls.
    pub(crate) fn may_pull(&self) -> bool {
        let most = &self.most_in_flight;
        if self.in_flight.is_below(most) {
            return true;
        }
        let mut others = self.in_flight;
        self.state.preprocessors.for_each_buffered_pull(|pull| {
            if let Some(open) =
                self.at(pull).and_then(|at| self.open.get(at)).filter(|it| !it.is_reported)
            {
                others.subtract(open.amount);
            }
        });
        others.is_below(most)
    }

    /// Returns the index of a pull in `open`.
    fn at(&self, pull: u64) -> Option<usize> {
        let first = self.pulls - self.open.len() as u64 + 1;
        pull.checked_sub(first).and_then(|at| usize::try_from(at).ok())
    }

    /// Returns whether another pull may begin. If the flow may not borrow memory, the task is woken once memory was
    /// returned.
    pub(crate) fn may_pull_now(&self, context: &Context<'_>) -> bool {
        self.may_pull() && self.memory.poll_open(context).is_ready()
    }

    /// Returns the reason why no further pull may begin, if there is one.
    pub(crate) fn bound(&self) -> Option<Bound> {
        if !self.may_pull() {
            return Some(Bound::InFlight(self.most_in_flight));
        }
        (!self.memory.is_open()).then_some(Bound::Memory)
    }

    /// Cancels the pending pull, if any, and passes the events that it has already read to the preprocessors.
    pub(crate) fn give_up(&mut self, batch: &mut Batch) {
        self.source.give_up(batch);
        self.take(batch);
    }

    /// Reports to the source whether a sink that it feeds is down. Call this only while no pull is pending.
    ///
    /// # Errors
    /// Returns the error of the source.
    pub(crate) fn on_circuit_breaker(&mut self, is_open: bool) -> Result<()> {
        self.source.on_circuit_breaker(is_open)
    }

    /// Returns the number of pulls that read something.
    pub(crate) fn pulls(&self) -> u64 {
        self.pulls
    }

    /// Returns whether the source is in the steady state: its last [`STEADY`] or more pulls filled their batches
    /// without waiting.
    pub(crate) fn is_steady(&self) -> bool {
        self.steady.is_some()
    }

    /// Leaves the steady state. Only the source's own task pulls until the state is reached again.
    pub(crate) fn leave_steady(&mut self) {
        self.full_pulls = 0;
        self.steady = None;
    }

    /// Numbers the pull that filled `batch`, adds it to the open pulls, and passes its events to the preprocessors.
    /// Does nothing if the batch is empty.
    fn take(&mut self, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        let mut batch = std::mem::take(batch);
        self.pulls += 1;
        let token = self.ledger.as_ref().map(|ledger| Token::of(self.pulls, ledger));
        if token.is_some() {
            let amount = Amount { events: batch.len(), bytes: batch.bytes().len() };
            self.open.push_back(Open { amount, is_reported: false });
            self.in_flight.add(amount);
            let events = batch.events_mut().iter_mut();
            let with_data = events.enumerate().filter(|(_, it)| !it.is_stream_end());
            with_data.for_each(|(position, event)| event.set_position(position));
        }
        self.stamp(batch.events_mut());
        // If this pull leads to no output, its bytes are counted with the next output.
        self.uncounted = (batch.len(), self.uncounted.1 + batch.bytes().len());
        self.state.preprocessors.push(batch, token);
    }

    /// Returns whether pulled events still have to be preprocessed, which has to be done before the next pull.
    pub(crate) fn has_more(&self) -> bool {
        self.state.preprocessors.has_more()
    }

    /// Returns the time at which the next timer of a preprocessor is due. Timers run at most once per
    /// [`SHORTEST_WAIT`].
    pub(crate) fn due(&self) -> Option<Instant> {
        let due = self.clock.instant_of(self.state.preprocessors.due()?);
        Some(self.timed_at.map_or(due, |at| due.max(at + SHORTEST_WAIT)))
    }

    /// Returns whether a round of preprocessing is due, because of pulled events or the timer of a preprocessor.
    pub(crate) fn has_round(&self) -> bool {
        self.has_more() || self.due().is_some_and(|due| due <= self.clock.now())
    }

    /// Begins the round that [`Intake::has_round`] found. Returns the current time.
    pub(crate) fn begin_round(&mut self) -> Instant {
        let now = self.clock.now();
        if !self.has_more() {
            self.timed_at = Some(now);
            self.state.preprocessors.push_time(self.clock.monotonic_ns());
        }
        now
    }

    /// Does one bounded round of preprocessing. Returns its output with a ticket, so that the output keeps the order of
    /// the pulls in all later steps.
    pub(crate) fn next(&mut self, egress: &Arc<Egress>) -> Next<(Preprocessed, Ticket)> {
        let mut piece = match self.state.preprocessors.next() {
            // Dropping the output drops its token, which fails the pulls.
            Next::Piece(_) if self.discards => return Next::More,
            Next::Piece(piece) => piece,
            Next::More => return Next::More,
            Next::Nothing => {
                (self.discards, self.uncounted.0) = (false, 0);
                return Next::Nothing;
            }
        };
        if piece.is_made_here {
            self.stamp(piece.batch.events_mut());
            self.stamp(piece.rejected.iter_mut().map(|rejected| &mut rejected.event));
        }
        (piece.events, piece.bytes) = std::mem::take(&mut self.uncounted);
        Next::Piece((piece, egress.ticket()))
    }

    /// Ends all streams as complete. [`Intake::next`] returns the messages that preprocessors have buffered.
    pub(crate) fn end(&mut self) {
        self.state.preprocessors.end(StreamEnd::Complete);
    }

    /// Ends all streams as aborted, so that incomplete messages never become messages.
    ///
    /// If the source wants acknowledgements, the pulls of incomplete messages fail, and [`Intake::next`] drops the
    /// incomplete messages. Otherwise [`Intake::next`] returns the incomplete messages as rejected events.
    pub(crate) fn abort(&mut self) {
        if self.ledger.is_some() {
            self.state.preprocessors.drop_tokens();
            self.discards = true;
        }
        self.state.preprocessors.end(StreamEnd::Aborted);
    }

    /// Discards everything that was pulled and not yet preprocessed, so that its pulls fail. Returns `true` if the
    /// discarded input is lost, because the source wants no acknowledgements.
    ///
    /// # Errors
    /// Returns an error if a preprocessor could not be recreated.
    pub(crate) fn abandon(&mut self) -> Result<bool> {
        let is_lost = self.ledger.is_none() && self.has_more();
        (self.discards, self.uncounted.0) = (false, 0);
        self.state.preprocessors.restart().map(|()| is_lost)
    }

    /// Settles the tokens that preprocessors still have. Call this after all streams have ended and their messages were
    /// output. The remaining tokens belong to bytes that became no message, such as the end of a stream.
    pub(crate) fn settle_buffered(&mut self) {
        self.state.preprocessors.settle_buffered();
    }

    /// Reports to the source the pulls that have ended since the last report.
    ///
    /// # Errors
    /// Returns the first error of the source.
    pub(crate) fn report_ended(&mut self) -> Result<()> {
        match self.ledger.as_ref().map(|ledger| ledger.take_ended()) {
            Some(ended) if !ended.is_empty() => self.acknowledge(ended),
            _ => Ok(()),
        }
    }

    /// Notifies the source how the pulls in `ended` have ended. All pulls are reported, even if the source returns an
    /// error.
    ///
    /// # Errors
    /// Returns the first error of the source.
    pub(crate) fn acknowledge(&mut self, ended: Vec<Ended>) -> Result<()> {
        let mut result = Ok(());
        for Ended { pull, failed, mut undecodable } in ended {
            let Some(open) = self.at(pull).and_then(|at| self.open.get_mut(at)) else { continue };
            if std::mem::replace(&mut open.is_reported, true) {
                continue;
            }
            self.in_flight.subtract(open.amount);
            let all = 0..open.amount.events;
            while self.open.pop_front_if(|open| open.is_reported).is_some() {}
            let Some(acks) = &mut self.acks else { continue };
            undecodable.retain(|it| it.events.end <= all.end);
            if !undecodable.is_empty() {
                result = result.and(acks.undecodable(pull, &undecodable));
            }
            let reported = match failed {
                None => acks.ack(pull),
                // The positions are unknown or invalid, so any event of the pull may have failed.
                Some(failed) if failed.last().is_none_or(|last| last.end > all.end) => {
                    acks.fail_unknown(pull, all)
                }
                Some(failed) => acks.fail(pull, &failed),
            };
            result = result.and(reported);
        }
        result
    }

    /// Returns whether there is a pull whose end was not reported to the source.
    pub(crate) fn has_outstanding(&self) -> bool {
        !self.open.is_empty()
    }

    /// Reports all pulls that have not ended as failed, so that the source redelivers them. Call this at the end of the
    /// connection, because the source cannot be notified later.
    ///
    /// # Errors
    /// Returns the first error of the source.
    pub(crate) fn fail_outstanding(&mut self) -> Result<()> {
        let first = self.pulls - self.open.len() as u64 + 1;
        let mut result = Ok(());
        self.in_flight = Amount::default();
        for (pull, open) in (first..).zip(self.open.drain(..)) {
            if let (false, Some(acks)) = (open.is_reported, &mut self.acks) {
                result = result.and(acks.fail_unknown(pull, 0..open.amount.events));
            }
        }
        result
    }

    /// Takes the source out of the intake, so that it can be closed. After this, nothing is pulled or acknowledged.
    pub(crate) fn take_source(&mut self) -> Box<dyn DynSource> {
        self.acks = None;
        std::mem::replace(&mut self.source, Box::new(Taken))
    }

    /// Sets the source, pull and ingest time of `events`. The clock is read once per call.
    fn stamp<'e>(&self, events: impl IntoIterator<Item = &'e mut Event>) {
        let now = self.clock.now_ns();
        for event in events {
            event.source = self.state.id;
            event.pull = self.pulls;
            if event.ingest_ns == 0 {
                event.ingest_ns = now;
            }
        }
    }
}

/// The replacement for a source that was taken out of its intake. Its pulls report that the source has finished.
struct Taken;

impl DynSource for Taken {
    fn poll_pull(&mut self, _: &mut Context<'_>, _: &mut Batch) -> Poll<Result<Pull>> {
        Poll::Ready(Ok(Pull::Finished))
    }

    fn give_up(&mut self, _: &mut Batch) {}
}
