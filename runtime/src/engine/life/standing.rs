//! How things stand with a connector, for an operator who asks.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tremor_pdk::{Error, InFlight};

use crate::{
    engine::life::{
        connection::{Connection, Replaced},
        gate::Gate,
        gauge::Gauge,
        series::{Retried, RetryCounts, Series},
    },
    flow::OnFailure,
    lock::lock,
    memory::{Account, Charge},
};

/// Duration of an attempt to connect after which nobody waits for its result at the start of a run.
const LONG_CONNECT: Duration = Duration::from_secs(10);

/// What a connector is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has no connection, and is to get one.
    Connecting,
    /// Events flow.
    Running,
    /// The connector is connected, but its pulls or deliveries fail and are retried.
    Retrying,
    /// No event flows until it is resumed.
    Paused,
    /// Its source brings nothing more; what is under way still arrives.
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

/// How things stand with one connector.
#[derive(Debug)]
pub(crate) struct Standing {
    name: Arc<str>,
    now: Mutex<Now>,
    /// What waits for its sink.
    queue: Option<Gauge>,
    /// Events that its sink has taken out of the queue, and that are not delivered.
    in_flight: AtomicUsize,
    /// Memory of what its sink has taken out of the queue.
    charge: Option<Charge>,
    /// What pauses it.
    pub(crate) gate: Gate,
    /// What becomes of the run when it fails.
    on_failure: OnFailure,
    /// Of the instance at hand, or of the next one.
    instance: Mutex<Arc<Connection>>,
}

#[derive(Debug)]
struct Now {
    state: State,
    since: Instant,
    /// Whether its source brings nothing more, now and later.
    drains: bool,
    trouble: Option<Trouble>,
    series: Series,
    /// Start of the time in which the source is not pulled because of the limits of what it has in flight, and these
    /// limits.
    bound: Option<(Instant, InFlight)>,
    /// Whether an attempt to connect has succeeded or failed.
    is_tried: bool,
    restarts: u64,
    /// How many of each kind.
    errors: BTreeMap<&'static str, u64>,
}

/// What went wrong last.
#[derive(Debug)]
struct Trouble {
    error: String,
    is_over: bool,
}

impl Standing {
    /// A connector that is yet to be made, with the queue of its sink.
    pub(crate) fn new(name: Arc<str>, queue: Option<Gauge>) -> Self {
        let now = Now {
            state: State::Connecting,
            since: Instant::now(),
            drains: false,
            trouble: None,
            series: Series::default(),
            bound: None,
            is_tried: false,
            restarts: 0,
            errors: BTreeMap::new(),
        };
        Self {
            name,
            now: Mutex::new(now),
            queue,
            in_flight: AtomicUsize::new(0),
            charge: None,
            gate: Gate::default(),
            on_failure: OnFailure::default(),
            instance: Mutex::default(),
        }
    }

    /// One with which the run fails, or does not.
    pub(crate) fn on_failure(self, on_failure: OnFailure) -> Self {
        Self { on_failure, ..self }
    }

    /// Counts the deliveries of its sink in the memory of `component`.
    pub(crate) fn counted_in(self, component: Arc<Account>) -> Self {
        Self { charge: Some(Charge::new(component)), ..self }
    }

    /// Whether the run ends when it fails.
    pub(crate) fn ends_run(&self) -> bool {
        self.on_failure == OnFailure::Exit
    }

    /// Its name in the flow.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How things stand now.
    pub(crate) fn status(&self) -> Status {
        let now = lock(&self.now);
        let (state, since) = now.shown();
        let lasts_long = now.state == State::Connecting && now.since.elapsed() >= LONG_CONNECT;
        Status {
            connector: self.name.to_string(),
            state,
            since,
            error: now.trouble.as_ref().map(|trouble| trouble.error.clone()),
            restarts: now.restarts,
            errors: now.errors.clone(),
            retries: now.series.counts.clone(),
            is_tried: now.is_tried || lasts_long,
            queued: self.queued(),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            waits_for: Vec::new(),
        }
    }

    /// Returns the reason why a source waits for the connector's sink. `full_since` is the start of the wait if
    /// the source waits for capacity of the sink's queue.
    pub(crate) fn awaited(&self, full_since: Option<Instant>) -> Awaited {
        let now = lock(&self.now);
        let trouble = now.trouble.as_ref().filter(|trouble| !trouble.is_over);
        let (reason, since) = match (now.state, now.series.deliveries()) {
            (State::Running | State::Draining, Some(since)) => (State::Retrying.as_str(), since),
            (State::Running | State::Draining, None) if full_since.is_some() => {
                ("queue full", now.since)
            }
            (state, _) => (state.as_str(), now.since),
        };
        let since = full_since.unwrap_or(since);
        let error = trouble.map(|it| it.error.clone());
        Awaited { sink: self.name.to_string(), reason, since, error, limit: None }
    }

