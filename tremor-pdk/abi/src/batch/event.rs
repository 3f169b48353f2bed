//! An event of a batch: 56 bytes that point into the batch's buffers.

use abi_stable::StableAbi;

/// A range of a batch's bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, StableAbi)]
#[cfg_attr(
    feature = "frame",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    /// Returns the range, for slicing. The end cannot overflow a `usize`, because both parts have 32 bits.
    #[inline]
    pub const fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }

    /// Returns both parts as one word, for comparison.
    #[inline]
    pub(super) const fn word(self) -> u64 {
        self.start as u64 | ((self.len as u64) << 32)
    }
}

/// The form of an event's payload, and the buffer that contains it. An open set: later versions may add constants.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
#[cfg_attr(
    feature = "frame",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct PayloadKind(pub u8);

impl PayloadKind {
    /// No payload: the event marks the end of a stream.
    pub const NONE: Self = Self(0);
    /// Bytes: the payload is a span of the batch's bytes.
    pub const RAW: Self = Self(1);
    /// A value in a document: the payload's `start` is the index of the root node in the batch's nodes.
    pub const DOCUMENT: Self = Self(2);
    /// An edited value: the payload's `start` is the index of the value in the batch's table of values.
    pub const VALUE: Self = Self(3);
}

/// Properties of an event, one bit each.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, StableAbi)]
#[cfg_attr(
    feature = "frame",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct EventFlags(pub u8);

impl EventFlags {
    /// The payload is a part of a byte stream, cut at an arbitrary position; the next event of the stream continues
    /// where this event ends. Without this flag, the payload is a whole message.
    pub const FRAGMENT: Self = Self(1);
    /// The stream of the event ends here.
    pub const STREAM_END: Self = Self(2);
    /// The stream was cut off, so that its last message may be incomplete. Set only together with
    /// [`EventFlags::STREAM_END`].
    pub const STREAM_ABORTED: Self = Self(4);
    /// The bytes that the event was decoded from must not be shown any more, because a part of the payload was replaced
    /// by a component that removes secrets. `Event::original` then only identifies the event, and may lie outside of
    /// the bytes of the batch.
    pub const FORGOTTEN: Self = Self(32);

    /// Returns whether all bits of `other` are set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A stream of a source: a connection, a file, a partition. Streams of two sources of a flow never have the same key,
/// even if both sources assigned the same number.
///
/// A key is valid during one run of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    source: u32,
    number: u64,
}

impl StreamKey {
    /// Creates the key of a stream. Sources of a flow count from 1; 0 stands for events without a source.
    #[cfg(test)]
    pub(crate) const fn new(source: u32, number: u64) -> Self {
        Self { source, number }
    }

    /// Returns the number that the source assigned to the stream. Streams of other sources may have the same number.
    pub const fn number(self) -> u64 {
        self.number
    }
}

/// Bit of [`Event::metadata`] and [`Event::origin`] that is set if the value is in the batch's nodes instead of its
/// table of values.
pub(crate) const IN_NODES: u32 = 1 << 31;

/// Location of the metadata or the origin of an event.
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

    /// Returns the index of the root node, if the value is in the batch's nodes.
    #[inline]
    pub(crate) const fn root(self) -> Option<u32> {
        match self {
            Self::Document(root) => Some(root),
            Self::None | Self::Value(_) => None,
        }
    }

    /// Returns the position in the batch's table of values, if the value is in that table.
    #[inline]
    pub(crate) const fn value(self) -> Option<u32> {
        match self {
            Self::Value(position) => Some(position),
            Self::None | Self::Document(_) => None,
        }
    }
}

/// An event. Its payload, metadata and origin are in the buffers of its batch, so copying the events of a batch is one
/// `memcpy`, and dropping them costs nothing. All fields are little-endian.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, StableAbi)]
#[cfg_attr(
    feature = "frame",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct Event {
    pub(crate) kind: PayloadKind,
    pub(crate) flags: EventFlags,
    /// Position in the batch that the pull filled: [`Event::position`].
    pub(super) position: u16,
    /// Number that the runtime assigned to the source; zero until the runtime sets it after the pull.
    pub source: u32,
    /// For [`PayloadKind::RAW`], the span of the bytes. For other kinds, `start` is an index: see [`PayloadKind`].
    pub(crate) payload: Span,
    /// Span of the bytes that the event was decoded from; empty if they are unknown. With [`EventFlags::FORGOTTEN`], no
    /// bytes may be read at this span.
    pub(crate) original: Span,
    /// Zero if the event has no metadata. Otherwise the position of the metadata plus one: in the batch's table of
    /// values, or in the batch's nodes if [`IN_NODES`] is set.
    pub(crate) metadata: u32,
    /// Location of the event's origin, a text in a format that the connector defines, encoded as in `metadata`.
    pub(crate) origin: u32,
    /// Number of the stream within the source, such as a connection or a file. Messages are only assembled from
    /// fragments of one stream.
    pub stream: u64,
    /// Number of the pull that added the event. Acknowledgements refer to pulls.
    pub pull: u64,
    /// Time when the event was read, in ns since the Unix epoch. Zero until the source sets it, or the runtime after
    /// the pull.
    pub ingest_ns: u64,
}

