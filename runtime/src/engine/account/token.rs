//! What becomes of events: every pull of a source is followed until each of its events is
//! delivered, dead-lettered, discarded on purpose, or failed back.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use tremor_abi::batch::{Event, Rejected};
use tremor_pdk::{Batch, Error, Exception};

use crate::engine::sync::watch::Single;

/// A batch on its way, with the token of the pull it came from.
#[derive(Clone)]
pub(crate) struct InFlight {
    pub(crate) batch: Batch,
    pub(crate) token: Token,
    /// Whether its events are dead letters.
    pub(crate) is_letter: bool,
}

impl InFlight {
    /// A batch of events as sources bring them.
    pub(crate) fn new(batch: Batch, token: Token) -> Self {
        Self { batch, token, is_letter: false }
    }
}

/// Stands for a share of one pull's events. Every branch of a fan-out and every dead letter holds
/// one; the pull is over when the last is gone. A token that is dropped without
/// [`Token::settle`] fails its pull: dropping is not acknowledging.
#[derive(Debug)]
pub(crate) struct Token {
    pull: Option<Arc<PullState>>,
    settled: bool,
}

#[derive(Debug)]
struct PullState {
    failed: AtomicBool,
    /// The positions of its events that have failed; none where it is not known which.
    events: Mutex<Option<Vec<usize>>>,
    /// Its messages that could not be decoded.
    undecodable: Mutex<Vec<Undecodable>>,
    end: End,
}

/// A message of which events could not be decoded.
#[derive(Debug)]
struct Undecodable {
    position: usize,
    /// How many of its events.
    events: usize,
    /// Of the first of them.
    error: Error,
}

/// The ledger that hears of the end.
#[derive(Debug)]
enum End {
    Source {
        pull: u64,
        ledger: Arc<Ledger>,
    },
    /// The tokens that were joined to one.
    Joined(Vec<Token>),
}

impl Drop for PullState {
    fn drop(&mut self) {
        let failed = self.failed.load(Ordering::Acquire);
        match &mut self.end {
            End::Source { pull, ledger } => {
                let events = self.events.get_mut().unwrap_or_else(PoisonError::into_inner).take();
                let all = self.undecodable.get_mut().unwrap_or_else(PoisonError::into_inner);
                let undecodable = match &events {
                    Some(events) if failed => only_undecodable(std::mem::take(all), events),
                    _ => Vec::new(),
                };
                let failed = failed.then(|| events.map(ranges).unwrap_or_default());
                ledger.ended(Ended { pull: *pull, failed, undecodable });
            }
            // Those that are dropped fail.
            End::Joined(tokens) if failed => tokens.clear(),
            End::Joined(tokens) => tokens.drain(..).for_each(Token::settle),
        }
    }
}

impl Token {
    /// For sources that do not want to know.
    pub(crate) fn untracked() -> Self {
        Self { pull: None, settled: false }
    }

    /// Whether the source wants to know how this ends.
    pub(crate) fn is_tracked(&self) -> bool {
        self.pull.is_some()
    }

    /// Whether the source brings again what fails of this.
    pub(crate) fn comes_again(&self) -> bool {
        match self.pull.as_ref().map(|pull| &pull.end) {
            Some(End::Source { ledger, .. }) => !ledger.is_final,
            Some(End::Joined(tokens)) => tokens.iter().any(Self::comes_again),
            None => false,
        }
    }

    /// The token of a pull whose end `ledger` hears of.
    pub(crate) fn of(pull: u64, ledger: &Arc<Ledger>) -> Self {
        Self::ending(End::Source { pull, ledger: ledger.clone() })
    }

    fn ending(end: End) -> Self {
        let (failed, events) = (AtomicBool::new(false), Mutex::new(Some(Vec::new())));
        let state = PullState { failed, events, undecodable: Mutex::default(), end };
        Self { pull: Some(Arc::new(state)), settled: false }
    }

