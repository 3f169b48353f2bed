//! The preprocessors of one source, and the pulls whose bytes they buffer.
//!
//! Events carry a [`Token`] of the pull that read them. As long as a preprocessor buffers bytes of a stream, it keeps
//! tokens of the pulls that read these bytes. A message therefore has the tokens of all pulls that read bytes of it,
//! and of the pull that completed it. A stream with an incomplete message does not delay the acknowledgement of other
//! streams.

mod buffered;
mod origin;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tremor_abi::batch::{HostBatch, HostOutput, Rejected};
use tremor_pdk::{Batch, ErrorKind, Output, Preprocessor, Result};

use self::{
    buffered::{Buffered, drain_before, keep, tokens},
    origin::Origin,
};
use crate::engine::{parts::MakePreprocessor, tracking::token::Token};

/// The preprocessors of one source.
#[derive(Default)]
pub(crate) struct Preprocessors {
    steps: Vec<Step>,
    /// Rejected and discarded events of the current call. Empty between calls.
    output: Output,
    /// A stack of the calls that are due. The next call is at the top.
    ready: Vec<Ready>,
}

/// Output of one round of preprocessing: messages that still have to be decoded, and rejected events.
pub(crate) struct Preprocessed {
    pub(crate) batch: Batch,
    pub(crate) rejected: Vec<Rejected>,
    /// Number of events that preprocessors discarded on purpose.
    pub(crate) discarded: usize,
    /// `false` if a preprocessor lost events that could not be rejected.
    pub(crate) whole: bool,
    /// Token of all pulls that the messages come from.
    pub(crate) token: Token,
    /// `true` if preprocessors may have created the events, so that the ingest time of the events is not set yet.
    pub(crate) is_made_here: bool,
    /// Number of events that the source read since the last output. Set by the intake.
    pub(crate) events: usize,
    /// Number of bytes that the source read since the last output. Set by the intake.
    pub(crate) bytes: usize,
}

/// Result of one bounded round of work.
pub(crate) enum Next<T> {
    /// The round had an output. More rounds may follow.
    Piece(T),
    /// The round had no output, but the work is not finished. The caller has to yield and to check its interrupts
    /// before the next round.
    More,
    /// The work is finished.
    Nothing,
}

/// The way in which streams end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// The input is complete. The remainder of a stream is its last message.
    Complete,
    /// The input was cut off. The remainder of a stream never becomes a message.
    Aborted,
}

/// Maximum number of consecutive calls in which a preprocessor reports more input and outputs nothing. A preprocessor
/// that skips a long input needs far fewer calls.
const FUTILE_CALLS: usize = 10_000;

struct Step {
    /// Name of the connector in log lines. Empty unless [`Preprocessors::named`] was called.
    connector: Arc<str>,
    /// Name of the preprocessor in log lines. Empty unless [`Preprocessors::named`] was called.
    name: String,
    preprocessor: Box<dyn Preprocessor>,
    /// Creates the instance that replaces the preprocessor in [`Preprocessors::restart`]. `None` in tests.
    make: Option<MakePreprocessor>,
    /// Tokens of the pulls whose bytes the preprocessor buffers, by stream.
    buffered: BTreeMap<u64, Vec<Buffered>>,
    /// Number of calls of the preprocessor. [`Preprocessor::buffered_since`] refers to this number.
    calls: u64,
    /// Number of consecutive calls for more output that returned no output.
    futile_calls: usize,
    /// Time at which the preprocessor's timer is due, in ns on the monotonic clock.
    due: Option<u64>,
}

/// A call of a step that is due.
struct Ready {
    step: usize,
    task: Task,
}

enum Task {
    /// Process a batch.
    Process(Batch, Origin),
    /// Output more, from the input that the step already has.
    Continue,
    /// Run the timer. The value is the current time in ns on the monotonic clock.
    Time(u64),
    /// End all streams of the step.
    End(StreamEnd),
}

/// Reason why a preprocessor is called.
#[derive(Clone, Copy, PartialEq)]
enum Call {
    Input,
    More,
    Time(u64),
}

