//! Metadata and origins of events.

use abi_stable::std_types::RVec;

use super::{
    Batch, Event, Span,
    event::{IN_NODES, Location},
    fill::narrow_location,
};
use crate::{
    ByteBuffer, NodeBuffer,
    document::{Document, Shape, ValueRef, Writer},
    error::PluginError,
    value::{Object, Value},
};

impl Event {
    /// Returns the index of the root node of the metadata, if the metadata is in the batch's nodes.
    #[inline]
    pub(super) const fn metadata_root(&self) -> Option<u32> {
        Location::new(self.metadata).root()
    }

    /// Returns the position of the metadata in the batch's table of values, if the metadata is in that table.
    #[inline]
    pub(super) const fn metadata_value(&self) -> Option<u32> {
        Location::new(self.metadata).value()
    }

    /// Returns the index of the root node of the origin, if the origin is in the batch's nodes.
    #[inline]
    pub(super) const fn origin_root(&self) -> Option<u32> {
        Location::new(self.origin).root()
    }

    /// Returns the position of the origin in the batch's table of values, if the origin is in that table.
    #[inline]
    pub(super) const fn origin_value(&self) -> Option<u32> {
        Location::new(self.origin).value()
    }

    /// Returns the locations of the metadata and the origin as one word, for comparison.
    #[inline]
    pub(super) const fn locations(&self) -> u64 {
        self.metadata as u64 | ((self.origin as u64) << 32)
    }

    /// Sets the locations of the metadata and the origin.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // each cast takes half of the word
    const fn set_locations(&mut self, word: u64) {
        (self.metadata, self.origin) = (word as u32, (word >> 32) as u32);
    }
}

/// The metadata and the origin that were copied last. Each field is a pair of the location in the source batch and the
/// location of the copy, encoded as in [`Event::metadata`]. Consecutive events usually have the same origin, and all
/// messages that were cut from one event have the same metadata, so that these are copied once.
#[derive(Default)]
pub(super) struct LastCopied {
    metadata: (u32, u32),
    origin: (u32, u32),
    /// Locations of the metadata and the origin of the last event, and the locations of the copies. Consecutive events
    /// usually have the same locations, so that one comparison is enough.
    last: (u64, u64),
}

impl LastCopied {
    /// Copies the metadata and the origin of an event from the batch `from` to the given buffers and values, and sets
    /// their new locations in `event`.
    pub(super) fn adopt(
        &mut self,
        event: &mut Event,
        from: &Batch,
        bytes: &mut ByteBuffer,
        nodes: &mut NodeBuffer,
        values: &mut Values,
    ) {
        // The bytes that the event was decoded from are not copied.
        event.original = Span::default();
        self.relocate(event, |word| match Location::new(word) {
            // Metadata that does not fit into 64 GiB of nodes is dropped.
            Location::Document(root) => {
                let copy = from.document(root).copy_to(bytes, nodes);
                copy.map_or(0, |root| (root + 1) | IN_NODES)
            }
            Location::Value(index) => copy_value(index, from, values),
            Location::None => 0,
        });
    }

    /// Moves an event as [`LastCopied::adopt`] does, to a batch that shares the buffers of `from`.
    pub(super) fn adopt_values(&mut self, event: &mut Event, from: &Batch, values: &mut Values) {
        self.relocate(event, |word| match Location::new(word) {
            Location::Value(index) => copy_value(index, from, values),
            Location::Document(_) | Location::None => word,
        });
    }

    /// Replaces the locations of metadata and origin with the results of `copy`, which is called once for consecutive
    /// events with the same location.
    #[inline]
    fn relocate(&mut self, event: &mut Event, mut copy: impl FnMut(u32) -> u32) {
        let locations = event.locations();
        if locations == self.last.0 {
            return event.set_locations(self.last.1);
        }
        if event.metadata != 0 {
            if self.metadata.0 != event.metadata {
                self.metadata = (event.metadata, copy(event.metadata));
            }
            event.metadata = self.metadata.1;
        }
        if event.origin != 0 {
            if self.origin.0 != event.origin {
                self.origin = (event.origin, copy(event.origin));
            }
            event.origin = self.origin.1;
        }
        self.last = (locations, event.locations());
    }
}

/// Copies a value of another batch to the end of `values`. Returns the location of the copy, or 0 if the value does not
/// exist.
#[inline(never)]
fn copy_value(index: u32, from: &Batch, values: &mut Values) -> u32 {
    let Some(value) = from.values.get(index as usize) else { return 0 };
    values.push(value.clone());
    narrow_location(values.len())
}

/// The values of a batch.
type Values = RVec<Value<'static>>;

impl Batch {
    /// Returns the buffers and the values for writing. If other batches share the buffers, first copies them for this
    /// batch.
    pub(super) fn parts_mut(&mut self) -> (&mut ByteBuffer, &mut NodeBuffer, &mut Values) {
        self.buffers_mut();
        match self.shared.storage_mut() {
            Some(storage) => (&mut storage.bytes, &mut storage.nodes, &mut self.values),
            None => unreachable!("`buffers_mut` leaves one reference to the storage"),
        }
    }

