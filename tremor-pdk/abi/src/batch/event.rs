//! One event of a batch: 56 bytes that point into the batch's buffers.

use abi_stable::StableAbi;

/// A range of a batch's bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, StableAbi)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    /// The range, for slicing. Cannot overflow: both parts are 32 bits.
    #[inline]
    pub const fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }

    /// Both parts as one word, to compare.
    #[inline]
    pub(super) const fn word(self) -> u64 {
        self.start as u64 | ((self.len as u64) << 32)
    }
}

/// Where an event's payload lies. An open set.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct PayloadKind(pub u8);

impl PayloadKind {
    /// There is none: the event marks the end of a stream.
    pub const NONE: Self = Self(0);
    /// Bytes that no codec has seen: a span of the batch's bytes.
    pub const RAW: Self = Self(1);
    /// A value of the batch's document: the index of its root node.
    pub const DOCUMENT: Self = Self(2);
    /// A value of the batch's table of edited values: its index.
    pub const VALUE: Self = Self(3);
}

/// Truths about an event, one bit each.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, StableAbi)]
pub struct EventFlags(pub u8);

impl EventFlags {
    /// The payload is a part of a byte stream, cut anywhere; the next event of the stream goes on
    /// where this one ends. Without it, the payload is a whole message.
    pub const FRAGMENT: Self = Self(1);
    /// The stream of this event ends here.
    pub const STREAM_END: Self = Self(2);
    /// Beside [`EventFlags::STREAM_END`]: the stream was cut off. What has begun of a message stays
    /// unfinished for ever.
    pub const STREAM_ABORTED: Self = Self(4);

    /// Whether all bits of `other` are set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A stream of one source: a connection, a file, a partition. Keys of two sources of a flow differ, so
/// that a state which is kept by key never mixes their streams.
///
/// A key is valid during one run of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    source: u32,
    number: u64,
}

impl StreamKey {
    /// Makes the key of a stream. Sources of a flow count from 1; 0 is for events without a source.
    #[cfg(test)]
    pub(crate) const fn new(source: u32, number: u64) -> Self {
        Self { source, number }
    }

    /// Returns the number that the source has given the stream. Streams of other sources may have it too.
    pub const fn number(self) -> u64 {
        self.number
    }
}

/// Set in [`Event::metadata`] and [`Event::origin`] if the value is a part of the batch's document.
pub(crate) const IN_NODES: u32 = 1 << 31;

/// Location of a value that an event refers to besides its payload.
pub(crate) enum Location {
    /// The event has no such value.
    None,
    /// Position in the batch's table of values.
    Value(u32),
    /// Index of the root node in the batch's nodes.
    Document(u32),
}

impl Location {
    /// Reads [`Event::metadata`] or [`Event::origin`].
    #[inline]
    pub(crate) const fn new(word: u32) -> Self {
        match word.checked_sub(1) {
            None => Self::None,
            Some(at) if word & IN_NODES == 0 => Self::Value(at),
            Some(at) => Self::Document(at & !IN_NODES),
        }
    }

    /// Returns the root, if the value is a part of the batch's document.
    #[inline]
    pub(crate) const fn root(self) -> Option<u32> {
        match self {
            Self::Document(root) => Some(root),
            Self::None | Self::Value(_) => None,
        }
    }

    /// Returns the position in the batch's values, if the value is one of those.
    #[inline]
    pub(crate) const fn value(self) -> Option<u32> {
        match self {
            Self::Value(position) => Some(position),
            Self::None | Self::Document(_) => None,
        }
    }
}