/// The state of a stream after a call of a step.
#[derive(Clone, Copy)]
struct Progress {
    /// `true` if the preprocessor buffers bytes of the stream.
    is_buffering: bool,
    /// `true` if the preprocessor emitted or rejected events of the stream in this call.
    has_output: bool,
    /// `true` if an earlier step of the same round rejected events of the stream.
    has_earlier_output: bool,
}

impl Preprocessors {
    #[cfg(test)]
    pub(crate) fn new(preprocessors: Vec<Box<dyn Preprocessor>>) -> Self {
        let steps = preprocessors.into_iter().map(|preprocessor| Step::new(preprocessor, None));
        Self { steps: steps.collect(), output: Output::new(), ready: Vec::new() }
    }

    /// Creates a chain whose preprocessors can be replaced by [`Preprocessors::restart`].
    pub(crate) fn restartable(
        preprocessors: impl IntoIterator<Item = (Box<dyn Preprocessor>, MakePreprocessor)>,
    ) -> Self {
        let steps = preprocessors.into_iter().map(|(first, make)| Step::new(first, Some(make)));
        Self { steps: steps.collect(), output: Output::new(), ready: Vec::new() }
    }

    /// Sets the names of the connector and of its preprocessors for log lines.
    pub(crate) fn named(
        mut self,
        connector: &str,
        names: impl IntoIterator<Item = String>,
    ) -> Self {
        let connector: Arc<str> = connector.into();
        self.steps.iter_mut().for_each(|step| step.connector = connector.clone());
        self.steps.iter_mut().zip(names).for_each(|(step, name)| step.name = name);
        self
    }

    /// Returns whether a step still has to process input. Bytes that a step buffers for an incomplete message do not
    /// count.
    pub(crate) fn has_more(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Calls `visit` for each pull of which a step buffers bytes, with the number of the pull, once for each pull.
    pub(crate) fn for_each_buffered_pull(&self, visit: impl FnMut(u64)) {
        let mut buffered = self.steps.iter().flat_map(|step| step.buffered.values());
        let (Some(first), second) = (buffered.next(), buffered.next()) else { return };
        // A source at its limits calls this at each poll, so the usual case of a single stream has a fast path. Within
        // one stream, each pull has at most one token.
        let Some(second) = second else { return first.iter().map(Buffered::pull).for_each(visit) };
        let buffered = [first, second].into_iter().chain(buffered).flatten();
        buffered.map(Buffered::pull).collect::<BTreeSet<_>>().into_iter().for_each(visit);
    }

    /// Adds a pulled batch as input. [`Preprocessors::next`] returns the resulting messages.
    pub(crate) fn push(&mut self, batch: Batch, token: Option<Token>) {
        let origin = Origin::of_pull(token);
        self.ready.push(Ready { step: 0, task: Task::Process(batch, origin) });
    }

    /// Returns the time at which the next timer of a preprocessor is due, in ns on the monotonic clock.
    pub(crate) fn due(&self) -> Option<u64> {
        self.steps.iter().filter_map(|step| step.due).min()
    }

    /// Schedules the timers that are due at `now`. [`Preprocessors::next`] runs them and returns the buffered
    /// messages that they emit. Call this only while [`Preprocessors::has_more`] is `false`, so that input that has
    /// arrived is processed first.
    pub(crate) fn push_time(&mut self, now: u64) {
        let due = self.steps.iter().enumerate().rev().filter(|(_, step)| step.is_due(now));
        self.ready.extend(due.map(|(step, _)| Ready { step, task: Task::Time(now) }));
    }

    /// Ends all streams. [`Preprocessors::next`] returns the messages that this completes or rejects.
    pub(crate) fn end(&mut self, how: StreamEnd) {
        let end = |step| Ready { step, task: Task::End(how) };
        self.ready.extend((0..self.steps.len()).rev().map(end));
    }

    /// Settles all tokens that steps still have. Call this after all streams have ended. The tokens then belong only to
    /// bytes that became no message, such as the ends of streams.
    pub(crate) fn settle_buffered(&mut self) {
        let buffered = self.steps.iter_mut().flat_map(|step| std::mem::take(&mut step.buffered));
        buffered.flat_map(|(_, pulls)| pulls).for_each(|it| it.token.settle());
    }

    /// Drops the input that is not yet processed and the tokens of buffered bytes, so that their pulls fail. The
    /// buffered bytes stay in the preprocessors until their streams end.
    pub(crate) fn drop_tokens(&mut self) {
        self.ready.clear();
        self.steps.iter_mut().for_each(|step| step.buffered.clear());
    }

    /// Discards all input that was not yet output, and replaces the preprocessors by new instances, so that buffered
    /// bytes are lost. The pulls of the discarded input fail.
    ///
    /// The method is meant for input that cannot be processed in time, because a few bytes may expand to terabytes.
    ///
    /// # Errors
    /// Returns the first error of a constructor.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.drop_tokens();
        for step in &mut self.steps {
            if let Some(make) = &step.make {
                (step.preprocessor, step.due, step.calls) = (make()?, None, 0);
            }
        }
        Ok(())
    }

