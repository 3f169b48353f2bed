//! Acknowledgements: tokens follow the events of every pull of a source until each event was delivered, dead-lettered,
//! discarded on purpose, or has failed.

use std::{
    collections::HashMap,
    ops::Range,
    sync::PoisonError,
    task::{Context, Poll},
};

use tremor_abi::batch::{Event, Rejected};
use tremor_pdk::{Batch, Error, Exception};

use crate::engine::sync::watch::Single;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, fault, lock};

/// A batch of events in flight, with the token of the pull that read the events.
#[derive(Clone)]
pub(crate) struct InFlight {
    pub(crate) batch: Batch,
    pub(crate) token: Token,
    /// `true` if the events are dead letters.
    pub(crate) is_letter: bool,
}

impl InFlight {
    /// Creates a batch whose events are not dead letters.
    pub(crate) fn new(batch: Batch, token: Token) -> Self {
        Self { batch, token, is_letter: false }
    }
}

/// A share of a pull. It has to be settled or failed.
///
/// Every branch of a fan-out and every dead letter has a clone of the token of its pull. The pull ends when its last
/// token is dropped. A token that is dropped without [`Token::settle`] or [`Token::fail`] fails its pull, because
/// an event without a known outcome must not be acknowledged.
#[derive(Debug)]
pub(crate) struct Token {
    pull: Option<Arc<PullState>>,
    settled: bool,
}

/// The outcome of a pull so far. All tokens of the pull share this state, and the outcome is reported when the last
/// token is dropped.
#[derive(Debug)]
struct PullState {
    /// `true` once an event of the pull has failed.
    failed: AtomicBool,
    /// Positions in the pull of the events that failed. `None` if it is unknown which events failed.
    events: Mutex<Option<Vec<usize>>>,
    /// Messages of the pull that could not be decoded.
    undecodable: Mutex<Vec<Undecodable>>,
    end: End,
}

/// A message of which some or all events could not be decoded.
#[derive(Debug)]
struct Undecodable {
    position: usize,
    /// Number of the message's events that could not be decoded.
    events: usize,
    /// Error of the first event that could not be decoded.
    error: Error,
}

/// The receiver of a pull's outcome.
#[derive(Debug)]
enum End {
    /// The source that made the pull.
    Source { pull: u64, ledger: Arc<Ledger> },
    /// The tokens that were joined to one token. All of them get the outcome of the joined token.
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
            // Tokens that are dropped without being settled fail their pulls.
            End::Joined(tokens) if failed => tokens.clear(),
            End::Joined(tokens) => tokens.drain(..).for_each(Token::settle),
        }
    }
}

impl Token {
    /// Creates a token for events whose source requests no acknowledgements.
    pub(crate) fn untracked() -> Self {
        Self { pull: None, settled: false }
    }

    /// Returns whether a source requests an acknowledgement of the events.
    pub(crate) fn is_tracked(&self) -> bool {
        self.pull.is_some()
    }

    /// Returns whether a source reads the events again if they fail.
    pub(crate) fn is_replayable(&self) -> bool {
        match self.pull.as_ref().map(|pull| &pull.end) {
            Some(End::Source { ledger, .. }) => !ledger.is_final,
            Some(End::Joined(tokens)) => tokens.iter().any(Self::is_replayable),
            None => false,
        }
    }

    /// Returns `false` if a source that would read the events again has finished, so that it does so only in the next
    /// run.
    pub(crate) fn is_read_again(&self) -> bool {
        match self.pull.as_ref().map(|pull| &pull.end) {
            Some(End::Source { ledger, .. }) => {
                ledger.is_final || !ledger.has_finished.load(Ordering::Relaxed)
            }
            Some(End::Joined(tokens)) => tokens.iter().all(Self::is_read_again),
            None => true,
        }
    }

    /// Creates the token of the pull with the number `pull`, whose outcome is reported to `ledger`.
    pub(crate) fn of(pull: u64, ledger: &Arc<Ledger>) -> Self {
        Self::ending(End::Source { pull, ledger: ledger.clone() })
    }

