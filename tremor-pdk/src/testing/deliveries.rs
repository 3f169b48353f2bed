//! Batches for tests of sinks, and the results of their deliveries.

use crate::{Batch, Delivery, Exception, Undelivered, Value};

/// Creates a batch of messages without metadata.
pub fn batch_of<M: AsRef<[u8]>>(messages: &[M]) -> Batch {
    let mut batch = Batch::new();
    messages.iter().for_each(|message| batch.push_message(message.as_ref()));
    batch
}

/// Creates a batch of messages with metadata.
pub fn batch_with_metadata(messages: &[(&str, Value<'static>)]) -> Batch {
    let mut batch = Batch::new();
    for (message, metadata) in messages {
        batch.push_message(message.as_bytes());
        if let Some(mut event) = batch.last_mut() {
            event.set_metadata(metadata.clone());
        }
    }
    batch
}

/// Creates a batch of messages with the fields that `templates` read, as the runtime encodes the events of a sink whose
/// connector has a codec. Each message is the encoded form of the value beside it.
#[cfg(feature = "template")]
pub fn batch_with_fields<'t>(
    templates: impl IntoIterator<Item = &'t crate::template::Template>,
    events: &[(&str, Value<'static>)],
) -> Batch {
    let (mut encoded, mut batch) = (Batch::new(), Batch::new());
    for (message, value) in events {
        encoded.push_message(message.as_bytes());
        batch.push_message(message.as_bytes());
        let position = batch.len() - 1;
        if let Some(mut event) = batch.get_mut(position) {
            // A copy of a value cannot fail.
            let _ = event.write_value(|writer| {
                writer.write_value(value.into());
                Ok(())
            });
        }
    }
    if let Some(fields) = crate::template::TemplateFields::of(templates) {
        fields.carry(&mut encoded, &batch, &tremor_abi::batch::Pool::new(1));
    }
    encoded
}

/// Returns the events that were not delivered, with their errors.
///
/// # Panics
/// Panics if the delivery failed for the whole batch.
#[track_caller]
pub fn exceptions(delivery: Delivery) -> Vec<Exception> {
    match delivery {
        Ok(()) => Vec::new(),
        Err(Undelivered::Some { exceptions, .. }) => exceptions,
        Err(Undelivered::All(error)) => panic!("nothing was delivered: {error}"),
    }
}

#[cfg(all(test, feature = "template"))]
mod tests {
    use super::batch_with_fields;
    use crate::{literal, template::Template};

    #[test]
    fn batch_has_fields_of_templates_as_from_the_runtime() {
        let template: Template = "{host}/{n:-x}".parse().unwrap();
        let events =
            [("one", literal!({ "host": "a", "n": 1 })), ("two", literal!({ "host": "b" }))];
        let batch = batch_with_fields([&template], &events);
        let texts: Vec<_> = batch
            .iter()
            .map(|event| {
                let mut text = String::from_utf8(event.raw().unwrap().to_vec()).unwrap() + ":";
                template.render(event, &mut text).unwrap();
                text
            })
            .collect();
        assert_eq!(texts, ["one:a/1", "two:b/x"]);
    }
}
