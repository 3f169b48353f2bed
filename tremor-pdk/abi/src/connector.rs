//! Connectors in the ABI: the traits through which the runtime calls a plugin. The adapters of `tremor-pdk` implement
//! them. Authors implement the traits of `tremor-pdk` instead.
//!
//! The host calls the constructor, [`RawConnector::connect`] until it succeeds, [`RawConnector::hook`] with
//! [`Hook::START`], and then the methods of the source and the sink. The source and the sink are dropped at the end of
//! their connection, so state for later connections belongs to the connector. The calls of one object never overlap,
//! but may come from different threads.

// The macros of abi_stable generate code that violates these lints.
#![allow(non_local_definitions, clippy::used_underscore_binding, clippy::cast_ptr_alignment)]

use abi_stable::{
    StableAbi, sabi_trait,
    std_types::{RBox, ROption, RResult, RSlice, RStr, RVec},
};
use async_ffi::{BorrowingFfiFuture, FfiContext, FfiPoll};

use crate::{batch::Batch, error::PluginError};

/// The result of a call.
pub type CallResult<T> = RResult<T, PluginError>;
/// The result of an asynchronous call.
pub type CallFuture<'a, T> = BorrowingFfiFuture<'a, CallResult<T>>;

/// The form of the data that a connector exchanges with the runtime: bytes, which need a codec, or values. An open set:
/// later versions may add constants.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct CodecNeed(pub u8);

impl CodecNeed {
    /// Values; a codec in the flow is an error.
    pub const STRUCTURED: Self = Self(0);
    /// Bytes; the flow must name a codec.
    pub const REQUIRED: Self = Self(1);
    /// Bytes; if the flow names no codec, the default is used.
    pub const OPTIONAL: Self = Self(2);
}

/// The codec requirement of a connector.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct CodecRequirement {
    /// Need of the connector for a codec.
    pub need: CodecNeed,
    /// The codec that [`CodecNeed::OPTIONAL`] falls back to; empty otherwise.
    pub default: RStr<'static>,
}

/// The outcome of a pull. An open set.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct PullKind(pub u8);

impl PullKind {
    /// The batch contains events. The host pulls again.
    pub const EVENTS: Self = Self(0);
    /// No event is available now. The host pulls again after [`PullReply::wait_ns`].
    pub const IDLE: Self = Self(1);
    /// The source has ended; no event will follow.
    pub const FINISHED: Self = Self(2);
}

/// The answer to a pull.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct PullReply {
    /// Outcome of the pull.
    pub kind: PullKind,
    /// Time to wait before the next pull after [`PullKind::IDLE`], in ns.
    pub wait_ns: u64,
}

/// Consecutive events of a batch that were not delivered.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, StableAbi)]
pub struct ExceptionRange {
    /// Position of the first event in the batch.
    pub start: u32,
    /// Number of events.
    pub len: u32,
    /// Cause of the failure. The policy of the error decides what happens to the events.
    pub error: PluginError,
}

/// Consecutive events of a pull, by their positions in the batch that the pull filled.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct EventRange {
    /// Position of the first event.
    pub start: u32,
    /// Number of events.
    pub len: u32,
}

/// Limits of the events that a source has in flight, which are the events of pulls that have not ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct InFlight {
    /// Number of events in flight at which the host stops pulling.
    pub events: u64,
    /// Number of bytes in flight at which the host stops pulling, counted in the same way as the byte limit of a pull.
    pub bytes: u64,
    /// Configuration key that sets the limits, for log lines; empty if there is none.
    pub key: RStr<'static>,
}

/// The answer to a delivery. Events that are in none of the ranges were delivered. The ranges are in ascending order
/// and do not overlap.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, Eq, StableAbi)]
pub struct DeliverReply {
    /// Ranges of events that were not delivered.
    pub exceptions: RVec<ExceptionRange>,
}

/// Properties of [`Deliveries`], as bits. An open set: unknown bits are ignored.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, StableAbi)]
pub struct DeliveryFlags(pub u32);

impl DeliveryFlags {
    /// Batches of one stream are delivered one after the other.
    pub const ORDERED: Self = Self(1);
    /// The sink answers several deliveries together, and is flushed whenever no further delivery can begin. Used only
    /// in a demand.
    pub const GATHERS: Self = Self(1 << 1);
    /// Batches are joined and split within the limits of the [`Deliveries`]. Used only in a grant.
    pub const BATCHED: Self = Self(1 << 2);

