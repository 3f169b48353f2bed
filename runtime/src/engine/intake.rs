//! What of a source one task does at a time, whichever: pull, preprocess, and keep account of pulls.
//!
//! The source's own task has the whole source, and is the one that waits for it. While events come
//! without end, other tasks may pull as well: what they cannot handle, they leave to the first.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use tremor_pdk::{
    Batch, Error, Output, Preprocessor, Pull, Result, abi::batch::Rejected, dynamic::DynSource,
};

use super::{
    delivery::{Ended, Ledger, Token},
    router::{Ticket, Way},
    spin::Busy,
};
use crate::{processor, time};

/// Pulls in a row that did not wait and brought as much as was asked for, after which events are
/// taken to come without end.
pub(super) const STEADY: usize = 16;

/// What of an intake outlives a connection.
#[derive(Default)]
pub(crate) struct Inlet {
    /// The number that its events carry.
    pub(crate) id: u32,
    /// First to last. For connectors of bytes the last joins what nothing cut.
    pub(crate) preprocessors: Vec<Box<dyn Preprocessor>>,
    /// What preprocessors hand on besides messages. Empty between batches.
    pub(crate) output: Output,
}

/// The intake of one connection.
pub(crate) struct Intake {
    pub(crate) inlet: Inlet,
    source: Box<dyn DynSource>,
    /// Where pulls end up; none for sources that do not want to know.
    pub(crate) ledger: Option<Arc<Ledger>>,
    pulls: u64,
    /// Pulls that the source has not heard of yet.
    pub(crate) outstanding: u64,
    /// The tokens of pulls that have brought nothing but parts of messages so far: they go with the
    /// message that is completed next.
    carried: Vec<Token>,
    /// Pulls in a row that did not wait and brought as much as was asked for.
    in_a_row: usize,
    /// Whether events come without end, and anybody may pull.
    steady: Option<Busy>,
    /// What a pull of another task came to, for the source's own.
    left: Option<Result<Pull>>,
}

/// What has become of a pull: messages, to be decoded, and what preprocessors took out.
pub(crate) struct Pulled {
    /// How many events the source brought.
    pub(crate) events: usize,
    pub(crate) batch: Batch,
    pub(crate) rejected: Vec<Rejected>,
    pub(crate) discarded: usize,
    /// Nothing of the pull was lost in preprocessors.
    pub(crate) whole: bool,
    pub(crate) token: Token,
}

impl Intake {
    pub(crate) fn new(inlet: Inlet, source: Box<dyn DynSource>) -> Self {
        let ledger = source.is_transactional().then(Arc::default);
        Self {
            inlet,
            source,
            ledger,
            pulls: 0,
            outstanding: 0,
            carried: Vec::new(),
            in_a_row: 0,
            steady: None,
            left: None,
        }
    }

    /// A pull of the source's own task; `waited` says whether it was pending before.
    pub(crate) fn poll_pull(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut Batch,
        waited: bool,
    ) -> Poll<Result<Pull>> {
        if let Some(left) = self.left.take() {
            return Poll::Ready(left);
        }
        let polled = self.source.poll_pull(context, batch);
        let has_more = batch.is_full() && matches!(polled, Poll::Ready(Ok(Pull::Events)));
        if has_more && !waited {
            self.in_a_row += 1;
            if self.in_a_row >= STEADY && self.steady.is_none() {
                self.steady = Some(Busy::enter());
            }
        } else {
            self.pauses();
        }
        polled
    }

    /// A pull of another task: whether there is more, and another one may pull too.
    pub(crate) fn try_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> bool {
        if !self.is_steady() {
            return false;
        }
        match self.source.poll_pull(context, batch) {
            Poll::Ready(Ok(Pull::Events)) if batch.is_full() => return true,
            Poll::Ready(Ok(Pull::Events)) => {}
            Poll::Ready(result) => self.left = Some(result),
            Poll::Pending => self.source.give_up(batch),
        }
        self.pauses();
        false
    }

