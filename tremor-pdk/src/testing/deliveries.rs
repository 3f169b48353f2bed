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
