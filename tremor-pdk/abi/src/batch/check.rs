//! Checking a batch that came over the boundary.

use super::{Batch, Event, PayloadKind};
use crate::{document, error::PluginError};

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
        for (position, event) in self.events.iter().enumerate() {
            self.validate_event(event).map_err(|what| {
                PluginError::internal(format!("event {position} of a batch {what}"))
            })?;
        }
        Ok(())
    }

    fn validate_event(&self, event: &Event) -> Result<(), String> {
        let bytes = self.bytes();
        let value = |index: usize| index < self.values.len();
        match event.kind {
            PayloadKind::NONE => {}
            PayloadKind::RAW => {
                if event.payload.range().end > bytes.len() {
                    return Err("refers to bytes outside of the batch".to_owned());
                }
            }
            PayloadKind::DOCUMENT => {
                document::validate(bytes, self.nodes(), event.payload.start)
                    .map_err(|invalid| format!("is an {invalid}"))?;
            }
            PayloadKind::VALUE if value(event.payload.start as usize) => {}
            PayloadKind::VALUE => return Err("refers to a value outside of the batch".to_owned()),
            PayloadKind(kind) => return Err(format!("has an unknown kind of payload, {kind}")),
        }
        if event.original.range().end > bytes.len() {
            return Err("refers to original bytes outside of the batch".to_owned());
        }
        // Positions are kept plus one; zero is none.
        let kept = |position: u32| position == 0 || value(position as usize - 1);
        if !kept(event.metadata) || !kept(event.origin) {
            return Err("refers to metadata or an origin outside of the batch".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, PayloadKind};
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
        refused(&|batch| batch.events[1].origin = 9);
    }
}
