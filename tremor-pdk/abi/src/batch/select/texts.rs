//! Replacing texts and numbers within fields, and forgetting the message that contained them.

use std::ops::Range;

use crate::{
    batch::{
        Batch, EventMut, PayloadKind,
        append::subtree,
        event::{EventFlags, IN_NODES, Location},
        fill::{narrow, narrow_location},
        select::Part,
    },
    document::{Document, Node, Shape, ValueRef},
    error::PluginError,
    value::Path,
};

/// A compiled list of fields of one part of an event, whose texts and numbers may be replaced by
/// [`EventMut::replace_texts`].
///
/// A field that is an array or an object stands for all values in it. Unlike in [`Edits`](super::Edits), fields may
/// overlap, may be elements of arrays, and may be the whole part.
#[derive(Clone, Debug)]
pub struct TextFields {
    part: Part,
    paths: Vec<Path>,
    /// For each path, the range of the nodes of its value in the current event; empty if there is no such value.
    ranges: Vec<Range<usize>>,
    /// Indices of the paths that contain the current value.
    within: Vec<usize>,
    /// Indices of the nodes that are replaced, with the ranges of their new contents in `contents`.
    replaced: Vec<(usize, Range<usize>, Replacement)>,
    contents: Vec<u8>,
}

/// The new value that the closure of [`EventMut::replace_texts`] has appended to the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The value stays unchanged.
    Unchanged,
    /// The appended bytes are text in UTF-8.
    Text,
    /// The appended bytes are binary data.
    Bytes,
}

/// Maximum capacity of the buffer of new texts that is kept for the next event, in bytes.
const MAX_KEPT: usize = 1 << 20;

impl TextFields {
    /// Compiles a list of fields of the payload or the metadata.
    #[must_use]
    pub fn new(part: Part, paths: Vec<Path>) -> Self {
        let (ranges, within, replaced, contents) = Default::default();
        Self { part, paths, ranges, within, replaced, contents }
    }
}

impl EventMut<'_> {
    /// Replaces texts, numbers and binary data within `fields`. `replace` is called once for each of them with the
    /// positions in the list of [`TextFields::new`] of the fields that contain the value, in ascending order, and
    /// appends the new value to the vector, which contains the new values of the same event so far. Keys of objects,
    /// truth values and `null` are never replaced. Returns whether a value was replaced.
    ///
    /// Copies 16-byte nodes, and no text of values that stay. If no value is replaced, the event stays unedited. Memory
    /// is allocated only if buffers grow, or are shared with another batch.
    ///
    /// `capacity` is the number of bytes that the nodes and the new values may take, and is reduced by the bytes that
    /// they take. [`Batch::growth_at_most`] returns a capacity for all events of a batch.
    ///
    /// # Errors
    /// Returns the error of `replace`, and an error of kind "bad data" if the event takes more than `capacity` bytes
    /// or a new text is not UTF-8. The event then stays unchanged.
    pub fn replace_texts(
        &mut self,
        fields: &mut TextFields,
        capacity: &mut usize,
        replace: impl FnMut(ValueRef<'_>, &[usize], &mut Vec<u8>) -> Result<Replacement, PluginError>,
    ) -> Result<bool, PluginError> {
        let (batch, position) = self.in_batch();
        batch.replace_texts(position, fields, capacity, replace)
    }

    /// Hides the message that the event was decoded from, so that dead letters contain the payload instead, and copies
    /// of the event do not copy the message. An unedited event keeps its message, because the message has the same value
    /// as the payload. An event that was not decoded stays unchanged.
    pub fn forget_original(&mut self) {
        let (batch, position) = self.in_batch();
        let event = &mut batch.events[position];
        let is_value = matches!(event.kind, PayloadKind::DOCUMENT | PayloadKind::VALUE);
        if is_value && event.unedited().is_none() {
            event.flags.0 |= EventFlags::FORGOTTEN.0;
        }
    }
}

