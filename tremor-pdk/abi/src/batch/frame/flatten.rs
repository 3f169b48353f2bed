//! Conversion of the values in a batch's table of values to documents.

use super::{
    FrameError,
    source::{MAX_RETAINED_BYTES, reset},
};
use crate::{
    ByteBuffer, NodeBuffer,
    batch::{Batch, Event, PayloadKind, event::IN_NODES, event::Location},
    document::{Node, Writer, root_index},
    value::Value,
};

/// The events of a batch without edited values, and the documents that replace the values.
#[derive(Default)]
pub(super) struct Flat {
    pub(super) events: Vec<Event>,
    pub(super) nodes: NodeBuffer,
    pub(super) bytes: ByteBuffer,
    roots: Vec<Option<u32>>,
}

impl Flat {
    /// Converts the values of `batch` to documents. The indices of their nodes and the offsets of their text continue
    /// those of the batch's buffers.
    pub(super) fn fill(&mut self, batch: &Batch) -> Result<(), FrameError> {
        reset(&mut self.events);
        self.events.extend_from_slice(batch.events());
        let retained = self.bytes.capacity() + self.nodes.capacity() * size_of::<Node>();
        if retained > MAX_RETAINED_BYTES {
            (self.bytes, self.nodes) = (ByteBuffer::new(), NodeBuffer::new());
        }
        self.nodes.clear();
        self.bytes.clear();
        let bases = (batch.nodes().len(), batch.bytes().len());
        let mut documents = Documents {
            values: &batch.values,
            roots: &mut self.roots,
            nodes: &mut self.nodes,
            bytes: &mut self.bytes,
            bases,
        };
        documents.replace(&mut self.events)
    }
}

/// Writes documents for values.
struct Documents<'f> {
    values: &'f [Value<'static>],
    /// Root of the document of each value that is written.
    roots: &'f mut Vec<Option<u32>>,
    nodes: &'f mut NodeBuffer,
    bytes: &'f mut ByteBuffer,
    /// Numbers of nodes and bytes that precede those of `nodes` and `bytes`.
    bases: (usize, usize),
}

impl Documents<'_> {
    /// Replaces the locations in the table of values by locations of documents. Events that share a value share its
    /// document.
    fn replace(&mut self, events: &mut [Event]) -> Result<(), FrameError> {
        self.roots.clear();
        self.roots.resize(self.values.len(), None);
        for (position, event) in events.iter_mut().enumerate() {
            if event.kind == PayloadKind::VALUE {
                let root = self.root(position, event.payload.start)?;
                // Clears the flags of formats, which an edited value has only if a plugin has forged them.
                event.set_document(root);
            }
            if let Location::Value(index) = Location::new(event.metadata) {
                event.metadata = (self.root(position, index)? + 1) | IN_NODES;
            }
            if let Location::Value(index) = Location::new(event.origin) {
                // An origin that is not text is read as if there were none.
                let is_text = matches!(self.values.get(index as usize), Some(Value::String(_)));
                event.origin =
                    if is_text { (self.root(position, index)? + 1) | IN_NODES } else { 0 };
            }
        }
        Ok(())
    }

    /// Returns the root of the document of a value, and writes the document if this is the first call for the value.
    fn root(&mut self, position: usize, index: u32) -> Result<u32, FrameError> {
        let Some(value) = self.values.get(index as usize) else {
            let fault =
                "refers to a value outside of its batch; validate the batch before writing it";
            return Err(FrameError::Event { position, fault: fault.to_owned() });
        };
        if let Some(root) = self.roots[index as usize] {
            return Ok(root);
        }
        let unwritable = |error| FrameError::Value { position, error };
        let first = self.nodes.len();
        let root = root_index(self.bases.0 + first).map_err(unwritable)?;
        let mut writer = Writer::new(self.bytes, self.nodes);
        writer.write_value(value.into());
        writer.finish().map_err(unwritable)?;
        if self.bases.1 > 0 {
            let moved = self.nodes.iter_mut().skip(first).filter(|node| node.kind().has_data());
            moved.for_each(|node| *node = node.moved_to(node.payload() + self.bases.1 as u64));
        }
        self.roots[index as usize] = Some(root);
        Ok(root)
    }
}

/// Replaces the edited values of a batch by documents in its own buffers, and copies the contents of its events to new
/// buffers if the events use less than half of the old ones. After an error, the events are unchanged.
pub(super) fn flatten(batch: &mut Batch, roots: &mut Vec<Option<u32>>) -> Result<(), FrameError> {
    batch.compact_sparse();
    if batch.values.is_empty() {
        return Ok(());
    }
    let mut events = std::mem::take(&mut batch.events);
    let values = std::mem::take(&mut batch.values);
    let before = events.to_vec();
    let (bytes, nodes) = batch.buffers_mut();
    let lens = (bytes.len(), nodes.len());
    let mut documents = Documents { values: &values, roots, nodes, bytes, bases: (0, 0) };
    let replaced = documents.replace(&mut events);
    if replaced.is_err() {
        bytes.truncate(lens.0);
        nodes.truncate(lens.1);
        events.clear();
        events.extend_from_copy_slice(&before);
        batch.values = values;
    }
    batch.events = events;
    replaced
}

impl Flat {
    /// Replaces the edited values of a batch: see [`flatten`].
    pub(super) fn flatten(&mut self, batch: &mut Batch) -> Result<(), FrameError> {
        flatten(batch, &mut self.roots)
    }
}
