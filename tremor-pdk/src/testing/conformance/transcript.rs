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
            let items = self.streams.entry(event.stream()).or_default();
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

    /// Another one is the same; what is seen is said of how it differs.
    pub(super) fn expect(
        &self,
        other: &Self,
        seen: impl FnOnce(&str) -> String,
        help: &'static str,
    ) -> Verdict {
        self.differs(other).map_or(Ok(()), |difference| Err(fault(seen(&difference), help)))
    }

    fn differs(&self, other: &Self) -> Option<String> {
        if self.finished && !other.finished {
            return Some("it did not finish".to_owned());
        }
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

impl Item {
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
