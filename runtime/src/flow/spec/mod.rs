//! What a flow file says: the model of its keys.

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

/// A flow file, read and found well-formed.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The flow's name: the key `name`, or the file's name without its extension.
    pub name: String,
    /// Folders and files to look for plugins in. Relative ones are already relative to the folder
    /// that the flow file lies in, not to the flow file itself.
    pub plugins: Vec<Located<PathBuf>>,
    /// In the file's order.
    pub connectors: Vec<Connector>,
    /// In the file's order.
    pub pipelines: Vec<Pipeline>,
    /// In the file's order, chains taken apart.
    pub links: Vec<Link>,
}

/// An entry of `connectors`.
#[derive(Debug, Clone)]
pub struct Connector {
    /// Its name in this flow; no pipeline has the same one.
    pub name: Located<String>,
    /// The artefact (`type`) and its `config`.
    pub component: Component,
    /// Decodes what the source reads, encodes what the sink writes.
    pub codec: Option<Component>,
    /// What turns the source's bytes into messages, first to last.
    pub preprocessors: Vec<Component>,
    /// What turns messages into the sink's bytes, first to last.
    pub postprocessors: Vec<Component>,
    /// How to go on when the connection is lost.
    pub reconnect: Retry,
    /// How often to restart what has failed.
    pub restart: Restart,
    /// How long a call to it may hold a thread; it is restarted after one that has held it for longer.
    pub call_limit: Option<Duration>,
    /// The same for a call that has not returned: its flow fails.
    pub hang_limit: Option<Duration>,
    /// What becomes of the run when it has failed for good.
    pub on_failure: OnFailure,
    /// How to go on when the sink's peer is full or slow.
    pub retry: Retry,
    /// Maximum number of deliveries that the sink has in flight; `None` leaves that to the sink.
    pub in_flight: Option<NonZeroU64>,
    /// Whether batches of one stream are delivered one after the other; `None` leaves that to the sink.
    pub ordered: Option<bool>,
    /// Sizes of the deliveries of the sink; `None` leaves them to the sink.
    pub batch: Option<Batch>,
    /// How much the source is asked for at a time.
    pub pull: Pull,
    /// Bounds of the queue before the sink.
    pub queue: Queue,
    /// What becomes of events that cannot be handled; the same for both sides.
    pub err: Option<Unhandled>,
    /// Dead letters of both sides.
    pub dead_letters: DeadLetters,
}

/// An entry of `pipelines`.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// Its name in this flow; no connector has the same one.
    pub name: Located<String>,
    /// What events run through, first to last. May be empty: then they pass as they are.
    pub operators: Vec<Component>,
    /// What becomes of events that cannot be handled.
    pub err: Option<Unhandled>,
    /// Dead letters of the pipeline.
    pub dead_letters: DeadLetters,
}

/// The key `dead_letters`. `None` is left to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeadLetters {
    /// Maximum bytes of the original event that a dead letter contains.
    pub max_bytes: Option<NonZeroU64>,
}

/// The key `err`: what becomes of an event that cannot be handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unhandled {
    /// It leaves by the port `err`. Where nothing is linked to that, it fails back to its source.
    DeadLetter,
    /// It is dropped and counted.
    Discard,
}

/// The keys `reconnect`, which is for connecting, and `retry`, which is for deliveries. What is
/// `None` is left to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retry {
    /// How many attempts in a row may follow one that has failed; 0: none. After the last one the
    /// connector has failed, or the events cannot be delivered.
    pub attempts: Option<u64>,
    /// The longest time to wait before the first further attempt; it grows from there.
    pub backoff: Option<Duration>,
    /// The longest time to wait between two attempts.
    pub max_backoff: Option<Duration>,
}

/// Default of `batch.max_events`, about as many events as a body of HTTP usually has.
pub(crate) const SINK_BATCH_EVENTS: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

/// Default of `batch.max_bytes`.
pub(crate) const SINK_BATCH_BYTES: NonZeroUsize = NonZeroUsize::new(1 << 20).unwrap();

/// Default of `batch.linger`.
pub(crate) const SINK_BATCH_LINGER: Duration = Duration::from_millis(50);

/// The key `batch`. What is `None` is left to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Batch {
    /// Events that a delivery has at most.
    pub max_events: Option<NonZeroU64>,
    /// Bytes that a delivery has at most, unless a single event has more.
    pub max_bytes: Option<NonZeroU64>,
    /// How long an event waits for others at most.
    pub linger: Option<Duration>,
}

/// The key `restart`. What is `None` is left to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Restart {
    /// How many restarts there may be; 0: none. After the last one the connector has failed for good.
    pub attempts: Option<u64>,
    /// The time that they are counted in.
    pub within: Option<Duration>,
}

/// The key `on_failure`: what becomes of the other flows of a run when a connector has failed for good, and
/// its flow with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// They go on.
    #[default]
    Continue,
    /// They drain, and the run ends.
    Exit,
}

/// The key `pull`. What is `None` is left to the runtime, which goes by what events cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pull {
    /// Events that a pull may bring.
    pub max_events: Option<NonZeroU64>,
}

/// The key `queue`. What is `None` is left to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queue {
    /// Events that may wait.
    pub max_events: Option<NonZeroU64>,
    /// Bytes that may wait.
    pub max_bytes: Option<NonZeroU64>,
}
