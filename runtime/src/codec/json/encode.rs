//! Nodes to JSON text.

use tremor_abi::document::{Node, NodeKind};

use super::output::Output;
use crate::codec::Error;
use crate::codec::buffer::Bytes;

/// Writes JSON; keeps its buffers from one event to the next.
#[derive(Debug, Default)]
pub struct Encoder {
    open: Vec<Open>,
}

/// A container whose end has not been written.
#[derive(Clone, Copy, Debug)]
struct Open {
    remaining: u32,
    is_object: bool,
}

impl Encoder {
    /// An encoder with empty buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the document at `root`.
    pub fn encode(
        &mut self,
        bytes: &[u8],
        nodes: &[Node],
        root: u32,
        out: &mut Bytes,
    ) -> Result<(), Error> {
        let before = out.len();
        let written = document(bytes, nodes, root, &mut self.open, Output::new(out));
        if written.is_err() {
            out.truncate(before);
        }
        written
    }
}

fn forged() -> Error {
    Error::bad_data("the document's nodes do not fit together")
}

fn document(
    bytes: &[u8],
    nodes: &[Node],
    root: u32,
    open: &mut Vec<Open>,
    mut out: Output<'_>,
) -> Result<(), Error> {
    let mut nodes = nodes.get(root as usize..).ok_or_else(forged)?.iter();
    let mut now = Open { remaining: 1, is_object: false };
    open.clear();
    loop {
        while now.remaining > 0 {
            now.remaining -= 1;
            if now.is_object {
                let key = nodes.next().ok_or_else(forged)?;
                if key.kind() != NodeKind::STRING || !out.string(data(bytes, key), key.len() as usize, b':') {
                    return Err(forged());
                }
            }
            let node = nodes.next().ok_or_else(forged)?;
            match node.kind() {
                NodeKind::STRING => {
                    if !out.string(data(bytes, node), node.len() as usize, b',') {
                        return Err(forged());
                    }
                }
                NodeKind::OBJECT => {
                    out.byte(b'{');
                    open.push(now);
                    now = Open { remaining: node.len(), is_object: true };
                }
                NodeKind::ARRAY => {
                    out.byte(b'[');
                    open.push(now);
                    now = Open { remaining: node.len(), is_object: false };
                }
                #[allow(clippy::cast_possible_truncation)]
                NodeKind::I64 if node.payload() < 10 => out.word(&[b'0' + node.payload() as u8], b','),
                #[allow(clippy::cast_possible_wrap)]
                NodeKind::I64 => out.integer(node.payload() as i64, b','),
                NodeKind::U64 => out.integer(node.payload(), b','),
                NodeKind::BOOL if node.payload() == 0 => out.word(b"false", b','),
                NodeKind::BOOL => out.word(b"true", b','),
                NodeKind::NULL => out.word(b"null", b','),
                NodeKind::F64 => out.float(f64::from_bits(node.payload()), b','),
                _ => return Err(forged()),
            }
        }
        let Some(outer) = open.pop() else { break };
        // Every value is followed by a comma; the last one's becomes the bracket.
        let bracket = if now.is_object { b'}' } else { b']' };
        out.close(bracket);
        now = outer;
    }
    out.remove_last();
    Ok(())
}

/// The document's bytes from where a string or bytes node starts.
#[inline]
fn data<'b>(bytes: &'b [u8], node: &Node) -> &'b [u8] {
    usize::try_from(node.payload()).ok().and_then(|start| bytes.get(start..)).unwrap_or_default()
}
