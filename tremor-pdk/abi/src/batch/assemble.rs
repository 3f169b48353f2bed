//! Events that a host assembles from events of the same batch or of an earlier batch.

use super::{Batch, Event, PayloadKind, Span, bounds::span, event::IN_NODES, metadata::LastCopied};
use crate::document::{Node, root_index};

impl Event {
    /// Returns a copy of the event that has no flags and whose payload is the range `payload` of the batch's bytes.
    #[inline]
    #[must_use]
    pub const fn with_raw(self, payload: Span) -> Self {
        self.with_payload(PayloadKind::RAW, payload)
    }

    /// Returns the range of a raw payload in the batch's bytes, or `None` if the payload is not raw.
    #[inline]
    pub fn raw_span(&self) -> Option<Span> {
        (self.kind == PayloadKind::RAW).then_some(self.payload)
    }

    /// Returns whether the event has metadata or an origin.
    #[inline]
    pub const fn has_context(&self) -> bool {
        self.metadata != 0 || self.origin != 0
    }

    /// Returns whether the event has metadata.
    #[inline]
    pub const fn has_metadata(&self) -> bool {
        self.metadata != 0
    }

    /// Returns the index of the root node of the metadata, or `None` if the event has no metadata, or if the metadata
    /// is an edited value.
    #[inline]
    pub const fn metadata_node(&self) -> Option<u32> {
        self.metadata_root()
    }

    /// Sets the metadata to that of `other`, an event of the same batch.
    #[inline]
    pub const fn set_metadata_of(&mut self, other: &Self) {
        self.metadata = other.metadata;
    }

    /// Sets the metadata to the document whose root node has the index `root` in the batch's nodes.
    #[inline]
    pub const fn set_metadata_node(&mut self, root: u32) {
        self.metadata = (root + 1) | IN_NODES;
    }
}

impl Batch {
    pub(crate) fn set_events(&mut self, events: &[Event]) {
        self.events.clear();
        self.events.extend_from_copy_slice(events);
    }

    pub(crate) fn append_bytes(&mut self, data: &[u8]) -> Option<Span> {
        let (bytes, _) = self.buffers_mut();
        let span = span(bytes.len(), data.len())?;
        bytes.extend_from_copy_slice(data);
        Some(span)
    }

    pub(crate) fn append_nodes(&mut self, parts: &[&[Node]]) -> Option<u32> {
        let (_, nodes) = self.buffers_mut();
        let root = root_index(nodes.len()).ok()?;
        parts.iter().for_each(|part| nodes.extend_from_copy_slice(part));
        Some(root)
    }

    pub(crate) fn adopt(&mut self, from: &Self, event: &Event) -> Event {
        let mut event = event.with_raw(Span::default());
        let (bytes, nodes, values) = self.parts_mut();
        LastCopied::default().adopt(&mut event, from, bytes, nodes, values);
        event
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Node, Span};
    use crate::{document::fingerprint, literal};

    #[test]
    fn adopted_event_keeps_metadata_and_origin_of_other_batch() {
        let mut from = Batch::new();
        from.stream(7).push_message(b"one");
        from.write_metadata(0, |writer| writer.str("written")).unwrap();
        from.stream(7).push_message(b"two");
        from.set_metadata(1, literal!({ "a": 1 }));
        from.set_origin("here");
        let mut batch = Batch::new();
        batch.push_message(b"other");
        let mut events = batch.events().to_vec();
        for event in from.events() {
            let adopted = batch.adopt(&from, event);
            let text = batch.append_bytes(b"text").unwrap();
            events.push(adopted.with_raw(text));
        }
        batch.set_events(&events);
        drop(from);
        batch.validate().unwrap();
        let seen = batch.events()[1..].iter().map(|event| {
            assert_eq!((batch.raw(event), batch.origin(event)), (Some(&b"text"[..]), Some("here")));
            assert_eq!(event.stream, 7);
            batch.metadata(event).unwrap().to_string()
        });
        assert_eq!(seen.collect::<Vec<_>>(), [r#""written""#, r#"{"a":1}"#]);
    }

    #[test]
    fn appended_nodes_become_metadata() {
        let mut batch = Batch::new();
        batch.push_message(b"key text");
        let mut event = batch.events()[0];
        assert!(!event.has_context());
        let Span { start, .. } = event.raw_span().unwrap();
        let key = Node::key(start.into(), 3, fingerprint(b"key"));
        let parts: [&[Node]; 2] = [&[Node::object(1, 3), key], &[Node::string(4, 4)]];
        event.set_metadata_node(batch.append_nodes(&parts).unwrap());
        batch.set_events(&[event]);
        batch.validate().unwrap();
        let metadata = batch.metadata(&batch.events()[0]).unwrap().to_string();
        assert_eq!(metadata, r#"{"key":"text"}"#);
    }
}
