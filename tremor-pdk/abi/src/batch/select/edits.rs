//! Setting and removing fields.

use std::ops::Range;

use super::{Branch, SelectionError, Splice, apart, depth::check_depth, names};
use crate::{
    ByteBuffer, NodeBuffer,
    batch::{
        Batch, Event, EventMut, PayloadKind,
        append::subtree,
        event::{IN_NODES, Location},
        fill::narrow_location,
    },
    document::{Document, Node, ValueRef, Writer},
    error::PluginError,
    value::{Path, Value},
};

/// A part of an event that is a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The payload.
    Payload,
    /// The metadata.
    Metadata,
}

/// A compiled list of the fields of an object to set and to remove. Each field is identified by the path of keys that
/// leads to it; the empty path is the whole value.
///
/// A field that exists keeps its position, and a new field becomes the last field of its object. Several new fields are
/// in the order of the list. Missing objects on the path are created. A value on the path that is not an object is
/// replaced by an object.
///
/// Applied to a document, edits copy 16-byte nodes and no text of the other fields: see [`EventMut::edit`].
#[derive(Clone, Debug)]
pub struct Edits {
    root: Branch,
    /// For each field that is set, the number of keys of its path.
    depths: Vec<usize>,
    removes: bool,
    /// For each field that is set, the range of the nodes of its value in the current event.
    found: Vec<Option<Range<usize>>>,
}

impl Edits {
    /// Compiles a list of fields to set and of fields to remove.
    ///
    /// # Errors
    /// Returns an error if a path contains an index, or if one of the fields is a part of another field.
    pub fn new(set: &[Path], remove: &[Path]) -> Result<Self, SelectionError> {
        let mut root = Branch::new(true);
        match (set, remove) {
            ([whole], []) if whole.is_empty() => root.put = Some(0),
            ([], [whole]) if whole.is_empty() => root.keeps = false,
            _ => {
                apart(&[set, remove].concat(), "are edited")?;
                for path in remove {
                    root.set(&names(path)?, false);
                }
                for (number, path) in set.iter().enumerate() {
                    root.put(&names(path)?, number);
                }
            }
        }
        let depth = |path: &Path| path.keys().map_or(0, |keys| keys.len());
        let depths = set.iter().map(depth).collect();
        Ok(Self { root, depths, removes: !remove.is_empty(), found: Vec::new() })
    }

    /// Writes the object that results from setting the only field of the list to the value at the nodes `value`.
    pub(in crate::batch) fn put(
        &mut self,
        bytes: &mut ByteBuffer,
        nodes: &mut NodeBuffer,
        root: Option<usize>,
        value: Range<usize>,
    ) -> usize {
        self.found.clear();
        self.found.push(Some(value));
        Splice::new(bytes, nodes, &mut self.found, true).written(root, &self.root)
    }
}

/// Receives the value of a field that is set: see [`EventMut::edit`].
pub struct FieldWriter<'e> {
    bytes: &'e mut ByteBuffer,
    nodes: &'e mut NodeBuffer,
    values: &'e [Value<'static>],
    event: Event,
    written: Result<Option<Range<usize>>, PluginError>,
}

impl FieldWriter<'_> {
    /// Sets the field to the value that `write` writes.
    pub fn write(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        let mut writer = Writer::new(self.bytes, self.nodes);
        write(&mut writer);
        self.written = match writer.finish() {
            Ok(root) => Ok(Some(subtree(self.nodes, root as usize))),
            Err(error) => Err(PluginError::bad_data(error)),
        };
    }

    /// Sets the field to the value that the event has at `path` before the edits. If the event has no value there, the
    /// field stays unchanged. Text is not copied, unless `part` is stored as a [`Value`].
    pub fn copy(&mut self, part: Part, path: &Path) {
        let index = match part {
            Part::Payload if self.event.kind == PayloadKind::DOCUMENT => {
                return self.copy_nodes(self.event.payload.start, path);
            }
            Part::Payload if self.event.kind == PayloadKind::VALUE => self.event.payload.start,
            Part::Payload => return,
            Part::Metadata => match Location::new(self.event.metadata) {
                Location::None => return,
                Location::Document(root) => return self.copy_nodes(root, path),
                Location::Value(index) => index,
            },
        };
        let values = self.values;
        let value = values.get(index as usize).and_then(|value| value.view().get_path(path));
        if let Some(value) = value {
            self.write(|writer| writer.write_value(value));
        }
    }

    fn copy_nodes(&mut self, root: u32, path: &Path) {
        let found = Document::new(&*self.bytes, &*self.nodes).root(root).get_path(path);
        let first = self.nodes.as_ptr().addr();
        let range = found.and_then(ValueRef::nodes).map(|nodes| {
            let start = (nodes.as_ptr().addr() - first) / size_of::<Node>();
            start..start + nodes.len()
        });
        self.written = Ok(range);
    }
}

