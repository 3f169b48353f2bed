//! Copying fields of payloads to the metadata of encoded events, whose payloads are messages.

mod recent;

use self::recent::Recent;
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

/// Number of events for each allocated metadata. With more events, the allocation costs less than to copy the messages,
/// also short ones.
const FEW: usize = 16;

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
            let messages = self.events.iter().filter_map(|event| self.raw(event));
            let is_large = messages.map(<[u8]>::len).sum::<usize>() / LARGE >= self.len();
            let most = if is_large { usize::MAX } else { 1 + self.len() / FEW };
            if self.carry_values(from, fields, most) {
                return;
            }
            let mut own = Self::from_pool(pool);
            own.append(std::mem::take(self));
            *self = own;
        }
        let mut events = std::mem::take(&mut self.events);
        let (bytes, nodes, values) = self.parts_mut();
        let values = values.as_slice();
        if let Some(mut writer) = Carry::begin(fields, bytes, nodes) {
            let (mut leaves, mut recent) = (Vec::new(), Recent::new());
            for (event, source) in events.iter_mut().zip(&from.events) {
                fields.read(from.value(source), &mut leaves);
                // Events often have the same metadata and the same values as a recent one, and then share the copy.
                let known = recent.slot(&leaves);
                event.metadata = match known.get(event.metadata, &leaves) {
                    Some(with) => with,
                    None => {
                        let Some(with) = writer.add(event.metadata, values, &leaves) else { break };
                        known.set(event.metadata, &mut leaves, with);
                        with
                    }
                };
            }
        }
        self.events = events;
    }

    /// Does the same as [`Batch::carry`] with the table of values, because other batches share the buffers. Returns
    /// `false` and changes nothing if there would be more than `most` values.
    fn carry_values(&mut self, from: &Self, fields: &CarriedFields, most: usize) -> bool {
        let earlier: Vec<_> = self.events.iter().map(|event| event.metadata).collect();
        let (mut leaves, mut recent, kept) = (Vec::new(), Recent::new(), self.values.len());
        for (position, (source, before)) in from.events.iter().zip(&earlier).enumerate() {
            fields.read(from.value(source), &mut leaves);
            let known = recent.slot(&leaves);
            let with = known.get(*before, &leaves).or_else(|| {
                if self.values.len() - kept == most {
                    return None;
                }
                let metadata = self.metadata(&self.events[position]).map(ValueRef::to_value);
                let mut metadata =
                    metadata.filter(|it| it.as_object().is_some()).unwrap_or_else(Value::object);
                if let Some(object) = metadata.as_object_mut() {
                    object.remove(&fields.key);
                    object.insert(fields.key.to_string(), fields.value(&leaves));
                }
                let with = self.keep(metadata);
                known.set(*before, &mut leaves, with);
                Some(with)
            });
            let Some(with) = with else {
                self.values.truncate(kept);
                for (event, earlier) in self.events.iter_mut().zip(earlier) {
                    event.metadata = earlier;
                }
                return false;
            };
            self.events[position].metadata = with;
        }
        true
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
mod tests;
