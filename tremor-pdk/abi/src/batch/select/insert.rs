//! Writing a new value into the payload of an event, next to fields that are kept without copying their contents.

use std::ops::Range;

use super::{Branch, SelectionError, Splice, depth::check_depth, names};
use crate::{
    batch::{Batch, PayloadKind, append::subtree, fill::narrow},
    document::{Node, NodeKind, ValueRef, Writer, resolve_duplicates},
    error::PluginError,
    value::Path,
};

/// A compiled position in a payload, at which [`EventMut::insert`](super::super::EventMut::insert) puts a new value.
///
/// The path of the position consists of keys. Objects on the path that are missing are created, and other values on the
/// path are replaced by objects. With the empty path, the fields of the new value, which must be an object, are added
/// to the payload. If the payload has a field of the same name, the new field replaces this field and takes its
/// position.
#[derive(Clone, Debug)]
pub struct Insertion {
    root: Branch,
    /// `true` if the fields of the new value are added to the payload.
    merges: bool,
    /// Number of keys of the path of the new value.
    depth: usize,
    found: Vec<Option<Range<usize>>>,
}

impl Insertion {
    /// Compiles a position, and the path of a field that is removed from the payload when the value is inserted.
    ///
    /// # Errors
    /// Returns an error if a path contains an index, or if the path of the removed field is empty.
    pub fn new(target: &Path, removed: Option<&Path>) -> Result<Self, SelectionError> {
        let depth = target.keys().map_or(0, |keys| keys.len());
        let merges = target.is_empty();
        let mut root = Branch::new(true);
        if let Some(removed) = removed {
            root.set(&names(removed)?, false);
        }
        if !merges {
            root.put(&names(target)?, 0);
        }
        Ok(Self { root, merges, depth, found: Vec::new() })
    }
}

impl Batch {
    /// Implements [`EventMut::write_value`](super::super::EventMut::write_value).
    pub(in crate::batch) fn write_value(
        &mut self,
        position: usize,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), PluginError>,
    ) -> Result<(), PluginError> {
        let (bytes, nodes) = self.buffers_mut();
        let mut writer = Writer::new(bytes, nodes);
        write(&mut writer)?;
        let root = writer.finish().map_err(PluginError::bad_data)?;
        self.set_root(position, root);
        Ok(())
    }

    /// Implements [`EventMut::insert`](super::super::EventMut::insert).
    pub(in crate::batch) fn insert(
        &mut self,
        position: usize,
        insertion: &mut Insertion,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), PluginError>,
    ) -> Result<(), PluginError> {
        let event = self.events[position];
        let is_object = self.value(&event).and_then(ValueRef::as_object).is_some();
        if insertion.merges && !is_object {
            let found = self.value(&event).map_or("no value", |value| value.shape().name());
            let message = format_args!("expected an object to add fields to, found {found}");
            return Err(PluginError::bad_data(message));
        }
        let (bytes, nodes) = self.buffers_mut();
        let before = bytes.len();
        let mut writer = Writer::new(bytes, nodes);
        write(&mut writer)?;
        let new = writer.finish().map_err(PluginError::bad_data)? as usize;
        let checked = if insertion.merges && nodes[new].kind() != NodeKind::OBJECT {
            Err(PluginError::bad_data("expected an object whose fields are added"))
        } else if insertion.depth > 0 {
            check_depth(&nodes[subtree(nodes, new)], insertion.depth)
        } else {
            Ok(())
        };
        if checked.is_err() {
            bytes.truncate(before);
            nodes.truncate(new);
            return checked;
        }
        // An edited value is written back after the new value was written, so that an error leaves the event unchanged.
        let old = match event.kind {
            PayloadKind::VALUE => match self.put_back(event.payload.start as usize) {
                Ok(root) => Some(root),
                Err(error) => {
                    let (bytes, nodes) = self.buffers_mut();
                    bytes.truncate(before);
                    nodes.truncate(new);
                    return Err(error);
                }
            },
            PayloadKind::DOCUMENT => Some(event.payload.start),
            _ => None,
        };
        let (bytes, nodes) = self.buffers_mut();
        let value = subtree(nodes, new);
        let end = nodes.len();
        insertion.found.clear();
        insertion.found.push(Some(value.clone()));
        let old = old.filter(|_| is_object).map(|root| root as usize);
        let found = &mut insertion.found;
        Splice::new(&mut *bytes, &mut *nodes, found, false).written(old, &insertion.root);
        if insertion.merges {
            let pairs = value.start + 1..value.end;
            let (kept, added) = (nodes[end].len(), nodes[new].len());
            let last = nodes.len();
            nodes.resize(last + pairs.len(), Node::null());
            nodes.copy_within(pairs, last);
            nodes[end] = Node::object(kept.saturating_add(added), (nodes.len() - end) as u64);
            resolve_duplicates(bytes, nodes, end);
        }
        // The result moves to the position of the new value, because the result contains a copy of the nodes of this
        // value.
        nodes.copy_within(end.., new);
        nodes.truncate(new + nodes.len() - end);
        self.set_root(position, narrow(new));
        Ok(())
    }

    fn set_root(&mut self, position: usize, root: u32) {
        let event = &mut self.events[position];
        event.set_document(root);
    }
}

#[cfg(test)]
mod tests {
    use super::Insertion;
    use crate::{
        batch::{Batch, EventMut},
        error::PluginError,
        literal,
        value::{Path, Value},
    };

    fn batch(payload: &Value<'static>, edited: bool) -> Batch {
        let mut batch = Batch::new();
        batch.push(&literal!({ "first": 1 })).unwrap();
        batch.push(payload).unwrap();
        if edited {
            *batch.value_mut(1).unwrap() = payload.clone();
        }
        batch
    }

