//! Checking a document of unknown origin.

use std::fmt;

use super::{MAX_DEPTH, Node, NodeKind, fingerprint};

/// What is wrong with a document, and with which node of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The index of the node.
    pub node: usize,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What can be wrong with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// There is no such node: a root, a count or a span reaches beyond what is there.
    Missing,
    /// Its kind is unknown.
    Kind,
    /// Its payload, length or fingerprint is not one that its kind can have.
    Content,
    /// Its text or data lies outside the document's bytes.
    Range,
    /// Its text is not UTF-8.
    Utf8,
    /// It stands for a key and is no text, or has another key's fingerprint.
    Key,
    /// Its span is not what its elements take.
    Span,
    /// It lies in more than [`MAX_DEPTH`] containers.
    Depth,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason {
            Reason::Missing => "does not exist",
            Reason::Kind => "has an unknown kind",
            Reason::Content => "has a content that its kind cannot have",
            Reason::Range => "refers to bytes outside of the document",
            Reason::Utf8 => "is text and not UTF-8",
            Reason::Key => "is not a key of an object",
            Reason::Span => "has a span that its content does not take",
            Reason::Depth => "lies too deep",
        };
        write!(f, "invalid document: node {} {reason}", self.node)
    }
}

impl std::error::Error for Invalid {}

/// A container whose elements are being checked.
struct Frame {
    head: usize,
    /// The index after its last node.
    end: usize,
    is_object: bool,
    /// Elements or pairs still to come.
    left: u32,
}

/// Checks the value whose root node is `root`: kinds, contents, offsets, lengths, UTF-8, keys'
/// fingerprints, counts, spans and depth. After that, its text can be
/// [trusted](super::Document::trusted).
///
/// Duplicate keys are not looked for: they are no danger, lookups find the first of them.
/// It takes time linear in the nodes and the text they refer to, and no stack.
pub fn validate(bytes: &[u8], nodes: &[Node], root: u32) -> Result<(), Invalid> {
    Validator { bytes, ascii: &[], ascii_start: 0 }.validate(nodes, root)
}

/// Checks documents over the same bytes: see [`validate`].
pub(crate) struct Validator<'d> {
    bytes: &'d [u8],
    /// A part of the bytes that is known to be ASCII, and its offset.
    ascii: &'d [u8],
    ascii_start: u64,
}

impl<'d> Validator<'d> {
    /// For documents whose text mostly lies after `start`: what is there is looked at as a whole.
    pub(crate) fn new(bytes: &'d [u8], start: usize) -> Self {
        let (before, text) = bytes.split_at(start.min(bytes.len()));
        let ascii = if text.is_ascii() { text } else { &[] };
        Self { bytes, ascii, ascii_start: before.len() as u64 }
    }

    /// Checks the value whose root node is `root`.
    #[inline]
    pub(crate) fn validate(&self, nodes: &[Node], root: u32) -> Result<(), Invalid> {
        if self.is_flat(nodes, root) { Ok(()) } else { self.validate_nested(nodes, root) }
    }

    /// Whether it is a valid object of scalars whose text is known to be ASCII, as metadata mostly is:
    /// plugins write one for every event, and this is what they wait for.
    #[allow(clippy::inline_always)] // a call for each would be a sixth of it
    #[inline(always)]
    pub(crate) fn is_flat(&self, nodes: &[Node], root: u32) -> bool {
        let Some([head, rest @ ..]) = nodes.get(root as usize..) else { return false };
        let len = 2 * head.len() as usize;
        let Some(pairs) = rest.get(..len) else { return false };
        let (pairs, _) = pairs.as_chunks();
        for [key, value] in pairs {
            if !self.is_ascii_key(*key) || !self.is_flat_value(*value) {
                return false;
            }
        }
        *head == Node::object(head.len(), len as u64 + 1)
    }

    #[inline]
    fn is_ascii_key(&self, key: Node) -> bool {
        let is_key = |text| key == Node::key(key.payload(), key.len(), fingerprint(text));
        self.ascii(key).is_some_and(is_key)
    }

