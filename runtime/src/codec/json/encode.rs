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
                if key.kind() != NodeKind::STRING {
                    return Err(forged());
                }
                let (start, len) = range(bytes, key)?;
                out.string(bytes, start, len, b':');
            }
            let node = nodes.next().ok_or_else(forged)?;
            match node.kind() {
                NodeKind::STRING => {
                    let (start, len) = range(bytes, node)?;
                    out.string(bytes, start, len, b',');
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
                #[allow(clippy::cast_possible_wrap)]
                NodeKind::I64 => out.integer(node.payload() as i64, b','),
                NodeKind::U64 => out.integer(node.payload(), b','),
                NodeKind::BOOL if node.payload() == 0 => out.text(b"false", b','),
                NodeKind::BOOL => out.text(b"true", b','),
                NodeKind::NULL => out.text(b"null", b','),
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

fn range(bytes: &[u8], node: &Node) -> Result<(usize, usize), Error> {
    let start = usize::try_from(node.payload()).map_err(|_| forged())?;
    let len = node.len() as usize;
    match start.checked_add(len) {
        Some(end) if end <= bytes.len() => Ok((start, len)),
        _ => Err(forged()),
    }
}
