//! Validation of a document of unknown origin.

use std::fmt;

use super::{MAX_DEPTH, Node, NodeKind, fingerprint, is_json_number};
use crate::version::AbiVersion;

/// A fault of a document, and the node that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Index of the node.
    pub node: usize,
    /// Fault of the node.
    pub reason: Reason,
}

/// The possible faults of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The node does not exist: a root index, a length or a span exceeds the number of nodes.
    Missing,
    /// The kind of the node is unknown; a later minor version of the ABI may have added it.
    Kind(NodeKind),
    /// The text of the node is not a JSON number.
    Number,
    /// The payload, length or fingerprint of the node is invalid for its kind.
    Content,
    /// The text or data of the node lies outside the bytes of the document.
    Range,
    /// The text of the node is not UTF-8.
    Utf8,
    /// The node is used as a key but is not text, or its fingerprint does not match its text.
    Key,
    /// The span of the node differs from the number of nodes of its elements.
    Span,
    /// The node is nested in more than [`MAX_DEPTH`] containers.
    Depth,
    /// The nodes and text that were read up to this node exceed the budget of the batch, because many events or nodes
    /// refer to the same parts of the buffers.
    Budget,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason {
            Reason::Missing => "does not exist",
            Reason::Kind(NodeKind(kind)) => {
                return write!(
                    f,
                    "invalid document: node {} has kind {kind}, which ABI {} does not have",
                    self.node,
                    AbiVersion::CURRENT
                );
            }
            Reason::Number => "is a number whose text is not a JSON number",
            Reason::Content => "has contents that are invalid for its kind",
            Reason::Range => "refers to bytes outside of the document",
            Reason::Utf8 => "has text that is not UTF-8",
            Reason::Key => "is not a key of an object",
            Reason::Span => "has a span that differs from its content",
            Reason::Depth => "is nested too deeply",
            Reason::Budget => "exceeds the limit for data that several events or nodes share",
        };
        write!(f, "invalid document: node {} {reason}", self.node)
    }
}

impl std::error::Error for Invalid {}

/// A container whose elements are being validated.
struct Frame {
    head: usize,
    /// Index after the last node of the container.
    end: usize,
    is_object: bool,
    /// Number of elements or pairs that are not validated yet.
    left: u32,
}

/// Validates the value whose root node is `root`: kinds, contents, offsets, lengths, UTF-8, fingerprints of keys,
/// numbers, counts, spans and depth. If the value is valid, it can be read with
/// [`Document::trusted`](super::Document::trusted).
///
/// Duplicate keys are not checked, because they are harmless: lookups find the first of them. The validation does not
/// recurse. Text that several nodes refer to is read once for each of these nodes, so a budget limits the time: 16 MiB,
/// or four times the size of the two buffers if that is more.
pub fn validate(bytes: &[u8], nodes: &[Node], root: u32) -> Result<(), Invalid> {
    let budget = Budget::new(bytes.len() + size_of_val(nodes));
    Validator { bytes, ascii: &[], ascii_start: 0, budget, open: Vec::new() }.validate(nodes, root)
}

/// Limit for the nodes, text and raw bytes that are read from a batch, in bytes.
///
/// Many events may refer to one document, and many nodes to one text. Reading all events reads these shared parts once
/// for each event, so without a budget, reading a small batch could take unlimited time and produce unlimited output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    left: u64,
    limit: u64,
}

impl Budget {
    /// Minimum budget, in bytes, for buffers of any size.
    pub(crate) const MIN: usize = 16 << 20;

    /// Returns the limit for buffers of `size` bytes: [`Budget::MIN`], or four times the size if that is more.
    pub(crate) const fn limit_for(size: usize) -> usize {
        let fourfold = size.saturating_mul(4);
        if fourfold > Self::MIN { fourfold } else { Self::MIN }
    }

    /// Creates the budget for buffers of `size` bytes.
    pub(crate) const fn new(size: usize) -> Self {
        let limit = Self::limit_for(size) as u64;
        Self { left: limit, limit }
    }

    /// Subtracts `bytes` from the budget. If less than `bytes` is left, subtracts nothing and returns `false`.
    #[inline]
    pub(crate) fn spend(&mut self, bytes: u64) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// Returns the initial budget in bytes.
    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }
}

/// Size of a node in bytes, as the budget counts it.
const NODE: u64 = size_of::<Node>() as u64;

