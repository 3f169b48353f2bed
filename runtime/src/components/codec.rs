//! An adapter that gives codecs of plugins the runtime's interface for batches.

use std::sync::Arc;

use tremor_abi::batch::{Event, HostBatch, HostOutput, Pool, Rejected};
use tremor_pdk::{Batch, Error, Output, Result};

use super::supervised::{Maker, Supervised};
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

    /// Decodes the messages of a batch one by one until the batch is heavy.
    #[cold]
    fn decode_each(&mut self, batch: &mut Batch) -> Decoded {
        let mut all = Decoded::default();
        let mut left = Vec::with_capacity(self.events.len());
        for event in std::mem::take(&mut self.events) {
            if batch.is_heavy() && !left.is_empty() {
                left.push(event);
                continue;
            }
            self.output.clear();
            batch.set_events(&[event]);
            let decoded = batch.validate().and_then(|_| self.decode(batch));
            match decoded {
                Ok(Decoded { rejected, discarded }) => {
                    left.extend_from_slice(batch.events());
                    all.rejected.extend(rejected);
                    all.discarded += discarded;
                }
                Err(error) => all.rejected.push(Rejected { event, error }),
            }
        }
        self.output.clear();
        batch.set_events(&left);
        all
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
    #[cold]
    fn encode_each(&mut self, batch: &mut Batch, pool: &Pool) -> (Batch, Vec<Rejected>) {
        let (mut all, mut rejected) = (Batch::from_pool(pool), Vec::new());
        let (mut left, mut messages) = (Vec::new(), Vec::new());
        for event in std::mem::take(&mut self.events) {
            self.output.clear();
            batch.set_events(&[event]);
            let encoded = batch.validate().and_then(|_| self.encode(batch, pool));
            let appended = encoded.and_then(|(encoded, failed)| {
                rejected.extend(failed);
                for message in encoded.events() {
                    let bytes = encoded.raw(message).unwrap_or_default();
                    let too_large = || Error::bad_data("the messages of the batch exceed 4 GiB");
                    let span = all.append_bytes(bytes).ok_or_else(too_large)?;
                    messages.push(all.adopt(&encoded, message).with_raw(span));
                }
                Ok(())
            });
            match appended {
                Ok(()) => left.extend_from_slice(batch.events()),
                Err(error) => rejected.push(Rejected { event, error }),
            }
        }
        self.output.clear();
        batch.set_events(&left);
        all.set_events(&messages);
        (all, rejected)
    }
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
        match self.decode(batch) {
            Ok(decoded) => decoded,
            Err(_) if self.codec.divides(self.events.len()) => self.decode_each(batch),
            Err(error) => Decoded { rejected: self.reject_all(batch, &error), discarded: 0 },
        }
    }
}

impl BatchEncoder for Instance {
    fn encode_batch(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        terminator: &Terminator,
    ) -> (Batch, Vec<Rejected>) {
        let (mut encoded, mut rejected) = match self.encode(batch, pool) {
            Ok(encoded) => encoded,
            Err(_) if self.codec.divides(self.events.len()) => self.encode_each(batch, pool),
            Err(error) => (Batch::from_pool(pool), self.reject_all(batch, &error)),
        };
        // A codec of a plugin may write any bytes, so its messages may contain the terminator.
        rejected.extend(terminator.append(&mut encoded, batch));
        (encoded, rejected)
    }
}

#[cfg(test)]
mod tests;
