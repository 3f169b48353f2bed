//! Requests of the push API, in protobuf:
//!
//! ```proto
//! message PushRequest { repeated Stream streams = 1; }
//! message Stream { string labels = 1; repeated Entry entries = 2; }
//! message Entry { Timestamp timestamp = 1; string line = 2; repeated Pair structured_metadata = 3; }
//! message Timestamp { int64 seconds = 1; int32 nanos = 2; }
//! message Pair { string name = 1; string value = 2; }
//! ```

use crate::protobuf::{
    FIRST, SECOND, THIRD, field_len, pair_len, put_bytes, put_pair, put_varint, varint_len,
};

/// Tag of the seconds of a time.
const SECONDS: u8 = 1 << 3;

/// Tag of the nanoseconds of a time.
const NANOSECONDS: u8 = 2 << 3;

/// Maximum length of a time, in bytes: two tags and two numbers.
const MOST_TIME: usize = 1 + 10 + 1 + 5;

/// Maximum length of the bytes of an entry before its line: its own tag and length, its time, and those of the line.
const MOST_HEAD: usize = 1 + 10 + 2 + MOST_TIME + 1 + 10;

/// Returns the maximum length of a request with one entry more, in bytes, less that of the request without the entry.
/// The labels have `labels` bytes, the line has `line` bytes, and the fields of structured metadata have `metadata`
/// bytes. The request has at most `most` bytes.
pub(super) const fn most_added(labels: usize, line: usize, metadata: usize, most: usize) -> usize {
    let entry = field_len(field_len(MOST_TIME) + field_len(line) + metadata);
    1 + varint_len(most as u64) + field_len(labels) + entry
}

/// A line of a stream. `M` iterates over the names and values of the structured metadata.
pub(super) struct Entry<'e, M> {
    /// Seconds since 1970.
    pub(super) seconds: i64,
    /// Nanoseconds since the second, less than 1,000,000,000.
    pub(super) nanoseconds: u32,
    /// UTF-8.
    pub(super) line: &'e [u8],
    pub(super) metadata: M,
}

impl<'e, M: Iterator<Item = (&'e str, &'e str)> + Clone> Entry<'e, M> {
    fn time_len(&self) -> usize {
        let seconds = varint_len(self.seconds.cast_unsigned());
        2 + seconds + varint_len(self.nanoseconds.into())
    }

    /// Returns the length of the message, in bytes.
    pub(super) fn len(&self) -> usize {
        let pairs = self.metadata.clone();
        let pairs = pairs.map(|(name, value)| field_len(pair_len(name.len(), value.len())));
        field_len(self.time_len()) + field_len(self.line.len()) + pairs.sum::<usize>()
    }

    /// Appends the message, which has `length` bytes, as a field of its stream.
    pub(super) fn put(self, length: usize, out: &mut Vec<u8>) {
        let mut head = Head { bytes: [0; MOST_HEAD], length: 0 };
        head.number(SECOND, length as u64);
        head.number(FIRST, self.time_len() as u64);
        head.number(SECONDS, self.seconds.cast_unsigned());
        head.number(NANOSECONDS, self.nanoseconds.into());
        head.number(SECOND, self.line.len() as u64);
        out.extend_from_slice(&head.bytes[..head.length]);
        out.extend_from_slice(self.line);
        self.metadata.for_each(|(name, value)| put_pair(THIRD, name, value, out));
    }
}

/// Bytes of an entry before its line. A `Vec` would check its capacity for each byte.
struct Head {
    bytes: [u8; MOST_HEAD],
    length: usize,
}

impl Head {
    /// Appends a tag and a variable-length number.
    #[inline]
    fn number(&mut self, tag: u8, mut value: u64) {
        self.byte(tag);
        while value >= 0x80 {
            self.byte(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.byte(value.to_le_bytes()[0]);
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }
}

/// Lines with the same labels.
struct Stream<'e> {
    labels: &'e str,
    /// Length of the message, in bytes.
    length: usize,
    /// Positions of the first and the last line.
    first: usize,
    last: usize,
}

/// A line of a request.
struct Line {
    /// Length of the entry, in bytes.
    length: usize,
    /// Position of the next line with the same labels. The last line of a stream has its own position.
    next: usize,
}

/// A request: streams in the order of their first lines. The lines are not copied until the request is written.
pub(super) struct Push<'e> {
    streams: Vec<Stream<'e>>,
    lines: Vec<Line>,
    /// Index in `streams` by the number of the labels.
    by_number: Vec<Option<usize>>,
}

impl<'e> Push<'e> {
    pub(super) fn with_capacity(lines: usize) -> Self {
        Self { streams: Vec::new(), lines: Vec::with_capacity(lines), by_number: Vec::new() }
    }

    /// Appends a line to the stream whose labels have the number `number` among all labels. The entry of the line has
    /// `length` bytes.
    pub(super) fn add(&mut self, number: usize, length: usize, labels: impl FnOnce() -> &'e str) {
        let position = self.lines.len();
        self.lines.push(Line { length, next: position });
        if self.by_number.len() <= number {
            self.by_number.resize(number + 1, None);
        }
        let Some(index) = self.by_number[number] else {
            self.by_number[number] = Some(self.streams.len());
            let labels = labels();
            let length = field_len(labels.len()) + field_len(length);
            self.streams.push(Stream { labels, length, first: position, last: position });
            return;
        };
        let stream = &mut self.streams[index];
        stream.length += field_len(length);
        self.lines[stream.last].next = position;
        stream.last = position;
    }

    /// Returns the length of the message, in bytes.
    pub(super) fn len(&self) -> usize {
        self.streams.iter().map(|stream| field_len(stream.length)).sum()
    }

    /// Appends the message. `put` appends the entry of a line: it gets the position of the line and the length of the
    /// entry, in bytes.
    pub(super) fn put(&self, out: &mut Vec<u8>, mut put: impl FnMut(usize, usize, &mut Vec<u8>)) {
        for stream in &self.streams {
            out.push(FIRST);
            put_varint(stream.length as u64, out);
            put_bytes(FIRST, stream.labels.as_bytes(), out);
            let mut position = stream.first;
            loop {
                let line = &self.lines[position];
                put(position, line.length, out);
                if line.next == position {
                    break;
                }
                position = line.next;
            }
        }
    }
}
