//! Metadata: what is known about an event besides its payload.

use abi_stable::std_types::RVec;

use super::{
    Batch, Event, Span,
    event::{IN_NODES, Location},
    fill::narrow,
};
use crate::{
    ByteBuffer, NodeBuffer,
    document::{Document, ValueRef, Writer},
    error::PluginError,
    value::{Object, Value},
};

impl Event {
    /// Returns the root of the metadata, if that is a part of the batch's document.
    #[inline]
    pub(super) const fn metadata_root(&self) -> Option<u32> {
        Location::new(self.metadata).root()
    }

    /// Returns the position of the metadata in the batch's values, if it is one of those.
    #[inline]
    pub(super) const fn metadata_value(&self) -> Option<u32> {
        Location::new(self.metadata).value()
    }

    /// Returns the root of the origin, if that is a part of the batch's document.
    #[inline]
    pub(super) const fn origin_root(&self) -> Option<u32> {
        Location::new(self.origin).root()
    }

    /// Returns the position of the origin in the batch's values, if it is one of those.
    #[inline]
    pub(super) const fn origin_value(&self) -> Option<u32> {
        Location::new(self.origin).value()
    }
}

/// What of another batch was copied last, and where to: neighbours usually have the same origin, and all pieces
/// of a message have its metadata. As events have it.
#[derive(Default)]
pub(super) struct Kept {
    metadata: (u32, u32),
    origin: (u32, u32),
}

impl Kept {
    /// Makes an event of another batch one of the batch that these buffers and values belong to,
    /// where its payload lies already: copies its metadata and origin.
    pub(super) fn adopt(
        &mut self,
        event: &mut Event,
        from: &Batch,
        bytes: &mut ByteBuffer,
        nodes: &mut NodeBuffer,
        values: &mut Values,
    ) {
        // The bytes that it was decoded from stay where they are.
        event.original = Span::default();
        self.relocate(event, |word| match Location::new(word) {
            // Metadata that does not fit into 64 GiB of nodes is left out.
            Location::Document(root) => {
                let copy = from.document(root).copy_to(bytes, nodes);
                copy.map_or(0, |root| (root + 1) | IN_NODES)
            }
            Location::Value(index) => copy_value(index, from, values),
            Location::None => 0,
        });
    }

    /// As [`Kept::adopt`], for a batch with the same buffers.
    pub(super) fn adopt_values(&mut self, event: &mut Event, from: &Batch, values: &mut Values) {
        self.relocate(event, |word| match Location::new(word) {
            Location::Value(index) => copy_value(index, from, values),
            Location::Document(_) | Location::None => word,
        });
    }

    /// Replaces the words for metadata and origin by those that `copy` returns, which is called once for neighbours that
    /// have the same.
    #[inline]
    fn relocate(&mut self, event: &mut Event, mut copy: impl FnMut(u32) -> u32) {
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
    }
}

/// Copies a value of another batch to the end of `values`. Returns the word that locates it, and 0 if it does not exist.
#[inline(never)]
fn copy_value(index: u32, from: &Batch, values: &mut Values) -> u32 {
    let Some(value) = from.values.get(index as usize) else { return 0 };
    values.push(value.clone());
    narrow(values.len())
}

/// The values of a batch.
type Values = RVec<Value<'static>>;

impl Batch {
    /// The buffers and the values, to write to: this batch's own from here on.
    pub(super) fn parts_mut(&mut self) -> (&mut ByteBuffer, &mut NodeBuffer, &mut Values) {
        self.buffers_mut();
        match self.shared.storage_mut() {
            Some(storage) => (&mut storage.bytes, &mut storage.nodes, &mut self.values),
            None => unreachable!("they have just been made this batch's own"),
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

    /// Returns the value at the location that `word` encodes.
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
            // Its own buffers would have to be copied for it.
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

/// Writes one value; the topmost bit of its root is free to say that it is one.
fn document(
    bytes: &mut ByteBuffer,
    nodes: &mut NodeBuffer,
    write: impl FnOnce(&mut Writer<'_>),
) -> Result<u32, PluginError> {
    let mut writer = Writer::new(bytes, nodes);
    write(&mut writer);
    let root = writer.finish().map_err(PluginError::internal)?;
    debug_assert!(root < IN_NODES - 1);
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::Batch;
    use crate::{
        batch::{Payload, Pool},
        literal,
    };

    #[test]
    fn an_encoded_event_has_the_metadata_and_origin_of_its_value() {
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
    fn metadata_is_written_beside_the_payloads_or_kept_as_a_value() {
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
    fn writing_to_a_shared_batch_leaves_the_buffers_and_the_other_batch_alone() {
        let mut batch = batch();
        let other = batch.clone();
        batch.write_metadata(0, |writer| writer.bool(true)).unwrap();
        assert_eq!(seen(&batch), ["true", ""]);
        assert_eq!(seen(&other), ["", ""]);
        assert!(std::ptr::eq(batch.bytes(), other.bytes()));
    }

    #[test]
    fn an_edit_of_metadata_that_two_events_share_changes_one_of_them() {
        let mut batch = Batch::new();
        batch.push_message(b"one,two");
        batch.set_metadata(0, literal!({ "from": "here" }));
        batch.cut(|cutter| {
            cutter.emit(0..3);
            cutter.emit(4..7);
        });
        let own = batch.metadata_mut(1);
        own.as_object_mut().unwrap().insert("n", 2);
        assert_eq!(seen(&batch), [r#"{"from":"here"}"#, r#"{"from":"here","n":2}"#]);
    }

    #[test]
    fn what_is_not_one_value_is_refused_and_nothing_changes() {
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
