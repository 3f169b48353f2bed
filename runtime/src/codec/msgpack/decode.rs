//! Decoding of MessagePack to nodes.

use tremor_abi::document::{MAX_DEPTH, Node, fingerprint};

use super::count;
use super::extension::{self, Extension};
use super::reader::{Head, Reader};
use crate::codec::Error;
use crate::codec::buffer::{self, Bytes, Nodes, Span};
use crate::codec::duplicates::{Duplicates, Filter};
use crate::codec::limit;

/// Maximum number of nodes for each byte of a message. The shortest extension has seven nodes in three bytes. Any other
/// value has one node, and takes at least one byte.
const NODES_A_BYTE: usize = 3;

/// Length in bytes up to which a message cannot exceed the limit of nodes. The nodes of longer messages are counted
/// before the messages are decoded.
const COUNTED: usize = limit::nodes(0) / NODES_A_BYTE;

/// Options for reading MessagePack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Maximum nesting depth of arrays and maps, at most [`MAX_DEPTH`]. An extension counts as the two nested objects
    /// that represent it.
    pub max_depth: usize,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self { max_depth: MAX_DEPTH }
    }
}

/// Reads MessagePack messages. It is reused for every message, to keep its buffers.
#[derive(Debug)]
pub struct Decoder {
    open: Vec<Container>,
    duplicates: Duplicates,
    max_depth: usize,
}

/// An array or map whose end was not read yet.
#[derive(Clone, Copy, Debug)]
struct Container {
    /// Index of the node of the container.
    head: u32,
    /// Number of remaining elements or pairs.
    left: u32,
    /// Keys so far, if the container is a map.
    keys: Option<Filter>,
}

/// The reason why a message could not be decoded.
enum Stop {
    Error(Error),
    /// The message contains an extension. The object that represents the extension needs text that the batch does not
    /// contain yet. The message is parsed again after this text was appended.
    NeedsKeys,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Decoder {
    /// Creates a decoder with empty buffers.
    pub fn new(options: DecodeOptions) -> Self {
        Self {
            open: Vec::new(),
            duplicates: Duplicates::default(),
            max_depth: options.max_depth.min(MAX_DEPTH),
        }
    }

    /// Returns whether the value of the message that was decoded last has all its keys.
    #[inline]
    pub(in crate::codec) fn is_exact(&mut self) -> bool {
        !self.duplicates.take_found()
    }

    /// Decodes the message at `span`, appends its nodes, and returns the index of the first node. Strings and binary
    /// data refer to the original bytes. `bytes` grows only if the message contains extensions.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the message is not exactly one MessagePack value, contains text that is
    /// not UTF-8 or keys that are not text, or is nested too deeply. Then both buffers are unchanged.
    pub fn decode(
        &mut self,
        bytes: &mut Bytes,
        span: Span,
        nodes: &mut Nodes,
    ) -> Result<u32, Error> {
        let message = buffer::range(span, bytes.len())?;
        if message.len() > COUNTED {
            limit::admit(message.len(), count::nodes(&bytes[message.clone()]))?;
        }
        let root = buffer::next_index(nodes, message.len() * NODES_A_BYTE)?;
        let before = bytes.len();
        let mut keys = None;
        loop {
            match self.parse(&bytes[message.clone()], message.start, keys, nodes) {
                Ok(()) => {
                    self.duplicates.resolve(bytes, nodes, root);
                    return Ok(root);
                }
                Err(Stop::NeedsKeys) => {
                    self.restore(nodes, root);
                    keys = Some(before);
                    bytes.extend_from_copy_slice(extension::KEYS);
                }
                Err(Stop::Error(error)) => {
                    self.restore(nodes, root);
                    bytes.truncate(before);
                    return Err(error);
                }
            }
        }
    }

    #[cold]
    fn restore(&mut self, nodes: &mut Nodes, root: u32) {
        nodes.truncate(root as usize);
        self.duplicates.clear();
    }

    /// Appends the nodes of a message that starts at `offset` in its batch. `keys` is the offset of the text that
    /// extensions need, if the batch contains this text.
    #[allow(clippy::cast_possible_truncation)] // indices were checked to fit
    fn parse(
        &mut self,
        message: &[u8],
        offset: usize,
        keys: Option<usize>,
        nodes: &mut Nodes,
    ) -> Result<(), Stop> {
        let mut reader = Reader::new(message);
        let mut now = Container { head: 0, left: 1, keys: None };
        self.open.clear();
        loop {
            while now.left > 0 {
                now.left -= 1;
                if let Some(keys) = &mut now.keys {
                    let Some(len) = reader.string_head()? else {
                        return Err(reader.error("expected a string as key").into());
                    };
                    let at = offset + reader.position();
                    let text = reader.text(len)?;
                    let node = Node::key(at as u64, len, fingerprint(text));
                    if keys.insert(node.word()) {
                        self.duplicates.suspect(now.head, nodes.len() as u32);
                    }
                    nodes.push(node);
                }
                let start = reader;
                let head = reader.head()?;
                let at = offset + reader.position();
                let (len, keys) = match head {
                    Head::String(len) => {
                        reader.text(len)?;
                        nodes.push(Node::string(at as u64, len));
                        continue;
                    }
                    Head::Array(len) => (len, None),
                    Head::Map(len) => (len, Some(Filter::default())),
                    Head::Binary(len) => {
                        reader.take(len)?;
                        nodes.push(Node::bytes(at as u64, len));
                        continue;
                    }
                    Head::Extension(kind, len) => {
                        if self.open.len() + extension::DEPTH > self.max_depth {
                            return Err(self.too_deep(&start).into());
                        }
                        let content = Extension::read(kind, reader.take(len)?);
                        let keys = keys.ok_or(Stop::NeedsKeys)?;
                        nodes.extend_from_copy_slice(&content.nodes(keys as u64, at));
                        continue;
                    }
                    scalar => {
                        nodes.push(node(&scalar));
                        continue;
                    }
                };
                // Each element takes at least one byte, and each pair at least two, so a forged count is detected here.
                let least = len as usize * if keys.is_some() { 2 } else { 1 };
                if least > reader.left() {
                    return Err(reader.truncated().into());
                }
                if self.open.len() == self.max_depth {
                    return Err(self.too_deep(&start).into());
                }
                self.open.push(now);
                now = Container { head: nodes.len() as u32, left: len, keys };
                // The span is set when the container ends.
                nodes.push(if keys.is_some() { Node::object(len, 1) } else { Node::array(len, 1) });
            }
            let Some(outer) = self.open.pop() else { break };
            let head = now.head as usize;
            let (len, span) = (nodes[head].len(), (nodes.len() - head) as u64);
            nodes[head] =
                if now.keys.is_some() { Node::object(len, span) } else { Node::array(len, span) };
            now = outer;
        }
        if reader.left() > 0 {
            return Err(reader.error("expected the end after the value").into());
        }
        Ok(())
    }

    #[cold]
    fn too_deep(&self, at: &Reader<'_>) -> Error {
        at.error(format!("nested deeper than {} levels", self.max_depth))
    }
}

#[inline]
fn node(head: &Head) -> Node {
    match *head {
        Head::Bool(value) => Node::bool(value),
        Head::Signed(value) => Node::i64(value),
        Head::Unsigned(value) => Node::u64(value),
        Head::Float(value) => Node::f64(value),
        _ => Node::null(),
    }
}
