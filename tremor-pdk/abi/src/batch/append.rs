//! Copying events from one batch to another.

use std::ops::Range;

use super::{
    Batch, Event, EventRef, PayloadKind, Span,
    event::IN_NODES,
    fill::{narrow, narrow_location},
    metadata::LastCopied,
};
use crate::{ByteBuffer, NodeBuffer, document::Node, value::Value};

impl Batch {
    /// Appends the events of `from`, with their payloads, metadata and origins. Copies only the contents that the
    /// events refer to, and moves edited values.
    ///
    /// For each event, the call reads the nodes of the value once. The bytes of the value are copied in one step if
    /// they are contiguous, as codecs write them.
    ///
    /// # Panics
    /// Panics if the batch would reach 4 GiB.
    pub fn append(&mut self, mut from: Self) {
        let added = std::mem::take(&mut from.values);
        let values = narrow_location(self.values.len() + added.len()) - narrow(added.len());
        self.values.extend(added);
        let mut events = std::mem::take(&mut self.events);
        let (bytes, nodes) = self.buffers_mut();
        let mut copy =
            Copy { from: &from, bytes, nodes, metadata: (0, 0), origin: (0, 0), is_tight: false };
        events.extend(from.events.iter().map(|event| copy.event(event, values)));
        self.events = events;
    }

    /// Appends a copy of an event of another batch, with its payload, metadata and origin.
    ///
    /// # Panics
    /// Panics if the batch would reach 4 GiB.
    pub fn push_event(&mut self, event: EventRef<'_>) {
        let (from, event) = event.parts();
        let (bytes, nodes) = self.buffers_mut();
        let copied = Copy { from, bytes, nodes, metadata: (0, 0), origin: (0, 0), is_tight: false }
            .event(event, 0);
        self.copy_event(from, copied, &mut LastCopied::default());
    }

    pub(crate) fn copy_of(&self, event: &Event) -> Self {
        let mut copy = Self::new();
        copy.push_event(EventRef::new(self, event));
        copy
    }

    pub(crate) fn size_of(&self, event: &Event) -> usize {
        let original = self.original(event).len();
        if original > 0 {
            return original;
        }
        match event.kind {
            PayloadKind::DOCUMENT => {
                let (nodes, data) = self.document_size(event.payload.start);
                nodes + data
            }
            PayloadKind::VALUE => {
                self.values.get(event.payload.start as usize).map_or(0, value_size)
            }
            _ => 0,
        }
    }

    pub(crate) fn size_of_all(&self) -> usize {
        self.events.iter().map(|event| self.size_of(event)).sum()
    }

    /// Returns the size of the nodes of the document at `root`, and the size of its text and binary data, in bytes.
    pub(super) fn document_size(&self, root: u32) -> (usize, usize) {
        let nodes = &self.nodes()[subtree(self.nodes(), root as usize)];
        let data = nodes.iter().filter_map(data).map(|data| data.len());
        (size_of_val(nodes), data.sum())
    }
}

fn value_size(value: &Value<'_>) -> usize {
    let mut size = 0;
    value.walk(|key, value| {
        let data = match value {
            Value::String(text) => text.len(),
            Value::Number(number) => number.as_str().len(),
            Value::Bytes(bytes) => bytes.as_slice().len(),
            _ => 0,
        };
        size += key.map_or(0, |key| size_of::<Node>() + key.len()) + size_of::<Node>() + data;
    });
    size
}

/// Returns the positions of the nodes of the value at `root`. If an invalid value specifies more nodes than exist, the
/// range ends with the last node.
pub(super) fn subtree(nodes: &[Node], root: usize) -> Range<usize> {
    let root = root.min(nodes.len());
    let span = nodes.get(root).map_or(0, |node| node.span().max(1));
    let end = root.saturating_add(usize::try_from(span).unwrap_or(usize::MAX));
    root..end.min(nodes.len())
}

/// Returns the range of bytes that a node refers to.
fn data(node: &Node) -> Option<Range<usize>> {
    if !node.kind().has_data() {
        return None;
    }
    node.data()
}

/// Copies events into the buffers of another batch.
struct Copy<'b> {
    from: &'b Batch,
    bytes: &'b mut ByteBuffer,
    nodes: &'b mut NodeBuffer,
    /// Location of the metadata that was copied last, and the location of its copy. All messages that were cut from one
    /// event have the same metadata, which is copied once.
    metadata: (u32, u32),
    /// Location of the origin that was copied last, and the location of its copy.
    origin: (u32, u32),
    /// `true` if bytes between the texts of a value are not copied, because they may contain a forgotten message.
    is_tight: bool,
}

