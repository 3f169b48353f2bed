//! The preprocessor `gelf-chunks`, which joins the chunks of [GELF over
//! UDP](https://go2docs.graylog.org/current/getting_in_log_data/gelf.html) to messages.

mod chunk;
mod rejected;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::BuildHasher,
    ops::Range,
};

use halfbrown::DefaultHashBuilder;
use tremor_abi::batch::{Event, HostBatch};
use tremor_pdk::{
    Batch, Component, ComponentContext, Error, Host, Memory, Output, Preprocessor, Result,
    units::{Interval, MessageBytes},
};

use self::{
    chunk::{Chunk, HEADER, invalid},
    rejected::RejectedMessages,
};
use super::{
    joining::open::{Open, crop},
    max_length,
};

/// Joins the chunks of GELF over UDP to messages. Other messages pass unchanged.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct Config {
    /// Maximum length of a message in bytes. Longer messages go to `err`.
    #[serde(default = "max_length")]
    max_length: MessageBytes,
    /// Maximum number of incomplete messages. If there are more, the oldest goes to `err`.
    #[serde(default = "max_messages")]
    #[schemars(range(min = 1, max = 1_000_000))]
    max_messages: usize,
    /// Time from the first chunk of a message after which the message goes to `err` if it is incomplete.
    #[serde(default = "timeout")]
    timeout: Interval,
}

const fn max_messages() -> usize {
    1_000
}

/// Returns the time that the specification requires.
const fn timeout() -> Interval {
    Interval::of_ms(5_000)
}

/// Maximum size in bytes of the incomplete messages together. A larger `max_length` replaces it.
const TOGETHER: usize = 32 << 20;

/// The preprocessor `gelf-chunks`.
pub(crate) struct GelfChunks {
    config: Config,
    host: Host,
    hasher: DefaultHashBuilder,
    /// Incomplete messages by their age: a message with a greater number began later.
    messages: BTreeMap<u64, Message>,
    numbers: HashMap<Key, u64>,
    /// Numbers of the incomplete messages of each stream.
    streams: HashMap<u64, BTreeSet<u64>>,
    next_number: u64,
    rejected: RejectedMessages,
    /// Numbers of the messages that the current call added chunks to. May contain duplicates, and messages that are
    /// complete.
    touched: Vec<u64>,
    memory: Memory,
    /// Bytes of the incomplete messages.
    bytes: usize,
    /// Number of calls so far.
    calls: u64,
    events: Vec<Event>,
    out: Vec<Event>,
}

/// Identifies a message. Different senders may use the same id, because they choose their ids independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    stream: u64,
    /// Hash of the origin of the chunks, which is the address of their sender.
    origin: u64,
    id: u64,
}

/// An incomplete message.
struct Message {
    key: Key,
    /// The chunks in the order in which they arrived.
    open: Open<()>,
    /// Position of each received chunk, and its range in `open`.
    pieces: Vec<(u8, Range<usize>)>,
    /// Number of chunks of the message.
    count: u8,
}

impl Component for GelfChunks {
    const NAME: &str = "gelf-chunks";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self {
            rejected: RejectedMessages::new(config.timeout.ns(), context.memory()),
            config,
            memory: context.memory(),
            host: context.into(),
            hasher: DefaultHashBuilder::default(),
            messages: BTreeMap::new(),
            numbers: HashMap::new(),
            streams: HashMap::new(),
            next_number: 0,
            touched: Vec::new(),
            bytes: 0,
            calls: 0,
            events: Vec::new(),
            out: Vec::new(),
        })
    }
}