    #[inline]
    pub(crate) fn metadata(&self, event: &Event) -> Option<ValueRef<'_>> {
        self.located(event.metadata)
    }

    #[inline]
    pub(crate) fn origin(&self, event: &Event) -> Option<&str> {
        self.located(event.origin)?.as_str()
    }

    /// Returns the value at the location `word`.
    #[inline]
    fn located(&self, word: u32) -> Option<ValueRef<'_>> {
        match Location::new(word) {
            Location::None => None,
            Location::Value(position) => self.table(position),
            Location::Document(root) => Some(self.document(root)),
        }
    }

    pub(crate) fn set_metadata(&mut self, position: usize, metadata: Value<'static>) {
        let index = self.keep(metadata);
        self.events[position].metadata = index;
    }

    pub(crate) fn metadata_mut(&mut self, position: usize) -> &mut Value<'static> {
        let event = self.events[position];
        let own = match self.metadata(&event) {
            Some(metadata) => metadata.to_value(),
            None => Value::from(Object::new()),
        };
        self.set_metadata(position, own);
        let last = self.values.len() - 1;
        &mut self.values[last]
    }

    pub(crate) fn write_metadata(
        &mut self,
        position: usize,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(), PluginError> {
        let Some(storage) = self.shared.storage_mut() else {
            // The buffers are shared, and copying them would cost more than storing the metadata in the table of
            // values.
            let (mut bytes, mut nodes) = (ByteBuffer::new(), NodeBuffer::new());
            let root = document(&mut bytes, &mut nodes, write)?;
            let metadata = Document::new(&bytes, &nodes).root(root).to_value();
            self.set_metadata(position, metadata);
            return Ok(());
        };
        let root = document(&mut storage.bytes, &mut storage.nodes, write)?;
        self.events[position].metadata = (root + 1) | IN_NODES;
        Ok(())
    }
}

impl Batch {
    pub(crate) fn inherit(&mut self, from: &Self, events: &[Event]) {
        let mut copied = LastCopied::default();
        let mut own = std::mem::take(&mut self.events);
        let (bytes, nodes, values) = self.parts_mut();
        for (event, other) in own.iter_mut().zip(events) {
            event.set_locations(other.locations());
            copied.adopt(event, from, bytes, nodes, values);
        }
        self.events = own;
    }

