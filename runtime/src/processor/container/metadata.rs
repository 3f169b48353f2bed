//! Metadata of the messages of containers, written directly into the nodes of a batch.

use tremor_abi::{
    batch::{Event, HostBatch},
    document::{Node, NodeKind, ValueRef, fingerprint},
};
use tremor_pdk::{Batch, Value};

/// The keys and values of the metadata, except times. Each batch with metadata contains them once.
const TEXTS: &[u8] = b"cridockertimestreamflagstdoutstderrFP";

/// Range of a text within [`TEXTS`].
#[derive(Clone, Copy)]
pub(crate) struct Text {
    start: u32,
    len: u32,
}

impl Text {
    pub(super) const CRI: Self = Self { start: 0, len: 3 };
    pub(super) const DOCKER: Self = Self { start: 3, len: 6 };
    const TIME: Self = Self { start: 9, len: 4 };
    const STREAM: Self = Self { start: 13, len: 6 };
    const FLAG: Self = Self { start: 19, len: 4 };
    pub(super) const STDOUT: Self = Self { start: 23, len: 6 };
    pub(super) const STDERR: Self = Self { start: 29, len: 6 };
    pub(super) const FULL: Self = Self { start: 35, len: 1 };
    pub(super) const PARTIAL: Self = Self { start: 36, len: 1 };

    fn as_bytes(self) -> &'static [u8] {
        let start = self.start as usize;
        TEXTS.get(start..start + self.len as usize).unwrap_or_default()
    }

    fn as_str(self) -> &'static str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// Returns the node of this text in a batch that contains [`TEXTS`] at `start`.
    fn string(self, start: u32) -> Node {
        Node::string((start + self.start).into(), self.len)
    }

    fn key(self, start: u32) -> Node {
        Node::key((start + self.start).into(), self.len, fingerprint(self.as_bytes()))
    }
}

/// A document that several messages of a batch share.
#[derive(Clone, Copy)]
struct Shared {
    /// Metadata that the message had before.
    base: Option<u32>,
    stream: u32,
    flag: u32,
    root: u32,
}

/// Writes the metadata of messages.
pub(super) struct Metadata {
    key: Text,
    /// Offset of [`TEXTS`] in the current batch.
    texts: Option<u32>,
    /// The last document without a time for each stream.
    shared: [Option<Shared>; 2],
    /// Nodes of the metadata that a message had before.
    base: Vec<Node>,
}

impl Metadata {
    pub(super) const fn new(key: Text) -> Self {
        Self { key, texts: None, shared: [None; 2], base: Vec::new() }
    }

    pub(super) fn begin_batch(&mut self) {
        (self.texts, self.shared) = (None, [None; 2]);
    }

    /// Adds time, stream and flag to the metadata of `event`, under the key of this format.
    #[inline]
    pub(super) fn write(
        &mut self,
        batch: &mut Batch,
        event: &mut Event,
        time: Option<&[u8]>,
        stream: Text,
        flag: Option<Text>,
    ) {
        let base = event.metadata_node();
        if event.has_metadata() && !base.is_some_and(|root| self.is_plain(batch, event, root)) {
            return self.insert(batch, event, time, stream, flag);
        }
        let slot = usize::from(stream.start == Text::STDERR.start);
        let flag_start = flag.map_or(0, |flag| flag.start);
        if let (None, Some(shared)) = (time, self.shared[slot])
            && (shared.base, shared.stream, shared.flag) == (base, stream.start, flag_start)
        {
            return event.set_metadata_node(shared.root);
        }
        // A batch without capacity for the metadata has no capacity for the message either.
        let Some(root) = self.append(batch, base, time, stream, flag) else { return };
        event.set_metadata_node(root);
        if time.is_none() {
            self.shared[slot] = Some(Shared { base, stream: stream.start, flag: flag_start, root });
        }
    }

    /// Returns whether the metadata at `root` are an object without the key of this format.
    fn is_plain(&self, batch: &Batch, event: &Event, root: u32) -> bool {
        let is_object =
            batch.nodes().get(root as usize).is_some_and(|node| node.kind() == NodeKind::OBJECT);
        is_object && batch.metadata(event).is_some_and(|it| it.get(self.key.as_str()).is_none())
    }

    /// Appends a document with the members of the object `base` and the new member. Returns its root.
    fn append(
        &mut self,
        batch: &mut Batch,
        base: Option<u32>,
        time: Option<&[u8]>,
        stream: Text,
        flag: Option<Text>,
    ) -> Option<u32> {
        let texts = match self.texts {
            Some(texts) => texts,
            None => *self.texts.insert(batch.append_bytes(TEXTS)?.start),
        };
        let (mut inner, mut count) = ([Node::null(); 8], 2);
        let mut members = 0;
        let mut member = |key: Text, value: Node| {
            inner[count] = key.key(texts);
            inner[count + 1] = value;
            count += 2;
            members += 1;
        };
        if let Some(time) = time {
            let time = batch.append_bytes(time)?;
            member(Text::TIME, Node::string(time.start.into(), time.len));
        }
        member(Text::STREAM, stream.string(texts));
        if let Some(flag) = flag {
            member(Text::FLAG, flag.string(texts));
        }
        let span = count as u64 - 1;
        inner[0] = self.key.key(texts);
        inner[1] = Node::object(members, span);
        let inner = &inner[..count];
        let Some(base) = base else {
            return batch.append_nodes(&[&[Node::object(1, span + 2)], inner]);
        };
        let root = batch.nodes().get(base as usize)?;
        let (length, all) = (root.len(), root.span());
        let children = base as usize + 1..base as usize + usize::try_from(all).ok()?;
        self.base.clear();
        self.base.extend_from_slice(batch.nodes().get(children)?);
        let object = [Node::object(length + 1, all + span + 1)];
        batch.append_nodes(&[&object, &self.base, inner])
    }

    /// Adds the metadata to an edited value, or replaces a member with the same key.
    #[cold]
    fn insert(
        &self,
        batch: &mut Batch,
        event: &mut Event,
        time: Option<&[u8]>,
        stream: Text,
        flag: Option<Text>,
    ) {
        let Some(mut metadata) = batch.metadata(event).map(ValueRef::to_value) else { return };
        let Some(object) = metadata.as_object_mut() else { return };
        let mut inner = Vec::new();
        if let Some(time) = time {
            inner.push((Text::TIME, String::from_utf8_lossy(time).into_owned()));
        }
        inner.push((Text::STREAM, stream.as_str().to_owned()));
        inner.extend(flag.map(|flag| (Text::FLAG, flag.as_str().to_owned())));
        let mut own = tremor_pdk::Object::new();
        for (key, value) in inner {
            own.insert(key.as_str(), value);
        }
        object.insert(self.key.as_str(), Value::from(own));
        let mut apart = Batch::new();
        apart.push_message(b"");
        apart.set_metadata(0, metadata);
        let adopted = batch.adopt(&apart, &apart.events()[0]);
        event.set_metadata_of(&adopted);
    }
}
