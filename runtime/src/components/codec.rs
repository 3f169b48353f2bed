//! An adapter that gives codecs of plugins the runtime's interface for batches.

use std::sync::Arc;

use tremor_abi::batch::{Event, HostBatch, HostOutput, Pool, Rejected};
use tremor_pdk::{Batch, Error, Output, Result};

use super::supervised::{MAX_BYTES, Maker, Supervised, append};
use crate::{
    codec::{BatchDecoder, BatchEncoder, Codec, Decoded, MakeCodec, Terminator},
    dynamic::DynCodec,
    engine::PartRestarts,
    flow,
};

/// Codec of a connector.
pub(super) enum Chosen<'f> {
    BuiltIn(Codec),
    Plugin(&'f flow::Component),
}

/// A codec of a plugin.
pub(super) struct PluginCodec {
    maker: Arc<Maker<Box<dyn DynCodec>>>,
    decodes: Arc<PartRestarts>,
    encodes: Arc<PartRestarts>,
}

/// An instance of a codec of a plugin. Decoding and encoding use different instances.
struct Instance {
    codec: Supervised<Box<dyn DynCodec>>,
    output: Output,
    /// Events of the current batch.
    events: Vec<Event>,
}

impl PluginCodec {
    pub(super) fn new(maker: Maker<Box<dyn DynCodec>>) -> Self {
        Self { maker: Arc::new(maker), decodes: Arc::default(), encodes: Arc::default() }
    }

    fn instance(&self, restarts: &Arc<PartRestarts>) -> Result<Box<Instance>> {
        let codec = Supervised::new(self.maker.clone(), restarts.clone())?;
        Ok(Box::new(Instance { codec, output: Output::new(), events: Vec::new() }))
    }
}

impl MakeCodec for PluginCodec {
    fn decoder(&self) -> Result<Box<dyn BatchDecoder>> {
        Ok(self.instance(&self.decodes)?)
    }

    fn encoder(&self) -> Result<Box<dyn BatchEncoder>> {
        Ok(self.instance(&self.encodes)?)
    }
}

impl Instance {
    /// Stores the events of a batch, because a call that panics may empty the batch.
    fn store_events(&mut self, batch: &Batch) {
        self.events.clear();
        self.events.extend_from_slice(batch.events());
    }

    /// Checks that every event of the batch is still in the batch, was rejected, or is one of the `discarded` events.
    fn check_counts(&self, batch: &Batch, discarded: usize) -> Result<(), Error> {
        let left = batch.len() + self.output.rejected().len();
        let (had, left) = (self.events.len(), left.saturating_add(discarded));
        if had == left {
            return Ok(());
        }
        Err(Error::internal(format_args!(
            "the codec received {had} events and accounts for {left}"
        )))
    }

    /// Rejects all events of a batch that could not be processed as a whole.
    fn reject_all(&mut self, batch: &mut Batch, error: &Error) -> Vec<Rejected> {
        self.output.clear();
        batch.retain(|_| false);
        let reject = |event| Rejected { event, error: error.clone() };
        self.events.drain(..).map(reject).collect()
    }

    /// Decodes a batch. After an error, the contents of the batch and of the output are not reliable.
    fn decode(&mut self, batch: &mut Batch) -> Result<Decoded> {
        self.store_events(batch);
        self.codec.call(|it| it.decode(batch, &mut self.output))?;
        // The codec may stop once the batch is heavy, after it has decoded at least one event.
        let is_raw = |event| batch.raw(event).is_some();
        let may_stop = batch.is_heavy() && batch.events().first().is_some_and(|it| !is_raw(it));
        if !may_stop && batch.events().iter().any(is_raw) {
            return Err(Error::internal("the codec left messages undecoded"));
        }
        let discarded = self.output.take_discarded();
        self.check_counts(batch, discarded)?;
        Ok(Decoded { rejected: self.output.take_rejected(), discarded })
    }

    /// Sets the events that the batch had before a call that failed.
    ///
    /// # Errors
    /// Returns an error if the call has changed their contents.
    fn restore_events(&mut self, batch: &mut Batch) -> Result<Vec<Event>> {
        batch.set_events(&self.events);
        batch.validate()?;
        Ok(std::mem::take(&mut self.events))
    }

