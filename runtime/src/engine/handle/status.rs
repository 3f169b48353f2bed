//! Status of a connector, for an operator who asks.

use std::{collections::BTreeMap, fmt, time::Instant};

use tremor_pdk::InFlight;

use crate::engine::handle::series::RetryCounts;

/// State of a connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The connector has no connection, and is to get one.
    Connecting,
    /// Events flow.
    Running,
    /// The connector is connected, but its pulls or deliveries fail and are retried.
    Retrying,
    /// No event flows until it is resumed.
    Paused,
    /// The source brings nothing more; events in flight still arrive.
    Draining,
    /// Its instance is gone, and another is to be made.
    Restarting,
    /// It has failed for good, and its flow with it.
    Failed,
    /// It has ended as it should.
    Stopped,
}

impl State {
    /// All of them.
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

    /// Its name.
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

    /// Whether nothing is under way any more.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Failed | Self::Stopped)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How things stand with a connector at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its name in the flow.
    pub connector: String,
    /// What it is about,
    pub state: State,
    /// and since when.
    pub since: Instant,
    /// What went wrong last, whether or not it is mended. It may have values of references in it.
    pub error: Option<String>,
    /// How often another instance was made of it.
    pub restarts: u64,
    /// How often something went wrong with it, by the kind of error.
    pub errors: BTreeMap<&'static str, u64>,
    /// Number of retries so far.
    pub retries: RetryCounts,
    /// `true` once it was connected, or its first attempt has failed or lasts long.
    pub is_tried: bool,
    /// Events that wait for its sink.
    pub queued: usize,
    /// Events that its sink has taken, and that are not delivered.
    pub in_flight: usize,
    /// Sinks because of which the connector's source is not pulled. Empty if the source is pulled.
    pub waits_for: Vec<Awaited>,
}

/// A sink or pipeline that a source waits for, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Awaited {
    /// Name of the sink's connector or of the pipeline in the flow.
    pub sink: String,
    /// `queue full` if the sink runs and its queue has no capacity, `retrying` if the connection exists and
    /// deliveries fail, `pull limit` if the source has as much in flight as it may have and the sink or pipeline has
    /// events of that, otherwise the state of the sink's connector.
    pub reason: &'static str,
    /// Start of the wait for capacity of the queue, of the failures or of the state.
    pub since: Instant,
    /// Last error of the sink if it has not recovered. May contain values of references.
    pub error: Option<String>,
    /// Limits of what the source may have in flight, if these are the reason.
    pub limit: Option<InFlight>,
}

/// Reason of a source that has as much in flight as it may have.
pub(crate) const PULL_LIMIT: &str = "pull limit";

impl Awaited {
    /// Returns the wait of a source, which has as much in flight as `limit` allows, for what `name` has of that.
    pub(crate) fn at_pull_limit(name: &str, (since, limit): (Instant, InFlight)) -> Self {
        let sink = name.to_owned();
        Self { sink, reason: PULL_LIMIT, since, error: None, limit: Some(limit) }
    }
}

/// A component that kept a flow from ending in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUp {
    /// Its name in the flow.
    pub component: String,
    /// What it was doing.
    pub doing: String,
}
