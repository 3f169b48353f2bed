//! The preprocessors of one source, in order, and which pulls they hold something of.
//!
//! A [token](Token) of a pull goes with the events that come of the pull, and stays with each step as long as that holds
//! bytes of the pull's streams. So a message has tokens of the pulls that its own stream's bytes came with, and of the
//! pull that completed it; a stream that is idle within a message holds up no other.

use std::collections::{BTreeMap, BTreeSet};

use tremor_abi::batch::{HostBatch, HostOutput, Rejected};
use tremor_pdk::{Batch, Output, Preprocessor, Result};

use crate::engine::{account::token::Token, parts::MakePreprocessor};

/// The preprocessors of one source.
#[derive(Default)]
pub(crate) struct Preprocessors {
    steps: Vec<Step>,
    /// What steps hand on besides what they leave in the batch. Empty between pieces.
    output: Output,
    /// What steps have to do next; the last comes first.
    ready: Vec<Ready>,
}

/// Output of one round of preprocessing: messages, to be decoded, and what preprocessors took out.
pub(crate) struct Preprocessed {
    pub(crate) batch: Batch,
    pub(crate) rejected: Vec<Rejected>,
    pub(crate) discarded: usize,
    /// No step has lost events that could not be rejected.
    pub(crate) whole: bool,
    /// Stands for the pulls that the messages came from.
    pub(crate) token: Token,
    /// Whether preprocessors may have made its events: the time of such events is not set.
    pub(crate) is_made_here: bool,
    /// Number of events that the source read since the last output. Set by the intake.
    pub(crate) events: usize,
    /// Number of bytes, likewise.
    pub(crate) bytes: usize,
}

/// Result of one bounded round of work.
pub(crate) enum Next<T> {
    /// Something came out. More may follow.
    Piece(T),
    /// Nothing came out of this round, but the work is not finished. The caller yields and looks at its
    /// interrupts before the next round.
    More,
    /// The work is finished.
    Nothing,
}

/// How streams end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// What is left of a message is a message.
    Complete,
    /// What is left of a message never becomes one.
    Aborted,
}

/// Maximum number of consecutive calls of a preprocessor that says it has more of its input and puts nothing out. Far
/// more than one that skips a long input needs.
const FUTILE_CALLS: usize = 10_000;

struct Step {
    /// Name of the preprocessor for people. Empty unless [`Preprocessors::named`] was called.
    name: String,
    preprocessor: Box<dyn Preprocessor>,
    /// Makes the instance that replaces the preprocessor after [`Preprocessors::restart`]. `None` in tests.
    make: Option<MakePreprocessor>,
    /// Of the pulls that it holds bytes of, by stream.
    held: BTreeMap<u64, Vec<Token>>,
    /// Consecutive calls for more that put nothing out.
    futile_calls: usize,
    /// When the preprocessor has to be called next, in ns on the monotonic clock.
    due: Option<u64>,
}

/// What a step has to do next.
struct Ready {
    step: usize,
    task: Task,
}

enum Task {
    /// A batch came in.
    Process(Batch, Origin),
    /// It has more to put out.
    GoOn,
    /// The time has come that it asked for, in ns on the monotonic clock.
    Time(u64),
    /// All its streams end.
    End(StreamEnd),
}

/// Reason why a preprocessor is called.
#[derive(Clone, Copy, PartialEq)]
enum Call {
    Input,
    More,
    Time(u64),
}

/// The pulls that a batch comes from.
struct Origin {
    /// The one in hand.
    pull: Option<Token>,
    /// Earlier ones, by stream.
    earlier: BTreeMap<u64, Vec<Token>>,
}

impl Preprocessors {
    #[cfg(test)]
    pub(crate) fn new(preprocessors: Vec<Box<dyn Preprocessor>>) -> Self {
        let steps = preprocessors.into_iter().map(|preprocessor| Step::new(preprocessor, None));
        Self { steps: steps.collect(), output: Output::new(), ready: Vec::new() }
    }