    fn ending(end: End) -> Self {
        let (failed, events) = (AtomicBool::new(false), Mutex::new(Some(Vec::new())));
        let state = PullState { failed, events, undecodable: Mutex::default(), end };
        Self { pull: Some(Arc::new(state)), settled: false }
    }

    /// Joins tokens to one token that settles or fails all of them.
    pub(crate) fn join(mut tokens: Vec<Self>) -> Self {
        tokens.retain(|token| token.pull.is_some());
        match tokens.len() {
            0 => Self::untracked(),
            1 => tokens.remove(0),
            _ => Self::ending(End::Joined(tokens)),
        }
    }

    /// Returns a token for events that were merged into each other. If one of the resulting events fails, the whole
    /// pull fails, because that event contains other events of the pull.
    pub(crate) fn merged(self) -> Self {
        match self.pull.as_ref().map(|pull| &pull.end) {
            Some(End::Source { .. }) => Self::ending(End::Joined(vec![self])),
            Some(End::Joined(_)) | None => self,
        }
    }

    /// Marks the events of this token as completed and drops the token.
    pub(crate) fn settle(mut self) {
        self.set_settled();
    }

    /// Marks the events of this token as completed. This takes effect once the token is dropped.
    pub(crate) fn set_settled(&mut self) {
        self.settled = true;
    }

    /// Records why events could not be decoded, so that their source gets the reason if these events fail.
    pub(crate) fn undecodable(&self, rejected: &[Rejected]) {
        let Some(state) = &self.pull else { return };
        let End::Source { pull, .. } = &state.end else { return };
        let mut all = lock(&state.undecodable);
        for Rejected { event, error } in rejected {
            let position = if event.pull == *pull { event.position() } else { None };
            let Some(position) = position else { continue };
            match all.last_mut() {
                Some(last) if last.position == position => last.events += 1,
                _ => all.push(Undecodable { position, events: 1, error: error.clone() }),
            }
        }
    }

    /// Fails the events `failed` and settles all other events of this token. If one of the failed events was not read
    /// by this pull, the whole pull fails. A joined token fails all of its pulls.
    pub(crate) fn fail<'e>(mut self, failed: impl IntoIterator<Item = &'e Event>) {
        let Some(state) = &self.pull else { return };
        let mut failed = failed.into_iter();
        // A source does not know the position of an event that was created in the flow.
        let position = |event: &Event| match &state.end {
            End::Source { pull, .. } if event.pull == *pull => event.position(),
            _ => None,
        };
        let mut events = lock(&state.events);
        if let Some(known) = &mut *events
            && failed.all(|event| position(event).map(|position| known.push(position)).is_some())
        {
            state.failed.store(true, Ordering::Release);
            drop(events);
            self.settled = true;
        }
    }
}

/// Returns the messages of which only the events failed that could not be decoded, in the order of their positions.
/// `failed` has an entry for each failed event: the position of the event's message.
fn only_undecodable(mut all: Vec<Undecodable>, failed: &[usize]) -> Vec<Exception> {
    // The sort is stable, so entries of the same message become neighbours and the error of the first entry is kept.
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

/// Returns positions as ranges, sorted and without overlaps.
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
    /// Returns the number of the pull. Returns 0 if the token belongs to no pull or to several. Numbers of a source's
    /// pulls increase.
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
            *lock(&pull.events) = None;
            pull.failed.store(true, Ordering::Release);
        }
    }
}

/// The outcome of a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) pull: u64,
    /// `None` if all events of the pull are acknowledged. Otherwise the positions of the failed events in the pull. The
    /// list is empty if it is unknown which events failed.
    pub(crate) failed: Option<Vec<Range<usize>>>,
    /// Messages that could not be decoded. Excludes messages of which decoded events failed too.
    pub(crate) undecodable: Vec<Exception>,
}

#[cfg(test)]
impl Ended {
    /// Creates the outcome of a pull whose messages could be decoded.
    pub(crate) fn of(pull: u64, failed: Option<Vec<Range<usize>>>) -> Self {
        Self { pull, failed, undecodable: Vec::new() }
    }
}