    /// Returns whether all bits of `flags` are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// Delivery limits: those that a sink asks for (its demand), or those that the host grants.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, StableAbi)]
pub struct Deliveries {
    /// Maximum number of deliveries in flight. In a demand, this maximum applies only if the flow does not set the
    /// number.
    pub in_flight: u32,
    /// Maximum of `in_flight` that the sink supports. Not used in a grant.
    pub most_in_flight: u32,
    /// Maximum number of events of a delivery; 0 if the sink asks for no limit.
    pub max_events: u64,
    /// Maximum number of bytes of a delivery; 0 if the sink asks for no limit. A single event that is larger is
    /// delivered alone.
    pub max_bytes: u64,
    /// Maximum time in ns that an event waits for further events of the same delivery; [`Self::NO_LINGER`] if the sink
    /// asks for no time.
    pub linger_ns: u64,
    /// Order, gathering and batching of the deliveries.
    pub flags: DeliveryFlags,
    /// Reserved; always zero.
    pub reserved: u32,
}

impl Deliveries {
    /// Value of `linger_ns` of a sink that asks for no time.
    pub const NO_LINGER: u64 = u64::MAX;
}

/// A set of sides of a connector. Unknown bits are ignored.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, StableAbi)]
pub struct Sides(u8);

impl Sides {
    /// Neither side.
    pub const NONE: Self = Self(0);
    /// The source alone.
    pub const SOURCE: Self = Self(1);
    /// The sink alone.
    pub const SINK: Self = Self(2);
    /// The source and the sink.
    pub const BOTH: Self = Self(3);

    /// Returns the set with the source if `source` is `true`, and with the sink if `sink` is.
    pub const fn new(source: bool, sink: bool) -> Self {
        Self(source as u8 | (sink as u8) << 1)
    }

    /// Returns whether the source is in the set.
    pub const fn has_source(self) -> bool {
        self.0 & Self::SOURCE.0 != 0
    }

    /// Returns whether the sink is in the set.
    pub const fn has_sink(self) -> bool {
        self.0 & Self::SINK.0 != 0
    }
}

/// A point in the life of a connector. An open set: a connector answers `Ok` to a hook that it does not know.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct Hook(pub u8);

impl Hook {
    /// The first connection is established, and events are about to flow. Called once for an instance.
    pub const START: Self = Self(0);
    /// No event flows until [`Hook::RESUME`].
    pub const PAUSE: Self = Self(1);
    /// Events flow again.
    pub const RESUME: Self = Self(2);
    /// The last call. The source and the sink are already dropped.
    pub const CLOSE: Self = Self(3);

    /// Returns the name of the corresponding method of an author's connector.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::START => "on_start",
            Self::PAUSE => "on_pause",
            Self::RESUME => "on_resume",
            Self::CLOSE => "close",
            _ => "an unknown hook",
        }
    }
}

/// A connector as a trait object of the ABI.
pub type RawConnectorBox = RawConnector_TO<RBox<()>>;
/// A source as a trait object of the ABI.
pub type RawSourceBox = RawSource_TO<RBox<()>>;
/// The acknowledgement receiver of a source, as a trait object of the ABI.
pub type RawAcksBox = RawAcks_TO<RBox<()>>;
/// A sink as a trait object of the ABI.
pub type RawSinkBox = RawSink_TO<RBox<()>>;

/// The halves of one connection of a connector.
#[repr(C)]
#[derive(StableAbi)]
pub struct RawHalves {
    /// The reading half.
    pub source: ROption<RawSourceBox>,
    /// The writing half.
    pub sink: ROption<RawSinkBox>,
}

/// A connector: establishes connections, each with a source, a sink or both.
#[sabi_trait]
pub trait RawConnector: Send + 'static {
    /// Returns the codec requirement. Called once, before any other method.
    fn codec_requirement(&self) -> CodecRequirement;

    /// Returns the sides that the connector has with its configuration. Called once, before `connect`.
    fn sides(&self) -> CallResult<Sides>;

    /// Connects to the peer, and returns the halves of the connection that are `wanted`. The host retries after
    /// an error whose policy is to retry or to reconnect.
    fn connect(&mut self, wanted: Sides) -> CallFuture<'_, RawHalves>;

    /// Calls the method of the connector that `hook` names.
    #[sabi(last_prefix_field)]
    fn hook(&mut self, hook: Hook) -> CallFuture<'_, ()>;
}

