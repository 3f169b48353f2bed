//! Components without a connection of their own, at the boundary: operators, codecs, preprocessors
//! and postprocessors. Authors use the traits of `tremor-pdk` instead.
//!
//! All calls to one object come one after the other, from any thread of the host. A batch that is
//! lent for a call is the host's again when the call returns, and what was put into an output as
//! well.

// What abi_stable's macros generate.
#![allow(non_local_definitions, clippy::used_underscore_binding, clippy::cast_ptr_alignment)]

use abi_stable::{
    sabi_trait,
    std_types::{RBox, ROption, RString, RVec},
};

use crate::{
    batch::{Batch, Output},
    connector::CallResult,
};

/// An operator across the boundary.
pub type RawOperatorBox = RawOperator_TO<RBox<()>>;
/// A codec across the boundary.
pub type RawCodecBox = RawCodec_TO<RBox<()>>;
/// A preprocessor across the boundary.
pub type RawPreprocessorBox = RawPreprocessor_TO<RBox<()>>;
/// A postprocessor across the boundary.
pub type RawPostprocessorBox = RawPostprocessor_TO<RBox<()>>;

/// One step of a pipeline.
#[sabi_trait]
pub trait RawOperator: Send + 'static {
    /// Processes a batch of values: what is left in it leaves by `out`, everything else is up to
    /// `output`.
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()>;

    /// When `on_time` is to be called, in ns since the Unix epoch. Asked after every call.
    fn due(&self) -> ROption<u64>;

    /// Notifies the operator that it is `now`, in ns since the Unix epoch.
    fn on_time(&mut self, now: u64, output: &mut Output) -> CallResult<()>;

    /// Notifies the operator that no event follows.
    fn flush(&mut self, output: &mut Output) -> CallResult<()>;

    /// The ports by which events leave it, besides `out` and `err`. Asked once.
    #[sabi(last_prefix_field)]
    fn ports(&self) -> CallResult<RVec<RString>>;
}

/// Bytes to values and back.
#[sabi_trait]
pub trait RawCodec: Send + 'static {
    /// Decodes the raw events of a batch in place; what it fails on it rejects. Once the batch is
    /// heavy ([`HostBatch::is_heavy`](crate::batch::HostBatch::is_heavy)), it may leave the last events as they are: they come again.
    fn decode(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()>;

    /// Encodes the events of `batch` into `encoded`, which is empty: as many events, in the same
    /// order. What it fails on it takes out of `batch` and rejects.
    #[sabi(last_prefix_field)]
    fn encode(
        &mut self,
        batch: &mut Batch,
        encoded: &mut Batch,
        output: &mut Output,
    ) -> CallResult<()>;
}

/// Puts messages together, before a codec.
#[sabi_trait]
pub trait RawPreprocessor: Send + 'static {
    /// Replaces the raw events of a batch; what cannot be a message it rejects. Streams end with
    /// events of the batch, complete or aborted.
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()>;

    /// Whether `process` is to be called again, with an empty batch, for what is left of the input
    /// that it has. Asked after every call.
    fn has_more(&self) -> bool;

    /// Returns when `on_time` is to be called, in ns on the host's monotonic clock. The host calls this
    /// method after every call that gets a batch.
    fn due(&self) -> ROption<u64>;

    /// Puts messages that no longer wait for their streams into `batch`, which is empty. `now` is in ns
    /// on the host's monotonic clock.
    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> CallResult<()>;

    /// Returns whether bytes of `stream` are buffered. The host calls this method after a call, for the
    /// streams in its batch.
    fn holds(&self, stream: u64) -> bool;

    /// Returns the streams that the preprocessor keeps a state of. The host calls this method at the
    /// end of a connection.
    #[sabi(last_prefix_field)]
    fn streams(&self) -> RVec<u64>;
}

/// Frames and transforms messages after a codec.
#[sabi_trait]
pub trait RawPostprocessor: Send + 'static {
    /// What it does, if that is no more than putting these bytes after every message. Asked once.
    fn suffix(&self) -> ROption<RVec<u8>>;

    /// Replaces the raw events of a batch one by one; what it fails on it rejects.
    #[sabi(last_prefix_field)]
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> CallResult<()>;
}
