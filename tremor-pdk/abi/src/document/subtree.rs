//! A document, and the part of one that makes up a value.

use super::{
    Invalid, Key, Node, NodeKind, ValueRef, is_json_number,
    key::{Step, equal},
    validate,
};

/// Two buffers and how far their text is trusted. See the [module](super).
///
/// What is read from it borrows from the buffers, and cannot be kept any longer than those:
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
    /// A document of unknown origin: text is checked to be UTF-8 whenever it is read as `&str`.
    #[inline]
    pub const fn new(bytes: &'a [u8], nodes: &'a [Node]) -> Self {
        Self { bytes, nodes, trusted: false }
    }

    /// A document whose text is known to be UTF-8. Everything else is still checked.
    ///
    /// # Safety
    ///
    /// Every string node, keys included, that lies within `bytes` refers to valid UTF-8 there. It
    /// does if a [`Writer`](super::Writer) wrote it, or if [`validate`](super::validate) accepted
    /// each value that is read.
    #[inline]
    pub const unsafe fn trusted(bytes: &'a [u8], nodes: &'a [Node]) -> Self {
        Self { bytes, nodes, trusted: true }
    }

    /// The value whose root node has this index, if it is [valid](validate); what was checked is not
    /// checked again when it is read.
    pub fn validated(
        bytes: &'a [u8],
        nodes: &'a [Node],
        root: u32,
    ) -> Result<ValueRef<'a>, Invalid> {
        validate(bytes, nodes, root)?;
        // SAFETY: that every string below the root is UTF-8 has just been found, and the view that
        // is returned leads to no other.
        Ok(unsafe { Self::trusted(bytes, nodes) }.root(root))
    }

    /// The value whose root node has this index; `null` where there is no such node.
    #[inline]
    pub fn root(&self, index: u32) -> ValueRef<'a> {
        let rest = self.nodes.get(index as usize..).unwrap_or_default();
        let nodes = first_value(rest).0;
        ValueRef::of_subtree(Subtree { bytes: self.bytes, nodes, trusted: self.trusted })
    }
}

/// The nodes of one value, and the bytes they refer to.
///
/// Children are always cut out of their parent's nodes, so that a whole traversal visits no node
/// twice, however wrong the spans in them are.
#[derive(Clone, Copy)]
pub(super) struct Subtree<'a> {
    bytes: &'a [u8],
    nodes: &'a [Node],
    trusted: bool,
}

/// Splits off the nodes of the first value. Both parts are empty if there is none.
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

    /// All nodes.
    #[inline]
    pub(super) fn nodes(&self) -> &'a [Node] {
        self.nodes
    }

    /// The nodes after the head.
    #[inline]
    pub(super) fn body(&self) -> &'a [Node] {
        self.nodes.get(1..).unwrap_or_default()
    }

    /// Returns the bytes that a string, bytes or number node refers to. Written out: by way of [`Node::data`] the compiler makes longer
    /// code of what reads a document.
    #[inline]
    pub(super) fn data(&self, node: Node) -> Option<&'a [u8]> {
        let start = usize::try_from(node.payload()).ok()?;
        let end = start.checked_add(node.len() as usize)?;
        self.bytes.get(start..end)
    }

    /// What a string node refers to.
    #[inline]
    pub(super) fn text(&self, node: Node) -> Option<&'a str> {
        if node.kind() != NodeKind::STRING {
            return None;
        }
        let data = self.data(node)?;
        if self.trusted {
            // SAFETY: the caller of `Document::trusted` promised it.
            Some(unsafe { std::str::from_utf8_unchecked(data) })
        } else {
            std::str::from_utf8(data).ok()
        }
    }

    /// Returns the text of a number node. The text is checked to be a JSON number whenever it is
    /// read, because it is written to JSON unchanged.
    #[inline(never)]
    pub(super) fn number(&self, node: Node) -> Option<&'a str> {
        if node.kind() != NodeKind::NUMBER {
            return None;
        }
        let data = self.data(node).filter(|data| is_json_number(data))?;
        std::str::from_utf8(data).ok()
    }

    /// The first of the values in `rest`, and what comes after it.
    #[inline]
    pub(super) fn split(&self, rest: &'a [Node]) -> Option<(Self, &'a [Node])> {
        let (nodes, rest) = first_value(rest);
        (!nodes.is_empty()).then_some((Self { nodes, ..*self }, rest))
    }

    /// The value of a key.
    #[inline]
    pub(super) fn find(&self, key: Key<'_>) -> Option<Self> {
        Some(Self { nodes: self.find_in(self.nodes, key)?, ..*self })
    }

    /// What the steps lead to, one after the other.
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
            if key_node.word() == word && self.data(*key_node).is_some_and(|data| equal(data, text))
            {
                return Some(first_value(&rest[1..]).0);
            }
            // Most values are scalars, which need neither the span nor a check of it.
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

/// The nodes of an array's element.
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
