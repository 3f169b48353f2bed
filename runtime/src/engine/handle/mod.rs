//! The object that controls a connector and knows its status.

pub(crate) mod connection;
pub(crate) mod gate;
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

use tremor_pdk::{Error, InFlight};

use crate::{
    engine::{
        handle::{
            connection::{Connection, Replaced},
            gate::Gate,
            series::{Retried, Series},
            status::{Awaited, HeldUp, State, Status},
        },
        sync::gauge::Gauge,
    },
    flow::OnFailure,
    lock::lock,
    memory::{Account, Charge},
};

/// Duration of an attempt to connect after which nobody waits for its result at the start of a run.
const LONG_CONNECT: Duration = Duration::from_secs(10);

/// Controls a connector: its pauses, its replacement, and what is reported of it.
#[derive(Debug)]
pub(crate) struct ConnectorHandle {
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

impl ConnectorHandle {
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
