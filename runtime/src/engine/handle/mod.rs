//! The object that controls a connector and knows its status.

pub(crate) mod connection;
pub(crate) mod gate;
pub(crate) mod problems;
pub(crate) mod series;
pub(crate) mod status;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tremor_pdk::{Error, lock};

use crate::{
    clock::Clock,
    engine::{
        handle::{
            connection::{Connection, Replaced},
            gate::Gate,
            problems::Problems,
            series::{Retried, Series},
            status::{Awaited, Bound, State, Status, Unfinished},
        },
        sync::gauge::Gauge,
    },
    flow::OnFailure,
    memory::{Account, Charge},
};

/// If an attempt to connect takes this long, the connector counts as tried, so that the start of a run does not wait
/// for the attempt.
pub(crate) const LONG_CONNECT: Duration = Duration::from_secs(10);

/// The object through which a connector is paused, restarted and observed.
#[derive(Debug)]
pub(crate) struct ConnectorHandle {
    name: Arc<str>,
    clock: Clock,
    now: Mutex<Now>,
    /// Fill level of the sink's queue. `None` if the connector has no sink.
    queue: Option<Gauge>,
    /// Number of events that the sink has taken out of its queue and not delivered.
    in_flight: AtomicUsize,
    /// Memory of the events that `in_flight` counts.
    charge: Option<Charge>,
    /// The gate that pauses the connector.
    pub(crate) gate: Gate,
    /// Effect of a permanent failure of the connector on the run.
    on_failure: OnFailure,
    /// Connection of the current instance. While there is no instance, the connection of the next one.
    instance: Mutex<Arc<Connection>>,
}

/// The part of a connector's status that changes under a lock.
#[derive(Debug)]
struct Now {
    state: State,
    since: Instant,
    /// `true` once the flow drains, or the source of the connector has permanently stopped reading.
    drains: bool,
    last_error: Option<LastError>,
    series: Series,
    /// Reason why the source is not pulled, unless that is a sink, and the time since which it applies.
    bound: Option<(Instant, Bound)>,
    /// `true` once an attempt to connect has succeeded, failed, or taken [`LONG_CONNECT`].
    is_tried: bool,
    restarts: u64,
    /// Number of errors by kind.
    errors: BTreeMap<&'static str, u64>,
}

/// The last error of a connector.
#[derive(Debug)]
struct LastError {
    error: String,
    /// `true` once the operation has succeeded or is no longer retried.
    is_resolved: bool,
}

impl ConnectorHandle {
    /// Creates the handle of a connector that has no instance yet. `queue` is the queue of its sink, if it has one.
    pub(crate) fn new(name: Arc<str>, queue: Option<Gauge>, clock: Clock) -> Self {
        let now = Now {
            state: State::Connecting,
            since: clock.now(),
            drains: false,
            last_error: None,
            series: Series::default(),
            bound: None,
            is_tried: false,
            restarts: 0,
            errors: BTreeMap::new(),
        };
        Self {
            name,
            clock,
            now: Mutex::new(now),
            queue,
            in_flight: AtomicUsize::new(0),
            charge: None,
            gate: Gate::default(),
            on_failure: OnFailure::default(),
            instance: Mutex::default(),
        }
    }

    /// Sets the effect of a permanent failure of the connector on the run.
    pub(crate) fn on_failure(self, on_failure: OnFailure) -> Self {
        Self { on_failure, ..self }
    }

    /// Counts the memory of the events that the sink has taken and not delivered in the account of `component`.
    pub(crate) fn counted_in(self, component: Arc<Account>) -> Self {
        Self { charge: Some(Charge::new(component)), ..self }
    }

    /// Returns whether a failure of the connector ends the run.
    pub(crate) fn ends_run(&self) -> bool {
        self.on_failure == OnFailure::Exit
    }