/// One event. It owns nothing, so copying a batch's events is one `memcpy`, and dropping them is
/// free; what it points to belongs to the batch. All parts are little-endian.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, StableAbi)]
pub struct Event {
    pub(crate) kind: PayloadKind,
    pub(crate) flags: EventFlags,
    /// Its position in the batch that its pull filled: [`Event::position`].
    position: u16,
    /// Which source of the runtime it came from; zero until the runtime has stamped it.
    pub source: u32,
    /// [`PayloadKind::RAW`]: the span; otherwise `start` is the index that the kind names.
    pub(crate) payload: Span,
    /// The bytes it was decoded from, where they are known.
    pub(crate) original: Span,
    /// Zero is none. Otherwise a position plus one: in the batch's values or, with
    /// [`IN_NODES`] set, in its nodes.
    pub(crate) metadata: u32,
    /// Where the event came from, in the connector's own words. A location as of the metadata, and
    /// the value is text.
    pub(crate) origin: u32,
    /// The stream within the source: a connection, a file. Messages are only ever put together
    /// from fragments of one stream.
    pub stream: u64,
    /// The pull of the source that brought it: the unit of acknowledgement.
    pub pull: u64,
    /// When it came in, in ns since the Unix epoch; zero until the runtime has stamped it, unless
    /// the source knows better.
    pub ingest_ns: u64,
}

// Part of the ABI: events are written to disk and read by other languages.
const _: () = {
    assert!(size_of::<Span>() == 8 && std::mem::offset_of!(Span, len) == 4);
    assert!(size_of::<Event>() == 56 && align_of::<Event>() == 8);
    assert!(std::mem::offset_of!(Event, kind) == 0);
    assert!(std::mem::offset_of!(Event, flags) == 1);
    assert!(std::mem::offset_of!(Event, position) == 2);
    assert!(std::mem::offset_of!(Event, source) == 4);
    assert!(std::mem::offset_of!(Event, payload) == 8);
    assert!(std::mem::offset_of!(Event, original) == 16);
    assert!(std::mem::offset_of!(Event, metadata) == 24);
    assert!(std::mem::offset_of!(Event, origin) == 28);
    assert!(std::mem::offset_of!(Event, stream) == 32);
    assert!(std::mem::offset_of!(Event, pull) == 40);
    assert!(std::mem::offset_of!(Event, ingest_ns) == 48);
};

impl Event {
    pub(crate) const fn new(
        kind: PayloadKind,
        flags: EventFlags,
        payload: Span,
        stream: u64,
    ) -> Self {
        let original = Span { start: 0, len: 0 };
        Self {
            kind,
            flags,
            position: Self::NOWHERE,
            source: 0,
            payload,
            original,
            metadata: 0,
            origin: 0,
            stream,
            pull: 0,
            ingest_ns: 0,
        }
    }

    /// The position of an event that was made elsewhere, or after 65,534 others.
    const NOWHERE: u16 = u16::MAX;

    /// Its position among the events that its pull brought, where that is known: of parts of a byte stream,
    /// and of what was cut from them, it is not.
    pub fn position(&self) -> Option<usize> {
        (self.position != Self::NOWHERE).then_some(self.position.into())
    }

    /// Sets the position of the event in its pull.
    #[inline]
    pub fn set_position(&mut self, position: usize) {
        self.position = u16::try_from(position).unwrap_or(Self::NOWHERE);
    }

    /// Returns the stream with its source.
    #[inline]
    pub const fn stream_key(&self) -> StreamKey {
        StreamKey { source: self.source, number: self.stream }
    }

    /// Sets the stream with its source.
    pub(super) const fn set_stream_key(&mut self, stream: StreamKey) {
        (self.source, self.stream) = (stream.source, stream.number);
    }

    /// Whether the payload is a part of a byte stream and not a whole message.
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.flags.contains(EventFlags::FRAGMENT)
    }

    /// Whether the event marks the end of its stream, complete or aborted.
    #[inline]
    pub const fn is_stream_end(&self) -> bool {
        self.flags.contains(EventFlags::STREAM_END)
    }

    /// Whether the event marks the end of a stream that was cut off: no message is complete by it.
    #[inline]
    pub const fn is_stream_aborted(&self) -> bool {
        self.flags.contains(EventFlags::STREAM_ABORTED)
    }

    /// The same id, times, origin and metadata with another payload.
    #[inline]
    #[must_use]
    pub(crate) const fn with_payload(mut self, kind: PayloadKind, payload: Span) -> Self {
        self.kind = kind;
        self.payload = payload;
        self.flags = EventFlags(0);
        self
    }
}
