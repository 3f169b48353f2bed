//! Connectors at the boundary: what a plugin implements through the adapters of `tremor-pdk` and
//! the runtime calls. Authors use the traits of `tremor-pdk` instead.
//!
//! The order of calls: constructor, `connect` until it succeeds, the hook `START`, then the data path. A
//! source and a sink live as long as one connection; state that must survive the connection lives in the
//! connector. All calls to one object come one after the other, from any thread of the host.

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

/// Properties of [`Deliveries`], as bits. An open set: unknown bits are ignored.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, StableAbi)]
pub struct DeliveryFlags(pub u32);

impl DeliveryFlags {
    /// Batches of one stream are delivered one after the other.
    pub const ORDERED: Self = Self(1);
    /// The sink answers several deliveries together, and is flushed whenever none can follow. In a demand only.
    pub const GATHERS: Self = Self(1 << 1);
    /// Batches are put together and divided within the limits of the record. In a grant only.
    pub const BATCHED: Self = Self(1 << 2);

    /// Returns whether all bits of `flags` are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// The deliveries that a sink asks for, or those that it is granted.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, StableAbi)]
pub struct Deliveries {
    /// Number of deliveries at a time: in a demand, the number unless the flow sets another.
    pub in_flight: u32,
    /// Maximum of `in_flight` that the sink supports. The host ignores it in a grant.
    pub most_in_flight: u32,
    /// Maximum number of events of a delivery; 0 asks for nothing.
    pub max_events: u64,
    /// Maximum number of bytes of a delivery, unless one event has more; 0 asks for nothing.
    pub max_bytes: u64,
    /// Maximum time that an event waits for others, in ns; [`Self::NO_LINGER`] asks for nothing.
    pub linger_ns: u64,
    /// Properties.
    pub flags: DeliveryFlags,
    /// Zero.
    pub reserved: u32,
}

impl Deliveries {
    /// Value of `linger_ns` that asks for nothing.
    pub const NO_LINGER: u64 = u64::MAX;
}

/// A set of the sides of a connector. Bits without a name here are ignored.
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
    /// The first connection is made, and events are about to flow. Once for an instance.
    pub const START: Self = Self(0);
    /// No event flows until [`Hook::RESUME`].
    pub const PAUSE: Self = Self(1);
    /// Events flow again.
    pub const RESUME: Self = Self(2);
    /// The last call. Source and sink are dropped by then.
    pub const CLOSE: Self = Self(3);

    /// Returns the name of the method of an author's connector.
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

/// A connector across the boundary.
pub type RawConnectorBox = RawConnector_TO<RBox<()>>;
/// A source across the boundary.
pub type RawSourceBox = RawSource_TO<RBox<()>>;
/// The acknowledgements of a source across the boundary.
pub type RawAcksBox = RawAcks_TO<RBox<()>>;
/// A sink across the boundary.
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

/// A connector: makes connections, each with a source, a sink or both.
#[sabi_trait]
pub trait RawConnector: Send + 'static {
    /// What it says about codecs. Asked once, before anything else.
    fn codec_requirement(&self) -> CodecRequirement;

    /// Returns the sides that the connector has in its configuration. Asked once, before `connect`.
    fn sides(&self) -> CallResult<Sides>;

    /// Connects to the peer, and returns the halves of the connection that are `wanted`. The host retries after
    /// an error whose policy is to retry or to reconnect.
    fn connect(&mut self, wanted: Sides) -> CallFuture<'_, RawHalves>;

    /// Notifies the connector of a point in its life.
    #[sabi(last_prefix_field)]
    fn hook(&mut self, hook: Hook) -> CallFuture<'_, ()>;
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
    /// Returns the deliveries that the sink asks for. Called once, before anything else.
    fn demand(&mut self) -> Deliveries;

    /// Notifies the sink of the deliveries that it gets: slots are numbered from 0 to `in_flight - 1`. Called once,
    /// before the first delivery.
    fn on_grant(&mut self, granted: &Deliveries);

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

    /// Notifies the sink that time has passed. Deliveries may be pending if the sink supports several.
    fn on_tick(&mut self) -> CallFuture<'_, ()> {
        BorrowingFfiFuture::new(std::future::ready(RResult::ROk(())))
    }

    /// Asks the sink to answer the pending deliveries, because no delivery follows before one of them is answered.
    fn flush(&mut self) -> CallFuture<'_, ()> {
        BorrowingFfiFuture::new(std::future::ready(RResult::ROk(())))
    }

    /// Ends the sink: no event follows, and every delivery has been answered. Repeated if it fails with the policy
    /// to retry.
    fn close(&mut self) -> CallFuture<'_, ()> {
        BorrowingFfiFuture::new(std::future::ready(RResult::ROk(())))
    }
}