    /// Returns the name of the connector in the flow.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the current status, without the components that the source waits for.
    pub(crate) fn status(&self) -> Status {
        let problems = lock(&self.instance).problems();
        let now = lock(&self.now);
        let (state, since) = now.shown(self.clock.now(), problems.since());
        let mut errors = now.errors.clone();
        add(&mut errors, &problems.errors);
        let lasts_long =
            now.state == State::Connecting && self.clock.elapsed(now.since) >= LONG_CONNECT;
        Status {
            connector: self.name.to_string(),
            state,
            since,
            error: now.error_besides(&problems),
            restarts: now.restarts,
            errors,
            retries: now.series.counts.clone(),
            is_tried: now.is_tried || lasts_long,
            queued: self.queued(),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            waits_for: Vec::new(),
        }
    }

    /// Returns the reason why a source waits for the connector's sink. `full_since` is the start of the wait if the
    /// source waits because the sink's queue is full.
    pub(crate) fn awaited(&self, full_since: Option<Instant>) -> Awaited {
        let now = lock(&self.now);
        let last_error = now.last_error.as_ref().filter(|last| !last.is_resolved);
        let (reason, since) = match (now.state, now.series.deliveries()) {
            (State::Running | State::Draining, Some(since)) => (State::Retrying.as_str(), since),
            (State::Running | State::Draining, None) if full_since.is_some() => {
                ("queue full", now.since)
            }
            (state, _) => (state.as_str(), now.since),
        };
        let since = full_since.unwrap_or(since);
        let error = last_error.map(|it| it.error.clone());
        Awaited { sink: self.name.to_string(), reason, since, error, limit: None, bytes: None }
    }

    /// Enters `state`, and returns the resulting state. If the flow drains, or the source of the connector has
    /// permanently stopped reading, the result is `Draining` instead of `Running` or `Paused`. A failed connector stays
    /// `Failed`.
    pub(crate) fn enter(&self, state: State) -> State {
        let mut now = lock(&self.now);
        match state {
            State::Running => {
                now.series.end(Retried::Pull);
                now.series.end(Retried::Deliver);
                now.resolve_error();
            }
            State::Restarting => now.restarts += 1,
            _ => {}
        }
        now.is_tried |= state != State::Connecting;
        now.enter(state, self.clock.now());
        now.state
    }

    /// Records that the flow drains, or that the source of the connector has permanently stopped reading.
    pub(crate) fn drains(&self) {
        let mut now = lock(&self.now);
        now.drains = true;
        let state = now.state;
        now.enter(state, self.clock.now());
    }

    /// Sets the reason why the source is not pulled, unless that is a sink. It applies from now on.
    pub(crate) fn set_bound(&self, bound: Option<Bound>) {
        lock(&self.now).bound = bound.map(|bound| (self.clock.now(), bound));
    }

    /// Returns the reason why the source is not pulled, unless that is a sink, with the time since which it applies.
    pub(crate) fn bound(&self) -> Option<(Instant, Bound)> {
        lock(&self.now).bound
    }

    /// Returns the number of events that the sink has taken and not delivered.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Records an error of the connector.
    pub(crate) fn note(&self, error: &Error) {
        lock(&self.now).note(error);
    }

    /// Records that an operation has failed with `error` and is retried after `wait`.
    pub(crate) fn retry(&self, what: Retried, error: &Error, wait: Duration) {
        let mut now = lock(&self.now);
        now.note(error);
        now.series.retry(what, error, wait, self.clock.now());
    }

    /// Records that the source is idle: see [`Series::idle`].
    pub(crate) fn idle(&self, wait: Duration) -> bool {
        lock(&self.now).series.idle(self.clock.now(), wait)
    }

    /// Records that an operation no longer fails, or is no longer retried.
    pub(crate) fn recover(&self, what: Retried) {
        let mut now = lock(&self.now);
        now.series.end(what);
        if now.series.earliest(self.clock.now()).is_none() {
            now.resolve_error();
        }
    }

    /// Records that the connector has failed permanently. Later states have no effect.
    pub(crate) fn fail(&self, error: &Error) {
        self.note(error);
        self.enter(State::Failed);
    }

    /// Returns the connection of the first instance. A request that came before the connector began applies to it.
    pub(crate) fn first_instance(&self) -> Arc<Connection> {
        lock(&self.instance).clone()
    }

