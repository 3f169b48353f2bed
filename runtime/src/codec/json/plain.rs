//! JSON text without escapes to nodes, in one pass.
//!
//! A byte says what comes next, the end of a string is found 32 bytes at a time, and nodes are
//! written as they are met: there is no index of the text, and no tape in between. What is not
//! plain (an escape, a number beyond 64 bits, anything that is not JSON) is left to the parser that
//! knows all of it and says what is wrong.

use std::ops::Range;

use tremor_abi::document::Node;

use super::scan::{Avx2, Baseline, Scan};
use crate::codec::buffer::Nodes;
use crate::codec::duplicates::{Duplicates, Filter};

mod text;

use self::text::Text;

/// Reads plain messages; kept from one to the next for its buffer.
#[derive(Debug)]
pub(super) struct Reader {
    open: Vec<Container>,
    avx2: Option<Avx2>,
}

/// An array or object whose end has not been met.
#[derive(Clone, Copy, Debug, Default)]
struct Container {
    /// The index of its node.
    head: u32,
    /// Elements or pairs so far.
    len: u32,
    is_object: bool,
    /// The keys so far, if it is an object.
    keys: Filter,
}

impl Container {
    /// Its node, once `end` is the index after its last one.
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

    /// Appends the nodes of the message at `message`, none of which may need an index beyond 32 bits:
    /// there are at most as many as it has bytes. Behind it, [`BLOCK`](crate::codec::output::BLOCK)
    /// more bytes can be read.
    ///
    /// `None` if it is not plain; `nodes` is then to be truncated, and `duplicates` to be cleared.
    #[inline]
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        message: Range<usize>,
        max_depth: usize,
        nodes: &mut Nodes,
        duplicates: &mut Duplicates,
    ) -> Option<()> {
        let text = Text::new(bytes, message)?;
        let nodes = Slots::new(nodes, text.len());
        match self.avx2 {
            // SAFETY: there is an `Avx2` only where its instructions are.
            Some(avx2) => unsafe { self.values_avx2(avx2, text, max_depth, nodes, duplicates) },
            None => self.values(Baseline, text, max_depth, nodes, duplicates),
        }
    }

    /// [`Reader::values`], compiled for [`Avx2`].
    ///
    /// # Safety
    /// The processor has the instructions of [`Avx2`].
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

    /// Writes the nodes of a message.
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

/// Appends nodes; they are part of the buffer once they are committed.
///
/// Invariant: `written <= room`, as many slots lie at `first`, after the buffer's contents, and the
/// first `written` of them are initialised.
struct Slots<'n> {
    nodes: &'n mut Nodes,
    first: *mut Node,
    /// The index of the node at `first`.
    root: usize,
    written: usize,
    room: usize,
}

impl<'n> Slots<'n> {
    /// For a message of so many bytes.
    #[inline]
    fn new(nodes: &'n mut Nodes, bytes: usize) -> Self {
        // What log events have, and a little.
        nodes.reserve(bytes / 16 + 16);
        let (root, room) = (nodes.len(), nodes.capacity() - nodes.len());
        // SAFETY: the contents are within the allocation.
        let first = unsafe { nodes.as_mut_ptr().add(root) };
        Self { nodes, first, root, written: 0, room }
    }

    /// The index that the next node will have.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the caller of `read` sees to it
    fn next_index(&self) -> u32 {
        (self.root + self.written) as u32
    }

    #[inline]
    fn push(&mut self, node: Node) {
        if self.written == self.room {
            self.grow();
        }
        // SAFETY: there is room for one.
        unsafe { self.first.add(self.written).write(node) };
        self.written += 1;
    }

    /// Replaces a node that has been written.
    #[inline]
    fn replace(&mut self, index: u32, node: Node) -> Option<()> {
        let slot = (index as usize).checked_sub(self.root).filter(|slot| *slot < self.written)?;
        // SAFETY: it is one of those written.
        unsafe { self.first.add(slot).write(node) };
        Some(())
    }

    #[cold]
    fn grow(&mut self) {
        // SAFETY: that many nodes, from the first slot on, have been written.
        unsafe { self.nodes.set_len(self.root + self.written) };
        self.nodes.reserve(self.written.max(64));
        // SAFETY: the contents before the root are within the allocation.
        self.first = unsafe { self.nodes.as_mut_ptr().add(self.root) };
        self.room = self.nodes.capacity() - self.root;
    }

    /// Makes what was written part of the buffer.
    #[inline]
    fn commit(self) {
        // SAFETY: that many nodes, from the first slot on, have been written.
        unsafe { self.nodes.set_len(self.root + self.written) };
    }
}