    pub(crate) fn extend_metadata(
        &mut self,
        position: usize,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(), PluginError> {
        let event = self.events[position];
        let known = event.metadata_root();
        if event.metadata == 0 || (known.is_some() && self.shared.is_unique()) {
            return self.write_metadata(position, |writer| {
                writer.begin_object();
                if let Some(known) = known {
                    writer.copy_pairs(known);
                }
                write(writer);
                writer.end_object();
            });
        }
        let (mut bytes, mut nodes) = (ByteBuffer::new(), NodeBuffer::new());
        let root = document(&mut bytes, &mut nodes, |writer| {
            writer.begin_object();
            if let Some(Shape::Object(known)) = self.metadata(&event).map(ValueRef::shape) {
                for (key, value) in known {
                    writer.key(key);
                    writer.write_value(value);
                }
            }
            write(writer);
            writer.end_object();
        })?;
        let metadata = Document::new(&bytes, &nodes).root(root).to_value();
        self.set_metadata(position, metadata);
        Ok(())
    }
}

/// Writes one value and returns the index of its root node.
fn document(
    bytes: &mut ByteBuffer,
    nodes: &mut NodeBuffer,
    write: impl FnOnce(&mut Writer<'_>),
) -> Result<u32, PluginError> {
    let mut writer = Writer::new(bytes, nodes);
    write(&mut writer);
    writer.finish().map_err(PluginError::internal)
}

#[cfg(test)]
mod tests {
    use super::{Batch, IN_NODES, Location, narrow_location};
    use crate::{
        batch::{Payload, Pool},
        document::{WriteError, root_index},
        literal,
    };

    #[test]
    fn location_of_last_node_or_value_is_unambiguous() {
        let last = IN_NODES as usize - 2;
        let root = root_index(last).unwrap();
        assert_eq!(Location::new((root + 1) | IN_NODES).root(), Some(root));
        assert_eq!(Location::new(narrow_location(last)).value(), Some(root - 1));
        assert_eq!(root_index(last + 1), Err(WriteError::TooLarge));
    }

    #[test]
    fn encoded_event_keeps_metadata_and_origin() {
        let mut batch = batch();
        batch.set_origin("here");
        batch.write_metadata(0, |writer| writer.str("in the document")).unwrap();
        batch.set_metadata(1, literal!("a value"));
        let encode = |payload: Payload<'_>, bytes: &mut crate::ByteBuffer| {
            if let Payload::Document { .. } = payload {
                bytes.extend_from_copy_slice(b"encoded");
            }
            Ok(())
        };
        let (encoded, _) = batch.encode_with(&Pool::new(1), encode);
        encoded.validate().unwrap();
        assert_eq!(seen(&encoded), [r#""in the document""#, r#""a value""#]);
        for event in encoded.events() {
            assert_eq!(encoded.raw(event), Some(&b"encoded"[..]));
            assert_eq!(encoded.origin(event), Some("here"));
        }
    }

    fn batch() -> Batch {
        let mut batch = Batch::new();
        batch.push(&1).unwrap();
        batch.push(&2).unwrap();
        batch
    }

    fn seen(batch: &Batch) -> Vec<String> {
        let text = |event| batch.metadata(event).map(|metadata| metadata.to_string());
        batch.events().iter().map(|event| text(event).unwrap_or_default()).collect()
    }

    #[test]
    fn metadata_is_written_to_document_or_value_table() {
        let mut batch = batch();
        assert_eq!(seen(&batch), ["", ""]);
        batch.set_metadata(0, literal!({ "class": "a" }));
        batch
            .write_metadata(1, |writer| {
                writer.begin_object();
                writer.key("rate");
                writer.u64(250);
                writer.end_object();
            })
            .unwrap();
        assert_eq!(seen(&batch), [r#"{"class":"a"}"#, r#"{"rate":250}"#]);
        batch.validate().unwrap();
    }

    #[test]
    fn metadata_write_leaves_shared_buffers_unchanged() {
        let mut batch = batch();
        let other = batch.clone();
        batch.write_metadata(0, |writer| writer.bool(true)).unwrap();
        assert_eq!(seen(&batch), ["true", ""]);
        assert_eq!(seen(&other), ["", ""]);
        assert!(std::ptr::eq(batch.bytes(), other.bytes()));
    }

    #[test]
    fn edit_of_shared_metadata_changes_one_event() {
        let mut batch = Batch::new();
        batch.push_message(b"one,two");
        batch.set_metadata(0, literal!({ "from": "here" }));
        assert!(
            batch
                .cut(|cutter| {
                    cutter.emit(0..3);
                    cutter.emit(4..7);
                })
                .is_empty()
        );
        let own = batch.metadata_mut(1);
        own.as_object_mut().unwrap().insert("n", 2);
        assert_eq!(seen(&batch), [r#"{"from":"here"}"#, r#"{"from":"here","n":2}"#]);
    }

    #[test]
    fn extended_metadata_keeps_other_keys_and_other_events() {
        let long = "x".repeat(100);
        let known = literal!({ "file": { "path": long.clone() }, "class": "none" });
        let add = |writer: &mut crate::document::Writer<'_>| {
            writer.key("class");
            writer.str("a");
        };
        let old = format!(r#"{{"file":{{"path":"{long}"}},"class":"none"}}"#);
        let new = format!(r#"{{"file":{{"path":"{long}"}},"class":"a"}}"#);
        let extended = |batch: &mut Batch| {
            batch.extend_metadata(1, add).unwrap();
            batch.validate().unwrap();
            assert_eq!(seen(batch), [old.clone(), new.clone()]);
        };
        // Metadata in the document: its text is not copied.
        let mut batch = Batch::new();
        batch.push_message(b"one,two");
        batch.write_metadata(0, |writer| writer.write_value((&known).into())).unwrap();
        assert!(
            batch
                .cut(|cutter| {
                    cutter.emit(0..3);
                    cutter.emit(4..7);
                })
                .is_empty()
        );
        let before = batch.bytes().len();
        let other = batch.clone();
        extended(&mut batch);
        drop(other);
        let mut batch = batch.part(0..1);
        batch.push_message(b"x");
        batch.events[1].metadata = batch.events[0].metadata;
        extended(&mut batch);
        assert!(batch.bytes().len() < before + 20, "{}", batch.bytes().len());
        // Metadata in the table of values.
        let mut batch = self::batch();
        (0..2).for_each(|position| batch.set_metadata(position, known.clone()));
        extended(&mut batch);
        // Metadata that is not an object, and no metadata.
        let mut batch = self::batch();
        batch.set_metadata(0, literal!("text"));
        (0..2).for_each(|position| batch.extend_metadata(position, add).unwrap());
        assert_eq!(seen(&batch), [r#"{"class":"a"}"#, r#"{"class":"a"}"#]);
        assert!(batch.extend_metadata(0, |writer| writer.key("no value")).is_err());
    }

    #[test]
    fn metadata_write_without_one_value_changes_nothing() {
        let mut batch = batch();
        let before = batch.nodes().len();
        assert!(batch.write_metadata(0, |_| {}).is_err());
        assert!(
            batch
                .write_metadata(0, |writer| {
                    writer.begin_object();
                    writer.key("no value");
                })
                .is_err()
        );
        assert_eq!(batch.nodes().len(), before);
        assert_eq!(seen(&batch), ["", ""]);
    }
}