// The offsets are part of the ABI: events are written to disk and read by other languages.
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
            position: Self::UNKNOWN_POSITION,
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

    /// Value of `position` for an event that no pull added directly, or that follows more than 32,767 other events of
    /// its pull.
    const UNKNOWN_POSITION: u16 = u16::MAX;

    /// Smallest value of `position` that is not a position in a pull. Up to [`Event::UNKNOWN_POSITION`], the values are
    /// positions in the batch that an operator gets.
    const FIRST_INDEX: u16 = 1 << 15;

    /// Returns the position among the events that the pull added, or `None` if the position is unknown, as for messages
    /// that were assembled from several fragments. A message has the position of the event that contains all of it.
    pub fn position(&self) -> Option<usize> {
        (self.position < Self::FIRST_INDEX).then_some(self.position.into())
    }

    /// Sets the position of the event in its pull.
    #[inline]
    pub fn set_position(&mut self, position: usize) {
        let position = u16::try_from(position).ok().filter(|it| *it < Self::FIRST_INDEX);
        self.position = position.unwrap_or(Self::UNKNOWN_POSITION);
    }

    /// Sets the position in the batch that an operator gets, unless the event has a position in its pull. In a batch of
    /// more than 32,767 events, several events have the same position.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the remainder fits
    pub(super) const fn set_index(&mut self, index: usize) {
        if self.position >= Self::FIRST_INDEX {
            let indices = (Self::UNKNOWN_POSITION - Self::FIRST_INDEX) as usize;
            self.position = Self::FIRST_INDEX | (index % indices) as u16;
        }
    }

    /// Returns whether the event has a position in its pull or in a batch. A new event has none.
    #[inline]
    pub(super) const fn is_known(&self) -> bool {
        self.position != Self::UNKNOWN_POSITION
    }

    /// Returns the stream, including the source.
    #[inline]
    pub const fn stream_key(&self) -> StreamKey {
        StreamKey { source: self.source, number: self.stream }
    }

    /// Sets the stream, including the source.
    pub(super) const fn set_stream_key(&mut self, stream: StreamKey) {
        (self.source, self.stream) = (stream.source, stream.number);
    }

    /// Returns whether the payload is a part of a byte stream instead of a whole message.
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.flags.contains(EventFlags::FRAGMENT)
    }

    /// Returns whether the bytes that the event was decoded from must not be shown any more.
    #[inline]
    pub(crate) const fn is_forgotten(&self) -> bool {
        self.flags.contains(EventFlags::FORGOTTEN)
    }

    /// Returns whether the event marks the end of its stream, complete or aborted.
    #[inline]
    pub const fn is_stream_end(&self) -> bool {
        self.flags.contains(EventFlags::STREAM_END)
    }

    /// Returns whether the event marks the end of a stream that was cut off, so that its last message may be
    /// incomplete.
    #[inline]
    pub const fn is_stream_aborted(&self) -> bool {
        self.flags.contains(EventFlags::STREAM_ABORTED)
    }

    /// Replaces the payload by the document at `root`, which differs from the message that the event was decoded from.
    #[inline]
    pub(super) const fn set_document(&mut self, root: u32) {
        self.kind = PayloadKind::DOCUMENT;
        self.payload = Span { start: root, len: 0 };
        self.set_edited();
    }

    /// Replaces the payload by the edited value at `index` of the batch's table of values.
    #[inline]
    pub(super) const fn set_value(&mut self, index: u32) {
        self.kind = PayloadKind::VALUE;
        self.payload = Span { start: index, len: 0 };
        self.set_edited();
    }

    /// Returns a copy of the event with another payload, without flags.
    #[inline]
    #[must_use]
    pub(crate) const fn with_payload(mut self, kind: PayloadKind, payload: Span) -> Self {
        self.kind = kind;
        self.payload = payload;
        self.flags = EventFlags(0);
        self
    }
}
