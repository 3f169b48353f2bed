//! What tests of sinks deliver, and what became of it.

use crate::{Batch, Delivery, Exception, Undelivered, Value};

/// A batch of these messages, without metadata.
pub fn batch_of<M: AsRef<[u8]>>(messages: &[M]) -> Batch {
    let mut batch = Batch::new();
    messages.iter().for_each(|message| batch.push_message(message.as_ref()));
    batch
}

/// A batch of these messages, each with its metadata.
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

/// The events of a delivery that were not delivered, where that is not all of them for one reason.
///
/// # Panics
/// Where it is.
#[track_caller]
pub fn exceptions(delivery: Delivery) -> Vec<Exception> {
    match delivery {
        Ok(()) => Vec::new(),
        Err(Undelivered::Some { exceptions, .. }) => exceptions,
        Err(Undelivered::All(error)) => panic!("nothing was delivered: {error}"),
    }
}
