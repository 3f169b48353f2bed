//! The 16-byte nodes of which documents consist.

use abi_stable::StableAbi;

/// The kind of a [`Node`]. An open set: a number with constants instead of an enum, so that a later minor version of
/// the ABI can add kinds.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, StableAbi)]
pub struct NodeKind(pub u8);

impl NodeKind {
    /// `null`.
    pub const NULL: Self = Self(0);
    /// A truth value; the payload is 0 or 1.
    pub const BOOL: Self = Self(1);
    /// A signed integer; the payload is its two's complement.
    pub const I64: Self = Self(2);
    /// An unsigned integer above `i64::MAX`; smaller integers are [`NodeKind::I64`].
    pub const U64: Self = Self(3);
    /// A float; the payload is its IEEE 754 bits.
    pub const F64: Self = Self(4);
    /// UTF-8 text; `len` is its length in bytes, the payload its offset in the document's bytes.
    pub const STRING: Self = Self(5);
    /// Binary data, with the same layout as [`NodeKind::STRING`].
    pub const BYTES: Self = Self(6);
    /// An array. The `len` elements follow this node. The payload is the number of nodes of the whole subtree,
    /// including this node.
    pub const ARRAY: Self = Self(7);
    /// An object. The `len` pairs follow this node; each pair is a key, a node of the kind [`NodeKind::STRING`], and
    /// the subtree of the value. The payload is the same as for [`NodeKind::ARRAY`].
    pub const OBJECT: Self = Self(8);
    /// A number as JSON text, for numbers that no 64-bit integer or float represents exactly. The layout is the same as
    /// that of [`NodeKind::STRING`].
    pub const NUMBER: Self = Self(9);

    /// Returns whether the payload is the number of nodes of the subtree. Kinds that a later minor version adds are
    /// never containers, so that every reader can skip them.
    #[inline]
    pub(crate) const fn is_container(self) -> bool {
        self.0 == Self::ARRAY.0 || self.0 == Self::OBJECT.0
    }

    /// Returns whether the node refers to `len` bytes of the document, at the offset in the payload.
    #[inline]
    pub(crate) const fn has_data(self) -> bool {
        self.0 == Self::STRING.0 || self.0 == Self::BYTES.0 || self.0 == Self::NUMBER.0
    }
}

/// A scalar value, a key, or the first node of an array or object: 16 bytes without pointers.
///
/// # Memory layout
/// ```text
///  0        1..4          4..8        8..16
/// +--------+-------------+-----------+---------------------------------------------+
/// | kind   | fingerprint | len: u32  | payload: u64                                |
/// +--------+-------------+-----------+---------------------------------------------+
/// ```
/// [`NodeKind`] describes `len` and `payload`. The [`fingerprint`] is set for keys of objects ([`Node::key`]) and zero
/// for all other nodes. A lookup compares kind, fingerprint and length as one 64-bit word before it reads the bytes of
/// the key. All fields are little-endian.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
#[cfg_attr(
    feature = "frame",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct Node {
    head: u32,
    len: u32,
    payload: u64,
}

// The offsets are part of the ABI: documents are written to disk and read by other languages.
const _: () = {
    assert!(size_of::<Node>() == 16 && align_of::<Node>() == 8);
    assert!(std::mem::offset_of!(Node, head) == 0);
    assert!(std::mem::offset_of!(Node, len) == 4);
    assert!(std::mem::offset_of!(Node, payload) == 8);
};

impl Node {
    const fn new(kind: NodeKind, fingerprint: u32, len: u32, payload: u64) -> Self {
        Self { head: kind.0 as u32 | (fingerprint << 8), len, payload }
    }

    /// Creates a node of any kind, known or unknown.
    #[cfg(test)]
    pub(crate) const fn of_kind(kind: NodeKind, len: u32, payload: u64) -> Self {
        Self::new(kind, 0, len, payload)
    }

    /// Creates a `null`.
    #[inline]
    pub const fn null() -> Self {
        Self::new(NodeKind::NULL, 0, 0, 0)
    }

    /// Creates a truth value.
    #[inline]
    pub const fn bool(value: bool) -> Self {
        Self::new(NodeKind::BOOL, 0, 0, value as u64)
    }