    /// One token for events that came with several: it fails or settles all of them.
    pub(crate) fn join(mut tokens: Vec<Self>) -> Self {
        tokens.retain(|token| token.pull.is_some());
        match tokens.len() {
            0 => Self::untracked(),
            1 => tokens.remove(0),
            _ => Self::ending(End::Joined(tokens)),
        }
    }

    /// The same for events that have become part of one another: where one fails, all of its pull do.
    pub(crate) fn merged(self) -> Self {
        match self.pull.as_ref().map(|pull| &pull.end) {
            Some(End::Source { .. }) => Self::ending(End::Joined(vec![self])),
            Some(End::Joined(_)) | None => self,
        }
    }

    /// The events that this token stands for are done with.
    pub(crate) fn settle(mut self) {
        self.settled = true;
    }

    /// These events could not be decoded: if they fail, their source hears why.
    pub(crate) fn undecodable(&self, rejected: &[Rejected]) {
        let Some(state) = &self.pull else { return };
        let End::Source { pull, .. } = &state.end else { return };
        let mut all = state.undecodable.lock().unwrap_or_else(PoisonError::into_inner);
        for Rejected { event, error } in rejected {
            let position = if event.pull == *pull { event.position() } else { None };
            let Some(position) = position else { continue };
            match all.last_mut() {
                Some(last) if last.position == position => last.events += 1,
                _ => all.push(Undecodable { position, events: 1, error: error.clone() }),
            }
        }
    }

    /// Of the events that this token stands for these have failed, and the others are done with.
    pub(crate) fn fail<'e>(mut self, failed: impl IntoIterator<Item = &'e Event>) {
        let Some(state) = &self.pull else { return };
        let mut failed = failed.into_iter();
        // What was made elsewhere is not known to the source.
        let position = |event: &Event| match &state.end {
            End::Source { pull, .. } if event.pull == *pull => event.position(),
            _ => None,
        };
        let mut events = state.events.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &mut *events
            && failed.all(|event| position(event).map(|position| known.push(position)).is_some())
        {
            state.failed.store(true, Ordering::Release);
            drop(events);
            self.settled = true;
        }
    }
}

/// The messages of which nothing has failed but what could not be decoded, in order.
fn only_undecodable(mut all: Vec<Undecodable>, failed: &[usize]) -> Vec<Exception> {
    // What was rejected in several steps lies together, the first of it first.
    all.sort_by_key(|it| it.position);
    all.dedup_by(|next, kept| {
        let is_same = next.position == kept.position;
        kept.events += if is_same { next.events } else { 0 };
        is_same
    });
    if all.is_empty() {
        return Vec::new();
    }
    let mut counts: HashMap<usize, usize> = HashMap::new();
    failed.iter().for_each(|position| *counts.entry(*position).or_default() += 1);
    all.retain(|it| counts.get(&it.position) == Some(&it.events));
    let exception =
        |Undecodable { position, error, .. }| Exception { events: position..position + 1, error };
    all.into_iter().map(exception).collect()
}

/// Positions as ranges, in order and without overlaps.
fn ranges(mut positions: Vec<usize>) -> Vec<Range<usize>> {
    positions.sort_unstable();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for position in positions {
        match ranges.last_mut() {
            Some(last) if position < last.end => {}
            Some(last) if position == last.end => last.end += 1,
            _ => ranges.push(position..position + 1),
        }
    }
    ranges
}

impl Token {
    /// Returns the number of the pull, or 0 if the token stands for none or for several. Pulls of one source are in
    /// order.
    pub(crate) fn pull(&self) -> u64 {
        match self.pull.as_ref().map(|pull| &pull.end) {
            Some(End::Source { pull, .. }) => *pull,
            Some(End::Joined(_)) | None => 0,
        }
    }
}

impl Clone for Token {
    fn clone(&self) -> Self {
        Self { pull: self.pull.clone(), settled: false }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if let (false, Some(pull)) = (self.settled, &self.pull) {
            *pull.events.lock().unwrap_or_else(PoisonError::into_inner) = None;
            pull.failed.store(true, Ordering::Release);
        }
    }
}