/// The outcomes of a source's pulls that have not been reported to the source.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    ended: Single<Vec<Ended>>,
    /// `true` if `ended` may have entries. Read once a pull, without a lock.
    has_ended: AtomicBool,
    /// `true` if the source does not read failed events again.
    pub(crate) is_final: bool,
    /// `true` once the source has finished, so that it is not pulled again.
    has_finished: AtomicBool,
}

impl Ledger {
    /// Creates the ledger of a source. `replays_failed` is `true` if the source reads failed events a second time.
    pub(crate) fn of(replays_failed: bool) -> Self {
        Self { is_final: !replays_failed, ..Self::default() }
    }

    /// Records that the source is not pulled again.
    pub(crate) fn finish(&self) {
        self.has_finished.store(true, Ordering::Relaxed);
    }

    fn ended(&self, ended: Ended) {
        if fault("ledger_notifies_before_write") {
            self.has_ended.store(true, Ordering::Release);
            return self.ended.update(|all| all.push(ended));
        }
        self.ended.update(|all| all.push(ended));
        self.has_ended.store(true, Ordering::Release);
    }

    /// Removes and returns the outcomes that have not been taken.
    pub(crate) fn take_ended(&self) -> Vec<Ended> {
        if !self.has_ended.load(Ordering::Relaxed) {
            return Vec::new();
        }
        if fault("ledger_takes_before_check") {
            let ended = self.ended.update(std::mem::take);
            self.has_ended.swap(false, Ordering::AcqRel);
            return ended;
        }
        // Acquire, because `ended` adds the outcome before it sets the flag.
        self.has_ended.swap(false, Ordering::AcqRel);
        self.ended.update(std::mem::take)
    }

    /// Waits until there is at least one outcome that was not taken, and removes and returns all of them. If several
    /// tasks call this, only the last one is woken.
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
    fn pull_ends_with_its_last_token() {
        let ledger = Arc::new(Ledger::default());
        let token = Token::of(7, &ledger);
        let branch = token.clone();
        token.settle();
        assert_eq!(ended(&ledger), []);
        branch.settle();
        assert_eq!(ended(&ledger), [Ended::of(7, None)]);
    }

    #[test]
    fn failed_pull_names_its_failed_events_if_known() {
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
        // Events of another pull, and an event that was created in the flow.
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
    fn message_is_undecodable_if_no_other_event_of_it_failed() {
        let ledger = Arc::new(Ledger::default());
        let mut batch = Batch::new();
        // The second message has three events.
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
        // The third event of the message could be decoded but not delivered.
        let one = fail(&two, &events[3..4]);
        assert_eq!((spans(&one), one.undecodable), (vec![(1, 2)], vec![]));
        let all = [rejected(4, "late"), rejected(0, "early"), rejected(1, "first")];
        let undecodable = fail(&all, &[]).undecodable;
        assert_eq!(undecodable, [why(0, "early"), why(1, "first"), why(2, "late")]);
        // The undecodable events became dead letters, so no event failed.
        let token = Token::of(7, &ledger);
        token.undecodable(&two);
        token.settle();
        assert_eq!(ended(&ledger), [Ended::of(7, None)]);
    }

    #[test]
    fn joined_token_settles_or_fails_all_of_its_tokens() {
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
    fn joined_token_is_replayable_if_one_of_its_tokens_is() {
        let (again, is_final) = (Arc::new(Ledger::default()), Arc::new(Ledger::of(false)));
        let of = |ledger: &Arc<Ledger>| Token::of(1, ledger);
        assert!(of(&again).is_replayable() && !of(&is_final).is_replayable());
        assert!(!Token::untracked().is_replayable());
        assert!(!of(&is_final).merged().is_replayable());
        assert!(Token::join(vec![of(&is_final), of(&again)]).is_replayable());
    }

    #[test]
    fn failed_merged_event_fails_its_whole_pull() {
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
