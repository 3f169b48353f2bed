//! Watched operators, processors and codecs.

use tremor_abi::batch::{Pool, Rejected};
use tremor_pdk::{Batch, Operator, Output, Postprocessor, Preprocessor, Result};

use super::{Call, Dropped, Watched};
use crate::codec::{BatchDecoder, BatchEncoder, Decoded, MakeCodec, Terminator};

/// Component of a plugin with its record.
struct Component<T> {
    inner: Dropped<T>,
    record: Watched,
}

impl Watched {
    fn component<T>(&self, inner: T) -> Component<T> {
        Component { inner: Dropped::new(inner, self), record: self.clone() }
    }

    /// Returns an operator whose calls are recorded.
    pub(crate) fn operator(&self, operator: Box<dyn Operator>) -> Box<dyn Operator> {
        Box::new(self.component(operator))
    }

    /// Returns a preprocessor whose calls are recorded.
    pub(crate) fn preprocessor(&self, inner: Box<dyn Preprocessor>) -> Box<dyn Preprocessor> {
        Box::new(self.component(inner))
    }

    /// Returns a postprocessor whose calls are recorded.
    pub(crate) fn postprocessor(&self, inner: Box<dyn Postprocessor>) -> Box<dyn Postprocessor> {
        Box::new(self.component(inner))
    }
}

impl Operator for Component<Box<dyn Operator>> {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.record.call(Call::Process, || self.inner.inner.process(batch, output))
    }

    fn due(&self) -> Option<u64> {
        self.record.call(Call::Due, || self.inner.inner.due())
    }

    fn on_time(&mut self, now: u64, output: &mut Output) -> Result<()> {
        self.record.call(Call::Time, || self.inner.inner.on_time(now, output))
    }

    fn flush(&mut self, output: &mut Output) -> Result<()> {
        self.record.call(Call::Flush, || self.inner.inner.flush(output))
    }

    fn ports(&self) -> Vec<String> {
        // The ports were determined when the operator was created, so this does not call the plugin.
        self.inner.inner.ports()
    }
}

impl Preprocessor for Component<Box<dyn Preprocessor>> {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.record.call(Call::Process, || self.inner.inner.process(batch, output))
    }

    fn has_more(&self) -> bool {
        self.record.call(Call::HasMore, || self.inner.inner.has_more())
    }

    fn due(&self) -> Option<u64> {
        self.record.call(Call::Due, || self.inner.inner.due())
    }

    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.record.call(Call::Time, || self.inner.inner.on_time(now, batch, output))
    }

    fn buffers(&self, stream: u64) -> bool {
        self.record.call(Call::Buffers, || self.inner.inner.buffers(stream))
    }

    fn buffered_since(&self, stream: u64) -> Option<u64> {
        // The interface of plugins does not have this method, so this does not call the plugin.
        self.inner.inner.buffered_since(stream)
    }

    fn streams(&self) -> Vec<u64> {
        self.record.call(Call::Streams, || self.inner.inner.streams())
    }
}

impl Postprocessor for Component<Box<dyn Postprocessor>> {
    fn suffix(&self) -> Option<&[u8]> {
        // The suffix was determined when the postprocessor was created, so this does not call the plugin.
        self.inner.inner.suffix()
    }

    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.record.call(Call::Process, || self.inner.inner.process(batch, output))
    }
}

/// Codec of a plugin whose instances are watched.
///
/// Each instance has a record of its own, because instances may work at the same time. `watch` creates the record.
pub(crate) struct WatchedCodec<C, W> {
    pub(crate) codec: C,
    pub(crate) watch: W,
}

impl<C: MakeCodec, W: Fn() -> Watched> MakeCodec for WatchedCodec<C, W> {
    fn decoder(&self) -> Result<Box<dyn BatchDecoder>> {
        let record = (self.watch)();
        let decoder = record.call(Call::New, || self.codec.decoder())?;
        Ok(Box::new(record.component(decoder)))
    }

    fn encoder(&self) -> Result<Box<dyn BatchEncoder>> {
        let record = (self.watch)();
        let encoder = record.call(Call::New, || self.codec.encoder())?;
        Ok(Box::new(record.component(encoder)))
    }

    fn is_best_on_one_core(&self) -> bool {
        self.codec.is_best_on_one_core()
    }
}

impl BatchDecoder for Component<Box<dyn BatchDecoder>> {
    fn decode_batch(&mut self, batch: &mut Batch) -> Decoded {
        self.record.call(Call::Decode, || self.inner.inner.decode_batch(batch))
    }
}

impl BatchEncoder for Component<Box<dyn BatchEncoder>> {
    fn encode_batch(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        terminator: &Terminator,
    ) -> (Batch, Vec<Rejected>) {
        self.record.call(Call::Encode, || self.inner.inner.encode_batch(batch, pool, terminator))
    }
}
