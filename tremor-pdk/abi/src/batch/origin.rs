//! Origins: the text and the metadata that all events of a file, a connection or a sender share.

use super::{
    Batch,
    event::IN_NODES,
    fill::{narrow, narrow_location},
};
use crate::{
    ByteBuffer, NodeBuffer,
    document::{Document, Node, ValueRef, Writer},
};

/// The origin of events, such as a file or a peer, with the metadata that all events of this origin share.
///
/// Create an origin when its stream begins, and apply it to the events of each pull with [`Batch::apply_origin`]. The
/// batch then contains one copy of the metadata for all these events, and for all messages that are cut from them.
///
/// ```
/// # use tremor_abi::batch::{Batch, Origin};
/// let origin = Origin::new("/var/log/app.log", |writer| {
///     writer.begin_object();
///     writer.key("file");
///     writer.str("/var/log/app.log");
///     writer.end_object();
/// });
/// let mut batch = Batch::new();
/// batch.push_message(b"line");
/// batch.apply_origin(0, &origin);
/// let event = batch.first().unwrap();
/// assert_eq!(event.origin(), Some("/var/log/app.log"));
/// assert_eq!(event.metadata().unwrap().to_string(), r#"{"file":"/var/log/app.log"}"#);
/// ```
#[derive(Clone)]
pub struct Origin {
    bytes: ByteBuffer,
    /// Node of the text, and the nodes of the metadata.
    nodes: NodeBuffer,
}

impl Origin {
    /// Creates an origin. `write` writes the metadata: one value, usually an object, or nothing.
    pub fn new(text: &str, write: impl FnOnce(&mut Writer<'_>)) -> Self {
        // Metadata usually repeats the text of the origin, and adds a few short texts.
        let mut bytes = ByteBuffer::with_capacity(2 * text.len() + 48);
        let mut nodes = NodeBuffer::with_capacity(10);
        bytes.extend_from_copy_slice(text.as_bytes());
        nodes.push(Node::string(0, narrow(text.len())));
        let mut writer = Writer::new(&mut bytes, &mut nodes);
        write(&mut writer);
        let has_metadata = writer.nodes() > 0;
        let written = writer.finish();
        debug_assert!(written.is_ok() || !has_metadata, "incomplete metadata: {written:?}");
        Self { bytes, nodes }
    }

    /// Returns the text that describes the origin, such as a path or the address of a peer.
    pub fn text(&self) -> &str {
        Document::new(&self.bytes, &self.nodes).root(0).as_str().unwrap_or_default()
    }

    /// Appends the contents to the buffers of a batch. Returns the locations of the text and of the metadata, encoded as
    /// in [`Event::metadata`](super::Event).
    pub(super) fn copy_to(&self, bytes: &mut ByteBuffer, nodes: &mut NodeBuffer) -> (u32, u32) {
        let (offset, root) = (bytes.len() as u64, narrow_location(nodes.len() + 1) - 1);
        bytes.extend_from_copy_slice(&self.bytes);
        nodes.extend(self.nodes.iter().map(|node| {
            if node.kind().has_data() { node.moved_to(node.payload() + offset) } else { *node }
        }));
        let text = (root + 1) | IN_NODES;
        (text, if self.nodes.len() > 1 { text + 1 } else { 0 })
    }

    /// Returns the metadata.
    pub fn metadata(&self) -> Option<ValueRef<'_>> {
        (self.nodes.len() > 1).then(|| Document::new(&self.bytes, &self.nodes).root(1))
    }
}

/// Creates an origin without metadata.
impl From<&str> for Origin {
    fn from(text: &str) -> Self {
        Self::new(text, |_| {})
    }
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text().fmt(f)
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.text())
    }
}

impl Batch {
    /// Sets the origin and the metadata of the events from `position` to the end. An earlier origin and earlier
    /// metadata are replaced.
    pub fn apply_origin(&mut self, position: usize, origin: &Origin) {
        if position >= self.len() {
            return;
        }
        let (bytes, nodes) = self.buffers_mut();
        let (text, metadata) = origin.copy_to(bytes, nodes);
        for event in &mut self.events[position..] {
            (event.origin, event.metadata) = (text, metadata);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Origin;
    use crate::{
        batch::{Batch, Pool},
        literal,
    };

    fn origin(name: &str) -> Origin {
        Origin::new(name, |writer| {
            writer.write_value((&literal!({ "file": { "name": name } })).into());
        })
    }

    fn seen(batch: &Batch) -> Vec<String> {
        let text = |event: crate::batch::EventRef<'_>| {
            let metadata =
                event.metadata().map(|metadata| metadata.to_string()).unwrap_or_default();
            format!("{} {metadata}", event.origin().unwrap_or_default())
        };
        batch.iter().map(text).collect()
    }

    /// Returns a batch with fragments of two origins, an event without an origin, and the end of a stream.
    fn two_origins() -> Batch {
        let mut batch = Batch::new();
        batch.push_message(b"unknown");
        batch.stream(1).push_fragment(b"a,b");
        batch.stream(1).push_fragment(b"c,d");
        batch.apply_origin(1, &origin("one"));
        let before = batch.len();
        batch.apply_origin(before, &origin("nothing was added"));
        batch.stream(2).push_fragment(b"e,f");
        batch.stream(2).end();
        batch.apply_origin(before, &origin("two"));
        batch.validate().unwrap();
        batch
    }

    #[test]
    fn events_from_a_position_share_origin_and_metadata() {
        let batch = two_origins();
        let (one, two) = (r#"one {"file":{"name":"one"}}"#, r#"two {"file":{"name":"two"}}"#);
        assert_eq!(seen(&batch), [" ", one, one, two, two]);
        assert_eq!(batch.nodes().len(), 2 * 6, "two copies for four events");
        assert!(!batch.bytes().windows(7).any(|window| window == b"nothing"));
        assert_eq!(
            (origin("x").to_string(), format!("{:?}", origin("x"))),
            ("x".into(), "\"x\"".into())
        );
    }

    #[test]
    fn encoding_and_selection_copy_shared_metadata_once() {
        let mut batch = two_origins();
        batch.retain(|event| !event.is_stream_end());
        assert!(
            batch
                .cut(|cutter| {
                    let len = cutter.payload().len();
                    if len == 3 {
                        cutter.emit(0..1);
                        cutter.emit(2..3);
                    } else {
                        cutter.pass();
                    }
                })
                .is_empty()
        );
        let expected = seen(&batch);
        assert_eq!(expected.len(), 7);
        batch.decode_with(|_, nodes, span| {
            nodes.push(crate::document::Node::string(span.start.into(), span.len));
            Ok(u32::try_from(nodes.len() - 1).unwrap())
        });
        batch.validate().unwrap();
        let (encoded, rejected) = batch.encode_with(&Pool::new(1), |_, bytes| {
            bytes.push(b'-');
            Ok(())
        });
        assert!(rejected.is_empty());
        encoded.validate().unwrap();
        assert_eq!((seen(&encoded), encoded.nodes().len()), (expected.clone(), 2 * 6));
        let mut appended = Batch::new();
        appended.append(encoded.part(1..7));
        assert_eq!(seen(&appended), expected[1..]);
    }

    #[test]
    fn origin_is_applied_to_shared_buffers() {
        let mut batch = Batch::new();
        batch.push_message(b"x");
        let other = batch.clone();
        batch.apply_origin(0, &origin("one"));
        assert_eq!(seen(&batch), [r#"one {"file":{"name":"one"}}"#]);
        assert_eq!(seen(&other), [" "]);
    }
}
