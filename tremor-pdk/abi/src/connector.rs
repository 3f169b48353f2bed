//! Connectors at the boundary: what a plugin implements through the adapters of `tremor-pdk` and
//! the runtime calls. Authors use the traits of `tremor-pdk` instead.
//!
//! The order of calls: constructor, `connect` until it answers `true`, `create_source` and
//! `create_sink`, `on_start`, then the data path. A source and a sink live as long as one
//! connection; what must survive it lives in the connector. All calls to one object come one after
//! the other, from any thread of the host.

// What abi_stable's macros generate.
#![allow(non_local_definitions, clippy::used_underscore_binding, clippy::cast_ptr_alignment)]

use abi_stable::{
    StableAbi, sabi_trait,
    std_types::{RBox, ROption, RResult, RSlice, RStr, RVec},
};
use async_ffi::{BorrowingFfiFuture, FfiContext, FfiPoll};

use crate::{batch::Batch, error::PluginError};

/// The result of a call.
pub type CallResult<T> = RResult<T, PluginError>;
/// The result of a call that may take its time.
pub type CallFuture<'a, T> = BorrowingFfiFuture<'a, CallResult<T>>;

/// What a connector exchanges with the runtime: bytes, for which a codec is needed, or values.
/// An open set.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct CodecNeed(pub u8);

impl CodecNeed {
    /// Values; a codec in the flow is an error.
    pub const STRUCTURED: Self = Self(0);
    /// Bytes; the flow must name a codec.
    pub const REQUIRED: Self = Self(1);
    /// Bytes; where the flow names no codec, the default is used.
    pub const OPTIONAL: Self = Self(2);
}

/// What a connector says about codecs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct CodecRequirement {
    /// Whether there is to be one.
    pub need: CodecNeed,
    /// The codec that [`CodecNeed::OPTIONAL`] falls back to; empty otherwise.
    pub default: RStr<'static>,
}

/// What a pull came to. An open set.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct PullKind(pub u8);

impl PullKind {
    /// What there is lies in the batch; pull again.
    pub const EVENTS: Self = Self(0);
    /// Nothing just now; pull again after the wait.
    pub const IDLE: Self = Self(1);
    /// There is nothing more and there never will be.
    pub const FINISHED: Self = Self(2);
}

/// The answer to a pull.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct PullReply {
    /// What it came to.
    pub kind: PullKind,
    /// How long to wait before the next pull after [`PullKind::IDLE`], in ns.
    pub wait_ns: u64,
}

/// Events of a batch, one after the other, that were not delivered.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, StableAbi)]
pub struct ExceptionRange {
    /// Position of the first event.
    pub start: u32,
    /// How many events.
    pub len: u32,
    /// Why. Its policy says what becomes of them.
    pub error: PluginError,
}

/// Events of a pull, one after the other, by their positions in the batch that the pull filled.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct EventRange {
    /// Position of the first event.
    pub start: u32,
    /// How many events.
    pub len: u32,
}

/// Limits of what a source has in flight: the events of pulls that have not ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct InFlight {
    /// Number of events from which the source is not pulled.
    pub events: u64,
    /// Number of bytes from which the source is not pulled, counted as the byte limit of a pull counts them.
    pub bytes: u64,
    /// Configuration key that sets the limits, for log lines; empty if there is none.
    pub key: RStr<'static>,
}

/// The answer to a delivery. Events in no range were delivered; ranges come in order and do not
/// overlap.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, Eq, StableAbi)]
pub struct DeliverReply {
    /// The exceptions.
    pub exceptions: RVec<ExceptionRange>,
}

/// What a sink is told besides events. An open set.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct Signal(pub u8);

impl Signal {
    /// Some time has passed: a chance for what is due.
    pub const TICK: Self = Self(0);
    /// No event follows: the sink sends what it holds back.
    pub const DRAIN: Self = Self(1);
}

/// A connector across the boundary.
pub type RawConnectorBox = RawConnector_TO<RBox<()>>;
/// A source across the boundary.
pub type RawSourceBox = RawSource_TO<RBox<()>>;
/// The acknowledgements of a source across the boundary.
pub type RawAcksBox = RawAcks_TO<RBox<()>>;
/// A sink across the boundary.
pub type RawSinkBox = RawSink_TO<RBox<()>>;

