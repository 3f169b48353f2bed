//! Common parts of preprocessors that join whole messages of a stream, such as lines, into longer messages.

mod incomplete;
pub(super) mod open;

use std::{collections::BTreeSet, ops::Range, time::Duration};

use halfbrown::{DefaultHashBuilder, SizedHashMap};
use tremor_abi::batch::{Event, HostBatch};
use tremor_pdk::{
    Batch, Component, ComponentContext, Found, Host, Input, Memory, Output, Preprocessor, Result,
    Splitter, StreamSplitter, WholeMessages, schemars::JsonSchema, serde::de::DeserializeOwned,
};

use self::{incomplete::IncompleteLines, open::Open};
use super::{
    lines::{Line, Lines},
    max_length,
};

/// The part of a preprocessor that is specific to its format.
pub(crate) trait Rule: Sized + Send + 'static {
    /// Configuration of the preprocessor.
    type Config: DeserializeOwned + JsonSchema;

    /// State of an open message, which may continue.
    type State: Copy + Send;

    /// Name of the preprocessor.
    const NAME: &'static str;

    /// Bytes between two parts of a message.
    const SEPARATOR: &'static [u8];

    /// `true` if a carriage return before the line feed of a line belongs to the part.
    const KEEPS_RETURN: bool = false;

    /// Creates the rule.
    ///
    /// # Errors
    /// The configuration is invalid.
    fn new(config: Self::Config) -> Result<(Self, Limits)>;

    /// Prepares for the next batch, whose buffers differ from those of the previous batch.
    fn begin_batch(&mut self) {}

    /// Finds the content of `message`, the payload of `event`. If the content is not a range of `message`, writes it to
    /// `scratch`, which may still contain the content of an earlier message.
    ///
    /// # Errors
    /// The message is invalid. It goes to `err`, and does not end an open message.
    fn part(
        &mut self,
        batch: &Batch,
        event: &Event,
        message: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<Part>;

    /// Decides whether the part that [`Rule::part`] returned last continues the open message with the state `open`.
    fn judge(&mut self, content: &[u8], open: Option<&Self::State>) -> Verdict<Self::State>;

    /// Returns the content of a complete message without the bytes that end it.
    #[inline]
    fn trimmed<'t>(_state: &Self::State, content: &'t [u8]) -> &'t [u8] {
        content
    }

    /// Changes the metadata of a complete message.
    fn complete(&mut self, _batch: &mut Batch, _event: &mut Event, _state: &Self::State) {}
}

/// The content of a message.
pub(crate) struct Part {
    /// Only parts of the same side of a stream are joined, for example standard output or standard error. Below
    /// [`SIDES`].
    pub(super) side: u8,
    /// Range of the content within the message, or `None` if the content is in the scratch buffer.
    pub(super) range: Option<Range<usize>>,
}

/// Result of [`Rule::judge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict<S> {
    pub(super) link: Link,
    /// `true` if the message is complete with this part.
    pub(super) is_last: bool,
    /// State of the message after this part.
    pub(super) state: S,
}

/// Relation of a part to the open message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// The part begins a message.
    Begins,
    /// The part begins a message, unless a later part [reunites](Self::Reunites) this message with the open one.
    MayBegin,
    /// The part continues the open message.
    Continues,
    /// The part continues the open message and the messages before it that only [may](Self::MayBegin) have ended.
    Reunites,
}

impl Link {
    /// Returns the relation of a part that continues the open message if `continues` is set, and begins one otherwise.
    pub(super) const fn of(continues: bool) -> Self {
        if continues { Self::Continues } else { Self::Begins }
    }
}

/// Maximum number of sides of a stream.
const SIDES: u8 = 2;

/// A side of a stream.
type Key = (u64, u8);

/// Maximum size in bytes of the open messages of all streams together. A larger `max_length` replaces this value.
const TOGETHER: usize = 32 << 20;

/// Number of open messages up to which they are searched linearly, as in [`super::streams`].
const FEW: usize = 8;

/// Limits of one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of parts.
    pub(super) parts: usize,
    /// Maximum length in bytes.
    pub(super) bytes: usize,
    /// Maximum time without a further part.
    pub(super) timeout: Duration,
}