    fn inserted(
        payload: &Value<'static>,
        edited: bool,
        (target, removed): (&str, Option<&str>),
        new: &Value<'static>,
    ) -> Result<String, PluginError> {
        let mut batch = batch(payload, edited);
        let target: Path = target.parse().unwrap();
        let removed: Option<Path> = removed.map(|path| path.parse().unwrap());
        let mut insertion = Insertion::new(&target, removed.as_ref()).unwrap();
        let mut event = EventMut::new(&mut batch, 1);
        event.insert(&mut insertion, |writer| {
            writer.write_value(new.view());
            Ok(())
        })?;
        let text = event.value().unwrap().to_string();
        batch.validate().unwrap();
        assert_eq!(batch.get(0).unwrap().value().unwrap().to_string(), r#"{"first":1}"#);
        Ok(text)
    }

    #[test]
    fn value_is_inserted_next_to_fields_that_are_kept() {
        let payload =
            literal!({ "message": "text", "host": { "name": "h", "old": [1, 2] }, "n": 7 });
        let new = literal!({ "n": 8, "level": "warn" });
        for edited in [false, true] {
            let text = |paths| inserted(&payload, edited, paths, &new).unwrap();
            assert_eq!(
                text(("", Some("message"))),
                r#"{"host":{"name":"h","old":[1,2]},"n":8,"level":"warn"}"#
            );
            assert_eq!(
                text(("", None)),
                r#"{"message":"text","host":{"name":"h","old":[1,2]},"n":8,"level":"warn"}"#
            );
            assert_eq!(
                text(("host.old", Some("message"))),
                r#"{"host":{"name":"h","old":{"n":8,"level":"warn"}},"n":7}"#
            );
            assert_eq!(
                text(("a.b", Some("host.name"))),
                r#"{"message":"text","host":{"old":[1,2]},"n":7,"a":{"b":{"n":8,"level":"warn"}}}"#
            );
            assert_eq!(
                text(("message", Some("message"))),
                r#"{"host":{"name":"h","old":[1,2]},"n":7,"message":{"n":8,"level":"warn"}}"#
            );
        }
    }

    #[test]
    fn payload_that_is_not_an_object_is_replaced_only_at_a_path() {
        let payload = literal!("text");
        for edited in [false, true] {
            let text = inserted(&payload, edited, ("a", None), &literal!([1])).unwrap();
            assert_eq!(text, r#"{"a":[1]}"#);
            let error = inserted(&payload, edited, ("", None), &literal!({})).unwrap_err();
            assert!(error.to_string().contains("found text"), "{error}");
        }
    }

    #[test]
    fn failed_insertion_leaves_event_unchanged() {
        let payload = literal!({ "a": "text" });
        for edited in [false, true] {
            let mut batch = batch(&payload, edited);
            let (bytes, nodes) = (batch.bytes().len(), batch.nodes().len());
            let mut insertion = Insertion::new(&"".parse().unwrap(), None).unwrap();
            let mut event = EventMut::new(&mut batch, 1);
            let failed = event.insert(&mut insertion, |writer| {
                writer.begin_object();
                Err(PluginError::bad_data("stopped"))
            });
            assert!(failed.unwrap_err().to_string().contains("stopped"));
            assert!(event.insert(&mut insertion, |_| Ok(())).is_err());
            let number = |writer: &mut crate::document::Writer<'_>| {
                writer.i64(1);
                Ok(())
            };
            assert!(event.insert(&mut insertion, number).is_err());
            assert_eq!(event.value().unwrap().to_string(), r#"{"a":"text"}"#);
            assert_eq!((batch.bytes().len(), batch.nodes().len()), (bytes, nodes));
        }
    }

    /// A value of 512 levels fits only at the root.
    #[test]
    fn too_deep_inserted_value_is_an_error_and_changes_nothing() {
        let deep = (0..511).fold(literal!({}), |deep, _| literal!({ "a": deep }));
        for (target, is_possible) in [("", true), ("b", false)] {
            let mut batch = batch(&literal!({ "n": 1 }), false);
            let sizes = (batch.bytes().len(), batch.nodes().len());
            let mut insertion = Insertion::new(&target.parse().unwrap(), None).unwrap();
            let done = EventMut::new(&mut batch, 1).insert(&mut insertion, |writer| {
                writer.write_value(deep.view());
                Ok(())
            });
            batch.validate().unwrap();
            assert_eq!(done.is_ok(), is_possible, "{target}");
            if let Err(error) = done {
                let expected =
                    "cannot set a field: the event would be nested deeper than 512 levels";
                assert_eq!(error.to_string(), expected);
                assert_eq!((batch.bytes().len(), batch.nodes().len()), sizes);
            }
        }
    }

    #[test]
    fn insertion_leaves_other_owners_of_the_buffers_unchanged() {
        let mut batch = batch(&literal!({ "a": 1 }), false);
        let other = batch.clone();
        let mut insertion = Insertion::new(&"b".parse().unwrap(), None).unwrap();
        let mut event = EventMut::new(&mut batch, 1);
        event
            .insert(&mut insertion, |writer| {
                writer.bool(true);
                Ok(())
            })
            .unwrap();
        event
            .write_value(|writer| {
                writer.str("whole");
                Ok(())
            })
            .unwrap();
        assert_eq!(batch.get(1).unwrap().value().unwrap().as_str(), Some("whole"));
        assert_eq!(other.get(1).unwrap().value().unwrap().to_string(), r#"{"a":1}"#);
    }

    #[test]
    fn index_in_a_path_is_an_error() {
        assert!(Insertion::new(&"a[0]".parse().unwrap(), None).is_err());
        assert!(Insertion::new(&"a".parse().unwrap(), Some(&"".parse().unwrap())).is_err());
    }
}