    /// Runs each preprocessor at most once and returns the output. Returns [`Next::Nothing`] if no input is left that
    /// could be output now.
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

    /// Runs the step at `first` and all later steps. Returns their output, the tokens of the output, and `false` if
    /// events were lost.
    fn run(&mut self, first: usize, task: Task) -> (Batch, Origin, bool) {
        let none = Origin::default;
        let (mut batch, mut origin, mut call) = match task {
            Task::Process(batch, origin) => (batch, origin, Call::Input),
            Task::Continue => (Batch::new(), none(), Call::More),
            // The output of a preprocessor before this one may have set the timer to a later time.
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
                self.ready.push(Ready { step: position, task: Task::Continue });
            }
            step.due = step.preprocessor.due();
            call = Call::Input;
        }
        (batch, origin, whole)
    }
}

impl Step {
    fn new(preprocessor: Box<dyn Preprocessor>, make: Option<MakePreprocessor>) -> Self {
        let (connector, name, buffered) = ("".into(), String::new(), BTreeMap::new());
        Self { connector, name, preprocessor, make, buffered, calls: 0, futile_calls: 0, due: None }
    }

    fn is_due(&self, now: u64) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Adds an end to `batch` for every stream that has begun, in ascending order of the streams.
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

    /// Replaces a preprocessor that repeatedly reported more input without any output. Adds the tokens of its buffered
    /// bytes to `origin`, so that the pulls of these bytes fail together with those of the lost input.
    #[cold]
    fn give_up(&mut self, origin: &mut Origin) {
        tracing::error!(
            component = &*self.connector,
            preprocessor = self.name,
            calls = self.futile_calls,
            "the preprocessor reported in every call that it has more input, but output nothing; it is restarted \
             without that input"
        );
        self.futile_calls = 0;
        self.release_tokens(origin);
        match self.make.as_ref().map(|make| make()) {
            Some(Ok(preprocessor)) => (self.preprocessor, self.calls) = (preprocessor, 0),
            Some(Err(error)) => {
                let (component, preprocessor) = (&*self.connector, &*self.name);
                tracing::error!(component, preprocessor, %error, "cannot restart the preprocessor");
            }
            None => {}
        }
    }

    /// Adds the tokens of all buffered bytes to `origin`, so that their pulls fail together with the lost input.
    fn release_tokens(&mut self, origin: &mut Origin) {
        for (stream, pulls) in std::mem::take(&mut self.buffered) {
            origin.add(stream, tokens(pulls));
        }
    }