/// A preprocessor that joins messages.
///
/// Fragments of byte streams are split into lines first. A message that is not joined is not copied.
pub(crate) struct Joining<R: Rule> {
    rule: R,
    limits: Limits,
    /// Timeout in ns.
    timeout: u64,
    host: Host,
    lines: Splitter<FragmentLines>,
    incomplete: IncompleteLines,
    open: SizedHashMap<Key, Open<R::State>, DefaultHashBuilder, FEW>,
    /// The sides that have received a part in the current call. May contain duplicates, and sides without an open
    /// message.
    touched: Vec<Key>,
    /// Deadlines in ns of the open messages. The deadline of a message may be later than its entry in this set.
    deadlines: BTreeSet<(u64, Key)>,
    /// Memory of the open messages in bytes.
    bytes: usize,
    /// Counts `bytes` in the memory of the flow.
    memory: Memory,
    /// Number of calls of this preprocessor.
    calls: u64,
    /// Number of the call that received the input that is being processed.
    arrival: u64,
    /// Number of the call that received the first bytes of the line that is being processed.
    line_arrival: u64,
    /// Input and output of the current call.
    events: Vec<Event>,
    out: Vec<Event>,
    /// Content of the current part, if it is not a range of the message.
    scratch: Vec<u8>,
}

impl<R: Rule> Component for Joining<R> {
    const NAME: &str = R::NAME;
    type Config = R::Config;

    fn new(config: R::Config, context: ComponentContext) -> Result<Self> {
        let (rule, limits) = R::new(config)?;
        Ok(Self {
            rule,
            limits,
            timeout: u64::try_from(limits.timeout.as_nanos()).unwrap_or(u64::MAX),
            host: context.clone().into(),
            memory: context.memory(),
            lines: Splitter::of(
                FragmentLines(Lines::of(max_length().get(), !R::KEEPS_RETURN)),
                R::NAME,
                context,
            ),
            incomplete: IncompleteLines::default(),
            open: SizedHashMap::default(),
            touched: Vec::new(),
            deadlines: BTreeSet::new(),
            bytes: 0,
            calls: 0,
            arrival: 0,
            line_arrival: 0,
            events: Vec::new(),
            out: Vec::new(),
            scratch: Vec::new(),
        })
    }
}

/// Returns a message without the line feed at its end, and without the carriage return before it unless `keeps_return`
/// is set. Whole messages, such as datagrams, may end with them.
fn without_line_end(message: &[u8], keeps_return: bool) -> &[u8] {
    let Some(line) = message.strip_suffix(b"\n") else { return message };
    line.strip_suffix(b"\r").filter(|_| !keeps_return).unwrap_or(line)
}

impl<R: Rule> Joining<R> {
    /// Processes one message.
    fn add(&mut self, batch: &mut Batch, event: &Event, output: &mut Output) {
        let Some(message) = batch.raw(event) else { return self.out.push(*event) };
        let message = without_line_end(message, R::KEEPS_RETURN);
        let part = match self.rule.part(batch, event, message, &mut self.scratch) {
            Ok(part) => part,
            Err(error) => return output.reject(*event, error),
        };
        let content = part.range.as_ref().map_or(&self.scratch[..], |it| &message[it.clone()]);
        let key = (event.stream, part.side);
        let Some(open) = self.open.get_mut(&key) else {
            let Verdict { is_last, state, .. } = self.rule.judge(content, None);
            if is_last {
                return self.emit(batch, event, part.range, &state, output);
            }
            let mut open = Open::new(event, part.range, &self.scratch, state, self.line_arrival);
            open.touched = self.calls;
            self.open.insert(key, open);
            return self.touched.push(key);
        };
        let Verdict { link, is_last, state } = self.rule.judge(content, Some(&open.state));
        let touched = std::mem::replace(&mut open.touched, self.calls);
        if touched != self.calls {
            self.touched.push(key);
        }
        open.was_released &= matches!(link, Link::MayBegin | Link::Continues);
        if link == Link::Reunites {
            open.reunite(batch, R::SEPARATOR, self.limits.parts, self.limits.bytes);
        }
        let length = open.len() + R::SEPARATOR.len() + content.len();
        if matches!(link, Link::Continues | Link::Reunites)
            && open.parts < self.limits.parts
            && length <= self.limits.bytes
        {
            open.append(batch, R::SEPARATOR, content);
            open.state = state;
            if is_last && let Some(open) = self.remove(key) {
                self.complete(open, batch, output);
            }
            return;
        }
        if is_last {
            if let Some(open) = self.remove(key) {
                self.complete(open, batch, output);
            }
            return self.emit(batch, event, part.range, &state, output);
        }
        if link == Link::MayBegin && !open.was_released {
            let next = Open::new(event, part.range, &self.scratch, state, self.line_arrival);
            return open.hold(next, touched);
        }
        // The entry is reused, so that a line that ends the open message and begins the next one does not change the
        // table.
        Self::finish(&mut self.rule, &mut self.out, open, batch, output);
        open.restart(event, part.range, &self.scratch, state, self.line_arrival);
    }

