//! Extensions and timestamps, and the objects that represent them.

use tremor_abi::document::{Node, ValueRef, fingerprint};

/// An extension of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extension<'v> {
    Timestamp { seconds: i64, nanoseconds: u32 },
    Other { kind: i8, data: &'v [u8] },
}

/// Extension type of timestamps.
const TIMESTAMP: i8 = -1;

const NANOSECONDS: u32 = 1_000_000_000;

/// Keys of all objects that represent extensions, as one text. Decoding appends this text to a batch when it is needed.
pub(super) const KEYS: &[u8] = b"$exttypedata$timestampsecondsnanoseconds";

/// Nesting depth of the objects that represent an extension.
pub(super) const DEPTH: usize = 2;

/// Number of nodes of the object that represents an extension.
pub(super) const NODES: usize = 7;

/// A part of [`KEYS`].
struct Key {
    start: usize,
    len: usize,
}

const EXT: Key = Key { start: 0, len: 4 };
const TYPE: Key = Key { start: 4, len: 4 };
const DATA: Key = Key { start: 8, len: 4 };
const STAMP: Key = Key { start: 12, len: 10 };
const SECONDS: Key = Key { start: 22, len: 7 };
const NANOS: Key = Key { start: 29, len: 11 };

impl Key {
    fn text(&self) -> &'static str {
        std::str::from_utf8(&KEYS[self.start..self.start + self.len]).unwrap_or_default()
    }

    #[allow(clippy::cast_possible_truncation)] // a key has at most 11 bytes
    fn node(&self, keys: u64) -> Node {
        let text = &KEYS[self.start..self.start + self.len];
        Node::key(keys + self.start as u64, text.len() as u32, fingerprint(text))
    }
}

impl<'v> Extension<'v> {
    /// Returns the extension with this type and content.
    pub(super) fn read(kind: i8, data: &'v [u8]) -> Self {
        let other = Self::Other { kind, data };
        if kind != TIMESTAMP {
            return other;
        }
        let (seconds, nanoseconds) = if let Ok(seconds) = data.try_into().map(u32::from_be_bytes) {
            (i64::from(seconds), 0)
        } else if let Ok(both) = data.try_into().map(u64::from_be_bytes) {
            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
            // nanoseconds have 30 bits, seconds 34
            ((both & ((1 << 34) - 1)) as i64, (both >> 34) as u32)
        } else if let (12, Some((nanoseconds, seconds))) = (data.len(), data.split_first_chunk()) {
            let seconds = seconds.try_into().map_or(0, i64::from_be_bytes);
            (seconds, u32::from_be_bytes(*nanoseconds))
        } else {
            return other;
        };
        if nanoseconds < NANOSECONDS { Self::Timestamp { seconds, nanoseconds } } else { other }
    }

    /// Returns the nodes of the object that represents the extension. `keys` is the offset of [`KEYS`] in the batch's
    /// bytes, and `data` the offset of the content of an extension that is not a timestamp.
    #[allow(clippy::cast_possible_truncation)] // the content comes from a message below 4 GiB
    pub(super) fn nodes(self, keys: u64, data: usize) -> [Node; NODES] {
        let [outer, first, second, head, tail] = match self {
            Self::Timestamp { seconds, nanoseconds } => [
                STAMP.node(keys),
                SECONDS.node(keys),
                NANOS.node(keys),
                Node::i64(seconds),
                Node::u64(nanoseconds.into()),
            ],
            Self::Other { kind, data: content } => [
                EXT.node(keys),
                TYPE.node(keys),
                DATA.node(keys),
                Node::i64(kind.into()),
                Node::bytes(data as u64, content.len() as u32),
            ],
        };
        [Node::object(1, 7), outer, Node::object(2, 5), first, head, second, tail]
    }

    /// Returns the extension that an object of one pair represents, if any. `key` and `value` are the pair.
    #[cold]
    pub(super) fn of(key: &str, value: ValueRef<'v>) -> Option<Self> {
        let object = value.as_object().filter(|object| object.len() == 2)?;
        let get = |key: &Key| object.get(key.text());
        if key == EXT.text() {
            let kind = get(&TYPE)?.as_i64()?.try_into().ok()?;
            Some(Self::Other { kind, data: get(&DATA)?.as_bytes()? })
        } else if key == STAMP.text() {
            let seconds = get(&SECONDS)?.as_i64()?;
            let nanoseconds = get(&NANOS)?.as_u64()?.try_into().ok()?;
            (nanoseconds < NANOSECONDS).then_some(Self::Timestamp { seconds, nanoseconds })
        } else {
            None
        }
    }

    /// Returns the type and the content of the extension in its shortest form. The content of a timestamp is written to
    /// `buffer`.
    pub(super) fn content(self, buffer: &'v mut [u8; 12]) -> (i8, &'v [u8]) {
        match self {
            Self::Other { kind, data } => (kind, data),
            Self::Timestamp { seconds, nanoseconds } => {
                let len = match u64::try_from(seconds) {
                    Ok(seconds) if seconds >> 34 == 0 => {
                        let both = u64::from(nanoseconds) << 34 | seconds;
                        if let Ok(short) = u32::try_from(both) {
                            buffer[..4].copy_from_slice(&short.to_be_bytes());
                            4
                        } else {
                            buffer[..8].copy_from_slice(&both.to_be_bytes());
                            8
                        }
                    }
                    _ => {
                        buffer[..4].copy_from_slice(&nanoseconds.to_be_bytes());
                        buffer[4..].copy_from_slice(&seconds.to_be_bytes());
                        12
                    }
                };
                (TIMESTAMP, &buffer[..len])
            }
        }
    }
}
