//! An adapter that gives codecs of plugins the runtime's interface for batches.

use std::sync::Arc;

use tremor_abi::batch::{Event, HostBatch, HostOutput, Pool, Rejected};
use tremor_pdk::{Batch, Error, Output, Result, Value};

use crate::{
    codec::{BatchDecoder, BatchEncoder, Codec, Decoded, MakeCodec, Terminator},
    dynamic::DynCodec,
    flow,
    plugin::{ComponentFactory, HostContext},
};

/// Codec of a connector.
pub(super) enum Chosen<'f> {
    BuiltIn(Codec),
    Plugin(&'f flow::Component),
}

/// A codec of a plugin, with its configuration.
pub(super) struct PluginCodec {
    pub(super) factory: ComponentFactory,
    pub(super) config: Value<'static>,
    /// Creates the context of an instance.
    pub(super) host: Box<dyn Fn() -> Arc<HostContext> + Send + Sync>,
}

/// An instance of a codec of a plugin. Decoding and encoding use different instances.
struct Instance {
    codec: Box<dyn DynCodec>,
    output: Output,
    /// Events of the current batch.
    events: Vec<Event>,
}

impl PluginCodec {
    fn instance(&self) -> Result<Box<Instance>> {
        let codec = self.factory.codec(&self.config, &(self.host)())?;
        Ok(Box::new(Instance { codec, output: Output::new(), events: Vec::new() }))
    }
}

impl MakeCodec for PluginCodec {
    fn decoder(&self) -> Result<Box<dyn BatchDecoder>> {
        Ok(self.instance()?)
    }

    fn encoder(&self) -> Result<Box<dyn BatchEncoder>> {
        Ok(self.instance()?)
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
}

impl BatchDecoder for Instance {
    fn decode_batch(&mut self, batch: &mut Batch) -> Decoded {
        self.store_events(batch);
        let result = self.codec.decode(batch, &mut self.output).and_then(|()| {
            // The codec may stop once the batch is heavy, after it has decoded at least one event.
            let is_raw = |event| batch.raw(event).is_some();
            let may_stop = batch.is_heavy() && batch.events().first().is_some_and(|it| !is_raw(it));
            if may_stop || !batch.events().iter().any(is_raw) {
                return Ok(());
            }
            Err(Error::internal("the codec left messages undecoded"))
        });
        let discarded = self.output.take_discarded();
        if let Err(error) = result.and_then(|()| self.check_counts(batch, discarded)) {
            return Decoded { rejected: self.reject_all(batch, &error), discarded: 0 };
        }
        Decoded { rejected: self.output.take_rejected(), discarded }
    }
}

impl BatchEncoder for Instance {
    fn encode_batch(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        terminator: &Terminator,
    ) -> (Batch, Vec<Rejected>) {
        self.store_events(batch);
        let mut encoded = Batch::from_pool(pool);
        let result = self.codec.encode(batch, &mut encoded, &mut self.output).and_then(|()| {
            let is_raw = |event| encoded.raw(event).is_some();
            if encoded.len() == batch.len() && encoded.events().iter().all(is_raw) {
                return Ok(());
            }
            let (events, messages) = (batch.len(), encoded.len());
            let message = format!("the codec returned {messages} messages for {events} events");
            Err(Error::internal(message))
        });
        let result = result.and_then(|()| self.check_counts(batch, 0));
        let mut rejected = self.output.take_rejected();
        if let Err(error) = result {
            encoded.retain(|_| false);
            rejected = self.reject_all(batch, &error);
        }
        // A codec of a plugin may write any bytes, so its messages may contain the terminator.
        rejected.extend(terminator.append(&mut encoded, batch));
        (encoded, rejected)
    }
}