impl GelfChunks {
    /// Processes one message, which may be a chunk.
    fn add(&mut self, batch: &mut Batch, event: &Event, output: &mut Output) {
        let datagram = batch.raw(event).filter(|_| !event.is_fragment());
        let chunk = match datagram.map_or(Ok(None), Chunk::read) {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return self.out.push(*event),
            Err(error) => return output.reject(*event, error),
        };
        let content = datagram.and_then(|it| it.get(HEADER..)).unwrap_or_default();
        let length = content.len();
        if chunk.count == 1 && length <= self.config.max_length.get() {
            return self.out.push(crop(event, HEADER..HEADER + length));
        }
        let origin = self.hasher.hash_one(batch.origin(event));
        let key = Key { stream: event.stream, origin, id: chunk.id };
        let Some(number) = self.numbers.get(&key).copied() else {
            return self.begin(key, chunk, length, event, batch, output);
        };
        let Some(message) = self.messages.get_mut(&number) else { return };
        if message.count != chunk.count {
            let error = invalid(format_args!(
                "its message has {} chunks according to this chunk, but {} according to an earlier one",
                chunk.count, message.count
            ));
            return output.reject(*event, error);
        }
        let mut earlier = message.pieces.iter().filter(|(position, _)| *position == chunk.position);
        if let Some((_, range)) = earlier.next() {
            // The network may deliver a datagram twice.
            if message.open.content(batch).get(range.clone()) == Some(content) {
                return;
            }
            self.reject(number, batch, output, |Message { pieces, count, .. }| {
                Error::bad_data(format_args!(
                    "received {} of {count} chunks of the message before another message with the same id began",
                    pieces.len()
                ))
            });
            return self.begin(key, chunk, length, event, batch, output);
        }
        let start = message.open.len();
        if start + length > self.config.max_length.get() {
            let error = too_long(self.config.max_length.get());
            return self.give_up(number, batch, output, |_| error);
        }
        self.touched.push(number);
        message.pieces.push((chunk.position, start..start + length));
        message.open.append(batch, &[], content);
        if message.pieces.len() == usize::from(message.count) {
            self.complete(number, batch, output);
        }
    }

    /// Begins a message with one of its chunks, whose content has `length` bytes.
    fn begin(
        &mut self,
        key: Key,
        chunk: Chunk,
        length: usize,
        event: &Event,
        batch: &mut Batch,
        output: &mut Output,
    ) {
        let now = self.host.monotonic_ns();
        if self.rejected.contains(key, now) {
            return output.discard(1);
        }
        let error = if length > self.config.max_length.get() {
            too_long(self.config.max_length.get())
        } else if self.messages.len() < self.config.max_messages
            || self.evict(event.stream, batch, output)
        {
            let content = HEADER..HEADER + length;
            let mut open = Open::new(event, Some(content), &[], (), self.calls);
            open.due = now.saturating_add(self.config.timeout.ns());
            let pieces = vec![(chunk.position, 0..length)];
            return self.insert(Message { key, open, pieces, count: chunk.count });
        } else {
            Error::bad_data(
                "the message cannot begin, because other streams have too many incomplete messages",
            )
        };
        self.rejected.add(key, now);
        output.reject(*event, error);
    }

    fn insert(&mut self, message: Message) {
        let number = self.next_number;
        self.next_number += 1;
        self.numbers.insert(message.key, number);
        self.streams.entry(message.key.stream).or_default().insert(number);
        self.messages.insert(number, message);
        self.touched.push(number);
    }

