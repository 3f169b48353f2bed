//! Documents, and the subtree of a document that forms a value.

use std::ops::Range;

use abi_stable::std_types::RVec;

use super::{
    Invalid, Key, Node, NodeKind, ValueRef, is_json_number,
    key::{Step, equal},
    validate,
};

/// The two buffers of a document: see the [module](super). A document is either trusted to contain only UTF-8 text, or
/// its text is checked when it is read.
///
/// Data that is read from a document borrows from the buffers, and cannot outlive them:
///
/// ```compile_fail,E0597
/// # use tremor_abi::{document::{write, Document}, value::Value};
/// # use abi_stable::std_types::RVec;
/// let kept;
/// {
///     let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
///     let root = write("text", &mut bytes, &mut nodes).unwrap();
///     kept = Document::new(&bytes, &nodes).root(root).as_str();
/// }
/// assert_eq!(kept, Some("text"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    bytes: &'a [u8],
    nodes: &'a [Node],
    trusted: bool,
}

impl<'a> Document<'a> {
    /// Creates a document from buffers of unknown origin. Each read of text as `&str` checks that the text is UTF-8.
    #[inline]
    pub const fn new(bytes: &'a [u8], nodes: &'a [Node]) -> Self {
        Self { bytes, nodes, trusted: false }
    }

    /// Creates a document whose text is known to be UTF-8 and is not checked again. All other contents are checked when
    /// they are read.
    ///
    /// # Safety
    ///
    /// For each string node in `nodes`, including keys: if its range lies within `bytes`, the bytes in this range must
    /// be valid UTF-8 for as long as `'a`. This is the case if a [`Writer`](super::Writer) wrote the document, or if
    /// [`validate`](super::validate) accepted each value that is read.
    #[inline]
    pub const unsafe fn trusted(bytes: &'a [u8], nodes: &'a [Node]) -> Self {
        Self { bytes, nodes, trusted: true }
    }

    /// Validates the value whose root node has the index `root`, and returns a view of it. Reads through the view do
    /// not check UTF-8 again.
    pub fn validated(
        bytes: &'a [u8],
        nodes: &'a [Node],
        root: u32,
    ) -> Result<ValueRef<'a>, Invalid> {
        validate(bytes, nodes, root)?;
        // SAFETY: `validate` has checked that every string in the value is UTF-8, and the returned view gives no access
        // to other strings.
        Ok(unsafe { Self::trusted(bytes, nodes) }.root(root))
    }

    /// Returns the value whose root node has the index `index`, or `null` if no such node exists.
    #[inline]
    pub fn root(&self, index: u32) -> ValueRef<'a> {
        let rest = self.nodes.get(index as usize..).unwrap_or_default();
        let nodes = first_value(rest).0;
        ValueRef::of_subtree(Subtree { bytes: self.bytes, nodes, trusted: self.trusted })
    }
}

/// The nodes of a value, and the bytes that they refer to.
///
/// The nodes of a child are always a part of the nodes of its parent, so a traversal visits no node twice, even if the
/// spans in the nodes are invalid.
#[derive(Clone, Copy)]
pub(super) struct Subtree<'a> {
    bytes: &'a [u8],
    nodes: &'a [Node],
    trusted: bool,
}

/// Splits `nodes` into the nodes of the first value and the remaining nodes. Both parts are empty if `nodes` is empty.
#[inline]
fn first_value(nodes: &[Node]) -> (&[Node], &[Node]) {
    let span = nodes.first().map_or(0, |head| head.span().max(1));
    let span = usize::try_from(span).unwrap_or(usize::MAX).min(nodes.len());
    nodes.split_at(span)
}

impl<'a> Subtree<'a> {
    #[inline]
    pub(super) fn head(&self) -> Node {
        self.nodes.first().copied().unwrap_or(Node::null())
    }

