//! JSON text to nodes: simd-json's parser, and one pass over its tape.

use std::mem::MaybeUninit;

use simd_json::{Buffers, INPUT_PADDING, Node as TapeNode, StaticNode, Tape, fill_tape_padded};
use tremor_abi::document::{Node, fingerprint};

use super::explain::{self, Failure};
use crate::codec::buffer::{self, Bytes, Nodes, Span};
use crate::codec::Error;
use crate::codec::duplicates::{Duplicates, Filter};

/// How JSON is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// How deep arrays and objects may nest.
    pub max_depth: usize,
    /// Whether an integer that 64 bits cannot hold becomes a float, instead of bad data.
    pub big_integers_as_floats: bool,
}

/// Reads JSON messages; keeps its buffers from one to the next.
pub struct Decoder {
    buffers: Buffers,
    /// Empty between messages, which is what makes its lifetime meaningless.
    tape: Tape<'static>,
    open: Vec<Container>,
    duplicates: Duplicates,
    options: DecodeOptions,
}

impl Decoder {
    /// A decoder with empty buffers.
    pub fn new(options: DecodeOptions) -> Self {
        Self {
            buffers: Buffers::with_max_depth(0, options.max_depth),
            tape: Tape(Vec::new()),
            open: Vec::new(),
            duplicates: Duplicates::default(),
            options,
        }
    }

    /// Decodes the message at `span`: appends its nodes, gives the index of the first one.
    ///
    /// Strings stay where they are in `bytes`. A message with escapes is copied to the end of
    /// `bytes` first and unescaped there, so the bytes at `span` never change. `bytes` may grow by
    /// the [`INPUT_PADDING`] that the parser reads beyond the last message.
    ///
    /// # Errors
    /// [`ErrorKind::BadData`] for what is not JSON, nests too deep, or has a number that neither
    /// 64 bits nor a float can hold; `nodes` is then as it was.
    pub fn decode(
        &mut self,
        bytes: &mut Bytes,
        span: Span,
        nodes: &mut Nodes,
    ) -> Result<u32, Error> {
        let message = span.range(bytes.len())?;
        if memchr::memchr(b'\\', &bytes[message.clone()]).is_none() {
            pad(bytes, message.end);
            return self.parse(bytes, message.start, message.len(), nodes).map_err(|failure| {
                explain::failure(failure, &bytes[message.clone()], self.options.max_depth)
            });
        }
        let copy = bytes.len();
        bytes.resize(copy + message.len() + INPUT_PADDING, 0);
        bytes.as_mut_slice().copy_within(message.clone(), copy);
        self.parse(bytes, copy, message.len(), nodes)
            .map_err(|failure| explain::failure(failure, &bytes[message], self.options.max_depth))
    }

    fn parse(
        &mut self,
        bytes: &mut Bytes,
        start: usize,
        len: usize,
        nodes: &mut Nodes,
    ) -> Result<u32, Failure> {
        let base = bytes.as_ptr().addr();
        let mut tape = std::mem::replace(&mut self.tape, Tape(Vec::new())).reset();
        let parsed = fill_tape_padded(&mut bytes[start..], len, &mut self.buffers, &mut tape);
        let copied = parsed.map_err(Failure::Syntax).and_then(|()| {
            let root = buffer::next_index(nodes, tape.0.len())?;
            nodes.reserve(tape.0.len());
            let slots = unsafe { std::slice::from_raw_parts_mut(nodes.as_mut_ptr().add(nodes.len()).cast::<MaybeUninit<Node>>(), tape.0.len())};
            copy(&tape.0, slots, root, base, &mut self.open, &mut self.duplicates);
            unsafe { nodes.set_len(nodes.len() + tape.0.len()) };
            Ok(root)
        });
        self.tape = tape.reset();
        let root = copied?;
        self.duplicates.resolve(bytes, nodes, root);
        Ok(root)
    }
}

/// Makes sure that the parser may read beyond the message that ends at `end`.
fn pad(bytes: &mut Bytes, end: usize) {
    if bytes.len() - end < INPUT_PADDING {
        bytes.resize(end + INPUT_PADDING, 0);
    }
}

/// An array or object of the tape whose entries are being copied.
#[derive(Clone, Copy)]
pub(super) struct Container {
    /// The index of its node.
    head: u32,
    /// Elements or pairs still to come.
    left: u32,
    /// The keys so far, if it is an object.
    keys: Option<Filter>,
}

/// Writes the node of each tape entry into the slot beside it. The first slot is node `root`, and
/// the tape's strings lie in the buffer at address `base`.
#[allow(clippy::cast_possible_truncation)] // lengths and counts come from messages below 4 GiB
#[inline(never)]
fn copy(
    tape: &[TapeNode<'_>],
    slots: &mut [MaybeUninit<Node>],
    root: u32,
    base: usize,
    open: &mut Vec<Container>,
    duplicates: &mut Duplicates,
) {
    let end = root + slots.len() as u32;
    let mut entries = tape.iter().zip(slots);
    let mut now = Container { head: root, left: 1, keys: None };
    open.clear();
    loop {
        while now.left > 0 {
            now.left -= 1;
            if let Some(keys) = &mut now.keys {
                let Some((TapeNode::String(key), slot)) = entries.next() else { return };
                let offset = (key.as_ptr().addr() - base) as u64;
                let node = Node::key(offset, key.len() as u32, fingerprint(key.as_bytes()));
                slot.write(node);
                if keys.insert(node.word()) {
                    duplicates.suspect(now.head, end - 1 - entries.len() as u32);
                }
            }
            let Some((value, slot)) = entries.next() else { return };
            let (node, keys) = match value {
                TapeNode::String(text) => {
                    let offset = (text.as_ptr().addr() - base) as u64;
                    slot.write(Node::string(offset, text.len() as u32));
                    continue;
                }
                TapeNode::Static(value) => {
                    slot.write(scalar(*value));
                    continue;
                }
                TapeNode::Array { len, count } => {
                    (Node::array(*len as u32, *count as u64 + 1), None)
                }
                TapeNode::Object { len, count } => {
                    (Node::object(*len as u32, *count as u64 + 1), Some(Filter::default()))
                }
            };
            slot.write(node);
            open.push(now);
            let head = end - 1 - entries.len() as u32;
            now = Container { head, left: node.len(), keys };
        }
        let Some(outer) = open.pop() else { return };
        now = outer;
    }
}

#[inline(always)]
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