    fn remove(&mut self, number: u64) -> Option<Message> {
        let message = self.messages.remove(&number)?;
        self.bytes -= message.open.counted;
        self.memory.resize(self.bytes);
        self.numbers.remove(&message.key);
        let stream = message.key.stream;
        if let Some(numbers) = self.streams.get_mut(&stream) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.streams.remove(&stream);
            }
        }
        Some(message)
    }

    /// Adds a message of which all chunks were received to the output.
    fn complete(&mut self, number: u64, batch: &mut Batch, output: &mut Output) {
        let Some(Message { mut open, mut pieces, .. }) = self.remove(number) else { return };
        if !pieces.is_sorted_by_key(|(position, _)| *position) {
            pieces.sort_unstable_by_key(|(position, _)| *position);
            open.rearrange(pieces.into_iter().map(|(_, range)| range));
        }
        match open.finish(batch) {
            Ok(event) => self.out.push(event),
            Err(rejected) => output.reject_all([*rejected]),
        }
    }

    /// Rejects an incomplete message, with the error that `error` returns for the message.
    fn reject(
        &mut self,
        number: u64,
        batch: &mut Batch,
        output: &mut Output,
        error: impl FnOnce(&Message) -> Error,
    ) {
        if let Some(mut message) = self.remove(number) {
            let error = error(&message);
            output.reject_all([message.open.reject(batch, error)]);
        }
    }

    /// Rejects an incomplete message as [`GelfChunks::reject`] does. Its late chunks are discarded.
    fn give_up(
        &mut self,
        number: u64,
        batch: &mut Batch,
        output: &mut Output,
        error: impl FnOnce(&Message) -> Error,
    ) {
        if let Some(message) = self.messages.get(&number) {
            self.rejected.add(message.key, self.host.monotonic_ns());
        }
        self.reject(number, batch, output, error);
    }

    /// Rejects the oldest incomplete message of a stream because of the limits. Returns `false` if there is none.
    /// Messages of other streams are kept, because the pulls that read them are acknowledged with their own streams.
    fn evict(&mut self, stream: u64, batch: &mut Batch, output: &mut Output) -> bool {
        let oldest = self.streams.get(&stream).and_then(|numbers| numbers.first().copied());
        let Some(number) = oldest else { return false };
        self.give_up(number, batch, output, |message| {
            let Message { pieces, count, .. } = message;
            Error::bad_data(format_args!(
                "received {} of {count} chunks of the message before there were too many incomplete messages",
                pieces.len()
            ))
        });
        true
    }

    /// Replaces `old` counted bytes by `new`. Returns `false`, and changes nothing, if a limit does not allow that many
    /// bytes.
    fn try_count(&mut self, old: usize, new: usize) -> bool {
        let bytes = self.bytes - old + new;
        let fits =
            bytes <= self.config.max_length.get().max(TOGETHER) && self.memory.try_resize(bytes);
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    /// Moves the messages that received a chunk in this call out of the batch.
    fn park(&mut self, batch: &mut Batch, output: &mut Output) {
        let mut touched = std::mem::take(&mut self.touched);
        for number in touched.drain(..) {
            let Some(Message { key, open, pieces, .. }) = self.messages.get_mut(&number) else {
                continue;
            };
            let stream = key.stream;
            open.park(batch);
            let old = open.counted;
            let new = open.footprint() + pieces.capacity() * size_of::<(u8, Range<usize>)>();
            while !self.try_count(old, new) {
                // The size of a single message is limited.
                if self.messages.len() <= 1 {
                    self.bytes = self.bytes - old + new;
                    self.memory.resize(self.bytes);
                    break;
                }
                self.evict(stream, batch, output);
                if !self.messages.contains_key(&number) {
                    break;
                }
            }
            if let Some(message) = self.messages.get_mut(&number) {
                message.open.counted = new;
            }
        }
        self.touched = touched;
    }

    /// Ends a stream, and rejects its incomplete messages.
    fn end(&mut self, event: &Event, batch: &mut Batch, output: &mut Output) {
        for number in self.streams.get(&event.stream).cloned().unwrap_or_default() {
            self.reject(number, batch, output, |Message { pieces, count, .. }| {
                Error::connection_lost(format_args!(
                    "the stream ended after {} of {count} chunks of the message",
                    pieces.len()
                ))
            });
        }
        self.rejected.forget_stream(event.stream);
        self.out.push(*event);
    }
}

#[cold]
fn too_long(most: usize) -> Error {
    Error::bad_data(format_args!(
        "the chunks of the message have more than {most} bytes together: raise `max_length` to allow more"
    ))
}

impl Preprocessor for GelfChunks {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.calls += 1;
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        events.extend_from_slice(batch.events());
        for event in &events {
            if event.is_stream_end() {
                self.end(event, batch, output);
            } else {
                self.add(batch, event, output);
            }
        }
        self.events = events;
        self.park(batch, output);
        batch.set_events(&self.out);
        self.out.clear();
        Ok(())
    }

    fn due(&self) -> Option<u64> {
        self.messages.first_key_value().map(|(_, message)| message.open.due)
    }

    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.calls += 1;
        while let Some((number, _)) =
            self.messages.first_key_value().filter(|it| it.1.open.due <= now)
        {
            let (number, timeout) = (*number, self.config.timeout.get());
            self.give_up(number, batch, output, |Message { pieces, count, .. }| {
                Error::bad_data(format_args!(
                    "received {} of {count} chunks of the message within {timeout:?}",
                    pieces.len()
                ))
            });
        }
        Ok(())
    }

    fn buffers(&self, stream: u64) -> bool {
        self.streams.contains_key(&stream)
    }

    fn buffered_since(&self, stream: u64) -> Option<u64> {
        let oldest = self.streams.get(&stream)?.first()?;
        self.messages.get(oldest).map(|message| message.open.arrival)
    }

    fn streams(&self) -> Vec<u64> {
        self.streams.keys().copied().collect()
    }
}
