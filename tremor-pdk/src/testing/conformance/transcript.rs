//! What came out of a component, stream by stream.

use std::collections::BTreeMap;

use super::report::{Verdict, fault};
use crate::Batch;

/// What came out, stream by stream: how it was cut into batches and fragments does not matter.
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

    /// The same without the ends of streams.
    pub(super) fn forget_ends(&mut self) {
        for items in self.streams.values_mut() {
            items.retain(|item| !matches!(item, Item::End | Item::Aborted));
        }
    }

    /// Returns whether each stream has all items of the same stream of `other`, in their order. Fragments may be cut in
    /// another way.
    pub(super) fn has_all_of(&self, other: &Self) -> bool {
        other.streams.iter().all(|(stream, items)| {
            let mut found = self.streams.get(stream).into_iter().flatten();
            items.iter().all(|item| found.any(|found| found.has(item)))
        })
    }

    /// Returns `true` if nothing came out, and it has not finished either.
    pub(super) fn has_nothing_yet(&self) -> bool {
        self.streams.is_empty() && !self.finished
    }

    /// Checks that `other` is the same. `seen` makes the text of a fault from the first difference.
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

    /// Checks that in each stream, one of the two is the beginning of the other. For sources that have no end, or did
    /// not come to it.
    pub(super) fn expect_beginning(
        &self,
        other: &Self,
        seen: impl FnOnce(&str) -> String,
        help: &'static str,
    ) -> Verdict {
        if other.streams.is_empty() && !self.streams.is_empty() {
            return Err(fault(seen("it brings nothing"), help));
        }
        self.differs(other, true).map_or(Ok(()), |difference| Err(fault(seen(&difference), help)))
    }

    /// Returns the first difference, if there is one. With `is_begun`, items that only one of the two has at the end
    /// of a stream are no difference.
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
                (found, expected) => format!(" has {found} events and not {expected}"),
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

/// Returns whether one of these is the beginning of the other: one of them is empty, or its last item is a part of
/// a fragment.
fn begins_alike(one: &[Item], other: &[Item]) -> bool {
    match (one, other) {
        ([], _) | (_, []) => true,
        ([Item::Fragment(part)], [Item::Fragment(whole), ..])
        | ([Item::Fragment(whole), ..], [Item::Fragment(part)]) => whole.starts_with(part),
        _ => false,
    }
}

impl Item {
    /// Returns whether this is the same item, or a fragment with all bytes of the other one.
    fn has(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fragment(whole), Self::Fragment(part)) if !part.is_empty() => {
                whole.windows(part.len()).any(|it| it == part)
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

/// The beginning of a message, and how long it is.
pub(super) fn short(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(40)];
    format!("`{}` ({} bytes)", String::from_utf8_lossy(head).escape_debug(), bytes.len())
}