    /// Makes a chain whose preprocessors [`Preprocessors::restart`] can replace.
    pub(crate) fn restartable(
        preprocessors: impl IntoIterator<Item = (Box<dyn Preprocessor>, MakePreprocessor)>,
    ) -> Self {
        let steps = preprocessors.into_iter().map(|(first, make)| Step::new(first, Some(make)));
        Self { steps: steps.collect(), output: Output::new(), ready: Vec::new() }
    }

    /// The same chain, with the names of its preprocessors for log lines.
    pub(crate) fn named(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.steps.iter_mut().zip(names).for_each(|(step, name)| step.name = name);
        self
    }

    /// Whether something that came in has not gone through all steps yet.
    pub(crate) fn has_more(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Calls `visit` once with each pull of which a step waits for the remainder of a stream.
    pub(crate) fn for_each_held_pull(&self, visit: impl FnMut(u64)) {
        let mut held = self.steps.iter().flat_map(|step| step.held.values());
        let (Some(first), second) = (held.next(), held.next()) else { return };
        // A source at its limits asks for this at each poll. Mostly one step has one stream, with one share a pull.
        let Some(second) = second else { return first.iter().map(Token::pull).for_each(visit) };
        let held = [first, second].into_iter().chain(held).flatten();
        held.map(Token::pull).collect::<BTreeSet<_>>().into_iter().for_each(visit);
    }

    /// Takes in what was pulled: [`Preprocessors::next`] gives what comes of it.
    pub(crate) fn push(&mut self, batch: Batch, share: Option<Token>) {
        let origin = Origin { pull: share, earlier: BTreeMap::new() };
        self.ready.push(Ready { step: 0, task: Task::Process(batch, origin) });
    }

    /// Returns when a preprocessor has to be called next, in ns on the monotonic clock.
    pub(crate) fn due(&self) -> Option<u64> {
        self.steps.iter().filter_map(|step| step.due).min()
    }

    /// Has the preprocessors whose time has come at `now` emit what they buffer: [`Preprocessors::next`] returns that. Call this
    /// only while [`Preprocessors::has_more`] is `false`, because rounds that have begun come first.
    pub(crate) fn push_time(&mut self, now: u64) {
        let due = self.steps.iter().enumerate().rev().filter(|(_, step)| step.is_due(now));
        self.ready.extend(due.map(|(step, _)| Ready { step, task: Task::Time(now) }));
    }

    /// All streams end: [`Preprocessors::next`] gives what comes of that.
    pub(crate) fn end(&mut self, how: StreamEnd) {
        let end = |step| Ready { step, task: Task::End(how) };
        self.ready.extend((0..self.steps.len()).rev().map(end));
    }

    /// Nothing is held any more: the shares of what is left were the ends of streams, say.
    pub(crate) fn settle_held(&mut self) {
        let held = self.steps.iter_mut().flat_map(|step| std::mem::take(&mut step.held));
        held.flat_map(|(_, shares)| shares).for_each(Token::settle);
    }

    /// Nothing more comes of what is held: its pulls fail.
    pub(crate) fn drop_held(&mut self) {
        self.ready.clear();
        self.steps.iter_mut().for_each(|step| step.held.clear());
    }

    /// Discards everything that has come in and is not out, and replaces the preprocessors by new instances.
    /// The pulls of what is discarded fail.
    ///
    /// For input that cannot be taken through in time: a few bytes may expand to terabytes.
    ///
    /// # Errors
    /// The first error of a constructor.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.drop_held();
        for step in &mut self.steps {
            if let Some(make) = &step.make {
                (step.preprocessor, step.due) = (make()?, None);
            }
        }
        Ok(())
    }

    /// Runs each preprocessor at most once, and returns what comes out. [`Next::Nothing`]: all that came
    /// in is out, except for what preprocessors hold.
    pub(crate) fn next(&mut self) -> Next<Preprocessed> {
        let Some(Ready { step, task }) = self.ready.pop() else { return Next::Nothing };
        let is_made_here = !matches!(task, Task::Process(..));
        let (batch, origin, whole) = self.run(step, task);
        let rejected = self.output.take_rejected();
        let discarded = self.output.take_discarded();
        let token = origin.token();
        if batch.is_empty() && rejected.is_empty() && discarded == 0 && whole {
            token.settle();
            return if self.has_more() { Next::More } else { Next::Nothing };
        }
        let (events, bytes) = (0, 0);
        Next::Piece(Preprocessed {
            batch,
            rejected,
            discarded,
            whole,
            token,
            is_made_here,
            events,
            bytes,
        })
    }

