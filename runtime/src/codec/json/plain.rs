//! Decoding of JSON text without escapes to nodes, in one pass.
//!
//! The next byte determines the next token, and strings are searched for their end in blocks of 32 bytes. Nodes are
//! written directly, without an index of the text and without a tape. A message is not plain if it contains an escape,
//! an integer of more than 19 digits, or an error. Such a message is left to the complete parser, which also reports
//! errors.

use std::{cell::Cell, ops::Range};

use tremor_abi::document::Node;

use super::scan::{Avx2, Baseline, Scan};
use crate::codec::buffer::Nodes;
use crate::codec::duplicates::{Duplicates, Filter};

mod text;

use self::text::Text;

/// Reads plain messages. The reader is reused for every message, to keep its buffer.
#[derive(Debug)]
pub(super) struct Reader {
    open: Vec<Container>,
    avx2: Option<Avx2>,
}

/// An array or object whose end was not read yet.
#[derive(Clone, Copy, Debug, Default)]
struct Container {
    /// Index of the node of the container.
    head: u32,
    /// Number of elements or pairs so far.
    len: u32,
    is_object: bool,
    /// Keys so far, if the container is an object.
    keys: Filter,
}

impl Container {
    /// Returns the node of the container. `end` is the index after the last node of the container.
    #[inline]
    fn node(&self, end: u32) -> Node {
        let span = u64::from(end - self.head);
        if self.is_object { Node::object(self.len, span) } else { Node::array(self.len, span) }
    }
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { open: Vec::new(), avx2: Avx2::new() }
    }

    #[cfg(test)]
    pub(super) fn without_avx2() -> Self {
        Self { open: Vec::new(), avx2: None }
    }

    /// Appends the nodes of the message at `message`. The caller has to ensure that the indices of the nodes fit 32
    /// bits (a message has at most as many nodes as bytes), and that [`BLOCK`](crate::codec::output::BLOCK) bytes after
    /// the message can be read.
    ///
    /// Returns whether the message has blanks outside of strings, or `None` if the message is not plain. In that case,
    /// the caller has to truncate `nodes` and clear `duplicates`.
    #[inline]
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        message: Range<usize>,
        max_depth: usize,
        nodes: &mut Nodes,
        duplicates: &mut Duplicates,
    ) -> Option<bool> {
        let has_blanks = Cell::new(false);
        let text = Text::new(bytes, message, &has_blanks)?;
        let nodes = Slots::new(nodes, text.len());
        match self.avx2 {
            // SAFETY: an `Avx2` exists only if the processor has its instructions.
            Some(avx2) => unsafe { self.values_avx2(avx2, text, max_depth, nodes, duplicates)? },
            None => self.values(Baseline, text, max_depth, nodes, duplicates)?,
        }
        Some(has_blanks.get())
    }

    /// Compiles [`Reader::values`] for [`Avx2`].
    ///
    /// # Safety
    /// The processor must have the instructions of [`Avx2`].
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt"))]
    unsafe fn values_avx2(
        &mut self,
        scan: Avx2,
        text: Text<'_>,
        max_depth: usize,
        nodes: Slots<'_>,
        duplicates: &mut Duplicates,
    ) -> Option<()> {
        self.values(scan, text, max_depth, nodes, duplicates)
    }

    /// Writes the nodes of a message. Returns `None` if the message is not plain.
    #[inline(always)]
    fn values(
        &mut self,
        scan: impl Scan,
        mut text: Text<'_>,
        max_depth: usize,
        mut nodes: Slots<'_>,
        duplicates: &mut Duplicates,
    ) -> Option<()> {
        let mut now = Container::default();
        self.open.clear();
        'values: loop {
            if now.is_object {
                let key = text.key(scan)?;
                if now.keys.insert(key.word()) {
                    duplicates.suspect(now.head, nodes.next_index());
                }
                nodes.push(key);
            }
            let byte = text.next()?;
            match byte {
                b'"' => {
                    let (start, len) = text.string(scan)?;
                    nodes.push(Node::string(start as u64, len));
                }
                b'{' | b'[' => {
                    if self.open.len() == max_depth {
                        return None;
                    }
                    let is_object = byte == b'{';
                    let head = nodes.next_index();
                    let inner = Container { head, len: 0, is_object, keys: Filter::default() };
                    nodes.push(inner.node(head + 1));
                    text.skip();
                    if text.next()? == end_of(is_object) {
                        text.skip();
                    } else {
                        self.open.push(std::mem::replace(&mut now, inner));
                        continue 'values;
                    }
                }
                b'-' | b'0'..=b'9' => nodes.push(text.number()?),
                b't' => nodes.push(text.word(b"true", Node::bool(true))?),
                b'f' => nodes.push(text.word(b"false", Node::bool(false))?),
                b'n' => nodes.push(text.word(b"null", Node::null())?),
                _ => return None,
            }
            while let Some(outer) = self.open.last() {
                now.len += 1;
                let byte = text.next()?;
                text.skip();
                if byte == b',' {
                    continue 'values;
                }
                if byte != end_of(now.is_object) {
                    return None;
                }
                nodes.replace(now.head, now.node(nodes.next_index()))?;
                now = *outer;
                self.open.pop();
            }
            return text.is_at_end().then(|| nodes.commit());
        }
    }
}