    /// Gives up a pull that is pending; `batch` gets what it has brought so far.
    pub(crate) fn give_up(&mut self, batch: &mut Batch) {
        self.source.give_up(batch);
    }

    /// Whether the source has brought anything.
    pub(crate) fn has_brought(&self) -> bool {
        self.pulls > 0
    }

    /// Whether events come without end, as far as is known.
    pub(crate) fn is_steady(&self) -> bool {
        self.steady.is_some()
    }

    /// From now on nobody but the source's own task pulls, until events come without end again.
    pub(crate) fn pauses(&mut self) {
        self.in_a_row = 0;
        self.steady = None;
    }

    /// Takes in what was pulled, and gives it its place: who pulls first comes first everywhere.
    /// None where there is nothing to route.
    pub(crate) fn take(&mut self, batch: &mut Batch, way: &Arc<Way>) -> Option<(Pulled, Ticket)> {
        if batch.is_empty() {
            return None;
        }
        let mut batch = std::mem::take(batch);
        self.pulls += 1;
        let events = batch.len();
        if let Some(ledger) = &self.ledger {
            self.outstanding += 1;
            self.carried.push(Token::of(self.pulls, ledger));
        }
        self.stamp(&mut batch);
        let Inlet { preprocessors, output, .. } = &mut self.inlet;
        let mut whole = true;
        for preprocessor in preprocessors {
            whole &= processor::preprocess(&mut batch, output, |batch, output| {
                preprocessor.process(batch, output)
            });
        }
        self.pulled(events, batch, whole).map(|pulled| (pulled, way.ticket()))
    }

    /// All streams have ended: what one preprocessor and those behind it held back.
    pub(crate) fn flush(
        &mut self,
        preprocessor: usize,
        way: &Arc<Way>,
    ) -> Option<(Pulled, Ticket)> {
        let mut batch = Batch::new();
        let Inlet { preprocessors, output, .. } = &mut self.inlet;
        let mut whole = true;
        for (later, preprocessor) in preprocessors[preprocessor..].iter_mut().enumerate() {
            whole &= processor::preprocess(&mut batch, output, |batch, output| match later {
                0 => preprocessor.finish(batch, output),
                _ => preprocessor.process(batch, output),
            });
        }
        self.stamp(&mut batch);
        self.pulled(0, batch, whole).map(|pulled| (pulled, way.ticket()))
    }

    /// Nothing is held back any more: what is left of tokens was the end of a stream, say.
    pub(crate) fn settle_carried(&mut self) {
        self.carried.drain(..).for_each(Token::settle);
    }

    /// What has begun and not ended is no message: it was never accepted.
    pub(crate) fn drop_carried(&mut self) {
        self.carried.clear();
    }

    /// Tells the source how pulls ended.
    ///
    /// # Errors
    /// The source's.
    pub(crate) fn acknowledge(&mut self, ended: Vec<Ended>) -> Result<(), Error> {
        for Ended { pull, failed } in ended {
            self.outstanding -= 1;
            if failed {
                self.source.fail(pull)?;
            } else {
                self.source.ack(pull)?;
            }
        }
        Ok(())
    }

    /// One clock read a batch.
    fn stamp(&self, batch: &mut Batch) {
        let now = time::now_ns();
        for event in batch.events_mut() {
            event.source = self.inlet.id;
            event.pull = self.pulls;
            if event.ingest_ns == 0 {
                event.ingest_ns = now;
            }
        }
    }

    fn pulled(&mut self, events: usize, batch: Batch, whole: bool) -> Option<Pulled> {
        let rejected = self.inlet.output.take_rejected();
        let discarded = self.inlet.output.take_discarded();
        if batch.is_empty() && rejected.is_empty() && discarded == 0 && whole {
            return None;
        }
        let token = match self.carried.pop() {
            Some(token) if self.carried.is_empty() => token,
            Some(token) => {
                self.carried.push(token);
                Token::join(std::mem::take(&mut self.carried))
            }
            None => Token::untracked(),
        };
        Some(Pulled { events, batch, rejected, discarded, whole, token })
    }
}