impl EventMut<'_> {
    /// Sets and removes fields of the payload or the metadata. For each field that is set, `write` is called with the
    /// position of the field in the list of [`Edits::new`]. A field for which `write` writes nothing stays unchanged.
    /// All values are written before the first field changes, so that copied values are those of the event before the
    /// edits.
    ///
    /// If no field changes, the event stays unedited. Memory is allocated only if the buffers grow, or are shared with
    /// another batch.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if a field is set and the part is not an object, or if a value cannot be
    /// written. The event then stays unchanged.
    pub fn edit(
        &mut self,
        part: Part,
        edits: &mut Edits,
        write: impl FnMut(usize, &mut FieldWriter<'_>),
    ) -> Result<(), PluginError> {
        let (batch, position) = self.in_batch();
        batch.edit_part(position, part, edits, None, write)
    }

    /// Sets and removes fields like [`EventMut::edit`], and limits the growth of the event. `capacity` is the number of
    /// bytes of nodes and text by which the part may grow, with shared text counted for each of its uses. The growth is
    /// subtracted from `capacity`.
    ///
    /// # Errors
    /// Returns the errors of [`EventMut::edit`], and an error of kind "bad data" if the part would grow by more than
    /// `capacity`. The event then stays unchanged.
    pub fn edit_within(
        &mut self,
        part: Part,
        edits: &mut Edits,
        capacity: &mut usize,
        write: impl FnMut(usize, &mut FieldWriter<'_>),
    ) -> Result<(), PluginError> {
        let (batch, position) = self.in_batch();
        batch.edit_part(position, part, edits, Some(capacity), write)
    }
}

impl Batch {
    fn edit_part(
        &mut self,
        position: usize,
        part: Part,
        edits: &mut Edits,
        capacity: Option<&mut usize>,
        mut write: impl FnMut(usize, &mut FieldWriter<'_>),
    ) -> Result<(), PluginError> {
        let is_whole = edits.root.put.is_some();
        if part == Part::Metadata && edits.removes && !edits.root.keeps {
            self.events[position].metadata = 0;
            return Ok(());
        }
        // A part that is not an object is an error only if a field is set in it: it has no fields that could be removed.
        let old = if is_whole { Ok(None) } else { self.object_of(position, part) };
        let (old, wrong) = match old {
            Ok(old) => (old, None),
            Err(error) if self.value(&self.events[position]).is_none() => return Err(error),
            Err(error) => (None, Some(error)),
        };
        let event = self.events[position];
        let (bytes, nodes, values) = self.parts_mut();
        let before = (bytes.len(), nodes.len());
        edits.found.clear();
        for (number, depth) in edits.depths.iter().enumerate() {
            let mut field =
                FieldWriter { bytes, nodes, values: values.as_slice(), event, written: Ok(None) };
            write(number, &mut field);
            let written = field.written.and_then(|written| {
                written
                    .as_ref()
                    .map_or(Ok(()), |value| check_depth(&nodes[value.clone()], *depth))?;
                Ok(written)
            });
            match written {
                Ok(written) => edits.found.push(written),
                Err(error) => {
                    bytes.truncate(before.0);
                    nodes.truncate(before.1);
                    return Err(error);
                }
            }
        }
        let is_set = edits.found.iter().any(Option::is_some);
        if !is_set && (!edits.removes || old.is_none()) {
            return Ok(());
        }
        let changed = match (wrong, edits.found.first()) {
            (Some(error), _) => Err(error),
            (None, Some(Some(value))) if is_whole => Ok(Some(value.start)),
            (None, _) => Ok(Splice::new(&mut *bytes, &mut *nodes, &mut edits.found, true)
                .changed(old.map(|root| root as usize), &edits.root)),
        };
        let Ok(Some(root)) = changed else {
            bytes.truncate(before.0);
            nodes.truncate(before.1);
            return changed.map(drop);
        };
        let root = narrow_location(root);
        if let Some(capacity) = capacity {
            let size = |root| {
                let (nodes, text) = self.document_size(root);
                nodes + text
            };
            let growth = size(root).saturating_sub(old.map_or(0, size));
            let Some(left) = capacity.checked_sub(growth) else {
                let (bytes, nodes) = self.buffers_mut();
                bytes.truncate(before.0);
                nodes.truncate(before.1);
                return Err(PluginError::bad_data(format_args!(
                    "cannot set fields: the event would grow by {growth} bytes, and the limit for the remaining \
                     events of its batch is {capacity} bytes; set fewer or smaller fields"
                )));
            };
            *capacity = left;
        }
        let event = &mut self.events[position];
        match part {
            Part::Payload => {
                event.set_document(root);
            }
            Part::Metadata => event.metadata = (root + 1) | IN_NODES,
        }
        Ok(())
    }

    /// Returns the root of a part of an event, or `None` if the part is metadata that the event does not have. An
    /// edited value is first written to the document. Returns an error if the part is not an object.
    fn object_of(&mut self, position: usize, part: Part) -> Result<Option<u32>, PluginError> {
        let event = self.events[position];
        let value = match part {
            Part::Payload => self.value(&event),
            Part::Metadata => match self.metadata(&event) {
                None => return Ok(None),
                metadata => metadata,
            },
        };
        if value.and_then(ValueRef::as_object).is_none() {
            let found = value.map_or("no value", |value| value.shape().name());
            let what = if part == Part::Payload { "" } else { " as metadata" };
            return Err(PluginError::bad_data(format_args!(
                "expected an object{what} to edit fields of, found {found}"
            )));
        }
        Ok(Some(match (part, Location::new(event.metadata)) {
            (Part::Payload, _) => self.document_of(position)?,
            (Part::Metadata, Location::Document(root)) => root,
            (Part::Metadata, _) => {
                let metadata = self.metadata(&event).map(ValueRef::to_value).unwrap_or_default();
                let (bytes, nodes) = self.buffers_mut();
                metadata.view().copy_to(bytes, nodes).map_err(PluginError::bad_data)?
            }
        }))
    }

    /// Returns the root of the payload of an event, which must be a value. An edited payload is first written to the
    /// document.
    pub(in crate::batch) fn document_of(&mut self, position: usize) -> Result<u32, PluginError> {
        let event = self.events[position];
        if event.kind != PayloadKind::VALUE {
            return Ok(event.payload.start);
        }
        let root = self.put_back(event.payload.start as usize)?;
        let event = &mut self.events[position];
        event.set_document(root);
        Ok(root)
    }
}

#[cfg(test)]
mod tests;