    /// Returns the nodes, including the head.
    #[inline]
    pub(super) fn nodes(&self) -> &'a [Node] {
        self.nodes
    }

    /// Returns the nodes after the head.
    #[inline]
    pub(super) fn body(&self) -> &'a [Node] {
        self.nodes.get(1..).unwrap_or_default()
    }

    /// Returns the bytes that a string, bytes or number node refers to. Does not call [`Node::data`], for which the
    /// compiler generates longer code.
    #[inline]
    pub(super) fn data(&self, node: Node) -> Option<&'a [u8]> {
        let start = usize::try_from(node.payload()).ok()?;
        let end = start.checked_add(node.len() as usize)?;
        self.bytes.get(start..end)
    }

    /// Appends the bytes of the document at `range` to `bytes`. The part of the range that is beyond the document is
    /// ignored.
    #[inline(never)]
    pub(super) fn append_bytes(&self, range: Range<u64>, bytes: &mut RVec<u8>) {
        let [start, end] = [range.start, range.end]
            .map(|at| usize::try_from(at).unwrap_or(usize::MAX).min(self.bytes.len()));
        bytes.extend_from_copy_slice(&self.bytes[start..end]);
    }

    /// Returns the text of a string node.
    #[inline]
    pub(super) fn text(&self, node: Node) -> Option<&'a str> {
        if node.kind() != NodeKind::STRING {
            return None;
        }
        let data = self.data(node)?;
        if self.trusted {
            // SAFETY: the caller of `Document::trusted` promised that the bytes of every string node are UTF-8.
            Some(unsafe { std::str::from_utf8_unchecked(data) })
        } else {
            std::str::from_utf8(data).ok()
        }
    }

    /// Returns the text of a number node. Each read checks that the text is a JSON number, because the text is written
    /// to JSON unchanged.
    #[inline(never)]
    pub(super) fn number(&self, node: Node) -> Option<&'a str> {
        if node.kind() != NodeKind::NUMBER {
            return None;
        }
        let data = self.data(node).filter(|data| is_json_number(data))?;
        std::str::from_utf8(data).ok()
    }

    /// Splits `rest` into the first value and the remaining nodes.
    #[inline]
    pub(super) fn split(&self, rest: &'a [Node]) -> Option<(Self, &'a [Node])> {
        let (nodes, rest) = first_value(rest);
        (!nodes.is_empty()).then_some((Self { nodes, ..*self }, rest))
    }

    /// Returns the value of `key`, if this value is an object that has the key.
    #[inline]
    pub(super) fn find(&self, key: Key<'_>) -> Option<Self> {
        Some(Self { nodes: self.find_in(self.nodes, key)?, ..*self })
    }

    /// Follows the steps of a path, and returns the value to which they lead.
    #[inline]
    pub(super) fn follow<'k>(&self, steps: impl Iterator<Item = Step<'k>>) -> Option<Self> {
        let mut nodes = self.nodes;
        for step in steps {
            nodes = match step {
                Step::Key(key) => self.find_in(nodes, key)?,
                Step::Index(index) => element(nodes, index)?,
            };
        }
        Some(Self { nodes, ..*self })
    }

    #[inline]
    fn find_in(&self, object: &'a [Node], key: Key<'_>) -> Option<&'a [Node]> {
        let (head, mut rest) = object.split_first()?;
        if head.kind() != NodeKind::OBJECT {
            return None;
        }
        let (text, word) = (key.as_str().as_bytes(), key.word());
        for _ in 0..head.len() {
            let [key_node, value, after_scalar @ ..] = rest else { return None };
            if key_node.has_word(word) && self.data(*key_node).is_some_and(|data| equal(data, text))
            {
                return Some(first_value(&rest[1..]).0);
            }
            // Most values are scalars, for which neither the span nor a check of the span is needed.
            rest = if value.kind().is_container() {
                let after = value.payload().max(1).saturating_add(1);
                rest.get(usize::try_from(after).ok()?..)?
            } else {
                after_scalar
            };
        }
        None
    }
}

/// Returns the nodes of the element at `index`.
fn element(array: &[Node], index: usize) -> Option<&[Node]> {
    let (head, mut rest) = array.split_first()?;
    if head.kind() != NodeKind::ARRAY || index >= head.len() as usize {
        return None;
    }
    for _ in 0..index {
        rest = first_value(rest).1;
    }
    let nodes = first_value(rest).0;
    (!nodes.is_empty()).then_some(nodes)
}