    /// It is in another state: draining, where it runs or is paused and its source brings nothing more;
    /// failed, if it has failed. Gives the state that it is in.
    pub(crate) fn enter(&self, state: State) -> State {
        let mut now = lock(&self.now);
        match state {
            State::Running => {
                now.series.end(Retried::Pull);
                now.series.end(Retried::Deliver);
                now.mend();
            }
            State::Restarting => now.restarts += 1,
            _ => {}
        }
        now.is_tried |= state != State::Connecting;
        now.enter(state);
        now.state
    }

    /// Its source brings nothing more, now and later.
    pub(crate) fn drains(&self) {
        let mut now = lock(&self.now);
        now.drains = true;
        let state = now.state;
        now.enter(state);
    }

    /// Notes the limits of what the source has in flight if it is not pulled because of them.
    pub(crate) fn set_bound(&self, limit: Option<InFlight>) {
        lock(&self.now).bound = limit.map(|limit| (Instant::now(), limit));
    }

    /// Returns the start of the time in which the source is not pulled for that reason, and the limits.
    pub(crate) fn bound(&self) -> Option<(Instant, InFlight)> {
        lock(&self.now).bound
    }

    /// Returns the number of events that the sink has taken and not delivered.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Notes that something has failed.
    pub(crate) fn note(&self, error: &Error) {
        lock(&self.now).note(error);
    }

    /// Notes that an operation has failed and is retried after `wait`.
    pub(crate) fn retry(&self, what: Retried, error: &Error, wait: Duration) {
        let mut now = lock(&self.now);
        now.note(error);
        now.series.retry(what, error, wait);
    }

    /// Notes that the source is idle: see [`Series::idle`].
    pub(crate) fn idle(&self, wait: Duration) -> bool {
        lock(&self.now).series.idle(Instant::now(), wait)
    }

    /// Notes that an operation no longer fails, or is no longer retried.
    pub(crate) fn recover(&self, what: Retried) {
        let mut now = lock(&self.now);
        now.series.end(what);
        if now.series.earliest(Instant::now()).is_none() {
            now.mend();
        }
    }

    /// It has failed for good, whatever it does from now on.
    pub(crate) fn fail(&self, error: &Error) {
        self.note(error);
        self.enter(State::Failed);
    }

    /// The connections of another instance.
    pub(crate) fn next_instance(&self) -> Arc<Connection> {
        let next = Arc::<Connection>::default();
        *lock(&self.instance) = next.clone();
        next
    }

    /// Has the instance at hand replaced by another.
    pub(crate) fn restart(&self) {
        let instance = lock(&self.instance).clone();
        instance.replace(Replaced::Asked);
    }

    /// Its sink has so many events that are not delivered.
    pub(crate) fn set_in_flight(&self, events: usize) {
        self.in_flight.store(events, Ordering::Relaxed);
    }

    /// Sets the memory of the events that its sink has taken, in bytes.
    pub(crate) fn set_in_flight_bytes(&self, bytes: usize) {
        if let Some(charge) = &self.charge {
            charge.set(bytes);
        }
    }

    /// What it is about, unless it has ended: where it has events that are not delivered, or `always`.
    pub(crate) fn held_up(&self, always: bool) -> Option<HeldUp> {
        let events = self.in_flight.load(Ordering::Relaxed) + self.queued();
        let now = lock(&self.now);
        if now.state.is_over() || (events == 0 && !always) {
            return None;
        }
        let trouble = now.trouble.as_ref().filter(|trouble| !trouble.is_over);
        let (doing, since) = match (now.state, now.series.deliveries()) {
            (State::Running | State::Draining, Some(since)) => ("waiting to deliver", since),
            (state, _) => (state.as_str(), now.since),
        };
        let mut doing = format!("{doing} for {:.1} s", since.elapsed().as_secs_f64());
        // Writing to a string cannot fail.
        if events > 0 {
            _ = write!(doing, ", {events} events are not delivered");
        }
        if let Some(Trouble { error, .. }) = trouble {
            _ = write!(doing, "; the last attempt failed: {error}");
        }
        Some(HeldUp { component: self.name.to_string(), doing })
    }

    /// Returns the number of events that wait for the sink.
    pub(crate) fn queued(&self) -> usize {
        self.queue.as_ref().map_or(0, Gauge::events)
    }
}

impl Now {
    /// Returns the state for an operator, and its start.
    fn shown(&self) -> (State, Instant) {
        let series = self.series.earliest(Instant::now()).filter(|_| self.state == State::Running);
        series.map_or((self.state, self.since), |since| (State::Retrying, since))
    }

    fn note(&mut self, error: &Error) {
        self.is_tried = true;
        *self.errors.entry(error.kind().as_str()).or_default() += 1;
        self.trouble = Some(Trouble { error: error.to_string(), is_over: false });
    }

    fn enter(&mut self, state: State) {
        let state = match state {
            State::Running | State::Paused if self.drains => State::Draining,
            state => state,
        };
        // What has failed stays so, though it may still have something to do.
        if self.state != state && self.state != State::Failed {
            (self.state, self.since) = (state, Instant::now());
        }
    }

    fn mend(&mut self) {
        if let Some(trouble) = &mut self.trouble {
            trouble.is_over = true;
        }
    }
}

#[cfg(test)]
mod tests;
