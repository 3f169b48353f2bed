//! Copying fields of payloads to the metadata of encoded events, whose payloads are messages.

use super::{
    Batch, Pool,
    bounds::span,
    event::{IN_NODES, Location},
};
use crate::{
    ByteBuffer, NodeBuffer,
    document::{Document, Node, Shape, ValueRef, Writer, fingerprint, root_index},
    value::{Path, Value},
};

/// Fields of payloads that [`HostBatch::carry`](super::HostBatch::carry) copies to the metadata of encoded events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedFields {
    key: Box<str>,
    fields: Box<[(Box<str>, Path)]>,
    longest: usize,
}

/// Key of the object that stands for a text that is not copied.
const LENGTH: &str = "length";

/// Mean size of messages, in bytes, from which messages that share the buffers of their events are not copied. Above
/// it, copying a message costs more than an allocation for its metadata.
const LARGE: usize = 4 << 10;

/// A value without arrays and objects.
#[derive(Clone, Copy, PartialEq)]
enum Leaf<'b> {
    /// The event has no such field.
    Missing,
    /// A value without text, or an empty value in place of one that is not copied.
    Node(Node),
    Text(&'b str),
    /// The text of a number.
    Number(&'b str),
    /// A text that is not copied, with its length in bytes.
    TooLong(usize),
}

impl CarriedFields {
    /// Creates a list of fields, each with its name and its path. The metadata has the values of the fields as an
    /// object with the key `key`, with at most `longest` bytes of each text.
    pub fn new(
        key: &str,
        fields: impl IntoIterator<Item = (Box<str>, Path)>,
        longest: usize,
    ) -> Self {
        Self { key: key.into(), fields: fields.into_iter().collect(), longest }
    }

    /// Returns the names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| &**name)
    }

    /// Reads the fields of a payload into `leaves`.
    #[inline]
    fn read<'b>(&self, payload: Option<ValueRef<'b>>, leaves: &mut Vec<Leaf<'b>>) {
        leaves.clear();
        let value = |path| payload.and_then(|payload| payload.get_path(path));
        leaves.extend(self.fields.iter().map(|(_, path)| self.leaf(value(path))));
    }

    #[inline]
    fn leaf<'b>(&self, value: Option<ValueRef<'b>>) -> Leaf<'b> {
        let Some(value) = value else { return Leaf::Missing };
        if let Some(length) = value.text_bytes().map(<[u8]>::len).filter(|it| *it > self.longest) {
            return Leaf::TooLong(length);
        }
        Leaf::Node(match value.shape() {
            Shape::String(text) => return Leaf::Text(text),
            Shape::Number(text) if text.len() > self.longest => return Leaf::TooLong(text.len()),
            Shape::Number(text) => return Leaf::Number(text),
            // An empty value has the type of one that has no text, for the error of a template.
            Shape::Null => Node::null(),
            Shape::Bool(value) => Node::bool(value),
            Shape::I64(value) => Node::i64(value),
            Shape::U64(value) => Node::u64(value),
            Shape::F64(value) => Node::f64(value),
            Shape::Bytes(_) => Node::bytes(0, 0),
            Shape::Array(_) => Node::array(0, 1),
            Shape::Object(_) => Node::object(0, 1),
        })
    }

    /// Returns the values as a tree.
    fn value(&self, leaves: &[Leaf<'_>]) -> Value<'static> {
        let (mut bytes, mut nodes) = (ByteBuffer::new(), NodeBuffer::new());
        let mut writer = Writer::new(&mut bytes, &mut nodes);
        writer.begin_object();
        for (name, leaf) in self.names().zip(leaves) {
            if *leaf != Leaf::Missing {
                writer.key(name);
            }
            match *leaf {
                Leaf::Missing => {}
                Leaf::Node(node) => writer.write_value(Document::new(&[], &[node]).root(0)),
                Leaf::Text(text) => writer.str(text),
                Leaf::Number(text) => writer.number(text),
                Leaf::TooLong(length) => {
                    writer.begin_object();
                    writer.key(LENGTH);
                    writer.u64(length as u64);
                    writer.end_object();
                }
            }
        }
        writer.end_object();
        let root = writer.finish();
        root.map_or(Value::Null, |root| Document::new(&bytes, &nodes).root(root).to_value())
    }
}

impl Batch {
    pub(crate) fn carry(&mut self, from: &Self, pool: &Pool, fields: &CarriedFields) {
        if !self.shared.is_unique() {
            if self.size_of_all() / LARGE >= self.len() {
                return self.carry_values(from, fields);
            }
            let mut own = Self::from_pool(pool);
            own.append(std::mem::take(self));
            *self = own;
        }
        let mut events = std::mem::take(&mut self.events);
        let (bytes, nodes, values) = self.parts_mut();
        let values = values.as_slice();
        if let Some(mut writer) = Carry::begin(fields, bytes, nodes) {
            let (mut leaves, mut last_leaves) = (Vec::new(), Vec::new());
            let mut last = (0, 0);
            for (event, source) in events.iter_mut().zip(&from.events) {
                fields.read(from.value(source), &mut leaves);
                // Consecutive events often have the same metadata and the same values, and then share the copy.
                if last.1 != 0 && last.0 == event.metadata && leaves == last_leaves {
                    event.metadata = last.1;
                    continue;
                }
                let before = event.metadata;
                let Some(metadata) = writer.add(before, values, &leaves) else { break };
                event.metadata = metadata;
                last = (before, metadata);
                std::mem::swap(&mut leaves, &mut last_leaves);
            }
        }
        self.events = events;
    }

    /// Does the same as [`Batch::carry`] with the table of values, because other batches share the buffers.
    #[cold]
    fn carry_values(&mut self, from: &Self, fields: &CarriedFields) {
        let mut leaves = Vec::new();
        for position in 0..self.len().min(from.len()) {
            fields.read(from.value(&from.events[position]), &mut leaves);
            let event = &self.events[position];
            let metadata = self.metadata(event).map(ValueRef::to_value);
            let mut metadata =
                metadata.filter(|it| it.as_object().is_some()).unwrap_or_else(Value::object);
            if let Some(object) = metadata.as_object_mut() {
                object.remove(&fields.key);
                object.insert(fields.key.to_string(), fields.value(&leaves));
            }
            self.set_metadata(position, metadata);
        }
    }
}

/// Writes the metadata of encoded events.
struct Carry<'c> {
    bytes: &'c mut ByteBuffer,
    nodes: &'c mut NodeBuffer,
    key: Node,
    names: Vec<Node>,
    length: Node,
    /// The metadata that was copied last, and the range of its pairs.
    known: (u32, Pairs),
}