    /// Creates a signed integer.
    #[inline]
    #[allow(clippy::cast_sign_loss)] // kept as two's complement
    pub const fn i64(value: i64) -> Self {
        Self::new(NodeKind::I64, 0, 0, value as u64)
    }

    /// Creates an unsigned integer. A value that fits [`i64`] becomes a [`NodeKind::I64`], so that equal numbers have
    /// equal nodes.
    #[inline]
    pub const fn u64(value: u64) -> Self {
        let kind = if value > i64::MAX as u64 { NodeKind::U64 } else { NodeKind::I64 };
        Self::new(kind, 0, 0, value)
    }

    /// Creates a float.
    #[inline]
    pub const fn f64(value: f64) -> Self {
        Self::new(NodeKind::F64, 0, 0, value.to_bits())
    }

    /// Creates text of `len` bytes at `offset`.
    #[inline]
    pub const fn string(offset: u64, len: u32) -> Self {
        Self::new(NodeKind::STRING, 0, len, offset)
    }

    /// Creates a key of an object: text of `len` bytes at `offset`, with the fingerprint of these bytes.
    #[inline]
    pub const fn key(offset: u64, len: u32, fingerprint: u32) -> Self {
        Self::new(NodeKind::STRING, fingerprint, len, offset)
    }

    /// Creates binary data of `len` bytes at `offset`.
    #[inline]
    pub const fn bytes(offset: u64, len: u32) -> Self {
        Self::new(NodeKind::BYTES, 0, len, offset)
    }

    /// Creates a number whose text has `len` bytes at `offset`.
    #[inline]
    pub const fn number(offset: u64, len: u32) -> Self {
        Self::new(NodeKind::NUMBER, 0, len, offset)
    }

    /// Creates the head of an array of `len` elements whose subtree has `span` nodes, including the head.
    #[inline]
    pub const fn array(len: u32, span: u64) -> Self {
        Self::new(NodeKind::ARRAY, 0, len, span)
    }

    /// Creates the head of an object of `len` pairs whose subtree has `span` nodes, including the head.
    #[inline]
    pub const fn object(len: u32, span: u64) -> Self {
        Self::new(NodeKind::OBJECT, 0, len, span)
    }

    /// Returns the range of the bytes that a string, bytes or number node refers to.
    #[inline]
    pub(crate) fn data(&self) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(self.payload).ok()?;
        Some(start..start.checked_add(self.len as usize)?)
    }

    /// Returns a node for the same text, number or binary data at another offset.
    #[inline]
    pub(crate) const fn moved_to(mut self, offset: u64) -> Self {
        self.payload = offset;
        self
    }

    /// Returns the kind of the node.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the low byte is the kind
    pub const fn kind(&self) -> NodeKind {
        NodeKind(self.head as u8)
    }

    /// Returns the fingerprint of a key; zero for all other nodes.
    #[inline]
    pub const fn fingerprint(&self) -> u32 {
        self.head >> 8
    }

    /// Returns the length: the number of bytes of text, of a number or of binary data, the number of elements of an
    /// array, or the number of pairs of an object.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether [`Node::len`] is zero.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the raw payload; see [`NodeKind`].
    #[inline]
    pub const fn payload(&self) -> u64 {
        self.payload
    }

    /// Returns the number of nodes of the value, including this node: the payload of an array or an object, and 1 for
    /// every other kind, including unknown kinds. An invalid document can contain a wrong number, so readers must
    /// compare the result with the number of nodes of the document.
    #[inline]
    pub const fn span(&self) -> u64 {
        if self.kind().is_container() { self.payload } else { 1 }
    }

    /// Returns kind, fingerprint and length in one word, which a lookup compares first.
    #[inline]
    pub const fn word(&self) -> u64 {
        self.head as u64 | ((self.len as u64) << 32)
    }

    /// Returns whether [`Node::word`] is `word`. Compares the halves, which takes fewer instructions than joining them.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // each cast takes half of the word
    pub(crate) const fn has_word(&self, word: u64) -> bool {
        self.head == word as u32 && self.len == (word >> 32) as u32
    }
}

/// Returns the 24-bit fingerprint of an object's key: its first, middle and last byte. Part of the ABI.
#[inline]
pub const fn fingerprint(key: &[u8]) -> u32 {
    match key.len() {
        0 => 0,
        n => key[0] as u32 | ((key[n / 2] as u32) << 8) | ((key[n - 1] as u32) << 16),
    }
}