    /// Calls the preprocessor with `batch`, and updates the tokens. Returns `false` if events were lost.
    fn run(
        &mut self,
        batch: &mut Batch,
        origin: &mut Origin,
        output: &mut Output,
        call: Call,
    ) -> bool {
        self.calls += 1;
        let before = output.rejected().len();
        let mut process = |preprocessor: &mut dyn Preprocessor, batch: &mut Batch| {
            preprocess((&*self.connector, &*self.name), batch, output, |batch, output| match call {
                Call::Time(now) => preprocessor.on_time(now, batch, output),
                Call::Input | Call::More => preprocessor.process(batch, output),
            })
        };
        let is_continued = call != Call::Input;
        if !origin.is_tracked() && self.buffered.is_empty() {
            return process(&mut *self.preprocessor, batch).is_none_or(|it| it.left_events);
        }
        let inputs =
            if is_continued { self.buffered.keys().copied().collect() } else { streams(batch) };
        let failed = process(&mut *self.preprocessor, batch);
        let mut whole = failed.is_none_or(|it| it.left_events);
        if failed.is_some_and(|it| it.has_panicked) && !self.buffered.is_empty() {
            // The bytes that the instance buffered are lost.
            whole = false;
            self.release_tokens(origin);
        }
        let rejected = output.rejected();
        let (earlier, own) = rejected.split_at(before.min(rejected.len()));
        let stream_of = |rejected: &Rejected| rejected.event.stream;
        let mut out = streams(batch);
        out.extend(own.iter().map(stream_of));
        out.sort_unstable();
        let mut earlier: Vec<u64> = earlier.iter().map(stream_of).collect();
        earlier.sort_unstable();
        for stream in inputs {
            let progress = Progress {
                is_buffering: self.preprocessor.buffers(stream),
                has_output: out.binary_search(&stream).is_ok(),
                has_earlier_output: earlier.binary_search(&stream).is_ok(),
            };
            self.assign_tokens(stream, progress, is_continued, origin);
        }
        whole
    }

    /// Decides after a call which tokens of `stream` leave with the output, and which stay with the buffered bytes.
    ///
    /// `is_continued` is `true` if the call had no new input.
    fn assign_tokens(
        &mut self,
        stream: u64,
        progress: Progress,
        is_continued: bool,
        origin: &mut Origin,
    ) {
        let Progress { is_buffering, has_output, has_earlier_output } = progress;
        if !is_buffering {
            let buffered = self.buffered.remove(&stream).unwrap_or_default();
            return origin.add(stream, tokens(buffered));
        }
        let since = self.preprocessor.buffered_since(stream);
        let inputs = if is_continued { Vec::new() } else { origin.of(stream) };
        let buffered = self.buffered.entry(stream).or_default();
        let left = match since {
            Some(since) => drain_before(buffered, since),
            // The output completes all earlier bytes of the stream, and the remaining bytes are those of this call.
            None if has_output && !is_continued => std::mem::take(buffered),
            None => Vec::new(),
        };
        if has_output {
            // Parts of the output may come from pulls whose other bytes remain buffered.
            origin.add(stream, buffered.iter().map(|it| it.token.clone()).collect());
        } else if !is_continued && !has_earlier_output {
            // The preprocessor has clones of these tokens now, and they leave with its next output.
            origin.settle_earlier(stream);
        }
        origin.add(stream, tokens(left));
        inputs.into_iter().for_each(|token| keep(buffered, Buffered { token, call: self.calls }));
    }
}

/// Returns the streams of a batch, sorted and without duplicates.
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

/// A failed call of a preprocessor.
#[derive(Clone, Copy, Debug)]
struct Failed {
    /// `false` if the call left no event that could be rejected.
    left_events: bool,
    has_panicked: bool,
}

/// Runs one preprocessor on a batch. The names of the connector and of the preprocessor are for messages. Returns
/// `None` if the call succeeded.
///
/// If the call fails, the events in the batch are rejected. Ends of streams are not rejected, because later
/// preprocessors need them.
fn preprocess(
    (component, name): (&str, &str),
    batch: &mut Batch,
    output: &mut Output,
    step: impl FnOnce(&mut Batch, &mut Output) -> Result<()>,
) -> Option<Failed> {
    let error = step(batch, output).err()?;
    let has_panicked = error.kind() == ErrorKind::PANICKED;
    if batch.is_empty() {
        tracing::error!(
            component,
            preprocessor = name,
            %error,
            "the preprocessor failed and left no event that could be sent to `err`"
        );
        return Some(Failed { left_events: false, has_panicked });
    }
    batch.retain(|event| {
        if !event.is_stream_end() {
            output.reject(event, error.clone());
        }
        event.is_stream_end()
    });
    Some(Failed { left_events: true, has_panicked })
}

#[cfg(test)]
mod tests;