impl Batch {
    fn replace_texts(
        &mut self,
        position: usize,
        fields: &mut TextFields,
        capacity: &mut usize,
        mut replace: impl FnMut(
            ValueRef<'_>,
            &[usize],
            &mut Vec<u8>,
        ) -> Result<Replacement, PluginError>,
    ) -> Result<bool, PluginError> {
        let Some(root) = self.root_of(position, fields.part)? else { return Ok(false) };
        let TextFields { part, paths, ranges, within, replaced, contents } = fields;
        let (part, nodes) = (*part, self.nodes());
        let document = Document::new(self.bytes(), nodes);
        let first = nodes.as_ptr().addr();
        let index = |nodes: &[Node]| (nodes.as_ptr().addr() - first) / size_of::<Node>();
        let value = document.root(root);
        ranges.clear();
        ranges.extend(paths.iter().map(
            |path| match value.get_path(path).and_then(ValueRef::nodes) {
                Some(nodes) => {
                    let start = index(nodes);
                    start..start + nodes.len()
                }
                None => 0..0,
            },
        ));
        replaced.clear();
        contents.clear();
        contents.shrink_to(MAX_KEPT);
        for (number, range) in ranges.iter().enumerate() {
            if range.is_empty() {
                continue;
            }
            let field = document.root(narrow(range.start));
            each_scalar(field, &mut |value| {
                let Some(at) = value.nodes().map(index) else { return Ok(()) };
                if ranges[..number].iter().any(|earlier| earlier.contains(&at)) {
                    return Ok(());
                }
                within.clear();
                let containing = ranges[number..].iter().enumerate();
                let containing = containing.filter(|(_, range)| range.contains(&at));
                within.extend(containing.map(|(after, _)| number + after));
                let start = contents.len();
                let replacement = replace(value, within, contents)?;
                if replacement == Replacement::Unchanged {
                    contents.truncate(start);
                    return Ok(());
                }
                if contents.len() > *capacity {
                    return Err(exceeded(*capacity));
                }
                let written = contents.get(start..).unwrap_or_default();
                if replacement == Replacement::Text && std::str::from_utf8(written).is_err() {
                    return Err(PluginError::bad_data(
                        "cannot replace a text by one that is not UTF-8",
                    ));
                }
                replaced.push((at, start..start + written.len(), replacement));
                Ok(())
            })?;
        }
        if replaced.is_empty() {
            return Ok(false);
        }
        let old = subtree(self.nodes(), root as usize);
        let taken = contents.len() + old.len() * size_of::<Node>();
        *capacity = capacity.checked_sub(taken).ok_or_else(|| exceeded(*capacity))?;
        let (bytes, nodes) = self.buffers_mut();
        let (new, offset) = (nodes.len(), bytes.len());
        nodes.resize(new + old.len(), Node::null());
        nodes.copy_within(old.clone(), new);
        bytes.extend_from_copy_slice(contents);
        for (at, range, replacement) in replaced.drain(..) {
            let (start, len) = ((offset + range.start) as u64, narrow(range.len()));
            nodes[new + at - old.start] = match replacement {
                Replacement::Bytes => Node::bytes(start, len),
                _ => Node::string(start, len),
            };
        }
        let event = &mut self.events[position];
        match part {
            Part::Payload => event.set_document(narrow(new)),
            Part::Metadata => event.metadata = (narrow_location(new) + 1) | IN_NODES,
        }
        Ok(true)
    }

    /// Returns the root of a part of an event, or `None` if the event has no such value. A payload that is an edited
    /// value is first written to the document, and so are metadata.
    fn root_of(&mut self, position: usize, part: Part) -> Result<Option<u32>, PluginError> {
        let event = self.events[position];
        match (part, Location::new(event.metadata)) {
            (Part::Payload, _) => match event.kind {
                PayloadKind::DOCUMENT | PayloadKind::VALUE => self.document_of(position).map(Some),
                _ => Ok(None),
            },
            (Part::Metadata, Location::None) => Ok(None),
            (Part::Metadata, Location::Document(root)) => Ok(Some(root)),
            (Part::Metadata, Location::Value(_)) => {
                let metadata = self.metadata(&event).map(ValueRef::to_value).unwrap_or_default();
                let (bytes, nodes) = self.buffers_mut();
                let root = metadata.view().copy_to(bytes, nodes).map_err(PluginError::bad_data)?;
                self.events[position].metadata = (narrow_location(root as usize) + 1) | IN_NODES;
                Ok(Some(root))
            }
        }
    }
}

fn exceeded(capacity: usize) -> PluginError {
    PluginError::bad_data(format_args!(
        "cannot replace texts: the new texts of the event and its nodes take more than the {capacity} bytes that are \
         left for the events of its batch"
    ))
}