/// A validator for documents that have their text in the same bytes: see [`validate`].
pub(crate) struct Validator<'d> {
    bytes: &'d [u8],
    /// A part of the bytes that is known to be ASCII, and its offset.
    ascii: &'d [u8],
    ascii_start: u64,
    /// Budget of all documents together.
    pub(crate) budget: Budget,
    /// The open containers of the current document. The list keeps its capacity for the next document.
    open: Vec<Frame>,
}

/// Result of [`Validator::check_flat`].
enum Flat {
    /// The value is valid.
    Valid,
    /// The first `pairs` pairs of the object are valid; the next pair is not in the simple form.
    Partly { pairs: u32 },
}

impl<'d> Validator<'d> {
    /// Creates a validator for documents whose text usually lies at or after the offset `start`. The bytes from there
    /// to the end are checked for ASCII in one step.
    pub(crate) fn new(bytes: &'d [u8], start: usize, budget: Budget) -> Self {
        let (before, text) = bytes.split_at(start.min(bytes.len()));
        let ascii = if text.is_ascii() { text } else { &[] };
        Self { bytes, ascii, ascii_start: before.len() as u64, budget, open: Vec::new() }
    }

    /// Validates the value whose root node is `root`.
    #[inline]
    pub(crate) fn validate(&mut self, nodes: &[Node], root: u32) -> Result<(), Invalid> {
        match self.check_flat(nodes, root) {
            Flat::Valid => Ok(()),
            Flat::Partly { pairs } => {
                self.open.clear();
                let mut at = root as usize;
                if pairs > 0 {
                    let head = node(nodes, at, nodes.len()).map_err(at_node(at))?;
                    let (end, left) = (at + 1 + 2 * head.len() as usize, head.len() - pairs);
                    self.open.push(Frame { head: at, end, is_object: true, left });
                    at += 1 + 2 * pairs as usize;
                }
                self.validate_nested(nodes, at)
            }
        }
    }

    /// Validates the object whose root node is `root`. `valid` is the root node of a valid object, from which the object
    /// was usually made by setting and removing fields. Fields at the beginning and at the end that both objects have
    /// are not validated again, but count towards the budget.
    pub(crate) fn validate_edited(
        &mut self,
        nodes: &[Node],
        root: u32,
        valid: u32,
    ) -> Result<(), Invalid> {
        let before = self.budget;
        if self.check_edited(nodes, root, valid).is_some() {
            return Ok(());
        }
        self.budget = before;
        self.validate(nodes, root)
    }

    /// Returns `None` if the object is invalid, or is not a simple edit of the valid object.
    fn check_edited(&mut self, nodes: &[Node], root: u32, valid: u32) -> Option<()> {
        let (head, new) = fields(nodes, root)?;
        let (old_head, old) = fields(nodes, valid)?;
        // The budget counts the edited object. The work on the original is limited accordingly.
        if old.len() / 4 > new.len() + 64 {
            return None;
        }
        let same = new.iter().zip(old).take_while(|(a, b)| a == b).count();
        let mut walk = Pairs { nodes: old, at: 0, count: 0 };
        while walk.next().is_some_and(|end| end <= same) {
            walk.step();
        }
        let (start, first) = (walk.at, walk.count);
        let most = new.len().min(old.len()) - start;
        let ends = new.iter().rev().zip(old.iter().rev()).take(most);
        let last = old.len() - ends.take_while(|(a, b)| a == b).count();
        while walk.at < last {
            walk.step();
        }
        let rest = old_head.len().checked_sub(walk.count)?;
        let left = head.len().checked_sub(first)?.checked_sub(rest)?;
        let end = new.len() - (old.len() - walk.at);
        let known = new[..start].iter().chain(&new[end..]);
        let text = |node: &Node| if node.kind().is_container() { 0 } else { u64::from(node.len()) };
        let text: u64 = known.map(text).sum();
        let count = (1 + start + (new.len() - end)) as u64;
        if !self.budget.spend(count * NODE + text) {
            return None;
        }
        let from = root as usize + 1;
        self.open.clear();
        self.open.push(Frame { head: root as usize, end: from + end, is_object: true, left });
        self.validate_nested(nodes, from + start).ok()
    }

