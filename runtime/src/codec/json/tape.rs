//! The parser's tape to nodes, one node for each entry.

use std::mem::MaybeUninit;

use simd_json::{Node as Entry, StaticNode};
use tremor_abi::document::{Node, fingerprint};

use crate::codec::buffer::Nodes;
use crate::codec::duplicates::{Duplicates, Filter};

/// Copies tapes; kept from message to message for its buffer.
#[derive(Debug, Default)]
pub(super) struct Copier {
    open: Vec<Container>,
}

/// An array or object of the tape whose entries are being copied.
#[derive(Clone, Copy, Debug)]
struct Container {
    /// The index of its node.
    head: u32,
    /// Elements or pairs still to come.
    left: u32,
    /// The keys so far, if it is an object.
    keys: Option<Filter>,
}

impl Copier {
    /// Appends the nodes of a complete tape whose strings lie in the buffer at address `base`.
    /// There must be indices left for them.
    pub(super) fn copy(
        &mut self,
        tape: &[Entry<'_>],
        base: usize,
        nodes: &mut Nodes,
        duplicates: &mut Duplicates,
    ) {
        nodes.reserve(tape.len());
        let root = nodes.len();
        let spare = nodes.capacity() - root;
        // SAFETY: this is the part of the buffer after its contents.
        let slots = unsafe {
            let start = nodes.as_mut_ptr().add(root).cast::<MaybeUninit<Node>>();
            std::slice::from_raw_parts_mut(start, spare)
        };
        let slots = &mut slots[..tape.len()];
        #[allow(clippy::cast_possible_truncation)] // an index of a node
        let copied = self.fill(tape, base, slots, root as u32, duplicates);
        debug_assert_eq!(copied, tape.len(), "a tape's counts are those of its entries");
        // SAFETY: that many slots, from the first one on, have been written.
        unsafe { nodes.set_len(root + copied) };
    }

    /// Writes the node of each entry into the slot beside it; the first slot is node `root`.
    /// Returns how many have been written.
    #[allow(clippy::cast_possible_truncation)] // lengths and counts come from messages below 4 GiB
    fn fill(
        &mut self,
        tape: &[Entry<'_>],
        base: usize,
        slots: &mut [MaybeUninit<Node>],
        root: u32,
        duplicates: &mut Duplicates,
    ) -> usize {
        let total = slots.len();
        let end = root + total as u32;
        let mut entries = tape.iter().zip(slots);
        let mut now = Container { head: root, left: 1, keys: None };
        self.open.clear();
        loop {
            while now.left > 0 {
                now.left -= 1;
                if let Some(keys) = &mut now.keys {
                    let Some((Entry::String(key), slot)) = entries.next() else {
                        return total - entries.len() - 1;
                    };
                    let offset = (key.as_ptr().addr() - base) as u64;
                    let node = Node::key(offset, key.len() as u32, fingerprint(key.as_bytes()));
                    slot.write(node);
                    if keys.insert(node.word()) {
                        duplicates.suspect(now.head, end - 1 - entries.len() as u32);
                    }
                }
                let Some((value, slot)) = entries.next() else { return total };
                let (node, keys) = match value {
                    Entry::String(text) => {
                        let offset = (text.as_ptr().addr() - base) as u64;
                        slot.write(Node::string(offset, text.len() as u32));
                        continue;
                    }
                    Entry::Static(value) => {
                        slot.write(scalar(*value));
                        continue;
                    }
                    Entry::Array { len, count } => {
                        (Node::array(*len as u32, *count as u64 + 1), None)
                    }
                    Entry::Object { len, count } => {
                        (Node::object(*len as u32, *count as u64 + 1), Some(Filter::default()))
                    }
                };
                slot.write(node);
                self.open.push(now);
                let head = end - 1 - entries.len() as u32;
                now = Container { head, left: node.len(), keys };
            }
            let Some(outer) = self.open.pop() else { return total - entries.len() };
            now = outer;
        }
    }
}

#[inline]
fn scalar(value: StaticNode) -> Node {
    match value {
        StaticNode::Null => Node::null(),
        StaticNode::Bool(value) => Node::bool(value),
        StaticNode::U64(value) => Node::u64(value),
        // The parser gives a signed zero for the text `-0` alone.
        StaticNode::I64(0) => Node::f64(-0.0),
        StaticNode::I64(value) => Node::i64(value),
        StaticNode::F64(value) => Node::f64(value),
    }
}
