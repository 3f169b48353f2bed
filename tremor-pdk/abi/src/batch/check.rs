//! Checking a batch that came over the boundary.

use std::fmt;

use super::{Batch, Event, PayloadKind};
use crate::{
    document::{self, Invalid, Node, Validator},
    error::PluginError,
};

/// What a batch had before a plugin got it to edit: what [`Batch::validate_changes`] need not look
/// at again. Kept from batch to batch for its capacity.
#[derive(Debug, Default)]
pub struct Mark {
    nodes: usize,
    len: usize,
    /// How many bytes.
    bytes: usize,
    /// The roots of payloads and metadata, in order.
    roots: Vec<u32>,
}

fn address(nodes: &[Node]) -> usize {
    nodes.as_ptr().addr()
}

impl Batch {
    /// Checks that every event points to what the batch has: raw payloads to its bytes, documents
    /// to nodes that make up a valid value, everything else to its table of values. The host does
    /// so once for every batch that a plugin filled.
    ///
    /// It takes time linear in the events and the nodes of documents, none for raw payloads.
    ///
    /// # Errors
    /// Kind internal: the plugin's code made a batch that cannot be.
    pub fn validate(&self) -> Result<(), PluginError> {
        self.validate_all(0, |_| false)
    }

    /// Remembers what a batch that is known to be valid has, before a plugin gets it.
    pub fn mark(&self, mark: &mut Mark) {
        mark.nodes = address(self.nodes());
        mark.len = self.nodes().len();
        mark.bytes = self.bytes().len();
        mark.roots.clear();
        for event in &self.events {
            if event.kind == PayloadKind::DOCUMENT {
                mark.roots.push(event.payload.start);
            }
            mark.roots.extend(event.metadata_root());
        }
        if !mark.roots.is_sorted() {
            mark.roots.sort_unstable();
        }
    }

    /// As [`Batch::validate`], for a batch that was valid when it was marked, or a part of it: only
    /// documents that were not there then are looked at. A plugin that writes to what it may only
    /// read is beyond what can be found out within one process.
    ///
    /// # Errors
    /// As [`Batch::validate`].
    pub fn validate_changes(&self, mark: &Mark) -> Result<(), PluginError> {
        let same = address(self.nodes()) == mark.nodes && self.nodes().len() >= mark.len;
        let roots: &[u32] = if same { &mark.roots } else { &[] };
        let mut next = 0;
        self.validate_all(mark.bytes, |root| {
            // Events mostly keep their order, so the root looked for is mostly the next one.
            if roots.get(next) == Some(&root) {
                next += 1;
                return true;
            }
            let found = roots.binary_search(&root);
            next = found.map_or(next, |found| found + 1);
            found.is_ok()
        })
    }

    /// Checks all events; `known` says of which roots it is known that a valid value is there. The
    /// text of the others mostly lies behind the first `old` bytes.
    ///
    /// This loop is behind every call of a loaded component. So events of the usual kinds get by
    /// with comparisons, and what these do not settle is looked at once more, to be put in words.
    fn validate_all(
        &self,
        old: usize,
        mut known: impl FnMut(u32) -> bool,
    ) -> Result<(), PluginError> {
        let (bytes, values) = (self.bytes().len(), self.values.len());
        let mut validator = None;
        let mut sound = |root| known(root) || self.is_sound(root, old, &mut validator);
        for (position, event) in self.events().iter().enumerate() {
            let payload = match event.kind {
                PayloadKind::RAW => event.payload.range().end <= bytes,
                PayloadKind::DOCUMENT => sound(event.payload.start),
                _ => false,
            };
            // An origin is a position plus one.
            let usual = payload
                && event.original.range().end <= bytes
                && event.origin as usize <= values
                && (event.metadata == 0 || event.metadata_root().is_some_and(&mut sound));
            if !usual {
                self.validate_event(position, event, &mut sound)?;
            }
        }
        Ok(())
    }