    /// Returns whether the value is a valid object whose values are objects that [`is_flat`](Self::is_flat) accepts, as
    /// the metadata of a source is. The budget is unchanged if the result is `false`.
    pub(crate) fn is_map_of_flat(&mut self, nodes: &[Node], root: u32) -> bool {
        let before = self.budget;
        let is_map = self.check_map_of_flat(nodes, root).is_some();
        if !is_map {
            self.budget = before;
        }
        is_map
    }

    fn check_map_of_flat(&mut self, nodes: &[Node], root: u32) -> Option<()> {
        let head = *nodes.get(root as usize)?;
        if head != Node::object(head.len(), head.span()) || !self.budget.spend(NODE) {
            return None;
        }
        let mut at = root.checked_add(1)?;
        for _ in 0..head.len() {
            visited(1);
            let key = *nodes.get(at as usize)?;
            let value = at.checked_add(1)?;
            let is_valid = self.is_ascii_key(key)
                && self.budget.spend(NODE + u64::from(key.len()))
                && self.is_flat(nodes, value);
            if !is_valid {
                return None;
            }
            at = value.checked_add(u32::try_from(nodes.get(value as usize)?.span()).ok()?)?;
        }
        (head.span() == u64::from(at - root)).then_some(())
    }

    /// Returns whether the value is a valid object of scalars whose text is known to be ASCII, as metadata usually is.
    /// This check is optimised, because many plugins write metadata for every event, and all of it is validated.
    #[allow(clippy::inline_always)] // otherwise the calls would take a sixth of the time of the check
    #[inline(always)]
    pub(crate) fn is_flat(&mut self, nodes: &[Node], root: u32) -> bool {
        matches!(self.check_flat(nodes, root), Flat::Valid)
    }

    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn check_flat(&mut self, nodes: &[Node], root: u32) -> Flat {
        let none = Flat::Partly { pairs: 0 };
        let Some([head, rest @ ..]) = nodes.get(root as usize..) else { return none };
        let len = 2 * head.len() as usize;
        if *head != Node::object(head.len(), len as u64 + 1) {
            return none;
        }
        let Some(pairs) = rest.get(..len) else { return none };
        let most = (len as u64 + 1) * NODE;
        if most > self.budget.left {
            return none;
        }
        let (pairs, _) = pairs.as_chunks();
        let mut text = 0;
        for (checked, [key, value]) in pairs.iter().enumerate() {
            visited(2);
            if !self.is_ascii_key(*key) || !self.is_flat_value(*value) {
                // The cast is exact: there are at most as many pairs as the length of the object, which has 32 bits.
                #[allow(clippy::cast_possible_truncation)]
                let pairs = checked as u32;
                let nodes = 2 * u64::from(pairs) + 1;
                return if pairs > 0 && self.budget.spend(nodes * NODE + text) {
                    Flat::Partly { pairs }
                } else {
                    none
                };
            }
            // `is_flat_value` checked that the length of scalars other than text is zero.
            text += u64::from(key.len()) + u64::from(value.len());
        }
        visited(1);
        if self.budget.spend(most + text) { Flat::Valid } else { none }
    }

    #[inline]
    fn is_ascii_key(&self, key: Node) -> bool {
        let is_key = |text| key == Node::key(key.payload(), key.len(), fingerprint(text));
        self.ascii(key).is_some_and(is_key)
    }

    /// Returns the text of a node, if the text is known to be ASCII.
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

    /// Validates the value at the node `at`. If there is an open container, `at` is its first element or key that is not
    /// known to be valid, and the rest of the container is validated too.
    #[inline(never)]
    fn validate_nested(&mut self, nodes: &[Node], mut at: usize) -> Result<(), Invalid> {
        loop {
            if let Some(frame) = self.open.last_mut() {
                if frame.left == 0 {
                    if at != frame.end {
                        return Err(Invalid { node: frame.head, reason: Reason::Span });
                    }
                    self.open.pop();
                    if self.open.is_empty() {
                        return Ok(());
                    }
                    continue;
                }
                frame.left -= 1;
                let (end, is_object) = (frame.end, frame.is_object);
                if is_object {
                    node(nodes, at, end)
                        .and_then(|key| self.spend(key).and_then(|()| self.check_key(key)))
                        .map_err(at_node(at))?;
                    at += 1;
                }
            }
            let end = self.open.last().map_or(nodes.len(), |frame| frame.end);
            let head = node(nodes, at, end).map_err(at_node(at))?;
            self.spend(head).and_then(|()| self.check_value(head)).map_err(at_node(at))?;
            if head.kind().is_container() {
                if self.open.len() == MAX_DEPTH {
                    return Err(Invalid { node: at, reason: Reason::Depth });
                }
                let after = usize::try_from(head.span()).ok().and_then(|span| at.checked_add(span));
                let after = after
                    .filter(|after| (at + 1..=end).contains(after))
                    .ok_or(Invalid { node: at, reason: Reason::Span })?;
                let is_object = head.kind() == NodeKind::OBJECT;
                self.open.push(Frame { head: at, end: after, is_object, left: head.len() });
            } else if self.open.is_empty() {
                return Ok(());
            }
            at += 1;
        }
    }