/// How a pull ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) pull: u64,
    /// None where all of its events are acknowledged. Otherwise those that have failed, by their positions
    /// in the pull; empty where it is not known which, so that it may be any.
    pub(crate) failed: Option<Vec<Range<usize>>>,
    /// Those messages that could not be decoded, where nothing else of them has failed.
    pub(crate) undecodable: Vec<Exception>,
}

#[cfg(test)]
impl Ended {
    /// How a pull ended, whose messages could be decoded.
    pub(crate) fn of(pull: u64, failed: Option<Vec<Range<usize>>>) -> Self {
        Self { pull, failed, undecodable: Vec::new() }
    }
}

/// Where a source hears how its pulls ended.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    ended: Single<Vec<Ended>>,
    /// Whether there are any, to look at without a lock once a pull.
    has_ended: AtomicBool,
    /// Whether what fails does not come again.
    is_final: bool,
}

impl Ledger {
    /// That of a source that brings again what has failed, or does not.
    pub(crate) fn of(brings_again: bool) -> Self {
        Self { is_final: !brings_again, ..Self::default() }
    }

    fn ended(&self, ended: Ended) {
        self.ended.update(|all| all.push(ended));
        self.has_ended.store(true, Ordering::Release);
    }

    /// The pulls that have ended since it was last asked.
    pub(crate) fn take_ended(&self) -> Vec<Ended> {
        if !self.has_ended.load(Ordering::Relaxed) {
            return Vec::new();
        }
        // Acquire: the task that set it has put the pull there before.
        self.has_ended.swap(false, Ordering::AcqRel);
        self.ended.update(std::mem::take)
    }

    /// Ready with the pulls that have ended since it was last asked; there is at least one.
    pub(crate) fn poll_ended(&self, context: &Context<'_>) -> Poll<Vec<Ended>> {
        let has_ended = |ended: &Vec<Ended>| (!ended.is_empty()).then_some(());
        self.ended.poll(context, has_ended).map(|()| self.ended.update(std::mem::take))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        task::{Context, Poll, Waker},
    };

    use tremor_abi::batch::{Event, HostBatch, Rejected};
    use tremor_pdk::{Batch, Error, Exception};

    use super::{Ended, Ledger, Token};

    fn ended(ledger: &Ledger) -> Vec<Ended> {
        match ledger.poll_ended(&Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => ended,
            Poll::Pending => Vec::new(),
        }
    }

    #[test]
    fn a_pull_ends_with_its_last_token() {
        let ledger = Arc::new(Ledger::default());
        let token = Token::of(7, &ledger);
        let branch = token.clone();
        token.settle();
        assert_eq!(ended(&ledger), []);
        branch.settle();
        assert_eq!(ended(&ledger), [Ended::of(7, None)]);
    }

    #[test]
    fn a_pull_that_fails_names_the_events_as_far_as_they_are_known() {
        let ledger = Arc::new(Ledger::default());
        let mut batch = Batch::new();
        for position in 0..8 {
            batch.push_message(b"");
            let event = batch.events_mut().last_mut().unwrap();
            event.pull = 7;
            event.set_position(position);
        }
        let token = Token::of(7, &ledger);
        token.clone().fail(&batch.events()[4..6]);
        token.clone().fail(&batch.events()[1..2]);
        token.clone().fail(&batch.events()[5..7]);
        token.settle();
        assert_eq!(ended(&ledger), [Ended::of(7, Some(vec![1..2, 4..7]))]);
        // One of another pull, and one that was made on the way.
        let of = |pull| Token::of(pull, &ledger);
        of(8).fail(batch.events());
        let mut made = Batch::new();
        made.push_message(b"");
        let (token, branch) = (of(7), of(7));
        token.clone().fail(made.events());
        token.fail(batch.events());
        branch.clone().fail(batch.events());
        drop(branch);
        let unknown = |pull| Ended::of(pull, Some(Vec::new()));
        assert_eq!(ended(&ledger), [unknown(8), unknown(7), unknown(7)]);
    }

