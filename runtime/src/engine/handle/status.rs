//! The status of a connector.

use std::{collections::BTreeMap, fmt, time::Instant};

use tremor_pdk::InFlight;

use crate::engine::handle::series::RetryCounts;

/// The state of a connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The connector is not connected and tries to connect.
    Connecting,
    /// The connector is connected, and its pulls or deliveries do not fail.
    Running,
    /// The connector is connected, but its pulls or deliveries fail and are retried.
    Retrying,
    /// The connector was paused: no event flows until it is resumed.
    Paused,
    /// The flow drains, or the source of the connector has permanently stopped reading. Events in flight are still
    /// delivered.
    Draining,
    /// The instance of the connector has ended, and a new one is going to be created.
    Restarting,
    /// The connector has failed permanently, so its flow fails.
    Failed,
    /// The connector has ended without a failure.
    Stopped,
}

impl State {
    /// Lists all states, in the order of their declaration.
    pub const ALL: [Self; 8] = [
        Self::Connecting,
        Self::Running,
        Self::Retrying,
        Self::Paused,
        Self::Draining,
        Self::Restarting,
        Self::Failed,
        Self::Stopped,
    ];

    /// Returns the name of the state in the admin API, in metrics and in log lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Paused => "paused",
            Self::Draining => "draining",
            Self::Restarting => "restarting",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Returns whether a connector in this state has ended.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Failed | Self::Stopped)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The status of a connector at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// Name of the connector in the flow.
    pub connector: String,
    /// State of the connector.
    pub state: State,
    /// Time at which the connector entered the state.
    pub since: Instant,
    /// Last error of the connector, even if the connector has recovered. May contain secrets: values that replaced
    /// references such as `${env:NAME}` in the flow file.
    pub error: Option<String>,
    /// Number of times that the instance of the connector was replaced.
    pub restarts: u64,
    /// Number of errors so far, by kind.
    pub errors: BTreeMap<&'static str, u64>,
    /// Number of retries so far.
    pub retries: RetryCounts,
    /// `true` once the connector was connected, or once its first attempt to connect has failed or has taken 10 s.
    pub is_tried: bool,
    /// Events in the queue of the connector's sink.
    pub queued: usize,
    /// Events that the connector's sink has taken out of its queue and not delivered.
    pub in_flight: usize,
    /// Reasons why the connector's source is not pulled. Empty if the source is pulled.
    pub waits_for: Vec<Awaited>,
}

/// A reason why a source is not pulled, with the component that has to deliver or release events first.
#[derive(Clone, Debug, PartialEq)]
pub struct Awaited {
    /// Name of that component in the flow: the connector of the sink, or the pipeline. If the reason is `pull limit`,
    /// and neither a pipeline nor a sink has events of the source, the source's own connector. If the reason is
    /// `memory`, the component that uses the memory. A component of another flow follows the name of its flow and a
    /// slash.
    pub sink: String,
    /// Name of the reason:
    /// - `retrying`: the sink is connected, but its deliveries fail.
    /// - `queue full`: the queue of the sink is full, although the sink runs and its deliveries do not fail.
    /// - `pull limit`: the source has reached its limit of events or bytes in flight. The component has some of these
    ///   events.
    /// - `memory`: the flow may not borrow more memory. The component uses more than its share.
    /// - otherwise the state of the sink's connector, such as `connecting` or `paused`.
    pub reason: &'static str,
    /// Start of the wait for capacity if the source waits because the sink's queue is full. Otherwise the time since
    /// which the reason applies.
    pub since: Instant,
    /// Last error of the sink, if the sink has not recovered. May contain secrets, as [`Status::error`] may.
    pub error: Option<String>,
    /// Limits that the source has reached, if the reason is `pull limit`.
    pub limit: Option<InFlight>,
    /// Bytes that the component uses, if the reason is `memory`.
    pub bytes: Option<usize>,
}

/// A reason why a source is not pulled that does not depend on a sink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// The source has reached these limits of events or bytes in flight.
    InFlight(InFlight),
    /// The flow may not borrow more memory.
    Memory,
}

/// The waits of sources that end because queues give batches up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Relieves {
    /// `true` for waits for acknowledgements.
    pub(crate) pulls: bool,
    /// `true` for waits for memory.
    pub(crate) memory: bool,
}

impl Relieves {
    /// Returns whether a wait because of `bound` may end.
    pub(crate) fn ends(self, bound: Bound) -> bool {
        if bound == Bound::Memory { self.memory } else { self.pulls }
    }
}

/// Value of [`Awaited::reason`] for a source that has reached its limit of events or bytes in flight.
pub(crate) const PULL_LIMIT: &str = "pull limit";
/// Value of [`Awaited::reason`] for a source whose flow may not borrow more memory.
pub(crate) const MEMORY: &str = "memory";

impl Awaited {
    /// Returns the reason of a source that reached `limit` at `since`. `name` is the component that has events of the
    /// source.
    pub(crate) fn at_pull_limit(name: &str, since: Instant, limit: InFlight) -> Self {
        let (sink, limit) = (name.to_owned(), Some(limit));
        Self { sink, reason: PULL_LIMIT, since, error: None, limit, bytes: None }
    }

    /// Returns the reason of a source that has waited for memory since `since`. `sink` uses `bytes`.
    pub(crate) fn for_memory(sink: String, bytes: usize, since: Instant) -> Self {
        Self { sink, reason: MEMORY, since, error: None, limit: None, bytes: Some(bytes) }
    }
}

/// A component that delayed the end of a flow beyond its time limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Name of the component in the flow.
    pub component: String,
    /// Description of what the component was doing when the flow was cut off, with the duration, and the last error if
    /// there is one.
    pub doing: String,
}