    /// Subtracts a node and its text from the budget, before the text is read.
    #[inline]
    fn spend(&mut self, node: Node) -> Result<(), Reason> {
        let text = if node.kind().is_container() { 0 } else { node.len() };
        if self.budget.spend(NODE + u64::from(text)) {
            return Ok(());
        }
        // If the text of the node is outside of the document, the error states that instead of an exceeded budget.
        Err(if text > 0 && self.data(node).is_err() { Reason::Range } else { Reason::Budget })
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
        let require = |condition: bool| if condition { Ok(()) } else { Err(Reason::Content) };
        require(value.fingerprint() == 0)?;
        match value.kind() {
            NodeKind::NULL => require(value.is_empty() && value.payload() == 0),
            NodeKind::BOOL => require(value.is_empty() && value.payload() <= 1),
            NodeKind::I64 | NodeKind::F64 => require(value.is_empty()),
            NodeKind::U64 => require(value.is_empty() && i64::try_from(value.payload()).is_err()),
            NodeKind::STRING => self.text(value).map(|_| ()),
            NodeKind::BYTES => self.data(value).map(|_| ()),
            NodeKind::ARRAY | NodeKind::OBJECT => Ok(()),
            NodeKind::NUMBER if is_json_number(self.data(value)?) => Ok(()),
            NodeKind::NUMBER => Err(Reason::Number),
            kind => Err(Reason::Kind(kind)),
        }
    }
}

/// Returns the head of an object and the nodes of its fields, or `None` if the head is not that of an object.
fn fields(nodes: &[Node], root: u32) -> Option<(Node, &[Node])> {
    let root = root as usize;
    let head = *nodes.get(root)?;
    let span = usize::try_from(head.span()).ok()?;
    let is_object = head == Node::object(head.len(), head.span());
    let fields = nodes.get(root + 1..root.checked_add(span)?)?;
    is_object.then_some((head, fields))
}

/// The pairs of a valid object, one after the other.
struct Pairs<'d> {
    nodes: &'d [Node],
    /// Index of the key of the next pair.
    at: usize,
    /// Number of pairs before the index.
    count: u32,
}

impl Pairs<'_> {
    /// Returns the index after the next pair, if there is one. The index stays within the nodes, even if code of a plugin
    /// has overwritten them.
    fn next(&self) -> Option<usize> {
        let value = self.nodes.get(self.at + 1)?;
        let span =
            if value.kind().is_container() { usize::try_from(value.span()).ok()? } else { 1 };
        (self.at + 1).checked_add(span).filter(|end| *end <= self.nodes.len())
    }

    /// Moves to the next pair, or to the end.
    fn step(&mut self) {
        self.at = self.next().unwrap_or(self.nodes.len());
        self.count += 1;
    }
}

fn at_node(node: usize) -> impl Fn(Reason) -> Invalid {
    move |reason| Invalid { node, reason }
}

fn node(nodes: &[Node], at: usize, end: usize) -> Result<Node, Reason> {
    visited(1);
    nodes.get(at).filter(|_| at < end).copied().ok_or(Reason::Missing)
}

#[inline]
fn visited(count: usize) {
    #[cfg(test)]
    visits::NODES.set(visits::NODES.get() + count);
    #[cfg(not(test))]
    let _ = count;
}

/// Number of nodes that were read, for tests.
#[cfg(test)]
pub(crate) mod visits {
    use std::cell::Cell;

    thread_local! {
        pub(crate) static NODES: Cell<usize> = const { Cell::new(0) };
    }
}