/// The pairs of an object in the nodes: `count` pairs in two ranges of nodes, between which a pair is left out.
#[derive(Clone, Copy, Default)]
struct Pairs {
    count: u32,
    first: (usize, usize),
    second: (usize, usize),
}

impl<'c> Carry<'c> {
    /// Writes the text of all keys. Returns `None` if the bytes would exceed 4 GiB.
    fn begin(
        fields: &CarriedFields,
        bytes: &'c mut ByteBuffer,
        nodes: &'c mut NodeBuffer,
    ) -> Option<Self> {
        let mut key = |text: &str| {
            let at = span(bytes.len(), text.len())?;
            bytes.extend_from_copy_slice(text.as_bytes());
            Some(Node::key(at.start.into(), at.len, fingerprint(text.as_bytes())))
        };
        let (object, length) = (key(&fields.key)?, key(LENGTH)?);
        let names = fields.names().map(&mut key).collect::<Option<_>>()?;
        Some(Self { bytes, nodes, key: object, names, length, known: (0, Pairs::default()) })
    }

    /// Writes metadata that has the pairs of the metadata at `word` and the values. Returns its location, or `None` if
    /// the buffers are full.
    fn add(&mut self, word: u32, values: &[Value<'static>], leaves: &[Leaf<'_>]) -> Option<u32> {
        if word != 0 && self.known.0 != word {
            self.known = (word, self.pairs(word, values)?);
        }
        let pairs = if word == 0 { Pairs::default() } else { self.known.1 };
        let head = self.nodes.len();
        let root = root_index(head).ok()?;
        self.nodes.push(Node::object(pairs.count.saturating_add(1), 0));
        for (start, end) in [pairs.first, pairs.second] {
            self.nodes.reserve(end - start);
            for at in start..end {
                let node = self.nodes[at];
                self.nodes.push(node);
            }
        }
        self.nodes.push(self.key);
        let object = self.nodes.len();
        self.nodes.push(Node::object(0, 0));
        let mut count = 0;
        for (number, leaf) in leaves.iter().enumerate() {
            count += u32::from(self.leaf(number, leaf));
        }
        let end = self.nodes.len();
        self.nodes[object] = Node::object(count, (end - object) as u64);
        self.nodes[head] = Node::object(pairs.count.saturating_add(1), (end - head) as u64);
        Some((root + 1) | IN_NODES)
    }

