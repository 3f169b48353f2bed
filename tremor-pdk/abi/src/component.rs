//! Operators, codecs, preprocessors and postprocessors in the ABI. Authors implement the traits of `tremor-pdk`
//! instead.
//!
//! Calls to one object never overlap, but may come from different threads. When a call returns, the batches and outputs
//! that the host passed belong to the host again, including their contents.

// The macros of abi_stable generate code that violates these lints.
#![allow(non_local_definitions, clippy::used_underscore_binding, clippy::cast_ptr_alignment)]

use abi_stable::{
    sabi_trait,
    std_types::{RBox, ROption, RString, RVec},
};

use crate::{
    batch::{Batch, Output},
    connector::CallResult,
};

/// An operator as a trait object of the ABI.
pub type RawOperatorBox = RawOperator_TO<RBox<()>>;
/// A codec as a trait object of the ABI.
pub type RawCodecBox = RawCodec_TO<RBox<()>>;
/// A preprocessor as a trait object of the ABI.
pub type RawPreprocessorBox = RawPreprocessor_TO<RBox<()>>;
/// A postprocessor as a trait object of the ABI.
pub type RawPostprocessorBox = RawPostprocessor_TO<RBox<()>>;

/// An operator: a step of a pipeline.
#[sabi_trait]
pub trait RawOperator: Send + 'static {
    /// Processes a batch of values. Events that remain in `batch` leave by the port `out`. All other results are in
    /// `output`.
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()>;

    /// Returns the time at which the host has to call `on_time`, in ns since the Unix epoch. The host calls this method
    /// after every other call.
    fn due(&self) -> ROption<u64>;

    /// Notifies the operator that the time of `due` was reached. `now` is in ns since the Unix epoch.
    fn on_time(&mut self, now: u64, output: &mut Output) -> CallResult<()>;

    /// Notifies the operator that no event follows.
    fn flush(&mut self, output: &mut Output) -> CallResult<()>;

    /// Returns the ports by which events leave the operator, besides `out` and `err`. Called once.
    #[sabi(last_prefix_field)]
    fn ports(&self) -> CallResult<RVec<RString>>;
}

/// Decodes bytes to values and encodes values to bytes.
#[sabi_trait]
pub trait RawCodec: Send + 'static {
    /// Decodes the raw events of a batch in place, and rejects those that it cannot decode. Once the batch is heavy
    /// ([`HostBatch::is_heavy`](crate::batch::HostBatch::is_heavy)), the codec may leave the last events unchanged; the
    /// host passes them to a later call.
    fn decode(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()>;

    /// Encodes the events of `batch` into `encoded`, which is empty before. Events that cannot be encoded are removed
    /// from `batch` and rejected. Afterwards, `encoded` has one message for each event of `batch`, in the same order.
    #[sabi(last_prefix_field)]
    fn encode(
        &mut self,
        batch: &mut Batch,
        encoded: &mut Batch,
        output: &mut Output,
    ) -> CallResult<()>;
}

/// Turns the bytes that a source reads into messages, before the codec decodes them.
#[sabi_trait]
pub trait RawPreprocessor: Send + 'static {
    /// Replaces the raw events of a batch with messages, and rejects data that cannot be a message. The end of a
    /// stream, complete or aborted, is an event of the batch.
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()>;

    /// Returns whether the host has to call `process` with an empty batch, for input that is buffered and not processed
    /// yet. The host calls this method after every other call.
    fn has_more(&self) -> bool;

    /// Returns the time at which the host has to call `on_time`, in ns on the host's monotonic clock. The host calls
    /// this method after every call that gets a batch.
    fn due(&self) -> ROption<u64>;

    /// Adds the messages that have waited long enough for more bytes of their streams to `batch`, which is empty. `now`
    /// is in ns on the host's monotonic clock.
    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> CallResult<()>;

    /// Returns whether bytes of `stream` are buffered. After a call that gets a batch, the host calls this method for
    /// the streams of that batch.
    fn holds(&self, stream: u64) -> bool;

    /// Returns the streams for which the preprocessor keeps state. The host calls this method at the end of a
    /// connection.
    #[sabi(last_prefix_field)]
    fn streams(&self) -> RVec<u64>;
}

/// Frames and transforms messages after a codec.
#[sabi_trait]
pub trait RawPostprocessor: Send + 'static {
    /// Returns the bytes to append to every message, if the postprocessor does nothing else. Called once.
    fn suffix(&self) -> ROption<RVec<u8>>;

    /// Replaces the raw events of a batch one by one, and rejects those that it cannot process.
    #[sabi(last_prefix_field)]
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()>;
}
