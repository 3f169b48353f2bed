//! The content of a flow file as data types.

mod component;
mod fields;
pub(super) mod keys;
mod read;
mod settings;

use std::{
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

pub use component::{Component, Config};
pub(crate) use read::{Draft, read};
pub(crate) use settings::{MOST_BATCH_BYTES, MOST_IN_FLIGHT, MOST_LINGER};

use super::{link::Link, source::Located};

/// Content of a flow file that was read and is well-formed.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Name of the flow: the value of `name`, or the name of the file without its extension.
    pub name: String,
    /// Folders and files that are searched for plugins. Paths that are relative in the file were joined to its folder.
    pub plugins: Vec<Located<PathBuf>>,
    /// Connectors, in the order of the file.
    pub connectors: Vec<Connector>,
    /// Pipelines in the order of the file.
    pub pipelines: Vec<Pipeline>,
    /// Links in the order of the file, with chains split into single links.
    pub links: Vec<Link>,
}

/// An entry of `connectors`.
#[derive(Debug, Clone)]
pub struct Connector {
    /// Name of the connector in this flow. No pipeline has the same name.
    pub name: Located<String>,
    /// Type and configuration of the connector.
    pub component: Component,
    /// Codec that decodes the bytes of the source and encodes the events of the sink.
    pub codec: Option<Component>,
    /// Preprocessors that turn the source's bytes into messages, first to last.
    pub preprocessors: Vec<Component>,
    /// Postprocessors that turn messages into the sink's bytes, first to last.
    pub postprocessors: Vec<Component>,
    /// Rules for reconnecting after the connection was lost.
    pub reconnect: Retry,
    /// Limit on restarts after failures.
    pub restart: Restart,
    /// Maximum time for which a call to the connector may block its thread. After a longer call, the connector is
    /// restarted.
    pub call_limit: Option<Duration>,
    /// Time after which a call that has not returned fails the flow.
    pub hang_limit: Option<Duration>,
    /// The process of the connector's plugin; `None` if the plugin is loaded into this process.
    pub isolation: Option<Isolation>,
    /// Effect on the run if the connector fails permanently.
    pub on_failure: OnFailure,
    /// Rules for repeating deliveries if the sink's peer is full or slow.
    pub retry: Retry,
    /// Maximum number of deliveries that the sink has in flight; `None` leaves the choice to the sink.
    pub in_flight: Option<NonZeroU64>,
    /// `true` if batches of one stream are delivered one after the other; `None` leaves the choice to the sink.
    pub ordered: Option<bool>,
    /// Sizes of the deliveries of the sink; `None` leaves the choice to the sink.
    pub batch: Option<Batch>,
    /// Limits of a single pull from the source.
    pub pull: Pull,
    /// Limits of the queue before the sink.
    pub queue: Queue,
    /// Treatment of events that cannot be processed, on both sides.
    pub err: Option<Unhandled>,
    /// Settings for dead letters of both sides.
    pub dead_letters: DeadLetters,
}

/// The keys `isolation` and `memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// `isolation: none`: the plugin is loaded into this process.
    None,
    /// `isolation: process`.
    Process {
        /// Maximum number of bytes of memory of the process; `None` leaves the limit to the runtime.
        memory: Option<NonZeroU64>,
    },
}

/// Minimum of `memory`. A process without an event takes up to a third of this.
pub(crate) const LEAST_MEMORY: u64 = 32 << 20;

/// An entry of `pipelines`.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// Name of the pipeline in this flow. No connector has the same name.
    pub name: Located<String>,
    /// Operators that process the events, first to last. Without operators, events pass unchanged.
    pub operators: Vec<Component>,
    /// Treatment of events that cannot be processed.
    pub err: Option<Unhandled>,
    /// Settings for dead letters of the pipeline.
    pub dead_letters: DeadLetters,
}

/// The key `dead_letters`. `None` leaves a value to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeadLetters {
    /// Maximum bytes of the original event that a dead letter contains.
    pub max_bytes: Option<NonZeroU64>,
}

/// The key `err`: the handling of an event that cannot be processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unhandled {
    /// The event leaves through the port `err`. If nothing is linked to that port, the event fails, which is reported
    /// to its source.
    DeadLetter,
    /// The event is dropped and counted.
    Discard,
}

