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

use tremor_pdk::{
    Acks, Batch, Pull, Result,
    abi::batch::{Event, HostBatch, Rejected},
    dynamic::DynSource,
};

use crate::engine::{
    account::token::{Ended, Ledger, Token},
    processors::{Busy, Processors},
    route::router::{Egress, Ticket},
    tuning::{SHORTEST_WAIT, STEADY},
};
use crate::{
    memory::FlowMemory,
    processor::{Chain, Next, Piece, StreamEnd},
    time,
};

/// What of an intake outlives a connection.
#[derive(Default)]
pub(crate) struct Inlet {
    /// The number that its events carry.
    pub(crate) id: u32,
    /// First to last. For connectors of bytes the last joins what nothing cut. They hold nothing
    /// between connections.
    pub(crate) preprocessors: Chain<Token>,
}

/// The intake of one connection.
pub(crate) struct Intake {
    pub(crate) inlet: Inlet,
    source: Box<dyn DynSource>,
    /// What hears how pulls end; none for sources that do not want to know.
    acks: Option<Box<dyn Acks>>,
    /// Where pulls end up, where something hears of it.
    pub(crate) ledger: Option<Arc<Ledger>>,
    /// How many pulls may be without an end.
    most_in_flight: usize,
    pulls: u64,
    /// Events of the last pull, and bytes of all pulls since the last piece, until a piece continues with them.
    brought: (usize, usize),
    /// The pulls from the first one on that has not ended.
    open: VecDeque<Open>,
    /// How many of them the source has not heard of.
    unheard: usize,
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
    /// How many events it brought.
    events: usize,
    /// Whether the source has heard of its end.
    heard: bool,
}

/// What has become of a pull: messages, to be decoded, and what preprocessors took out.
pub(crate) struct Pulled {
    /// How many events the source brought,
    pub(crate) events: usize,
    /// and how many bytes.
    pub(crate) bytes: usize,
    pub(crate) batch: Batch,
    pub(crate) rejected: Vec<Rejected>,
    pub(crate) discarded: usize,
    /// Nothing of the pull was lost in preprocessors.
    pub(crate) whole: bool,
    pub(crate) token: Token,
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
            most_in_flight: acks.as_ref().map_or(usize::MAX, |acks| acks.most_in_flight().max(1)),
            acks,
            pulls: 0,
            brought: (0, 0),
            open: VecDeque::new(),
            unheard: 0,
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
            batch.set_pull(self.pulls + 1);
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
                batch.set_pull(self.pulls + 1);
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

    /// Whether another pull may follow before one of those before it has ended. Where a message is half
    /// read, it may: the rest of it is yet to come.
    pub(crate) fn may_pull(&self) -> bool {
        self.unheard < self.most_in_flight
            || self.unheard - self.inlet.preprocessors.held_pulls() < self.most_in_flight
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
            self.open.push_back(Open { events: batch.len(), heard: false });
            let events = batch.events_mut().iter_mut();
            // A message that is put together of parts has no position of its own.
            let whole =
                events.enumerate().filter(|(_, it)| !it.is_fragment() && !it.is_stream_end());
            whole.for_each(|(position, event)| event.set_position(position));
            self.unheard += 1;
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
    pub(crate) fn next(&mut self, egress: &Arc<Egress>) -> Next<(Pulled, Ticket)> {
        let mut piece = match self.inlet.preprocessors.next() {
            // Dropping its shares fails the pulls.
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
        let (events, bytes) = std::mem::take(&mut self.brought);
        let Piece { batch, rejected, discarded, whole, share, earlier, .. } = piece;
        let token = match share {
            Some(share) if earlier.is_empty() => share,
            share => Token::join(earlier.into_iter().chain(share).collect()),
        };
        let pulled = Pulled { events, bytes, batch, rejected, discarded, whole, token };
        Next::Piece((pulled, egress.ticket()))
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
            let first = self.pulls - self.open.len() as u64 + 1;
            let place = pull.checked_sub(first).and_then(|place| usize::try_from(place).ok());
            let Some(open) = place.and_then(|place| self.open.get_mut(place)) else { continue };
            if std::mem::replace(&mut open.heard, true) {
                continue;
            }
            self.unheard -= 1;
            let all = 0..open.events;
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
        self.unheard = 0;
        for (pull, open) in (first..).zip(self.open.drain(..)) {
            if let (false, Some(acks)) = (open.heard, &mut self.acks) {
                told = told.and(acks.fail(pull, std::slice::from_ref(&(0..open.events))));
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