/// Calls `visit` for each text, number and binary data in a value, in order.
fn each_scalar(
    value: ValueRef<'_>,
    visit: &mut impl FnMut(ValueRef<'_>) -> Result<(), PluginError>,
) -> Result<(), PluginError> {
    match value.shape() {
        Shape::Null | Shape::Bool(_) => Ok(()),
        Shape::Array(array) => array.into_iter().try_for_each(|it| each_scalar(it, visit)),
        Shape::Object(object) => {
            object.into_iter().try_for_each(|(_, value)| each_scalar(value, visit))
        }
        _ => visit(value),
    }
}

#[cfg(test)]
mod tests {
    use super::{Replacement, TextFields};
    use crate::{
        batch::{Batch, EventMut, Format, Identities, Output, Part, Span},
        document::{Node, Shape, ValueRef, fingerprint},
        error::PluginError,
        literal,
        value::{Path, Value},
    };

    fn fields(part: Part, paths: &[&str]) -> TextFields {
        TextFields::new(part, paths.iter().map(|path| path.parse::<Path>().unwrap()).collect())
    }

    /// Appends the positions of the fields and the old value.
    fn shown(value: ValueRef<'_>, within: &[usize], out: &mut Vec<u8>) -> Replacement {
        out.extend_from_slice(format!("{within:?}{value}").as_bytes());
        Replacement::Text
    }

    fn replaced(payload: &Value<'static>, paths: &[&str], is_edited: bool) -> String {
        let mut batch = Batch::new();
        batch.push(&literal!({ "first": "1" })).unwrap();
        batch.push(payload).unwrap();
        if is_edited {
            *batch.value_mut(1).unwrap() = payload.clone();
        }
        let other = batch.clone();
        let mut event = EventMut::new(&mut batch, 1);
        let done = event
            .replace_texts(&mut fields(Part::Payload, paths), &mut 1000, |value, within, out| {
                Ok(shown(value, within, out))
            })
            .unwrap();
        let text = event.value().unwrap().to_string();
        batch.validate().unwrap();
        assert_eq!(other.get(1).unwrap().value().unwrap().to_string(), payload.to_string());
        assert_eq!(batch.get(0).unwrap().value().unwrap().to_string(), r#"{"first":"1"}"#);
        let before = payload.to_string();
        assert_eq!(done, text != before);
        text
    }

    #[test]
    fn texts_and_numbers_within_fields_are_replaced() {
        let payload =
            literal!({ "": "k", "a": ["t", [7, null, true]], "b": { "a": 1.5, "c": {} } });
        for (paths, expected) in [
            (&["a"][..], r#"{"":"k","a":["[0]\"t\"",["[0]7",null,true]],"b":{"a":1.5,"c":{}}}"#),
            (
                &["a[1]", "a", "x"],
                r#"{"":"k","a":["[1]\"t\"",["[0, 1]7",null,true]],"b":{"a":1.5,"c":{}}}"#,
            ),
            (&["b.a"], r#"{"":"k","a":["t",[7,null,true]],"b":{"a":"[0]1.5","c":{}}}"#),
            (
                &["x", ""],
                r#"{"":"[1]\"k\"","a":["[1]\"t\"",["[1]7",null,true]],"b":{"a":"[1]1.5","c":{}}}"#,
            ),
            (&["x", "b.c", "a[1][1]"], r#"{"":"k","a":["t",[7,null,true]],"b":{"a":1.5,"c":{}}}"#),
        ] {
            for is_edited in [false, true] {
                assert_eq!(replaced(&payload, paths, is_edited), expected, "{paths:?} {is_edited}");
            }
        }
        assert_eq!(replaced(&literal!("t"), &[""], false), r#""[0]\"t\"""#);
        assert_eq!(replaced(&literal!(null), &["", "a"], false), "null");
    }

    #[test]
    fn texts_of_shared_metadata_are_replaced_in_one_event() {
        for is_value in [false, true] {
            let mut batch = Batch::new();
            for _ in 0..2 {
                batch.push(&1).unwrap();
                let mut event = batch.last_mut().unwrap();
                let metadata = literal!({ "a": "t" });
                if is_value {
                    event.set_metadata(metadata);
                } else {
                    event.write_metadata(|writer| writer.write_value(metadata.view())).unwrap();
                }
            }
            let root = batch.events[0].metadata;
            batch.events[1].metadata = root;
            let mut fields = fields(Part::Metadata, &["a"]);
            let replace = |value: ValueRef<'_>, within: &[usize], out: &mut Vec<u8>| {
                Ok(shown(value, within, out))
            };
            assert!(
                EventMut::new(&mut batch, 1).replace_texts(&mut fields, &mut 999, replace).unwrap()
            );
            batch.validate().unwrap();
            let metadata = |at| batch.get(at).unwrap().metadata().unwrap().to_string();
            assert_eq!([metadata(0), metadata(1)], [r#"{"a":"t"}"#, r#"{"a":"[0]\"t\""}"#]);
            let mut none = Batch::new();
            none.push(&"t").unwrap();
            assert!(
                !EventMut::new(&mut none, 0).replace_texts(&mut fields, &mut 999, replace).unwrap()
            );
        }
    }

    #[test]
    fn failed_replacement_leaves_event_unchanged() {
        let mut batch = Batch::new();
        batch.push(&literal!({ "a": ["t", "u"] })).unwrap();
        let sizes = (batch.bytes().len(), batch.nodes().len());
        let mut fields = fields(Part::Payload, &["a"]);
        let mut failed = |limit, replacement, text: &[u8]| {
            let replace = |_: ValueRef<'_>, _: &[usize], out: &mut Vec<u8>| {
                out.extend_from_slice(text);
                if text.is_empty() { Err(PluginError::bad_data("stop")) } else { Ok(replacement) }
            };
            let mut event = EventMut::new(&mut batch, 0);
            let error =
                event.replace_texts(&mut fields, &mut { limit }, replace).unwrap_err().to_string();
            assert_eq!(batch.get(0).unwrap().value().unwrap().to_string(), r#"{"a":["t","u"]}"#);
            assert_eq!((batch.bytes().len(), batch.nodes().len()), sizes);
            error
        };
        assert!(failed(5, Replacement::Text, b"123").contains("more than the 5 bytes"));
        assert!(failed(80, Replacement::Text, b"123").contains("more than the 80 bytes"));
        assert!(failed(99, Replacement::Text, b"\xff").contains("not UTF-8"));
        assert_eq!(failed(99, Replacement::Text, b""), "stop");
        let mut event = EventMut::new(&mut batch, 0);
        let bytes = |_: ValueRef<'_>, _: &[usize], out: &mut Vec<u8>| {
            out.push(0xff);
            Ok(Replacement::Bytes)
        };
        let mut capacity = 100;
        assert!(event.replace_texts(&mut fields, &mut capacity, bytes).unwrap());
        assert_eq!(capacity, 100 - 5 * size_of::<Node>() - 2);
        let element = event.value().unwrap().get("a").unwrap().as_array().unwrap().get(0).unwrap();
        assert!(matches!(element.shape(), Shape::Bytes(b"\xff")));
        batch.validate().unwrap();
    }

    #[test]
    fn message_of_an_edited_event_is_forgotten() {
        let decoded = |format: Option<Format>| {
            let mut batch = Batch::new();
            batch.push_message(b"ab!");
            batch.decode_as(|_, nodes, span: Span| {
                let root = u32::try_from(nodes.len()).unwrap();
                let start = u64::from(span.start);
                nodes.extend([
                    Node::object(1, 3),
                    Node::key(start, 1, fingerprint(b"a")),
                    Node::string(start + 1, 1),
                ]);
                Ok((root, format))
            });
            batch
        };
        let original = |batch: &mut Batch| {
            let identities = |batch: &mut Batch| {
                let mut identities = Identities::default();
                identities.record(batch);
                identities
            };
            let mut before = identities(batch);
            EventMut::new(batch, 0).forget_original();
            assert!(before.surplus(batch, &Output::new()).is_none());
            batch.validate().unwrap();
            let mut copy = Batch::new();
            copy.push_event(batch.get(0).unwrap());
            assert!(before.surplus(&copy, &Output::new()).is_none());
            copy.validate().unwrap();
            let [copied, shown] = [&copy, batch].map(|batch| {
                let event = batch.get(0).unwrap();
                let value = event.value().map(|value| value.to_string());
                (String::from_utf8(event.original().to_vec()).unwrap(), value)
            });
            assert_eq!(copied, shown);
            if shown.0.is_empty() {
                let copied = copy.bytes();
                assert!(!copied.contains(&b'!'), "{copied:?}");
            }
            shown.0
        };
        assert_eq!(original(&mut decoded(Some(Format::Json))), "ab!");
        assert_eq!(original(&mut decoded(None)), "");
        let mut batch = decoded(Some(Format::Json));
        let mut event = EventMut::new(&mut batch, 0);
        let none = event.replace_texts(&mut fields(Part::Payload, &[""]), &mut 99, |_, _, out| {
            out.push(b'x');
            Ok(Replacement::Unchanged)
        });
        assert!(!none.unwrap());
        assert_eq!(original(&mut batch), "ab!");
        let mut event = EventMut::new(&mut batch, 0);
        let same = event.replace_texts(&mut fields(Part::Payload, &["a"]), &mut 99, |_, _, out| {
            out.push(b'b');
            Ok(Replacement::Text)
        });
        assert!(same.unwrap());
        assert_eq!(original(&mut batch), "");
        assert_eq!(batch.get(0).unwrap().value().unwrap().to_string(), r#"{"a":"b"}"#);
        let mut raw = Batch::new();
        raw.push_message(b"ab!");
        assert_eq!(original(&mut raw), "ab!");
    }
}