    /// The text of a node, where that is known to be ASCII.
    #[inline]
    fn ascii(&self, node: Node) -> Option<&'d [u8]> {
        let start = usize::try_from(node.payload().wrapping_sub(self.ascii_start)).ok()?;
        self.ascii.get(start..)?.get(..node.len() as usize)
    }

    #[inline]
    fn is_flat_value(&self, value: Node) -> bool {
        if value == Node::string(value.payload(), value.len()) {
            return self.ascii(value).is_some();
        }
        value == Node::i64(value.payload().cast_signed())
            || (value.kind().0 < NodeKind::STRING.0 && self.check_value(value).is_ok())
    }

    #[inline(never)]
    fn validate_nested(&self, nodes: &[Node], root: u32) -> Result<(), Invalid> {
        let mut open: Vec<Frame> = Vec::new();
        let mut at = root as usize;
        loop {
            if let Some(frame) = open.last_mut() {
                if frame.left == 0 {
                    if at != frame.end {
                        return Err(Invalid { node: frame.head, reason: Reason::Span });
                    }
                    open.pop();
                    if open.is_empty() {
                        return Ok(());
                    }
                    continue;
                }
                frame.left -= 1;
                let (end, is_object) = (frame.end, frame.is_object);
                if is_object {
                    node(nodes, at, end)
                        .and_then(|key| self.check_key(key))
                        .map_err(at_node(at))?;
                    at += 1;
                }
            }
            let end = open.last().map_or(nodes.len(), |frame| frame.end);
            let head = node(nodes, at, end).map_err(at_node(at))?;
            self.check_value(head).map_err(at_node(at))?;
            if head.kind() == NodeKind::ARRAY || head.kind() == NodeKind::OBJECT {
                if open.len() == MAX_DEPTH {
                    return Err(Invalid { node: at, reason: Reason::Depth });
                }
                let after = usize::try_from(head.span()).ok().and_then(|span| at.checked_add(span));
                let after = after
                    .filter(|after| (at + 1..=end).contains(after))
                    .ok_or(Invalid { node: at, reason: Reason::Span })?;
                let is_object = head.kind() == NodeKind::OBJECT;
                open.push(Frame { head: at, end: after, is_object, left: head.len() });
            } else if open.is_empty() {
                return Ok(());
            }
            at += 1;
        }
    }

    #[inline]
    fn data(&self, node: Node) -> Result<&[u8], Reason> {
        let start = usize::try_from(node.payload()).map_err(|_| Reason::Range)?;
        let end = start.checked_add(node.len() as usize).ok_or(Reason::Range)?;
        self.bytes.get(start..end).ok_or(Reason::Range)
    }

    #[inline]
    fn text(&self, node: Node) -> Result<&[u8], Reason> {
        if let Some(text) = self.ascii(node) {
            return Ok(text);
        }
        let text = self.data(node)?;
        if std::str::from_utf8(text).is_ok() { Ok(text) } else { Err(Reason::Utf8) }
    }

    #[inline]
    fn check_key(&self, key: Node) -> Result<(), Reason> {
        if key.kind() != NodeKind::STRING {
            return Err(Reason::Key);
        }
        let text = self.text(key)?;
        if key.fingerprint() == fingerprint(text) { Ok(()) } else { Err(Reason::Key) }
    }

    #[inline]
    fn check_value(&self, value: Node) -> Result<(), Reason> {
        let holds = |condition: bool| if condition { Ok(()) } else { Err(Reason::Content) };
        holds(value.fingerprint() == 0)?;
        match value.kind() {
            NodeKind::NULL => holds(value.is_empty() && value.payload() == 0),
            NodeKind::BOOL => holds(value.is_empty() && value.payload() <= 1),
            NodeKind::I64 | NodeKind::F64 => holds(value.is_empty()),
            NodeKind::U64 => holds(value.is_empty() && i64::try_from(value.payload()).is_err()),
            NodeKind::STRING => self.text(value).map(|_| ()),
            NodeKind::BYTES => self.data(value).map(|_| ()),
            NodeKind::ARRAY | NodeKind::OBJECT => Ok(()),
            _ => Err(Reason::Kind),
        }
    }
}

fn at_node(node: usize) -> impl Fn(Reason) -> Invalid {
    move |reason| Invalid { node, reason }
}

fn node(nodes: &[Node], at: usize, end: usize) -> Result<Node, Reason> {
    nodes.get(at).filter(|_| at < end).copied().ok_or(Reason::Missing)
}
