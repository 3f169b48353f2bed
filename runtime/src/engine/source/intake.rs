//! What of a source one task does at a time, whichever: pull, preprocess, and keep account of pulls.
//!
//! The source's own task has the whole source, and is the one that waits for it. While events come
//! without end, other tasks may pull as well: what they cannot handle, they leave to the first.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use tremor_abi::batch::{Event, HostBatch};
use tremor_pdk::{Acks, Batch, InFlight, Limit, Pull, Result};

use crate::engine::{
    account::token::{Ended, Ledger, Token},
    processors::{Busy, Processors},
    route::router::{Egress, Ticket},
    source::preprocessors::{Next, Preprocessed, Preprocessors, StreamEnd},
    tuning::{SHORTEST_WAIT, STEADY},
};
use crate::{dynamic::DynSource, memory::FlowMemory, time};

/// What of an intake outlives a connection.
#[derive(Default)]
pub(crate) struct Inlet {
    /// The number that its events carry.
    pub(crate) id: u32,
    /// First to last. For connectors of bytes the last joins what nothing cut. They hold nothing
    /// between connections.
    pub(crate) preprocessors: Preprocessors,
}

/// The intake of one connection.
pub(crate) struct Intake {
    pub(crate) inlet: Inlet,
    source: Box<dyn DynSource>,
    /// What hears how pulls end; none for sources that do not want to know.
    acks: Option<Box<dyn Acks>>,
    /// Where pulls end up, where something hears of it.
    pub(crate) ledger: Option<Arc<Ledger>>,
    /// Limits of what is in flight.
    most_in_flight: InFlight,
    pulls: u64,
    /// Events of the last pull, and bytes of all pulls since the last piece, until a piece continues with them.
    brought: (usize, usize),
    /// The pulls from the first one on that has not ended.
    open: VecDeque<Open>,
    /// Events and bytes of the pulls whose end was not reported to the source.
    in_flight: Amount,
    /// Pulls in a row that did not wait and brought as much as was asked for.
    in_a_row: usize,
    /// Whether events come without end, and any task may pull.
    steady: Option<Busy>,
    processors: Processors,
    memory: FlowMemory,
    /// What a pull of another task came to, for the source's own.
    left: Option<Result<Pull>>,
    /// `true` while the remainder of cut off streams is preprocessed only to be dropped.
    discards: bool,
    /// When preprocessors were last called for a time that they had asked for.
    timed_at: Option<Instant>,
}

/// A pull that is not known to have ended, or that came after such a one.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Events and bytes that it read.
    amount: Amount,
    /// Whether the source has heard of its end.
    heard: bool,
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

    /// Returns whether this reaches none of the limits. A limit of zero is one of 1.
    fn is_below(self, most: &InFlight) -> bool {
        (self.events as u64) < most.events.max(1) && (self.bytes as u64) < most.bytes.max(1)
    }
}

impl Intake {
    pub(crate) fn new(
        inlet: Inlet,
        mut source: Box<dyn DynSource>,
        processors: Processors,
    ) -> Self {
        // A source that fails here fails with its first pull.
        let (acks, left) = match source.acks() {
            Ok(acks) => (acks, None),
            Err(error) => (None, Some(Err(error))),
        };
        Self {
            inlet,
            source,
            ledger: acks.as_ref().map(|acks| Arc::new(Ledger::of(acks.brings_again()))),
            most_in_flight: acks.as_ref().map_or(InFlight::UNLIMITED, |acks| acks.most_in_flight()),
            acks,
            pulls: 0,
            brought: (0, 0),
            open: VecDeque::new(),
            in_flight: Amount::default(),
            in_a_row: 0,
            steady: None,
            processors,
            memory: FlowMemory::default(),
            left,
            discards: false,
            timed_at: None,
        }
    }

    /// The same intake, whose helpers pull while `memory` is open.
    pub(crate) fn with_memory(self, memory: FlowMemory) -> Self {
        Self { memory, ..self }
    }