    /// Emits a message of one part.
    fn emit(
        &mut self,
        batch: &mut Batch,
        event: &Event,
        range: Option<Range<usize>>,
        state: &R::State,
        output: &mut Output,
    ) {
        let message = match range {
            Some(range) => Some(open::crop(event, range)),
            None => batch.append_bytes(&self.scratch).map(|it| event.with_raw(it)),
        };
        let Some(message) = message else {
            return output.reject_all([open::too_large(*event)]);
        };
        let content = batch.raw(&message).unwrap_or_default();
        let mut message = open::crop(&message, 0..R::trimmed(state, content).len());
        self.rule.complete(batch, &mut message, state);
        self.out.push(message);
    }

    /// Removes an open message.
    fn remove(&mut self, key: Key) -> Option<Open<R::State>> {
        let open = self.open.remove(&key)?;
        self.count(open.counted, 0);
        if let Some(due) = open.queued {
            self.deadlines.remove(&(due, key));
        }
        Some(open)
    }

    /// Adds a message that was removed to the output.
    fn complete(&mut self, mut open: Open<R::State>, batch: &mut Batch, output: &mut Output) {
        Self::finish(&mut self.rule, &mut self.out, &mut open, batch, output);
    }

    /// Adds an open message, and before it those that it holds, to the output.
    fn finish(
        rule: &mut R,
        out: &mut Vec<Event>,
        open: &mut Open<R::State>,
        batch: &mut Batch,
        output: &mut Output,
    ) {
        for mut held in open.release() {
            Self::finish(rule, out, &mut held, batch, output);
        }
        let content = open.content(batch);
        let (length, trimmed) = (content.len(), R::trimmed(&open.state, content).len());
        if trimmed < length {
            open.truncate(trimmed);
        }
        match open.finish(batch) {
            Ok(mut event) => {
                rule.complete(batch, &mut event, &open.state);
                out.push(event);
            }
            Err(rejected) => output.reject_all([*rejected]),
        }
    }

    /// Ends a stream.
    fn end(&mut self, event: &Event, batch: &mut Batch, output: &mut Output) {
        for side in 0..SIDES {
            let Some(mut open) = self.remove((event.stream, side)) else { continue };
            if event.is_stream_aborted() {
                for held in open.release() {
                    self.complete(held, batch, output);
                }
                output.reject_all([open.abort(batch)]);
            } else {
                self.complete(open, batch, output);
            }
        }
        self.out.push(*event);
    }

    /// Replaces `old` counted bytes by `new`. Returns whether all limits allow that many bytes.
    fn count(&mut self, old: usize, new: usize) -> bool {
        self.bytes = self.bytes - old + new;
        let fits = self.memory.try_resize(self.bytes);
        if !fits {
            self.memory.resize(self.bytes);
        }
        fits && self.bytes <= self.limits.bytes.max(TOGETHER)
    }

