//! Offsets of messages in the content of a file: `%file.offset`.

use std::path::Path;

use memchr::{memchr, memmem};
use tremor_pdk::{Batch, RawBatch};

use crate::origin::FileMetadata;

/// The offset of the message that is being read. Offsets count decompressed bytes.
pub(crate) struct Offsets {
    message_end: Vec<u8>,
    /// Offset of the first byte of the message.
    start: u64,
    /// Offset of the next byte.
    next: u64,
    /// Last bytes of the message, fewer than `message_end` has, because the terminator may continue
    /// in the next fragment.
    last: Vec<u8>,
}

impl Offsets {
    pub(crate) fn new(message_end: &[u8]) -> Self {
        Self { message_end: message_end.to_owned(), start: 0, next: 0, last: Vec::new() }
    }

    /// Returns the offset of the next byte.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Divides the fragments in `batch` at the ends of messages, and sets the origin and the
    /// metadata of each resulting fragment. The last byte of the batch precedes the offset `end`. If
    /// the first byte does not follow the last byte of the previous call, a message begins there.
    pub(crate) fn divide(&mut self, batch: &mut RawBatch, end: u64, path: &Path) {
        let mut whole = RawBatch::default();
        batch.exchange(&mut whole);
        let first = end.saturating_sub(whole.iter().map(|event| event.raw().len() as u64).sum());
        if first != self.next {
            (self.start, self.next) = (first, first);
            self.last.clear();
        }
        let metadata = FileMetadata::new(path);
        for event in &Batch::from(whole) {
            let stream = event.stream().number();
            let Some(mut bytes) = event.raw() else {
                // The start of an aborted message is not known any more.
                let is_aborted = event.is_stream_aborted();
                let mut handle = batch.stream(stream);
                if is_aborted {
                    handle.abort();
                } else {
                    handle.end();
                }
                metadata.apply(batch, (!is_aborted).then_some(self.start));
                continue;
            };
            while !bytes.is_empty() {
                let offset = self.start;
                let (part, following) = bytes.split_at(self.advance(bytes));
                batch.stream(stream).push_fragment(part);
                metadata.apply(batch, Some(offset));
                bytes = following;
            }
        }
        batch.set_origin(metadata.path());
    }

    /// Moves past the end of the message, or past all of `bytes` if they do not contain the end.
    /// Returns the number of bytes.
    fn advance(&mut self, bytes: &[u8]) -> usize {
        let end = self.find_end(bytes);
        let count = end.unwrap_or(bytes.len());
        self.next += count as u64;
        if end.is_some() {
            self.start = self.next;
            self.last.clear();
        } else {
            let most = self.message_end.len().saturating_sub(1);
            self.last.extend_from_slice(&bytes[bytes.len().saturating_sub(most)..]);
            self.last.drain(..self.last.len().saturating_sub(most));
        }
        count
    }

    /// Returns the number of bytes up to the end of the message.
    fn find_end(&self, bytes: &[u8]) -> Option<usize> {
        let end = &self.message_end[..];
        let continued = (0..self.last.len()).find_map(|at| {
            let missing = end.strip_prefix(&self.last[at..])?;
            bytes.starts_with(missing).then_some(missing.len())
        });
        let found = || match end {
            [byte] => memchr(*byte, bytes).map(|at| at + 1),
            _ => memmem::find(bytes, end).map(|at| at + end.len()),
        };
        continued.or_else(found)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tremor_pdk::{Batch, RawBatch};

    use super::Offsets;

    /// Returns the text and the offset of each event; the text is empty for the end of a stream.
    fn events(batch: RawBatch) -> Vec<(String, Option<u64>)> {
        let of = |event: tremor_pdk::EventRef<'_>| {
            let text = String::from_utf8(event.raw().unwrap_or_default().to_vec()).unwrap();
            let metadata: serde_json::Value =
                serde_json::from_str(&event.metadata().unwrap().to_string()).unwrap();
            assert_eq!(metadata["file"]["path"], "/var/log/a");
            assert_eq!(event.origin(), Some("/var/log/a"));
            (text, metadata["file"]["offset"].as_u64())
        };
        Batch::from(batch).iter().map(of).collect()
    }

    #[test]
    fn each_message_has_the_offset_of_its_first_byte() {
        for (end, fragments, expected) in [
            (
                "\n",
                &["one\ntwo\nth", "ree\n"][..],
                &[("one\n", 0), ("two\n", 4), ("th", 8), ("ree\n", 8)][..],
            ),
            (
                "\r\n",
                &["one\r", "\ntwo\r", "x\r\n"],
                &[("one\r", 0), ("\n", 0), ("two\r", 5), ("x\r\n", 5)],
            ),
            ("aab", &["xa", "aaab", "y"], &[("xa", 0), ("aaab", 0), ("y", 6)]),
        ] {
            let mut offsets = Offsets::new(end.as_bytes());
            let (mut found, mut position) = (Vec::new(), 0);
            for fragment in fragments {
                let mut batch = RawBatch::default();
                batch.stream(3).push_fragment(fragment.as_bytes());
                position += fragment.len() as u64;
                offsets.divide(&mut batch, position, Path::new("/var/log/a"));
                found.extend(events(batch));
            }
            let expected: Vec<_> =
                expected.iter().map(|(text, at)| ((*text).to_owned(), Some(*at))).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn offset_follows_a_rewind_and_end_of_stream() {
        let mut offsets = Offsets::new(b"\n");
        let mut read = |text: &str, end: u64| {
            let mut batch = RawBatch::default();
            batch.stream(1).push_fragment(text.as_bytes());
            batch.stream(1).end();
            offsets.divide(&mut batch, end, Path::new("/var/log/a"));
            events(batch)
        };
        let ended = |offset| (String::new(), Some(offset));
        assert_eq!(
            read("one\nha", 6),
            [("one\n".into(), Some(0)), ("ha".into(), Some(4)), ended(4)]
        );
        assert_eq!(read("half\n", 9), [("half\n".into(), Some(4)), ended(9)]);
    }

    #[test]
    fn aborted_stream_has_no_offset() {
        let mut batch = RawBatch::default();
        batch.stream(1).abort();
        Offsets::new(b"\n").divide(&mut batch, 9, Path::new("/var/log/a"));
        assert_eq!(events(batch), [(String::new(), None)]);
    }
}