/// A source: fills batches.
///
/// The host calls `poll_pull` with the same batch until the result is ready. While the result is pending, the plugin
/// may keep the events outside of `batch`; once the result is ready, they are in `batch`. The host cancels a pending
/// pull before it calls any other method of the source. Acknowledgements go to a separate object ([`RawAcks`]), so that
/// they do not cancel a pull.
#[sabi_trait]
pub trait RawSource: Send + 'static {
    /// Adds the available events to `batch`, within its limit.
    fn poll_pull(
        &mut self,
        context: &mut FfiContext<'_>,
        batch: &mut Batch,
    ) -> FfiPoll<CallResult<PullReply>>;

    /// Cancels a pending pull. `batch` receives the events that the pull had added so far.
    fn give_up(&mut self, batch: &mut Batch);

    /// Returns the object that is notified of the result of each pull, or none if the source needs no notification.
    /// Called once, before the first pull.
    fn acks(&mut self) -> CallResult<ROption<RawAcksBox>>;

    /// Closes the source. This is the last call: no pull and no acknowledgement follows.
    fn close(&mut self) -> CallFuture<'_, ()>;

    /// Notifies the source of a change: `open` is `true` if a sink that the source feeds is down, and `false` if the
    /// sink works again. While a sink is down, the host does not pull.
    #[sabi(last_prefix_field)]
    fn on_circuit_breaker(&mut self, open: bool) -> CallResult<()>;
}

/// Receives the outcome of each pull of a source, in any order, whether or not a pull is pending.
#[sabi_trait]
pub trait RawAcks: Send + 'static {
    /// Returns the limits of the events that the source has in flight. Called once, before the first pull.
    fn most_in_flight(&self) -> InFlight;

    /// Reports that every event of `pull` was delivered, dead-lettered or discarded on purpose.
    fn ack(&mut self, pull: u64) -> CallResult<()>;

    /// Reports that the given events of `pull` could not be delivered, and that its other events were delivered,
    /// dead-lettered or discarded on purpose. The ranges are in ascending order and do not overlap.
    #[sabi(last_prefix_field)]
    fn fail(&mut self, pull: u64, events: RSlice<'_, EventRange>) -> CallResult<()>;

    /// Returns whether the source redelivers failed events. Called once; if the method is missing, the answer is
    /// `true`.
    fn brings_again(&self) -> bool {
        true
    }

    /// Reports messages of `pull` that could not be decoded, and the reasons. `fail` of the pull follows and names the
    /// messages too. If the method is missing, the reasons are discarded.
    fn undecodable(&mut self, pull: u64, messages: RSlice<'_, ExceptionRange>) -> CallResult<()> {
        let _ = (pull, messages);
        RResult::ROk(())
    }
}

/// A sink: delivers batches.
///
/// The host calls `poll_deliver` with the same slot and the same batch until the result is ready, and only then starts
/// the next delivery in that slot. Deliveries in several slots may be pending at the same time.
#[sabi_trait]
pub trait RawSink: Send + 'static {
    /// Returns the delivery limits that the sink asks for. Called once, before any other method.
    fn demand(&mut self) -> Deliveries;

    /// Notifies the sink of the delivery limits that the host grants. Slots are numbered from 0 to `in_flight - 1`.
    /// Called once, before the first delivery.
    fn on_grant(&mut self, granted: &Deliveries);

    /// Delivers the events of `batch`: raw if the connector asked for bytes, values otherwise.
    fn poll_deliver(
        &mut self,
        context: &mut FfiContext<'_>,
        slot: u32,
        batch: &mut Batch,
    ) -> FfiPoll<CallResult<DeliverReply>>;

    /// Cancels the pending delivery in `slot`, if any. The batch of the delivery is not returned.
    #[sabi(last_prefix_field)]
    fn give_up(&mut self, slot: u32);

    /// Called about once a second. Deliveries may be pending if the sink supports several deliveries at a time.
    fn on_tick(&mut self) -> CallFuture<'_, ()> {
        BorrowingFfiFuture::new(std::future::ready(RResult::ROk(())))
    }

    /// Asks the sink to answer the pending deliveries, because no further delivery begins before one of them is
    /// answered.
    fn flush(&mut self) -> CallFuture<'_, ()> {
        BorrowingFfiFuture::new(std::future::ready(RResult::ROk(())))
    }

    /// Ends the sink: no event follows, and every delivery has been answered. Called again if the call failed with the
    /// policy to retry.
    fn close(&mut self) -> CallFuture<'_, ()> {
        BorrowingFfiFuture::new(std::future::ready(RResult::ROk(())))
    }
}