    /// Moves the open messages that received a part in this call out of the batch, and sets their deadlines.
    fn park(&mut self, batch: &mut Batch, output: &mut Output) {
        if self.touched.is_empty() {
            return;
        }
        let due = self.host.monotonic_ns().saturating_add(self.timeout);
        let mut touched = std::mem::take(&mut self.touched);
        for key in touched.drain(..) {
            let Some(open) = self.open.get_mut(&key) else { continue };
            open.park(batch);
            open.set_due(due, self.calls);
            if open.queued.is_none() {
                open.queued = Some(due);
                self.deadlines.insert((due, key));
            }
            let (old, new) = (open.counted, open.footprint());
            open.counted = new;
            // If this message is the only open one, it stays open: its `max_length` limits its memory.
            if !self.count(old, new)
                && self.open.len() > 1
                && let Some(open) = self.remove(key)
            {
                self.complete(open, batch, output);
            }
        }
        self.touched = touched;
    }

    fn begin_call(&mut self) {
        self.calls += 1;
        self.rule.begin_batch();
        if !self.lines.has_more() {
            self.arrival = self.calls;
        }
    }
}

impl<R: Rule> Preprocessor for Joining<R> {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.begin_call();
        let mut events = batch.events().iter();
        let is_split =
            self.lines.has_more() || events.any(|it| it.is_fragment() || it.is_stream_end());
        if is_split {
            let rejected = output.rejected().len();
            self.incomplete.begin_call(batch.events());
            self.lines.process(batch, output)?;
            self.incomplete.add_rejected(output.rejected().get(rejected..).unwrap_or_default());
        }
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        events.extend_from_slice(batch.events());
        let mut stream = None;
        for event in &events {
            // Only the first line of a stream may have begun in an earlier call.
            let is_first = stream.replace(event.stream) != Some(event.stream);
            let since =
                if is_split && is_first { self.incomplete.take(event.stream) } else { None };
            self.line_arrival = since.unwrap_or(self.arrival);
            if event.is_stream_end() {
                self.end(event, batch, output);
            } else {
                self.add(batch, event, output);
            }
        }
        if is_split {
            let lines = &self.lines;
            self.incomplete.end_call(&events, self.arrival, |stream| lines.buffers(stream));
        }
        self.events = events;
        self.park(batch, output);
        batch.set_events(&self.out);
        self.out.clear();
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.lines.has_more()
    }

    fn due(&self) -> Option<u64> {
        self.deadlines.first().map(|(due, _)| *due)
    }

    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.begin_call();
        while let Some(first) = self.deadlines.first().copied().filter(|(due, _)| *due <= now) {
            if batch.bytes().len() > Batch::WEIGHT_AT_MOST {
                break;
            }
            let (_, key) = first;
            self.deadlines.remove(&first);
            let Some(open) = self.open.get_mut(&key) else { continue };
            open.queued = None;
            if open.first().due <= now {
                open.was_released = true;
                for mut held in open.release() {
                    Self::finish(&mut self.rule, &mut self.out, &mut held, batch, output);
                }
            }
            let due = open.first().due;
            if due > now {
                open.queued = Some(due);
                self.deadlines.insert((due, key));
            } else if let Some(open) = self.remove(key) {
                self.complete(open, batch, output);
            }
        }
        batch.set_events(&self.out);
        self.out.clear();
        Ok(())
    }

    fn buffers(&self, stream: u64) -> bool {
        self.lines.buffers(stream) || (0..SIDES).any(|side| self.open.contains_key(&(stream, side)))
    }

    fn buffered_since(&self, stream: u64) -> Option<u64> {
        let open = (0..SIDES).filter_map(|side| self.open.get(&(stream, side)));
        open.map(|it| it.first().arrival).chain(self.incomplete.since(stream)).min()
    }

    fn streams(&self) -> Vec<u64> {
        let open = self.open.keys().map(|(stream, _)| *stream);
        let mut all: Vec<u64> = open.chain(self.lines.streams()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A splitter of fragments into lines, which passes whole messages unchanged.
struct FragmentLines(Lines);

impl StreamSplitter for FragmentLines {
    type State = Line;

    const WHOLE_MESSAGES: WholeMessages = WholeMessages::Pass;

    fn next(&mut self, line: &mut Line, input: Input<'_>) -> Result<Found> {
        self.0.next(line, input)
    }

    fn max_length(&self) -> usize {
        self.0.max_length()
    }
}