    /// Writes a field. Returns `false` if it is missing, or if the buffers are full.
    #[inline]
    fn leaf(&mut self, number: usize, leaf: &Leaf<'_>) -> bool {
        let value = match *leaf {
            Leaf::Missing => return false,
            Leaf::Node(node) => node,
            Leaf::Text(text) | Leaf::Number(text) => {
                let Some(at) = span(self.bytes.len(), text.len()) else { return false };
                self.bytes.extend_from_copy_slice(text.as_bytes());
                match leaf {
                    Leaf::Number(_) => Node::number(at.start.into(), at.len),
                    _ => Node::string(at.start.into(), at.len),
                }
            }
            Leaf::TooLong(length) => {
                let all = [self.names[number], Node::object(1, 3), self.length];
                self.nodes.extend_from_copy_slice(&all);
                Node::u64(length as u64)
            }
        };
        if !matches!(leaf, Leaf::TooLong(_)) {
            self.nodes.push(self.names[number]);
        }
        self.nodes.push(value);
        true
    }

    /// Finds the pairs of the metadata at `word` other than that of the own key. Metadata in the table of values is
    /// first copied to the nodes.
    fn pairs(&mut self, word: u32, values: &[Value<'static>]) -> Option<Pairs> {
        let root = match Location::new(word) {
            Location::None => return Some(Pairs::default()),
            Location::Document(root) => root,
            Location::Value(index) => {
                let Some(value) = values.get(index as usize) else { return Some(Pairs::default()) };
                ValueRef::from(value).copy_to(self.bytes, self.nodes).ok()?
            }
        };
        let value = Document::new(self.bytes, self.nodes).root(root);
        let nodes = value.nodes().unwrap_or_default();
        let (Some(object), Some(head)) = (value.as_object(), nodes.first()) else {
            return Some(Pairs::default());
        };
        let start = root as usize + 1;
        let mut pairs = Pairs {
            count: head.len(),
            first: (start, root as usize + nodes.len()),
            second: (0, 0),
        };
        let key = self.key.data().and_then(|range| self.bytes.get(range)).unwrap_or_default();
        let mut at = start;
        for (name, value) in object {
            let size = 1 + value.nodes().map_or(1, <[Node]>::len);
            if name.as_bytes() == key {
                pairs.second = (at + size, pairs.first.1);
                pairs.first.1 = at;
                pairs.count = pairs.count.saturating_sub(1);
                break;
            }
            at += size;
        }
        Some(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::{CarriedFields, LARGE};
    use crate::{
        ByteBuffer,
        batch::{Batch, Payload, Pool},
        error::PluginError,
        literal,
        value::Value,
    };

    fn fields(paths: &[&str]) -> CarriedFields {
        let fields = paths.iter().map(|path| ((*path).into(), path.parse().unwrap()));
        CarriedFields::new("template", fields, 10)
    }

    #[allow(clippy::unnecessary_wraps)] // the signature of an encoder
    fn encode(payload: Payload<'_>, bytes: &mut ByteBuffer) -> Result<(), PluginError> {
        let text = match payload {
            Payload::Document { bytes, nodes, root, .. } => {
                crate::document::Document::new(bytes, nodes).root(root).to_string()
            }
            Payload::Value(value) => value.to_string(),
        };
        bytes.extend_from_copy_slice(text.as_bytes());
        Ok(())
    }

    /// Encodes the events and adds the fields to their metadata. Checks that the messages and the events stay the same.
    /// Returns the metadata of each encoded event.
    fn carried(batch: &mut Batch, fields: &CarriedFields) -> Vec<String> {
        let before = all_metadata(batch);
        let (mut encoded, rejected) = batch.encode_with(&Pool::new(1), encode);
        assert!(rejected.is_empty());
        let messages = |batch: &Batch| -> Vec<_> {
            batch
                .iter()
                .map(|event| (event.raw().unwrap().to_vec(), event.origin().map(str::to_owned)))
                .collect()
        };
        let expected = messages(&encoded);
        // The second time, the metadata of the events has the fields.
        for _ in 0..2 {
            encoded.carry(batch, &Pool::new(1), fields);
            encoded.validate().unwrap();
            assert_eq!(messages(&encoded), expected);
        }
        assert_eq!(all_metadata(batch), before, "the metadata of the events stays the same");
        let found = all_metadata(&encoded);
        // Messages that share the buffers of other batches, as small ones and as large ones.
        for payload in [1, 2 * LARGE] {
            let mut shared = Batch::new();
            shared.append(encoded.clone());
            for event in &mut shared.events {
                event.metadata = 0;
            }
            for (position, event) in batch.iter().enumerate() {
                if let Some(metadata) = event.metadata() {
                    shared.set_metadata(position, metadata.to_value());
                }
            }
            let text = vec![b'x'; payload];
            let span = shared.append_bytes(&text).unwrap();
            shared.events.iter_mut().for_each(|event| event.payload = span);
            let clone = shared.clone();
            shared.carry(batch, &Pool::new(1), fields);
            shared.validate().unwrap();
            assert_eq!(all_metadata(&shared), found);
            assert_eq!(shared.has_buffers_of(&clone), payload > LARGE);
            assert!(shared.iter().all(|event| event.raw() == Some(&text)));
        }
        found
    }

    fn all_metadata(batch: &Batch) -> Vec<String> {
        let text = |event| batch.metadata(event).map(|metadata| metadata.to_string());
        batch.events().iter().map(|event| text(event).unwrap_or_default()).collect()
    }

    #[test]
    fn fields_of_documents_and_of_edited_values_are_added() {
        let mut batch = Batch::new();
        for _ in 0..2 {
            batch
                .push(&literal!({ "host": "a", "at": { "x": [1, "two"] }, "other": true }))
                .unwrap();
        }
        batch.push(&literal!("text")).unwrap();
        *batch.value_mut(1).unwrap() = literal!({ "at": { "x": [1, 2.5] } });
        batch.set_origin("here");
        let found = carried(&mut batch, &fields(&["host", "at.x[1]", ""]));
        assert_eq!(
            found,
            [
                r#"{"template":{"host":"a","at.x[1]":"two","":{}}}"#,
                r#"{"template":{"at.x[1]":2.5,"":{}}}"#,
                r#"{"template":{"":"text"}}"#,
            ]
        );
    }

    #[test]
    fn values_without_text_and_long_texts_are_left_out() {
        let mut batch = Batch::new();
        let number =
            |text: &str| Value::Number(crate::value::Number::new(text.to_owned()).unwrap());
        let value = literal!({
            "a": [1], "o": { "x": 1 }, "n": null, "b": true, "i": -1, "u": u64::MAX, "t": "0123456789",
            "long": "0123456789a", "d": number("1e400"), "ld": number("0.12345678901234567890123456789"),
        });
        batch.push(&value).unwrap();
        let names = ["a", "o", "n", "b", "i", "u", "t", "long", "d", "ld", "missing"];
        let found = carried(&mut batch, &fields(&names));
        let expected = concat!(
            r#"{"template":{"a":[],"o":{},"n":null,"b":true,"i":-1,"u":18446744073709551615,"#,
            r#""t":"0123456789","long":{"length":11},"d":1e400,"ld":{"length":31}}}"#
        );
        assert_eq!(found, [expected]);
    }

    #[test]
    fn other_metadata_is_kept_and_old_fields_are_replaced() {
        let mut batch = Batch::new();
        for number in 0..6 {
            batch.push(&literal!({ "n": number })).unwrap();
        }
        batch.set_metadata(0, literal!({ "file": { "path": "x" } }));
        batch.events[1].metadata = batch.events[0].metadata;
        let written = literal!({ "a": "b", "template": { "n": "old", "x": ["y"] }, "c": ["d"] });
        batch.write_metadata(2, |writer| writer.write_value((&written).into())).unwrap();
        batch.events[3].metadata = batch.events[2].metadata;
        batch.set_metadata(4, literal!("text"));
        let found = carried(&mut batch, &fields(&["n"]));
        assert_eq!(
            found,
            [
                r#"{"file":{"path":"x"},"template":{"n":0}}"#,
                r#"{"file":{"path":"x"},"template":{"n":1}}"#,
                r#"{"a":"b","c":["d"],"template":{"n":2}}"#,
                r#"{"a":"b","c":["d"],"template":{"n":3}}"#,
                r#"{"template":{"n":4}}"#,
                r#"{"template":{"n":5}}"#,
            ]
        );
    }

    #[test]
    fn consecutive_events_with_same_values_share_metadata() {
        let mut batch = Batch::new();
        for host in ["a", "a", "b", "b", "a"] {
            batch.push(&literal!({ "host": host })).unwrap();
        }
        let (mut encoded, _) = batch.encode_with(&Pool::new(1), encode);
        encoded.carry(&batch, &Pool::new(1), &fields(&["host"]));
        let words: Vec<_> = encoded.events().iter().map(|event| event.metadata).collect();
        assert!(words[0] == words[1] && words[2] == words[3], "{words:?}");
        assert!(words[1] != words[2] && words[3] != words[4], "{words:?}");
        assert_eq!(encoded.nodes().len(), 3 * 5);
    }
}
