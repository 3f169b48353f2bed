//! The events that a component emits, by stream.

use std::collections::BTreeMap;

use super::report::{Verdict, fault};
use crate::Batch;

/// The events that a component emits, by stream. Two transcripts are equal even if the events were divided differently
/// into batches and fragments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Transcript {
    pub(super) streams: BTreeMap<u64, Vec<Item>>,
    pub(super) bytes: usize,
    pub(super) finished: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Fragment(Vec<u8>),
    Message(Vec<u8>),
    Value(String),
    End,
    Aborted,
}

impl Transcript {
    pub(super) fn add(&mut self, batch: &Batch) {
        for event in batch {
            let items = self.streams.entry(event.stream().number()).or_default();
            let item = match (event.raw(), event.value()) {
                (Some(raw), _) if event.is_fragment() => {
                    self.bytes += raw.len();
                    if let Some(Item::Fragment(before)) = items.last_mut() {
                        before.extend_from_slice(raw);
                        continue;
                    }
                    Item::Fragment(raw.to_vec())
                }
                (Some(raw), _) => Item::Message(raw.to_vec()),
                (_, Some(value)) => Item::Value(value.to_string()),
                _ if event.is_stream_aborted() => Item::Aborted,
                _ => Item::End,
            };
            self.bytes += 64;
            items.push(item);
        }
    }

    /// Removes the ends of streams.
    pub(super) fn forget_ends(&mut self) {
        for items in self.streams.values_mut() {
            items.retain(|item| !matches!(item, Item::End | Item::Aborted));
        }
    }

    /// Returns whether each stream has all items of the same stream of `other`, in the same order. Fragments may be
    /// cut differently.
    pub(super) fn has_all_of(&self, other: &Self) -> bool {
        other.streams.iter().all(|(stream, items)| {
            let mut found = self.streams.get(stream).into_iter().flatten();
            items.iter().all(|item| found.any(|found| found.has(item)))
        })
    }

    /// Returns `true` if nothing was emitted and the component has not finished.
    pub(super) fn has_nothing_yet(&self) -> bool {
        self.streams.is_empty() && !self.finished
    }

    /// Checks that `other` is equal. `seen` creates the text of a fault from the first difference.
    pub(super) fn expect(
        &self,
        other: &Self,
        seen: impl FnOnce(&str) -> String,
        help: &'static str,
    ) -> Verdict {
        if self.finished && !other.finished {
            return Err(fault(seen("it did not finish"), help));
        }
        self.differs(other, false).map_or(Ok(()), |difference| Err(fault(seen(&difference), help)))
    }

    /// Checks that in each stream, one of the two transcripts is the beginning of the other. Use this for sources that
    /// have not finished.
    pub(super) fn expect_beginning(
        &self,
        other: &Self,
        seen: impl FnOnce(&str) -> String,
        help: &'static str,
    ) -> Verdict {
        if other.streams.is_empty() && !self.streams.is_empty() {
            return Err(fault(seen("there are no events"), help));
        }
        self.differs(other, true).map_or(Ok(()), |difference| Err(fault(seen(&difference), help)))
    }

    /// Returns the first difference, if any. With `is_begun`, a stream of one transcript may have more items at its end
    /// than the same stream of the other transcript.
    fn differs(&self, other: &Self, is_begun: bool) -> Option<String> {
        let none = Vec::new();
        for stream in self.streams.keys().chain(other.streams.keys()) {
            let (expected, found) = (
                self.streams.get(stream).unwrap_or(&none),
                other.streams.get(stream).unwrap_or(&none),
            );
            if expected == found {
                continue;
            }
            let position = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
            if is_begun && begins_alike(&expected[position..], &found[position..]) {
                continue;
            }
            let show =
                |items: &[Item]| items.get(position).map_or("nothing".to_owned(), Item::shown);
            let lengths = match (found.len(), expected.len()) {
                (found, expected) if found == expected => String::new(),
                (found, expected) => format!(" has {found} events instead of {expected}"),
            };
            return Some(format!(
                "stream {stream}{lengths}: event {} is {} and not {}",
                position + 1,
                show(found),
                show(expected)
            ));
        }
        None
    }
}

/// Returns whether one list is the beginning of the other: one list is empty, or its only item is the beginning of the
/// first fragment of the other list.
fn begins_alike(one: &[Item], other: &[Item]) -> bool {
    match (one, other) {
        ([], _) | (_, []) => true,
        ([Item::Fragment(part)], [Item::Fragment(whole), ..])
        | ([Item::Fragment(whole), ..], [Item::Fragment(part)]) => whole.starts_with(part),
        _ => false,
    }
}

impl Item {
    /// Returns whether this is the same item, or a fragment that contains all bytes of `other`.
    fn has(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fragment(whole), Self::Fragment(part)) if !part.is_empty() => {
                whole.windows(part.len()).any(|window| window == part)
            }
            _ => self == other,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Fragment(raw) | Self::Message(raw) => short(raw),
            Self::Value(text) => short(text.as_bytes()),
            Self::End => "the end of the stream".to_owned(),
            Self::Aborted => "an aborted stream".to_owned(),
        }
    }
}

/// Formats the beginning of a message, and its length.
pub(super) fn short(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(40)];
    format!("`{}` ({} bytes)", String::from_utf8_lossy(head).escape_debug(), bytes.len())
}