    /// A pull of the source's own task, which takes in what comes of it: [`Intake::next`] gives that.
    /// `waited` says whether it was pending before. Before that, the source hears of pulls that have
    /// ended.
    pub(crate) fn poll_pull(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut Batch,
        waited: bool,
    ) -> Poll<Result<Pull>> {
        if let Some(left) = self.left.take() {
            return Poll::Ready(left);
        }
        if !waited && let Err(error) = self.tell_ended() {
            return Poll::Ready(Err(error));
        }
        if !waited {
            self.prepare(batch);
        }
        let polled = self.source.poll_pull(context, batch);
        let has_more = batch.is_full() && matches!(polled, Poll::Ready(Ok(Pull::Events)));
        if has_more && !waited {
            self.in_a_row += 1;
            if self.in_a_row >= STEADY && self.steady.is_none() {
                self.steady = Some(self.processors.busy());
            }
        } else {
            self.pauses();
        }
        if polled.is_ready() {
            self.take(batch);
        }
        polled
    }

    /// A pull of another task: whether there is more, and another one may pull too.
    pub(crate) fn try_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> bool {
        if !self.is_steady() || !self.may_pull() || !self.memory.is_open() {
            return false;
        }
        let polled = match self.tell_ended() {
            Ok(()) => {
                self.prepare(batch);
                self.source.poll_pull(context, batch)
            }
            Err(error) => Poll::Ready(Err(error)),
        };
        let has_more = batch.is_full() && matches!(polled, Poll::Ready(Ok(Pull::Events)));
        match polled {
            Poll::Ready(Ok(Pull::Events)) => {}
            Poll::Ready(result) => self.left = Some(result),
            Poll::Pending => self.source.give_up(batch),
        }
        self.take(batch);
        if !has_more {
            self.pauses();
        }
        has_more
    }

    /// Sets the number of the pull that is to fill `batch`, and asks for no more than what may be in flight.
    fn prepare(&self, batch: &mut Batch) {
        batch.set_pull(self.pulls + 1);
        let (limit, most) = (batch.limit(), &self.most_in_flight);
        let least =
            |wanted: u32, most: u64| u32::try_from(most).map_or(wanted, |it| it.min(wanted));
        batch.set_limit(Limit {
            events: least(limit.events, most.events.max(1)),
            bytes: least(limit.bytes, most.bytes.max(1)),
        });
    }

    /// Returns the limits of what is in flight.
    pub(crate) fn most_in_flight(&self) -> InFlight {
        self.most_in_flight
    }