    // In line it would take the registers of the loop that may need it.
    #[inline(never)]
    fn is_sound<'b>(
        &'b self,
        root: u32,
        old: usize,
        validator: &mut Option<Validator<'b>>,
    ) -> bool {
        let validator = validator.get_or_insert_with(|| Validator::new(self.bytes(), old));
        validator.validate(self.nodes(), root).is_ok()
    }

    fn validate_document(&self, root: u32) -> Result<(), Invalid> {
        document::validate(self.bytes(), self.nodes(), root)
    }

    #[inline(never)]
    fn validate_event(
        &self,
        position: usize,
        event: &Event,
        sound: &mut impl FnMut(u32) -> bool,
    ) -> Result<(), PluginError> {
        let forged = |what: &dyn fmt::Display| {
            PluginError::internal(format_args!("event {position} of a batch {what}"))
        };
        let bytes = self.bytes();
        let value = |index: usize| index < self.values.len();
        let mut document = |root| if sound(root) { Ok(()) } else { self.validate_document(root) };
        match event.kind {
            PayloadKind::NONE => {}
            PayloadKind::RAW => {
                if event.payload.range().end > bytes.len() {
                    return Err(forged(&"refers to bytes outside of the batch"));
                }
            }
            PayloadKind::DOCUMENT => {
                document(event.payload.start)
                    .map_err(|invalid| forged(&format_args!("is an {invalid}")))?;
            }
            PayloadKind::VALUE if value(event.payload.start as usize) => {}
            PayloadKind::VALUE => return Err(forged(&"refers to a value outside of the batch")),
            PayloadKind(kind) => {
                return Err(forged(&format_args!("has an unknown kind of payload, {kind}")));
            }
        }
        if event.original.range().end > bytes.len() {
            return Err(forged(&"refers to original bytes outside of the batch"));
        }
        if let Some(root) = event.metadata_root() {
            document(root)
                .map_err(|invalid| forged(&format_args!("has metadata that is an {invalid}")))?;
        }
        let kept = |position: Option<u32>| position.is_none_or(|index| value(index as usize));
        if !kept(event.metadata_value()) || !kept(event.origin.checked_sub(1)) {
            return Err(forged(&"refers to metadata or an origin outside of the batch"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Mark, Node, PayloadKind};
    use crate::{batch::Span, error::ErrorKind, value::Value};

    #[test]
    fn what_the_batch_s_own_methods_made_is_valid() {
        let mut batch = Batch::new();
        batch.push_message(1, b"raw");
        batch.push_value(1, &["a", "b"]).unwrap();
        batch.set_metadata(Value::from("known".to_owned()));
        batch.set_origin(0, "here");
        batch.end_stream(1);
        batch.value_mut(1).unwrap();
        batch.validate().unwrap();
    }

    #[test]
    fn what_was_forged_is_an_error_that_names_the_event() {
        let refused = |forge: &dyn Fn(&mut Batch)| {
            let mut batch = Batch::new();
            batch.push_message(1, b"raw");
            batch.push_value(1, &["a", "b"]).unwrap();
            forge(&mut batch);
            let error = batch.validate().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::INTERNAL);
            error.to_string()
        };
        let outside = Span { start: u32::MAX, len: 2 };
        let text = refused(&|batch| batch.events[0].payload = outside);
        assert!(text.starts_with("event 0 "), "{text}");
        let text = refused(&|batch| batch.events[1].payload = outside);
        assert!(text.contains("node 4294967295 does not exist"), "{text}");
        refused(&|batch| batch.events[0].original = outside);
        refused(&|batch| batch.events[1].kind = PayloadKind::VALUE);
        refused(&|batch| batch.events[1].kind = PayloadKind(77));
        refused(&|batch| batch.events[1].metadata = 1);
        let text = refused(&|batch| batch.events[1].metadata = u32::MAX);
        assert!(text.contains("has metadata that is an invalid document"), "{text}");
        refused(&|batch| batch.events[1].origin = 9);
    }

    #[test]
    fn after_a_mark_whatever_is_new_is_looked_at() {
        let mut batch = Batch::new();
        for number in 0..4 {
            batch.push_value(number, &["a", "b"]).unwrap();
        }
        let mut mark = Mark::default();
        batch.mark(&mut mark);
        batch.validate_changes(&mark).unwrap();

        batch.events.swap(0, 3);
        batch.events.truncate(3);
        batch.push_value(9, &[1]).unwrap();
        batch.write_metadata(1, |writer| writer.str("new")).unwrap();
        *batch.value_mut(2).unwrap() = Value::from(1);
        batch.validate_changes(&mark).unwrap();

        let new = batch.events[3].payload.start as usize;
        let (_, nodes) = batch.buffers_mut();
        nodes[new] = Node::array(u32::MAX, u32::MAX.into());
        let error = batch.validate_changes(&mark).unwrap_err();
        assert!(error.to_string().starts_with("event 3 "), "{error}");
    }
}