    #[test]
    fn a_message_is_undecodable_if_nothing_else_of_it_has_failed() {
        let ledger = Arc::new(Ledger::default());
        let mut batch = Batch::new();
        // Of the second message there are three events.
        for position in [0, 1, 1, 1, 2] {
            batch.push_message(b"");
            let event = batch.events_mut().last_mut().unwrap();
            event.pull = 7;
            event.set_position(position);
        }
        let events = batch.events();
        let rejected =
            |at: usize, why: &str| Rejected { event: events[at], error: Error::bad_data(why) };
        let why = |position: usize, why: &str| Exception {
            events: position..position + 1,
            error: Error::bad_data(why),
        };
        let fail = |all: &[Rejected], others: &[Event]| {
            let token = Token::of(7, &ledger);
            token.undecodable(all);
            token.clone().fail(others);
            token.fail(all.iter().map(|it| &it.event));
            ended(&ledger).remove(0)
        };
        let spans = |it: &Ended| -> Vec<_> {
            it.failed.iter().flatten().map(|it| (it.start, it.end)).collect()
        };
        let two = [rejected(1, "first"), rejected(2, "second")];
        let one = fail(&two, &events[4..]);
        assert_eq!((spans(&one), one.undecodable), (vec![(1, 3)], vec![why(1, "first")]));
        // The third event of the message was decoded, and could not be delivered.
        let one = fail(&two, &events[3..4]);
        assert_eq!((spans(&one), one.undecodable), (vec![(1, 2)], vec![]));
        let all = [rejected(4, "late"), rejected(0, "early"), rejected(1, "first")];
        let undecodable = fail(&all, &[]).undecodable;
        assert_eq!(undecodable, [why(0, "early"), why(1, "first"), why(2, "late")]);
        // They are dead letters: nothing has failed.
        let token = Token::of(7, &ledger);
        token.undecodable(&two);
        token.settle();
        assert_eq!(ended(&ledger), [Ended::of(7, None)]);
    }

    #[test]
    fn what_becomes_of_a_joined_token_becomes_of_all() {
        let ledger = Arc::new(Ledger::default());
        let two = || vec![Token::of(1, &ledger), Token::untracked(), Token::of(2, &ledger)];
        let joined = Token::join(two());
        let branch = joined.clone();
        branch.settle();
        assert_eq!(ended(&ledger), []);
        joined.settle();
        let both = |failed: Option<_>| [1, 2].map(|pull| Ended::of(pull, failed.clone()));
        assert_eq!(ended(&ledger), both(None));
        drop(Token::join(two()));
        assert_eq!(ended(&ledger), both(Some(Vec::new())));
    }

    #[test]
    fn what_was_joined_comes_again_if_a_part_of_it_does() {
        let (again, is_final) = (Arc::new(Ledger::default()), Arc::new(Ledger::of(false)));
        let of = |ledger: &Arc<Ledger>| Token::of(1, ledger);
        assert!(of(&again).comes_again() && !of(&is_final).comes_again());
        assert!(!Token::untracked().comes_again());
        assert!(!of(&is_final).merged().comes_again());
        assert!(Token::join(vec![of(&is_final), of(&again)]).comes_again());
    }

    #[test]
    fn of_events_that_were_merged_none_fails_alone() {
        let ledger = Arc::new(Ledger::default());
        let mut batch = Batch::new();
        batch.push_message(b"");
        batch.events_mut()[0].pull = 7;
        batch.events_mut()[0].set_position(0);
        Token::of(7, &ledger).merged().fail(batch.events());
        assert_eq!(ended(&ledger), [Ended::of(7, Some(Vec::new()))]);
        Token::of(7, &ledger).merged().settle();
        assert_eq!(ended(&ledger), [Ended::of(7, None)]);
    }

    #[test]
    fn one_dropped_branch_fails_the_pull() {
        let ledger = Arc::new(Ledger::default());
        let token = Token::of(1, &ledger);
        drop(token.clone());
        token.settle();
        assert_eq!(ended(&ledger), [Ended::of(1, Some(Vec::new()))]);
    }
}