#[inline]
fn end_of(is_object: bool) -> u8 {
    if is_object { b'}' } else { b']' }
}

/// A writer that appends nodes to the spare capacity of a buffer. [`Slots::commit`] makes them a part of the buffer.
///
/// Invariant: `written <= capacity`; `first` points to `capacity` slots after the contents of `nodes`, and the first
/// `written` of them are initialised.
struct Slots<'n> {
    nodes: &'n mut Nodes,
    first: *mut Node,
    /// Index of the node at `first`.
    root: usize,
    written: usize,
    capacity: usize,
}

impl<'n> Slots<'n> {
    /// Creates slots for a message of `bytes` bytes.
    #[inline]
    fn new(nodes: &'n mut Nodes, bytes: usize) -> Self {
        // This capacity is enough for a typical log event, with a reserve.
        nodes.reserve(bytes / 16 + 16);
        let (root, capacity) = (nodes.len(), nodes.capacity() - nodes.len());
        // SAFETY: `root` is the length of `nodes`, so the result is within the allocation or one past its end.
        let first = unsafe { nodes.as_mut_ptr().add(root) };
        Self { nodes, first, root, written: 0, capacity }
    }

    /// Returns the index of the next node.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the caller of `read` ensures this
    fn next_index(&self) -> u32 {
        (self.root + self.written) as u32
    }

    #[inline]
    fn push(&mut self, node: Node) {
        if self.written == self.capacity {
            self.grow();
        }
        // SAFETY: `written < capacity`, so the slot is within the allocation.
        unsafe { self.first.add(self.written).write(node) };
        self.written += 1;
    }

    /// Replaces a node that was written.
    #[inline]
    fn replace(&mut self, index: u32, node: Node) -> Option<()> {
        let slot = (index as usize).checked_sub(self.root).filter(|slot| *slot < self.written)?;
        // SAFETY: `slot < written`, so the slot is within the allocation.
        unsafe { self.first.add(slot).write(node) };
        Some(())
    }

    #[cold]
    fn grow(&mut self) {
        // SAFETY: the first `written` slots after `root` are initialised (the invariant).
        unsafe { self.nodes.set_len(self.root + self.written) };
        self.nodes.reserve(self.written.max(64));
        // SAFETY: `root` is at most the capacity of `nodes`, so the result is within the allocation or one past its
        // end.
        self.first = unsafe { self.nodes.as_mut_ptr().add(self.root) };
        self.capacity = self.nodes.capacity() - self.root;
    }

    /// Makes the written nodes a part of the buffer.
    #[inline]
    fn commit(self) {
        // SAFETY: the first `written` slots after `root` are initialised (the invariant).
        unsafe { self.nodes.set_len(self.root + self.written) };
    }
}