    /// Runs one step, and those after it as far as they go at once.
    fn run(&mut self, first: usize, task: Task) -> (Batch, Origin, bool) {
        let none = || Origin { pull: None, earlier: BTreeMap::new() };
        let (mut batch, mut origin, mut call) = match task {
            Task::Process(batch, origin) => (batch, origin, Call::Input),
            Task::GoOn => (Batch::new(), none(), Call::More),
            // A message that an earlier preprocessor emitted may have changed the time.
            Task::Time(now) if !self.steps[first].is_due(now) => {
                return (Batch::new(), none(), true);
            }
            Task::Time(now) => (Batch::new(), none(), Call::Time(now)),
            Task::End(how) => {
                let mut batch = Batch::new();
                if let Some(step) = self.steps.get(first) {
                    step.end_streams(&mut batch, how);
                }
                (batch, none(), Call::Input)
            }
        };
        let mut whole = true;
        for position in first..self.steps.len() {
            let step = &mut self.steps[position];
            whole &= step.run(&mut batch, &mut origin, &mut self.output, call);
            let is_futile = call == Call::More && batch.is_empty() && self.output.is_empty();
            step.futile_calls = if is_futile { step.futile_calls + 1 } else { 0 };
            if step.futile_calls >= FUTILE_CALLS {
                step.give_up(&mut origin);
                whole = false;
            } else if step.preprocessor.has_more() {
                self.ready.push(Ready { step: position, task: Task::GoOn });
            }
            step.due = step.preprocessor.due();
            call = Call::Input;
        }
        (batch, origin, whole)
    }
}

impl Step {
    fn new(preprocessor: Box<dyn Preprocessor>, make: Option<MakePreprocessor>) -> Self {
        let (name, held) = (String::new(), BTreeMap::new());
        Self { name, preprocessor, make, held, futile_calls: 0, due: None }
    }

    fn is_due(&self, now: u64) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Puts the end of every stream that has begun into a batch, the lowest first.
    fn end_streams(&self, batch: &mut Batch, how: StreamEnd) {
        let mut streams = self.preprocessor.streams();
        streams.sort_unstable();
        for stream in streams {
            match how {
                StreamEnd::Complete => batch.stream(stream).end(),
                StreamEnd::Aborted => batch.stream(stream).abort(),
            }
        }
    }

    /// Replaces a preprocessor that says without end that it has more and puts nothing out, and adds the pulls of what
    /// it holds to `origin`, so that they fail with what is lost.
    #[cold]
    fn give_up(&mut self, origin: &mut Origin) {
        tracing::error!(
            preprocessor = self.name,
            calls = self.futile_calls,
            "the preprocessor says in every call that it has more of its input, and puts nothing out; it is restarted \
             without that input"
        );
        self.futile_calls = 0;
        for (stream, shares) in std::mem::take(&mut self.held) {
            origin.add(stream, shares);
        }
        match self.make.as_ref().map(|make| make()) {
            Some(Ok(preprocessor)) => self.preprocessor = preprocessor,
            Some(Err(error)) => {
                tracing::error!(preprocessor = self.name, %error, "cannot restart the preprocessor");
            }
            None => {}
        }
    }