/// A connector: connects, and makes the source and the sink of one connection.
#[sabi_trait]
pub trait RawConnector: Send + 'static {
    /// What it says about codecs. Asked once, before anything else.
    fn codec_requirement(&self) -> CodecRequirement;

    /// Connects to the peer. `attempt` counts from 1 and starts again once connected. `false` is
    /// "not yet": the host retries with backoff, as it does for errors worth retrying.
    fn connect(&mut self, attempt: u64) -> CallFuture<'_, bool>;

    /// Makes the source of this connection; none where the connector is only a sink.
    fn create_source(&mut self) -> CallFuture<'_, ROption<RawSourceBox>>;

    /// Makes the sink of this connection; none where the connector is only a source.
    fn create_sink(&mut self) -> CallFuture<'_, ROption<RawSinkBox>>;

    /// Events are about to flow.
    fn on_start(&mut self) -> CallFuture<'_, ()>;

    /// No event flows until `on_resume`.
    fn on_pause(&mut self) -> CallFuture<'_, ()>;

    /// Events flow again.
    fn on_resume(&mut self) -> CallFuture<'_, ()>;

    /// The source is not pulled any more; what is under way still arrives at the sink.
    fn on_drain(&mut self) -> CallFuture<'_, ()>;

    /// The end, source and sink are gone.
    fn on_stop(&mut self) -> CallFuture<'_, ()>;

    /// The connection is gone; `connect` follows.
    fn on_connection_lost(&mut self) -> CallFuture<'_, ()>;

    /// `connect` succeeded.
    #[sabi(last_prefix_field)]
    fn on_connection_established(&mut self) -> CallFuture<'_, ()>;
}

/// A source: fills batches.
///
/// `poll_pull` is polled with the same batch until it is ready. While it is pending the events of
/// the batch may live with the plugin; when it is ready they are in `batch`. Before the host calls
/// anything else of the source while a pull is pending, it gives the pull up. Acknowledgements go to an
/// object of their own, and disturb no pull.
#[sabi_trait]
pub trait RawSource: Send + 'static {
    /// Adds what there is to `batch`, within its limit.
    fn poll_pull(
        &mut self,
        context: &mut FfiContext<'_>,
        batch: &mut Batch,
    ) -> FfiPoll<CallResult<PullReply>>;

    /// Gives a pending pull up; `batch` gets back what it had put into its batch by then.
    fn give_up(&mut self, batch: &mut Batch);

    /// What hears how the pulls of this source end; none where that means nothing to it. Asked once, before
    /// the first pull.
    fn acks(&mut self) -> CallResult<ROption<RawAcksBox>>;

    /// The last call: it is not pulled any more, and its acknowledgements have come, as far as they will.
    fn close(&mut self) -> CallFuture<'_, ()>;

    /// A sink downstream is down (`true`): it is no use to pull; or it is back.
    #[sabi(last_prefix_field)]
    fn on_circuit_breaker(&mut self, open: bool) -> CallResult<()>;
}

/// Hears how the pulls of a source end, in any order, while a pull is pending or not.
#[sabi_trait]
pub trait RawAcks: Send + 'static {
    /// Returns the limits of what the source has in flight. Called once, before the first pull.
    fn most_in_flight(&self) -> InFlight;

    /// Every event of this pull is done with: delivered, dead-lettered or discarded on purpose.
    fn ack(&mut self, pull: u64) -> CallResult<()>;

    /// These events of this pull could not be delivered, and its others are done with. Ranges come in order
    /// and do not overlap.
    #[sabi(last_prefix_field)]
    fn fail(&mut self, pull: u64, events: RSlice<'_, EventRange>) -> CallResult<()>;

    /// Whether the source brings again what has failed. Asked once; without it, the source does.
    fn brings_again(&self) -> bool {
        true
    }

    /// These messages of this pull could not be decoded, and why; `fail` of the pull follows, and names them
    /// as well. Without it, nobody hears why.
    fn undecodable(&mut self, pull: u64, messages: RSlice<'_, ExceptionRange>) -> CallResult<()> {
        let _ = (pull, messages);
        RResult::ROk(())
    }
}

/// A sink: takes batches, each in a slot of its own.
///
/// `poll_deliver` is polled with the same slot and the same batch until it is ready, as `poll_pull` is;
/// the next delivery in the slot follows then. Several slots may have a delivery that is pending.
#[sabi_trait]
pub trait RawSink: Send + 'static {
    /// How many deliveries it takes at a time, at most `wanted`: so many slots there are, from zero on.
    /// Asked once, before the first delivery. One at least.
    fn in_flight(&mut self, wanted: u32) -> u32;

    /// Delivers the events of `batch`: raw where the connector asked for bytes, values otherwise.
    fn poll_deliver(
        &mut self,
        context: &mut FfiContext<'_>,
        slot: u32,
        batch: &mut Batch,
    ) -> FfiPoll<CallResult<DeliverReply>>;

    /// Gives up what is pending in a slot. Its batch does not come back.
    #[sabi(last_prefix_field)]
    fn give_up(&mut self, slot: u32);

    /// Something other than events. Without it, signals pass the sink by.
    fn on_signal(&mut self, signal: Signal) -> CallFuture<'_, ()> {
        let _ = signal;
        BorrowingFfiFuture::new(std::future::ready(RResult::ROk(())))
    }
}
