//! JSON text to nodes: simd-json's parser, and one pass over its tape.

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
    open: Vec<Open>,
    duplicates: Duplicates,
    options: DecodeOptions,
}

/// A container whose end has not been reached.
#[derive(Clone, Copy)]
struct Open {
    /// Where its node is.
    head: u32,
    /// Elements or pairs still to come.
    remaining: u32,
    is_object: bool,
    filter: Filter,
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
            copy(&tape.0, base, nodes, &mut self.open, &mut self.duplicates);
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

/// Appends the nodes of a complete tape, whose strings lie in the buffer at address `base`.
#[allow(clippy::cast_possible_truncation)] // lengths and counts come from messages below 4 GiB
fn copy(
    tape: &[TapeNode<'_>],
    base: usize,
    nodes: &mut Nodes,
    open: &mut Vec<Open>,
    duplicates: &mut Duplicates,
) {
    nodes.reserve(tape.len());
    open.clear();
    let mut tape = tape.iter();
    let mut now = Open { head: 0, remaining: 1, is_object: false, filter: Filter::default() };
    loop {
        while now.remaining > 0 {
            now.remaining -= 1;
            if now.is_object {
                let Some(TapeNode::String(key)) = tape.next() else { return };
                let offset = (key.as_ptr().addr() - base) as u64;
                let node = Node::key(offset, key.len() as u32, fingerprint(key.as_bytes()));
                duplicates.key(&mut now.filter, now.head, nodes.len() as u32, node.word());
                nodes.push(node);
            }
            let (is_object, len, count) = match tape.next() {
                Some(TapeNode::String(text)) => {
                    let offset = (text.as_ptr().addr() - base) as u64;
                    nodes.push(Node::string(offset, text.len() as u32));
                    continue;
                }
                Some(TapeNode::Static(value)) => {
                    nodes.push(scalar(*value));
                    continue;
                }
                Some(TapeNode::Array { len, count }) => (false, *len as u32, *count as u64),
                Some(TapeNode::Object { len, count }) => (true, *len as u32, *count as u64),
                None => return,
            };
            let head = nodes.len() as u32;
            open.push(now);
            now = Open { head, remaining: len, is_object, filter: Filter::default() };
            if is_object {
                now.filter = duplicates.open(head, len);
                nodes.push(Node::object(len, count + 1));
            } else {
                nodes.push(Node::array(len, count + 1));
            }
        }
        let Some(outer) = open.pop() else { return };
        now = outer;
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