    /// Decodes the messages of a batch one by one until the batch is heavy.
    ///
    /// # Errors
    /// Returns the errors of [`Instance::restore_events`].
    #[cold]
    fn decode_each(&mut self, batch: &mut Batch) -> Result<Decoded> {
        let events = self.restore_events(batch)?;
        let (mut all, mut undecoded) = (Decoded::default(), &[][..]);
        for (position, event) in events.iter().enumerate() {
            let weight = batch.bytes().len() + size_of_val(batch.nodes());
            if weight > Batch::WEIGHT_AT_MOST && batch.len() > events.len() {
                undecoded = &events[position..];
                break;
            }
            self.output.clear();
            let mut alone = batch.copy_of(event);
            let decoded = self.decode(&mut alone);
            let decoded = decoded.and_then(|it| append(batch, alone, MAX_BYTES).map(|()| it));
            match decoded {
                Ok(Decoded { rejected, discarded }) => {
                    all.rejected.extend(of_event(event, rejected));
                    all.discarded += discarded;
                }
                Err(error) => all.rejected.push(Rejected { event: *event, error }),
            }
        }
        self.output.clear();
        let decoded = &batch.events()[events.len()..];
        batch.set_events(&[decoded, undecoded].concat());
        Ok(all)
    }

    /// Encodes a batch. After an error, the contents of the batch and of the output are not reliable.
    fn encode(&mut self, batch: &mut Batch, pool: &Pool) -> Result<(Batch, Vec<Rejected>)> {
        self.store_events(batch);
        let mut encoded = Batch::from_pool(pool);
        self.codec.call(|it| it.encode(batch, &mut encoded, &mut self.output))?;
        let is_raw = |event| encoded.raw(event).is_some();
        if encoded.len() != batch.len() || !encoded.events().iter().all(is_raw) {
            let (events, messages) = (batch.len(), encoded.len());
            let message = format!("the codec returned {messages} messages for {events} events");
            return Err(Error::internal(message));
        }
        self.check_counts(batch, 0)?;
        check_messages(&encoded)?;
        Ok((encoded, self.output.take_rejected()))
    }

    /// Encodes the events of a batch one by one.
    ///
    /// # Errors
    /// Returns the errors of [`Instance::restore_events`].
    #[cold]
    fn encode_each(&mut self, batch: &mut Batch, pool: &Pool) -> Result<(Batch, Vec<Rejected>)> {
        let events = self.restore_events(batch)?;
        let (mut all, mut rejected) = (Batch::from_pool(pool), Vec::new());
        let mut left = Vec::with_capacity(events.len());
        for event in &events {
            self.output.clear();
            let encoded = self.encode(&mut batch.copy_of(event), pool);
            let appended = encoded.and_then(|(encoded, failed)| {
                rejected.extend(of_event(event, failed));
                append(&mut all, encoded, MAX_BYTES)
            });
            match appended {
                Ok(()) if all.len() > left.len() => left.push(*event),
                Ok(()) => {}
                Err(error) => rejected.push(Rejected { event: *event, error }),
            }
        }
        self.output.clear();
        batch.set_events(&left);
        Ok((all, rejected))
    }
}

/// Returns the errors of a call for `event` alone, as errors of this event.
fn of_event(event: &Event, rejected: Vec<Rejected>) -> impl Iterator<Item = Rejected> {
    rejected.into_iter().map(|Rejected { error, .. }| Rejected { event: *event, error })
}

/// Checks that each message begins after the one before it. A plugin that was built with an older kit could remove bytes
/// of an earlier message.
fn check_messages(encoded: &Batch) -> Result<()> {
    let mut end = std::ptr::null();
    for event in encoded.events() {
        let message = encoded.raw(event).unwrap_or_default().as_ptr_range();
        if message.start < end {
            return Err(Error::internal(
                "the codec removed bytes of another message: build its plugin with a newer kit",
            ));
        }
        end = message.end;
    }
    Ok(())
}

impl BatchDecoder for Instance {
    fn decode_batch(&mut self, batch: &mut Batch) -> Decoded {
        let decoded = match self.decode(batch) {
            Err(_) if self.codec.divide(self.events.len()) => self.decode_each(batch),
            decoded => decoded,
        };
        self.codec.end_division();
        decoded.unwrap_or_else(|error| Decoded {
            rejected: self.reject_all(batch, &error),
            discarded: 0,
        })
    }
}

impl BatchEncoder for Instance {
    fn encode_batch(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        terminator: &Terminator,
    ) -> (Batch, Vec<Rejected>) {
        let encoded = match self.encode(batch, pool) {
            Err(_) if self.codec.divide(self.events.len()) => self.encode_each(batch, pool),
            encoded => encoded,
        };
        self.codec.end_division();
        let (mut encoded, mut rejected) = encoded
            .unwrap_or_else(|error| (Batch::from_pool(pool), self.reject_all(batch, &error)));
        // A codec of a plugin may write any bytes, so its messages may contain the terminator.
        rejected.extend(terminator.append(&mut encoded, batch));
        (encoded, rejected)
    }
}

#[cfg(test)]
mod tests;