impl Copy<'_> {
    fn event(&mut self, event: &Event, values: u32) -> Event {
        let mut new = *event;
        self.is_tight = event.is_forgotten();
        if !self.is_tight {
            new.original = self.span(event.original);
        }
        match event.kind {
            PayloadKind::RAW => new.payload = self.span(event.payload),
            PayloadKind::DOCUMENT => {
                let known = || (event.original.range(), new.original.start as usize);
                let known = (!self.is_tight).then(known);
                new.payload.start = self.document(event.payload.start, known);
            }
            PayloadKind::VALUE => new.payload.start += values,
            _ => {}
        }
        if let Some(root) = event.metadata_root() {
            if self.metadata.0 != event.metadata {
                let copy = (self.document(root, None) + 1) | IN_NODES;
                self.metadata = (event.metadata, copy);
            }
            new.metadata = self.metadata.1;
        } else if event.metadata != 0 {
            new.metadata += values;
        }
        if let Some(root) = event.origin_root() {
            if self.origin.0 != event.origin {
                self.origin = (event.origin, (self.document(root, None) + 1) | IN_NODES);
            }
            new.origin = self.origin.1;
        } else if event.origin != 0 {
            new.origin += values;
        }
        new
    }

    fn span(&mut self, span: Span) -> Span {
        let data = self.from.bytes().get(span.range()).unwrap_or_default();
        let start = self.bytes.len();
        self.bytes.extend_from_copy_slice(data);
        Span { start: narrow(start), len: narrow(data.len()) }
    }

    /// Copies a value. `known` contains a range of bytes of `from` that was copied before, and the offset of the copy.
    fn document(&mut self, root: u32, known: Option<(Range<usize>, usize)>) -> u32 {
        let nodes = &self.from.nodes()[subtree(self.from.nodes(), root as usize)];
        let (known, known_to) = known.unwrap_or_default();
        let is_known = |data: &Range<usize>| known.start <= data.start && data.end <= known.end;
        let (mut start, mut end, mut total) = (usize::MAX, 0, 0_usize);
        for data in nodes.iter().filter_map(data) {
            if !data.is_empty() && !is_known(&data) {
                total = total.saturating_add(data.len());
                (start, end) = (start.min(data.start), end.max(data.end));
            }
        }
        let hull = if self.is_tight { None } else { self.hull(start.min(end)..end, total) };
        let Some((from, to)) = hull else {
            let (known, to) = (known.start as u64..known.end as u64, known_to as u64);
            let document = self.from.document(root);
            let copy = document.copy_beside(&known, to, self.bytes, self.nodes);
            return copy.expect("a batch contains less than 2^31 nodes and values");
        };
        let new = self.nodes.len();
        let moved = nodes.iter().map(|node| match data(node) {
            // Empty data may have any offset, even one outside this batch.
            Some(data) if data.is_empty() => node.moved_to(0),
            Some(data) if is_known(&data) => {
                node.moved_to((data.start - known.start + known_to) as u64)
            }
            Some(data) => node.moved_to((data.start - from.start + to) as u64),
            None => *node,
        });
        self.nodes.extend(moved);
        narrow_location(new)
    }

    /// Copies all bytes between the first and the last byte of a value, if at least half of these bytes belong to the
    /// value.
    fn hull(&mut self, hull: Range<usize>, total: usize) -> Option<(Range<usize>, usize)> {
        let data = self.from.bytes().get(hull.clone())?;
        let start = self.bytes.len();
        (data.len() / 2 <= total).then(|| {
            self.bytes.extend_from_copy_slice(data);
            (hull, start)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Event, Node};
    use crate::{
        batch::{Insertion, Pool},
        document::{Document, fingerprint},
        literal,
    };

    fn seen(batch: &Batch) -> Vec<String> {
        let text = |event: &Event| {
            let metadata = batch.metadata(event).map(|metadata| metadata.to_string());
            let original = String::from_utf8_lossy(batch.original(event));
            let value = batch.value(event).map(|value| value.to_string());
            format!(
                "{} {} {} {original} {}",
                value.unwrap_or_default(),
                metadata.unwrap_or_default(),
                batch.origin(event).unwrap_or_default(),
                event.stream,
            )
        };
        batch.events().iter().map(text).collect()
    }

    /// Creates events of every kind, with metadata and origins of every kind.
    fn mixed(first: u64) -> Batch {
        let mut batch = Batch::new();
        batch.stream(first).push_message(b"in place");
        batch.decode_with(|bytes, nodes, span| {
            // Write nodes as a codec does that leaves text in the raw bytes.
            let root = u32::try_from(nodes.len()).unwrap();
            nodes.push(Node::array(2, 3));
            nodes.push(Node::string((span.start + 3).into(), 5));
            nodes.push(Node::string(bytes.len() as u64, 0));
            Ok(root)
        });
        batch.stream(first + 1).push_message(b"raw");
        batch.stream(first + 2).push(&literal!({ "a": ["text", 1, { "b": "more" }] })).unwrap();
        batch.set_metadata(batch.len() - 1, literal!({ "kept": first }));
        batch.stream(first + 3).push(&literal!({ "key": "value" })).unwrap();
        *batch.value_mut(3).unwrap() = literal!({ "edited": "text" });
        batch.write_metadata(3, |writer| writer.str("written")).unwrap();
        batch.stream(first + 4).end();
        batch.set_origin_from(1, "here");
        batch
    }

    #[test]
    fn appended_events_keep_payload_metadata_and_origin() {
        let mut batch = mixed(0);
        batch.append(mixed(10));
        batch.append(mixed(20).part(2..4));
        mixed(30).iter().for_each(|event| batch.push_event(event));
        let mut expected = seen(&mixed(0));
        expected.extend(seen(&mixed(10)));
        expected.extend(seen(&mixed(20).part(2..4)));
        expected.extend(seen(&mixed(30)));
        assert_eq!(seen(&batch), expected);
        batch.validate().unwrap();
    }

    #[test]
    fn divided_batches_keep_only_values_of_their_events() {
        let mut batch = mixed(0);
        batch.append(mixed(10));
        let picked = batch.pick(&[3, 0, 8]);
        let expected = seen(&batch);
        assert_eq!(seen(&picked), [&expected[3][..], &expected[0], &expected[8]]);
        assert_eq!(picked.values.len(), 4, "two edited values and two origins");
        let parts = batch.divide(&[3, 0, 1, 6, 4]);
        let lengths: Vec<_> = parts.iter().map(Batch::len).collect();
        assert_eq!(lengths, [3, 0, 1, 6, 0]);
        assert_eq!(parts.iter().flat_map(seen).collect::<Vec<_>>(), expected);
        let values: Vec<_> = parts.iter().map(|part| part.values.len()).collect();
        assert_eq!(values, [2, 0, 2, 4, 0]);
        picked.validate().unwrap();
        parts.iter().for_each(|part| assert!(part.validate().is_ok()));
    }

    #[test]
    fn metadata_shared_by_pieces_is_copied_once() {
        let mut from = Batch::new();
        from.push_message(b"one,two,six");
        from.write_metadata(0, |writer| writer.str(&"x".repeat(1_000))).unwrap();
        assert!(
            from.cut(|cutter| [0..3, 4..7, 8..11].into_iter().for_each(|piece| cutter.emit(piece)))
                .is_empty()
        );
        from.push_message(b"other");
        let mut batch = Batch::new();
        let expected = seen(&from);
        batch.append(from.clone());
        assert_eq!(seen(&batch), expected);
        assert_eq!((batch.bytes().len(), batch.nodes().len()), (3 * 3 + 1_000 + 5, 1));
        let (encoded, _) = {
            from.decode_with(|_, nodes, _| {
                nodes.push(Node::array(0, 1));
                Ok(u32::try_from(nodes.len() - 1).unwrap())
            });
            from.encode_with(&Pool::new(1), |_, bytes| {
                bytes.push(b'-');
                Ok(())
            })
        };
        assert_eq!((encoded.bytes().len(), encoded.nodes().len()), (4 + 1_000, 1));
        encoded.validate().unwrap();
        let roots: Vec<_> = encoded.events().iter().map(Event::metadata_root).collect();
        assert_eq!(roots, [Some(0), Some(0), Some(0), None]);
        // Metadata that is an edited value is copied once too.
        let mut from = Batch::new();
        from.push_message(b"one,two");
        from.set_metadata(0, literal!({ "from": "here" }));
        assert!(
            from.cut(|cutter| [0..3, 4..7].into_iter().for_each(|piece| cutter.emit(piece)))
                .is_empty()
        );
        let picked = from.pick(&[1, 0]);
        assert_eq!((picked.values.len(), seen(&picked)[0].clone()), (1, seen(&from)[1].clone()));
    }

    #[test]
    fn append_to_shared_buffers_leaves_clones_unchanged() {
        let mut batch = mixed(0);
        let other = batch.clone();
        batch.append(mixed(10));
        assert_eq!(seen(&other), seen(&mixed(0)));
    }

    #[test]
    fn append_copies_only_referenced_contents() {
        let mut from = Batch::new();
        let large = "x".repeat(10_000);
        from.push(&literal!({ "a": "first" })).unwrap();
        from.push(&large).unwrap();
        let mut batch = Batch::new();
        batch.append(from.part(0..1));
        assert_eq!((batch.bytes(), batch.nodes().len()), (&b"afirst"[..], 3));
    }

    #[test]
    fn distant_texts_are_copied_separately() {
        let mut from = Batch::new();
        from.push_message(&[b"ab", &[b'-'; 1_000][..], b"cd"].concat());
        from.decode_with(|_, nodes, _| {
            nodes.extend([Node::array(2, 3), Node::string(0, 2), Node::string(1_002, 2)]);
            Ok(0)
        });
        from.events_mut()[0].original.len = 0;
        let mut batch = Batch::new();
        batch.append(from);
        assert_eq!(batch.bytes(), b"abcd");
        assert_eq!(seen(&batch), [r#"["ab","cd"]    0"#]);
    }

    #[test]
    fn original_of_edited_event_is_copied_once() {
        let mut from = Batch::new();
        from.push_message(b"k1111");
        from.push_message(b"k2222");
        from.decode_with(|_, nodes, span| {
            let (root, start) = (u32::try_from(nodes.len()).unwrap(), u64::from(span.start));
            let key = Node::key(start, 1, fingerprint(b"k"));
            nodes.extend([Node::object(1, 3), key, Node::string(start + 1, 4)]);
            Ok(root)
        });
        let mut insertion = Insertion::new(&"new".parse().unwrap(), None).unwrap();
        for position in [0, 1] {
            let mut event = from.get_mut(position).unwrap();
            let inserted = event.insert(&mut insertion, |writer| {
                writer.str("text");
                Ok(())
            });
            inserted.unwrap();
        }
        let expected = seen(&from);
        let mut batch = Batch::new();
        batch.append(from);
        assert_eq!(seen(&batch), expected);
        let text = String::from_utf8_lossy(batch.bytes()).into_owned();
        assert!(text.starts_with("k1111") && text[5..].contains("k2222"), "{text}");
        assert_eq!(
            (text.matches('k').count(), text.len()),
            (2, 2 * "k1111newtext".len()),
            "{text}"
        );
    }

    #[test]
    fn text_outside_of_the_original_that_nodes_share_is_copied_once() {
        let mut from = Batch::new();
        from.push_message(b"original");
        from.decode_with(|bytes, nodes, span| {
            let text = Node::string(bytes.len() as u64, 100);
            bytes.extend_from_copy_slice(&[b'x'; 100]);
            let inside = Node::string(span.start.into(), span.len);
            nodes.extend([Node::array(4, 5), text, inside, text, text]);
            Ok(0)
        });
        let mut batch = Batch::new();
        let expected = seen(&from);
        batch.append(from);
        assert_eq!((batch.bytes().len(), seen(&batch)), (108, expected));
    }

    #[test]
    fn append_of_forged_batch_stays_in_bounds() {
        let mut from = Batch::new();
        from.push(&literal!(["a", "b"])).unwrap();
        let (_, nodes) = from.buffers_mut();
        nodes[1] = Node::string(u64::MAX - 1, 4);
        nodes[0] = Node::array(9, u64::MAX);
        from.events[0].original.start = u32::MAX;
        from.events[0].original.len = u32::MAX;
        let mut batch = Batch::new();
        batch.append(from);
        assert!(batch.validate().is_err());
        assert_eq!(Document::new(batch.bytes(), batch.nodes()).root(7).to_string(), "null");
    }

    #[test]
    fn event_size_is_that_of_original_or_of_contents() {
        let batch = mixed(0);
        let sizes: Vec<_> = batch.events().iter().map(|event| batch.size_of(event)).collect();
        let (structured, edited) = (8 * 16 + 10, 3 * 16 + 10);
        assert_eq!(sizes, [8, 3, structured, edited, 0]);
    }
}
