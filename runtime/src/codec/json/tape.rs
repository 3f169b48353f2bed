//! Converts the tape of the parser to nodes. Each entry of the tape becomes one node.

use std::mem::MaybeUninit;

use simd_json::{Node as Entry, StaticNode};
use tremor_abi::document::{Node, fingerprint};

use crate::codec::buffer::Nodes;
use crate::codec::duplicates::{Duplicates, Filter};

/// Copies tapes. It is reused for every message, to keep its buffer.
#[derive(Debug, Default)]
pub(super) struct Copier {
    open: Vec<Container>,
    /// `true` if the tape contains a float.
    has_floats: bool,
}

/// An array or object of the tape whose entries are being copied.
#[derive(Clone, Copy, Debug)]
struct Container {
    /// Index of the node of the container.
    head: u32,
    /// Number of remaining elements or pairs.
    left: u32,
    /// Keys so far, if the container is an object.
    keys: Option<Filter>,
}

impl Copier {
    /// Appends the nodes of a complete tape. The strings of the tape are in the buffer at the address `base`. The
    /// caller has to ensure that the indices of the nodes fit 32 bits. Returns whether the tape contains a float.
    pub(super) fn copy(
        &mut self,
        tape: &[Entry<'_>],
        base: usize,
        nodes: &mut Nodes,
        duplicates: &mut Duplicates,
    ) -> bool {
        nodes.reserve(tape.len());
        let root = nodes.len();
        let spare = nodes.capacity() - root;
        // SAFETY: the slice is the spare capacity of `nodes`, whose slots are valid as `MaybeUninit`.
        let slots = unsafe {
            let start = nodes.as_mut_ptr().add(root).cast::<MaybeUninit<Node>>();
            std::slice::from_raw_parts_mut(start, spare)
        };
        let slots = &mut slots[..tape.len()];
        #[allow(clippy::cast_possible_truncation)] // an index of a node
        let copied = self.fill(tape, base, slots, root as u32, duplicates);
        debug_assert_eq!(copied, tape.len(), "a tape's counts are those of its entries");
        // SAFETY: `fill` initialised the first `copied` slots after `root`.
        unsafe { nodes.set_len(root + copied) };
        self.has_floats
    }

    /// Writes the node of each entry into the slot with the same index. The first slot becomes the node `root`. Returns
    /// the number of written slots.
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
        self.has_floats = false;
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
                        self.has_floats |= matches!(value, StaticNode::F64(_));
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
        // The parser returns a signed zero only for the text `-0`.
        StaticNode::I64(0) => Node::f64(-0.0),
        StaticNode::I64(value) => Node::i64(value),
        StaticNode::F64(value) => Node::f64(value),
    }
}