    /// Returns whether another pull may begin, as far as the source limits what is in flight. Pulls of which preprocessors
    /// wait for the remainder of a message do not count, because the remainder is yet to be pulled.
    pub(crate) fn may_pull(&self) -> bool {
        let most = &self.most_in_flight;
        if self.in_flight.is_below(most) {
            return true;
        }
        let mut others = self.in_flight;
        self.inlet.preprocessors.for_each_held_pull(|pull| {
            if let Some(open) =
                self.at(pull).and_then(|at| self.open.get(at)).filter(|it| !it.heard)
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

    /// Returns whether another pull may begin. If memory is missing for it, the task is woken once some was returned.
    pub(crate) fn may_pull_now(&self, context: &Context<'_>) -> bool {
        self.may_pull() && self.memory.poll_open(context).is_ready()
    }

    /// Gives up a pull that is pending, and takes in what it has brought so far.
    pub(crate) fn give_up(&mut self, batch: &mut Batch) {
        self.source.give_up(batch);
        self.take(batch);
    }

    /// Tells the source, of which no pull is pending, that a sink is down or back.
    ///
    /// # Errors
    /// The source's.
    pub(crate) fn on_circuit_breaker(&mut self, is_open: bool) -> Result<()> {
        self.source.on_circuit_breaker(is_open)
    }

    /// Returns the number of pulls that read something.
    pub(crate) fn pulls(&self) -> u64 {
        self.pulls
    }

    /// Whether events come without end, as far as is known.
    pub(crate) fn is_steady(&self) -> bool {
        self.steady.is_some()
    }

    /// From now on only the source's own task pulls, until events come without end again.
    pub(crate) fn pauses(&mut self) {
        self.in_a_row = 0;
        self.steady = None;
    }

    fn take(&mut self, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        let mut batch = std::mem::take(batch);
        self.pulls += 1;
        let token = self.ledger.as_ref().map(|ledger| Token::of(self.pulls, ledger));
        if token.is_some() {
            let amount = Amount { events: batch.len(), bytes: batch.bytes().len() };
            self.open.push_back(Open { amount, heard: false });
            self.in_flight.add(amount);
            let events = batch.events_mut().iter_mut();
            // A message that is put together of parts has no position of its own.
            let whole =
                events.enumerate().filter(|(_, it)| !it.is_fragment() && !it.is_stream_end());
            whole.for_each(|(position, event)| event.set_position(position));
        }
        self.stamp(batch.events_mut());
        // A pull that puts nothing out leaves its bytes to the next piece, which counts them.
        self.brought = (batch.len(), self.brought.1 + batch.bytes().len());
        self.inlet.preprocessors.push(batch, token);
    }

    /// Whether something that was pulled has not gone on yet: that comes before the next pull.
    pub(crate) fn has_more(&self) -> bool {
        self.inlet.preprocessors.has_more()
    }

    /// Returns when a preprocessor has to be called next.
    pub(crate) fn due(&self) -> Option<Instant> {
        let due = time::instant_of(self.inlet.preprocessors.due()?);
        Some(self.timed_at.map_or(due, |at| due.max(at + SHORTEST_WAIT)))
    }

    /// Returns whether there is a round of preprocessing to do: for something that was pulled, or for preprocessors
    /// whose time has come.
    pub(crate) fn has_round(&self) -> bool {
        self.has_more() || self.due().is_some_and(|due| due <= Instant::now())
    }

    /// Begins the round that [`Intake::has_round`] found. Returns the current time.
    pub(crate) fn begin_round(&mut self) -> Instant {
        let now = Instant::now();
        if !self.has_more() {
            self.timed_at = Some(now);
            self.inlet.preprocessors.push_time(time::monotonic_ns());
        }
        now
    }

    /// Does one bounded round of preprocessing, and returns what comes out, with its place: what was pulled
    /// first comes first everywhere.
    pub(crate) fn next(&mut self, egress: &Arc<Egress>) -> Next<(Preprocessed, Ticket)> {
        let mut piece = match self.inlet.preprocessors.next() {
            // Dropping its token fails the pulls.
            Next::Piece(_) if self.discards => return Next::More,
            Next::Piece(piece) => piece,
            Next::More => return Next::More,
            Next::Nothing => {
                (self.discards, self.brought.0) = (false, 0);
                return Next::Nothing;
            }
        };
        if piece.is_made_here {
            self.stamp(piece.batch.events_mut());
            self.stamp(piece.rejected.iter_mut().map(|rejected| &mut rejected.event));
        }
        (piece.events, piece.bytes) = std::mem::take(&mut self.brought);
        Next::Piece((piece, egress.ticket()))
    }

    /// All streams have ended: [`Intake::next`] gives what preprocessors held back.
    pub(crate) fn end(&mut self) {
        self.inlet.preprocessors.end(StreamEnd::Complete);
    }

    /// All streams were cut off: what has begun and not ended is no message. A source that wants to
    /// know is told that its pulls have failed, and brings them again: [`Intake::next`] drops what is left
    /// of them. For others it gives what is left, to be rejected.
    pub(crate) fn abort(&mut self) {
        if self.ledger.is_some() {
            self.inlet.preprocessors.drop_held();
            self.discards = true;
        }
        self.inlet.preprocessors.end(StreamEnd::Aborted);
    }

    /// Discards everything that was pulled and is not preprocessed. Its pulls fail. Returns `true` if
    /// something was lost that the source does not bring again.
    ///
    /// # Errors
    /// A preprocessor could not be made again.
    pub(crate) fn abandon(&mut self) -> Result<bool> {
        let is_lost = self.ledger.is_none() && self.has_more();
        (self.discards, self.brought.0) = (false, 0);
        self.inlet.preprocessors.restart().map(|()| is_lost)
    }

    /// Nothing is held back any more: what is left of tokens was the end of a stream, say.
    pub(crate) fn settle_held(&mut self) {
        self.inlet.preprocessors.settle_held();
    }

    /// Tells the source which pulls have ended since it was last told.
    ///
    /// # Errors
    /// The source's.
    pub(crate) fn tell_ended(&mut self) -> Result<()> {
        match self.ledger.as_ref().map(|ledger| ledger.take_ended()) {
            Some(ended) if !ended.is_empty() => self.acknowledge(ended),
            _ => Ok(()),
        }
    }

    /// Tells the source how pulls ended, of all of them.
    ///
    /// # Errors
    /// The source's first.
    pub(crate) fn acknowledge(&mut self, ended: Vec<Ended>) -> Result<()> {
        let mut told = Ok(());
        for Ended { pull, failed, mut undecodable } in ended {
            let Some(open) = self.at(pull).and_then(|at| self.open.get_mut(at)) else { continue };
            if std::mem::replace(&mut open.heard, true) {
                continue;
            }
            self.in_flight.subtract(open.amount);
            let all = 0..open.amount.events;
            while self.open.pop_front_if(|open| open.heard).is_some() {}
            let Some(acks) = &mut self.acks else { continue };
            undecodable.retain(|it| it.events.end <= all.end);
            if !undecodable.is_empty() {
                told = told.and(acks.undecodable(pull, &undecodable));
            }
            let heard = match failed {
                None => acks.ack(pull),
                // It may have been any of them.
                Some(failed) if failed.last().is_none_or(|last| last.end > all.end) => {
                    acks.fail(pull, std::slice::from_ref(&all))
                }
                Some(failed) => acks.fail(pull, &failed),
            };
            told = told.and(heard);
        }
        told
    }

    /// Whether there are pulls that the source has not heard of.
    pub(crate) fn has_outstanding(&self) -> bool {
        !self.open.is_empty()
    }

    /// The connection is over, and what has not ended by now ends without its source: that is told
    /// that it has failed, so that it comes again.
    ///
    /// # Errors
    /// The source's.
    pub(crate) fn fail_outstanding(&mut self) -> Result<()> {
        let first = self.pulls - self.open.len() as u64 + 1;
        let mut told = Ok(());
        self.in_flight = Amount::default();
        for (pull, open) in (first..).zip(self.open.drain(..)) {
            if let (false, Some(acks)) = (open.heard, &mut self.acks) {
                told = told.and(acks.fail(pull, std::slice::from_ref(&(0..open.amount.events))));
            }
        }
        told
    }

    /// The source, to be closed: nothing else is called any more, and nothing hears of anything.
    pub(crate) fn take_source(&mut self) -> Box<dyn DynSource> {
        self.acks = None;
        std::mem::replace(&mut self.source, Box::new(Taken))
    }

    /// One clock read a batch.
    fn stamp<'e>(&self, events: impl IntoIterator<Item = &'e mut Event>) {
        let now = time::now_ns();
        for event in events {
            event.source = self.inlet.id;
            event.pull = self.pulls;
            if event.ingest_ns == 0 {
                event.ingest_ns = now;
            }
        }
    }
}

/// In the place of a source that is being closed.
struct Taken;

impl DynSource for Taken {
    fn poll_pull(&mut self, _: &mut Context<'_>, _: &mut Batch) -> Poll<Result<Pull>> {
        Poll::Ready(Ok(Pull::Finished))
    }

    fn give_up(&mut self, _: &mut Batch) {}
}
