//! Fields that are written once and added to the metadata of many events.

use super::{Batch, event::IN_NODES};
use crate::{
    ByteBuffer, NodeBuffer,
    document::{Document, Shape, ValueRef, WriteError, Writer, root_index},
    error::PluginError,
};

/// Fields that are written once and added to the metadata of many events, by [`EventMut::add_metadata`].
///
/// [`EventMut::add_metadata`]: super::EventMut::add_metadata
#[derive(Clone, Debug)]
pub struct MetadataFields {
    bytes: ByteBuffer,
    /// A valid object, whose root is the first node.
    nodes: NodeBuffer,
}

impl MetadataFields {
    /// Creates the fields that `write` writes: pairs of keys and values.
    ///
    /// # Errors
    /// Returns an error of kind "internal" if `write` writes anything else.
    pub fn new(write: impl FnOnce(&mut Writer<'_>)) -> Result<Self, PluginError> {
        let (mut bytes, mut nodes) = (ByteBuffer::new(), NodeBuffer::new());
        let mut writer = Writer::new(&mut bytes, &mut nodes);
        writer.begin_object();
        write(&mut writer);
        writer.end_object();
        writer.finish().map_err(PluginError::internal)?;
        Ok(Self { bytes, nodes })
    }

    /// Returns the size of the nodes and the text of the fields, in bytes.
    pub fn size(&self) -> usize {
        size_of_val(self.nodes.as_slice()) + self.bytes.len()
    }

    fn value(&self) -> ValueRef<'_> {
        Document::new(&self.bytes, &self.nodes).root(0)
    }

    /// Appends a copy to the buffers of a document, and returns the index of its root. After an error, nothing is
    /// appended.
    fn copy_to(&self, bytes: &mut ByteBuffer, nodes: &mut NodeBuffer) -> Result<u32, WriteError> {
        let first = nodes.len();
        let root = root_index(first)?;
        let distance = bytes.len() as u64;
        bytes.extend_from_copy_slice(&self.bytes);
        nodes.extend_from_copy_slice(&self.nodes);
        for node in nodes.iter_mut().skip(first).filter(|node| node.kind().has_data()) {
            *node = node.moved_to(node.payload() + distance);
        }
        Ok(root)
    }
}

impl Batch {
    pub(crate) fn add_metadata_to_all(
        &mut self,
        fields: &MetadataFields,
    ) -> Result<(), PluginError> {
        let mut result = Ok(());
        // The location of the metadata of the last event, before and after the fields were added.
        let mut last = None;
        for position in 0..self.events.len() {
            let before = self.events[position].metadata;
            if let Some((known, after)) = last
                && known == before
            {
                self.events[position].metadata = after;
                continue;
            }
            let added = self.add_metadata(position, fields);
            last = added.is_ok().then(|| (before, self.events[position].metadata));
            result = result.and(added);
        }
        result
    }

    pub(crate) fn add_metadata(
        &mut self,
        position: usize,
        fields: &MetadataFields,
    ) -> Result<(), PluginError> {
        if self.events[position].metadata == 0
            && let Some(storage) = self.shared.storage_mut()
        {
            let root = fields.copy_to(&mut storage.bytes, &mut storage.nodes);
            self.events[position].metadata = (root.map_err(PluginError::internal)? + 1) | IN_NODES;
            return Ok(());
        }
        self.extend_metadata(position, |writer| {
            let Shape::Object(pairs) = fields.value().shape() else { return };
            for (key, value) in pairs {
                writer.key(key);
                writer.write_value(value);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::MetadataFields;
    use crate::{batch::Batch, document::Writer, literal};

    fn write(writer: &mut Writer<'_>) {
        writer.key("class");
        writer.str("a");
        writer.key("rate");
        writer.i64(250);
        writer.key("from");
        writer.begin_array();
        writer.str("x");
        writer.null();
        writer.end_array();
    }

    fn batch() -> Batch {
        let mut batch = Batch::new();
        (0..4).for_each(|number| batch.push(&number).unwrap());
        batch.set_metadata(1, literal!({ "class": "tree", "other": "y" }));
        batch.set_metadata(2, literal!("no object"));
        let known = |writer: &mut Writer<'_>| {
            writer.key("other");
            writer.str("z");
            writer.key("rate");
            writer.null();
        };
        batch.extend_metadata(3, known).unwrap();
        batch
    }

    fn metadata(batch: &Batch) -> Vec<String> {
        batch.validate().unwrap();
        let text = |event| batch.metadata(event).map(|metadata| metadata.to_string());
        batch.events().iter().map(|event| text(event).unwrap_or_default()).collect()
    }

    #[test]
    fn added_fields_are_those_that_would_have_been_written() {
        let fields = MetadataFields::new(write).unwrap();
        for is_shared in [false, true] {
            let [mut added, mut written, mut at_once] = [batch(), batch(), batch()];
            let other = is_shared.then(|| (added.clone(), written.clone(), at_once.clone()));
            // The second time, all events have the fields.
            for _ in 0..2 {
                for position in 0..4 {
                    added.add_metadata(position, &fields).unwrap();
                    written.extend_metadata(position, write).unwrap();
                }
                at_once.add_metadata_to_all(&fields).unwrap();
                assert_eq!(metadata(&added), metadata(&written));
                assert_eq!(metadata(&at_once), metadata(&written));
            }
            if let Some((other, ..)) = other {
                assert_eq!(metadata(&other), metadata(&batch()));
            }
        }
    }

    #[test]
    fn events_with_the_same_metadata_share_added_fields() {
        let fields = MetadataFields::new(write).unwrap();
        for is_shared in [false, true] {
            let mut batch = Batch::new();
            (0..1_000).for_each(|number| batch.push(&number).unwrap());
            let (nodes, other) = (batch.nodes().len(), is_shared.then(|| batch.clone()));
            batch.add_metadata_to_all(&fields).unwrap();
            assert!(batch.nodes().len() + batch.values.len() < nodes + 20, "{is_shared}");
            let all = metadata(&batch);
            assert!(all.iter().all(|it| *it == all[0] && it.contains("rate")));
            drop(other);
        }
    }

    #[test]
    fn fields_are_pairs_of_keys_and_values() {
        assert!(MetadataFields::new(|_| {}).is_ok());
        assert!(MetadataFields::new(|writer| writer.str("no key")).is_err());
        assert!(MetadataFields::new(|writer| writer.key("no value")).is_err());
        let twice = MetadataFields::new(|writer| {
            for number in [1, 2] {
                writer.key("n");
                writer.i64(number);
            }
        });
        let twice = twice.unwrap();
        assert_eq!(
            (twice.value().to_string(), twice.size()),
            (r#"{"n":2}"#.to_owned(), 3 * 16 + 2)
        );
    }
}