/// The key `reconnect`, which applies to connecting, or the key `retry`, which applies to deliveries. `None` leaves a
/// value to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retry {
    /// Maximum number of consecutive attempts after the first one has failed; 0 means that there is no further attempt.
    /// If the last attempt fails, the connector fails, or the events cannot be delivered.
    pub attempts: Option<u64>,
    /// Upper bound of the wait before the first further attempt. The bounds of later waits are higher.
    pub backoff: Option<Duration>,
    /// Upper bound of all waits between two attempts.
    pub max_backoff: Option<Duration>,
}

/// Default of `batch.max_events`. An HTTP body usually contains about this number of events.
pub(crate) const SINK_BATCH_EVENTS: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

/// Default of `batch.max_bytes`.
pub(crate) const SINK_BATCH_BYTES: NonZeroUsize = NonZeroUsize::new(1 << 20).unwrap();

/// Default of `batch.linger`.
pub(crate) const SINK_BATCH_LINGER: Duration = Duration::from_millis(50);

/// The key `batch`. `None` leaves a value to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Batch {
    /// Maximum number of events in a delivery.
    pub max_events: Option<NonZeroU64>,
    /// Maximum bytes of a delivery. A single event may be larger.
    pub max_bytes: Option<NonZeroU64>,
    /// Maximum time that an event waits for other events of its delivery.
    pub linger: Option<Duration>,
}

/// The key `restart`. `None` leaves a value to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Restart {
    /// Maximum number of restarts within [`Restart::within`]; 0 means that there is no restart. If no restart is left,
    /// the connector fails permanently.
    pub attempts: Option<u64>,
    /// Period in which restarts are counted.
    pub within: Option<Duration>,
}

/// The key `on_failure`: the effect on the other flows of a run if a connector has failed permanently, so that its flow
/// has failed too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The other flows continue.
    #[default]
    Continue,
    /// The other flows drain, and the run ends.
    Exit,
}

/// The key `pull`. `None` leaves the size of a pull to the runtime, which adapts the size to the cost of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pull {
    /// Maximum number of events that a pull may return.
    pub max_events: Option<NonZeroU64>,
}

/// The key `queue`. `None` leaves a value to the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queue {
    /// Maximum number of waiting events.
    pub max_events: Option<NonZeroU64>,
    /// Maximum bytes of waiting events.
    pub max_bytes: Option<NonZeroU64>,
    /// The treatment of events for which the queue has no capacity: the queue on disk, if there is one.
    pub when_full: WhenFull,
    /// The queue on disk, from which the queue in memory is filled; `None` if events are in memory only.
    pub disk: Option<Disk>,
}

/// Least value of `queue.disk.max_bytes`, in bytes. A segment is an eighth of it, and an event at most half a segment.
pub(crate) const LEAST_DISK_BYTES: u64 = 1 << 20;

/// The key `queue.disk`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The folder of the queue. A relative path is relative to the folder of the flow file.
    pub path: Located<PathBuf>,
    /// Maximum bytes of all files of the queue.
    pub max_bytes: NonZeroU64,
    /// `true` if events get metadata by which a peer recognises repeated ones.
    pub identify: bool,
}

impl Disk {
    /// Name of the folder with events that the sink refused, in the folder of the queue.
    pub const REJECTED: &str = "rejected";
    /// Name of the file with the number by which events are identified, in the folder of the queue.
    pub const ID: &str = "id";
}

/// The key `queue.when_full`: the treatment of events for which the queue before a sink has no capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// The senders wait, and so do their sources.
    #[default]
    Block,
    /// A batch that does not fit is dropped.
    DropNewest,
    /// The batches that have waited longest are dropped.
    DropOldest,
    /// The batches that have waited longest are sent to the port `err` of the sink. A queue on disk sends those that do
    /// not fit.
    DeadLetter,
}

impl WhenFull {
    /// The words of the key, each with its value.
    pub(crate) const WORDS: [(&str, Self); 4] = [
        ("block", Self::Block),
        ("drop_newest", Self::DropNewest),
        ("drop_oldest", Self::DropOldest),
        ("dead_letter", Self::DeadLetter),
    ];

    /// Returns whether the sources before the sink wait for it.
    pub(crate) fn blocks(self) -> bool {
        self == Self::Block
    }

    /// Returns whether events are dropped. The tokens of events are settled when they enter the queue.
    pub(crate) fn drops(self) -> bool {
        matches!(self, Self::DropNewest | Self::DropOldest)
    }
}
