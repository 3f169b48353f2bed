//! Requests of the push API, in protobuf:
//!
//! ```proto
//! message PushRequest { repeated Stream streams = 1; }
//! message Stream { string labels = 1; repeated Entry entries = 2; }
//! message Entry { Timestamp timestamp = 1; string line = 2; repeated Pair structured_metadata = 3; }
//! message Timestamp { int64 seconds = 1; int32 nanos = 2; }
//! message Pair { string name = 1; string value = 2; }
//! ```

use std::{borrow::Cow, collections::HashMap};

use crate::protobuf::{
    FIRST, SECOND, THIRD, field_len, pair_len, put_bytes, put_pair, put_varint, varint_len,
};

/// Tag of the seconds of a time.
const SECONDS: u8 = 1 << 3;

/// Tag of the nanoseconds of a time.
const NANOSECONDS: u8 = 2 << 3;

/// Maximum length of a time, in bytes: two tags and two numbers.
const MOST_TIME: usize = 1 + 10 + 1 + 5;

/// Returns the maximum length of a request with one entry more, in bytes, less that of the request without the entry.
/// The labels have `labels` bytes, the line has `line` bytes, and the fields of structured metadata have `metadata`
/// bytes. The request has at most `most` bytes.
pub(super) const fn most_added(labels: usize, line: usize, metadata: usize, most: usize) -> usize {
    let entry = field_len(field_len(MOST_TIME) + field_len(line) + metadata);
    1 + varint_len(most as u64) + field_len(labels) + entry
}

/// A line of a stream.
pub(super) struct Entry<'e> {
    /// Seconds since 1970.
    pub(super) seconds: i64,
    /// Nanoseconds since the second, less than 1,000,000,000.
    pub(super) nanoseconds: u32,
    pub(super) line: Cow<'e, str>,
    /// Names and values of the structured metadata.
    pub(super) metadata: Vec<(&'e str, &'e str)>,
}

impl Entry<'_> {
    fn time_len(&self) -> usize {
        let seconds = varint_len(self.seconds.cast_unsigned());
        2 + seconds + varint_len(self.nanoseconds.into())
    }

    fn len(&self) -> usize {
        let pairs = self.metadata.iter();
        let pairs = pairs.map(|(name, value)| field_len(pair_len(name.len(), value.len())));
        field_len(self.time_len()) + field_len(self.line.len()) + pairs.sum::<usize>()
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.len() as u64, out);
        out.push(FIRST);
        put_varint(self.time_len() as u64, out);
        out.push(SECONDS);
        put_varint(self.seconds.cast_unsigned(), out);
        out.push(NANOSECONDS);
        put_varint(self.nanoseconds.into(), out);
        put_bytes(SECOND, self.line.as_bytes(), out);
        self.metadata.iter().for_each(|(name, value)| put_pair(THIRD, name, value, out));
    }
}

/// Lines with the same labels.
struct Stream<'e> {
    labels: &'e str,
    entries: Vec<Entry<'e>>,
    /// Length of the message, in bytes.
    length: usize,
}

/// A request: streams in the order of their first lines.
#[derive(Default)]
pub(super) struct Push<'e> {
    streams: Vec<Stream<'e>>,
    /// Index in `streams` of the stream with the labels.
    by_labels: HashMap<&'e str, usize>,
}

impl<'e> Push<'e> {
    /// Appends a line to the stream with these labels.
    pub(super) fn add(&mut self, labels: &'e str, entry: Entry<'e>) {
        let index = *self.by_labels.entry(labels).or_insert(self.streams.len());
        if index == self.streams.len() {
            let length = field_len(labels.len());
            self.streams.push(Stream { labels, entries: Vec::new(), length });
        }
        let stream = &mut self.streams[index];
        stream.length += field_len(entry.len());
        stream.entries.push(entry);
    }

    /// Returns the length of the message, in bytes.
    pub(super) fn len(&self) -> usize {
        self.streams.iter().map(|stream| field_len(stream.length)).sum()
    }

    /// Appends the message.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        for stream in &self.streams {
            out.push(FIRST);
            put_varint(stream.length as u64, out);
            put_bytes(FIRST, stream.labels.as_bytes(), out);
            for entry in &stream.entries {
                out.push(SECOND);
                entry.put(out);
            }
        }
    }
}