    /// Creates and returns the connection of the next instance.
    pub(crate) fn next_instance(&self) -> Arc<Connection> {
        let next = Arc::<Connection>::default();
        let previous = std::mem::replace(&mut *lock(&self.instance), next.clone());
        add(&mut lock(&self.now).errors, &previous.problems().errors);
        next
    }

    /// Requests that the current instance is replaced by a new one.
    pub(crate) fn restart(&self) {
        let instance = lock(&self.instance).clone();
        instance.replace(Replaced::Requested);
    }

    /// Sets the number of events that the sink has taken and not delivered.
    pub(crate) fn set_in_flight(&self, events: usize) {
        self.in_flight.store(events, Ordering::Relaxed);
    }

    /// Sets the memory of the events that the sink has taken and not delivered, in bytes.
    pub(crate) fn set_in_flight_bytes(&self, bytes: usize) {
        if let Some(charge) = &self.charge {
            charge.set(bytes);
        }
    }

    /// Describes the current activity of the connector. Returns `None` if the connector has ended. If `always` is
    /// `false`, also returns `None` if all events for the connector are delivered.
    pub(crate) fn unfinished(&self, always: bool) -> Option<Unfinished> {
        let events = self.in_flight.load(Ordering::Relaxed) + self.queued();
        let now = lock(&self.now);
        if now.state.is_over() || (events == 0 && !always) {
            return None;
        }
        let last_error = now.last_error.as_ref().filter(|last| !last.is_resolved);
        let (doing, since) = match (now.state, now.series.deliveries()) {
            (State::Running | State::Draining, Some(since)) => ("waiting to deliver", since),
            (state, _) => (state.as_str(), now.since),
        };
        let mut doing = format!("{doing} for {:.1} s", self.clock.elapsed(since).as_secs_f64());
        // Writing to a string cannot fail.
        if events > 0 {
            _ = write!(doing, ", {events} events are not delivered");
        }
        if let Some(LastError { error, .. }) = last_error {
            _ = write!(doing, "; the last attempt failed: {error}");
        }
        Some(Unfinished { component: self.name.to_string(), doing })
    }

    /// Returns the number of events that wait for the sink.
    pub(crate) fn queued(&self) -> usize {
        self.queue.as_ref().map_or(0, Gauge::events)
    }
}

/// Adds numbers of errors to those in `errors`.
fn add(errors: &mut BTreeMap<&'static str, u64>, more: &BTreeMap<&'static str, u64>) {
    more.iter().for_each(|(kind, count)| *errors.entry(kind).or_default() += count);
}

impl Now {
    /// Returns the state that is reported at `now`, and the time since which it applies. `problem` is the start of the
    /// first problem of the instance, if it has any.
    fn shown(&self, now: Instant, problem: Option<Instant>) -> (State, Instant) {
        let series = self.series.earliest(now).into_iter().chain(problem).min();
        let series = series.filter(|_| self.state == State::Running);
        series.map_or((self.state, self.since), |since| (State::Retrying, since))
    }

    /// Returns the error that is reported: of an operation that is retried, otherwise of a problem, otherwise the last
    /// one, even if the connector has recovered.
    fn error_besides(&self, problems: &Problems) -> Option<String> {
        let last = self.last_error.as_ref();
        let of = |last: &LastError| last.error.clone();
        let unresolved = last.filter(|last| !last.is_resolved).map(of);
        unresolved
            .or_else(|| problems.description())
            .or_else(|| last.map(of))
            .or_else(|| problems.last())
    }

    fn note(&mut self, error: &Error) {
        self.is_tried = true;
        *self.errors.entry(error.kind().as_str()).or_default() += 1;
        self.last_error = Some(LastError { error: error.to_string(), is_resolved: false });
    }

    fn enter(&mut self, state: State, now: Instant) {
        let state = match state {
            State::Running | State::Paused if self.drains => State::Draining,
            state => state,
        };
        // A failed connector stays failed, although its task may still have work to do.
        if self.state != state && self.state != State::Failed {
            (self.state, self.since) = (state, now);
        }
    }

    fn resolve_error(&mut self) {
        if let Some(last) = &mut self.last_error {
            last.is_resolved = true;
        }
    }
}