    /// Whether nothing was lost.
    fn run(
        &mut self,
        batch: &mut Batch,
        origin: &mut Origin,
        output: &mut Output,
        call: Call,
    ) -> bool {
        let mut process = |preprocessor: &mut dyn Preprocessor, batch: &mut Batch| {
            preprocess(batch, output, |batch, output| match call {
                Call::Time(now) => preprocessor.on_time(now, batch, output),
                Call::Input | Call::More => preprocessor.process(batch, output),
            })
        };
        let goes_on = call != Call::Input;
        if !origin.is_tracked() && self.held.is_empty() {
            return process(&mut *self.preprocessor, batch);
        }
        let came = if goes_on { self.held.keys().copied().collect() } else { streams(batch) };
        let whole = process(&mut *self.preprocessor, batch);
        let mut out = streams(batch);
        out.extend(output.rejected().iter().map(|rejected| rejected.event.stream));
        out.sort_unstable();
        for stream in came {
            let puts_out = out.binary_search(&stream).is_ok();
            let holds = self.preprocessor.holds(stream);
            self.account(stream, holds, puts_out, goes_on, origin);
        }
        whole
    }

    /// After a call: whose shares go on with what was put out, and whose stay with what is held.
    fn account(
        &mut self,
        stream: u64,
        holds: bool,
        puts_out: bool,
        goes_on: bool,
        origin: &mut Origin,
    ) {
        if !holds {
            let held = self.held.remove(&stream).unwrap_or_default();
            origin.add(stream, held);
        } else if goes_on {
            // What it holds is the rest of an input that it had before.
            if let Some(held) = self.held.get(&stream).filter(|_| puts_out) {
                origin.add(stream, held.clone());
            }
        } else if puts_out {
            let came = origin.of(stream);
            let held = self.held.insert(stream, came).unwrap_or_default();
            origin.add(stream, held);
        } else {
            let came = origin.of(stream);
            add(self.held.entry(stream).or_default(), came);
            // They stay here, and go on with what is put out next.
            origin.earlier.remove(&stream).into_iter().flatten().for_each(Token::settle);
        }
    }
}

impl Origin {
    fn is_tracked(&self) -> bool {
        self.pull.as_ref().is_some_and(Token::is_tracked) || !self.earlier.is_empty()
    }

    /// Of the pulls that what came of this stream comes from.
    fn of(&self, stream: u64) -> Vec<Token> {
        let earlier = self.earlier.get(&stream).into_iter().flatten();
        earlier.chain(&self.pull).cloned().collect()
    }

    fn add(&mut self, stream: u64, shares: Vec<Token>) {
        if !shares.is_empty() {
            add(self.earlier.entry(stream).or_default(), shares);
        }
    }

    /// Returns the token that stands for all of the pulls.
    fn token(self) -> Token {
        match self.pull {
            Some(pull) if self.earlier.is_empty() => pull,
            pull => {
                let mut all = Vec::new();
                self.earlier.into_values().for_each(|earlier| add(&mut all, earlier));
                Token::join(all.into_iter().chain(pull).collect())
            }
        }
    }
}

/// Adds shares in the order of their pulls, one of each.
fn add(to: &mut Vec<Token>, shares: Vec<Token>) {
    for share in shares {
        if to.last().is_none_or(|last| last.pull() < share.pull()) {
            to.push(share);
            continue;
        }
        match to.binary_search_by_key(&share.pull(), Token::pull) {
            Ok(_) => share.settle(),
            Err(position) => to.insert(position, share),
        }
    }
}

/// The streams of a batch, each once.
fn streams(batch: &Batch) -> Vec<u64> {
    let mut streams = Vec::new();
    for event in batch.events() {
        if streams.last() != Some(&event.stream) {
            streams.push(event.stream);
        }
    }
    streams.sort_unstable();
    streams.dedup();
    streams
}

/// Runs one preprocessor over a batch. Where it fails as a whole, all that is in the batch is
/// rejected but the ends of streams, which the next preprocessors wait for. `false`: it left
/// nothing that could be.
fn preprocess(
    batch: &mut Batch,
    output: &mut Output,
    step: impl FnOnce(&mut Batch, &mut Output) -> Result<()>,
) -> bool {
    let Err(error) = step(batch, output) else { return true };
    if batch.is_empty() {
        tracing::error!(%error, "a preprocessor failed, and left nothing that could go to `err`");
        return false;
    }
    batch.retain(|event| {
        if !event.is_stream_end() {
            output.reject(event, error.clone());
        }
        event.is_stream_end()
    });
    true
}

#[cfg(test)]
mod tests;
