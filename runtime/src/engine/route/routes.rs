//! The routes of a component's events: through the pipelines that its task runs, to queues.
//!
//! Functions of this module do not wait. They collect batches for queues in order, and the
//! [router](crate::engine::route::router) sends these batches.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use tremor_abi::batch::{HostBatch, Pool, Rejected};
use tremor_pdk::Batch;

use crate::engine::{
    control::Control,
    logging::losses::OverflowReason,
    processors::Processors,
    route::{
        fan_out::{DeadLetters, Env, fan_out, pass_on},
        leading::Done,
        pipeline::{Call, Pipeline},
        stage::Stage,
        step::Step,
    },
    target::{Ports, Target},
    tracking::{
        stats::Stats,
        token::{InFlight, Token},
    },
    tuning::SHORTEST_WAIT,
};
use crate::{
    clock::Clock,
    flow::{OUT, owner_of},
};

/// The ports and pipelines through which the events of one component pass before they reach a queue.
pub(crate) struct Routes {
    /// Name of the component.
    pub(crate) name: Arc<str>,
    pub(crate) ports: Ports,
    pipelines: Vec<Pipeline>,
    pool: Pool,
    stats: Arc<Stats>,
    control: Arc<Control>,
    /// A stack of batches that still have to be routed, with their targets. Empty between calls.
    work: Vec<(Target, InFlight)>,
    /// Batches to send, in order, with the index of their queue.
    outgoing: VecDeque<(usize, InFlight)>,
    /// The clock of the operators' timers. `None` before the first batch.
    clock: Option<EventClock>,
}

/// The clock of operator timers. Its time is the time of the last event plus the time that has passed since the task
/// routed that event. Operators therefore treat old events, which a source reads again for example, in the same way as
/// new ones.
#[derive(Clone, Copy, Debug)]
struct EventClock {
    /// Ingest time of the last event, in ns since the Unix epoch.
    event: u64,
    /// Time at which that event was routed.
    at: Instant,
    /// Time at which timers were last run.
    timers_run: Option<Instant>,
}

impl EventClock {
    /// Returns the time of the events at `now`, in ns since the Unix epoch.
    fn at(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.at);
        let passed = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
        self.event.saturating_add(passed)
    }
}

impl Routes {
    pub(crate) fn new(
        name: Arc<str>,
        ports: Ports,
        pipelines: Vec<Pipeline>,
        pool: Pool,
        stats: Arc<Stats>,
        control: Arc<Control>,
    ) -> Self {
        let (work, outgoing) = (Vec::new(), VecDeque::new());
        Self { name, ports, pipelines, pool, stats, control, work, outgoing, clock: None }
    }

    /// Routes a decoded batch: its events to port `out`, and the events that could not be decoded to port `err`.
    pub(crate) fn take_in(&mut self, item: InFlight, rejected: Vec<Rejected>) {
        if !rejected.is_empty() {
            // If `err` is linked, the events become dead letters and do not fail, so the source need not know why they
            // could not be decoded.
            if self.ports.err.is_empty() {
                item.token.undecodable(&rejected);
            }
            self.reject(&item.batch, rejected, item.token.clone());
        }
        if item.batch.is_empty() {
            return item.token.settle();
        }
        self.set_clock(&item.batch);
        fan_out((OUT, &self.ports.out), item, &mut self.work, &self.stats);
        self.run();
    }

    /// Routes a decoded batch from the leading stateless operators on. `done` contains the results of these operators,
    /// and is empty afterwards.
    pub(crate) fn take_over(&mut self, done: &mut Done) {
        if let Some(last) = done.last_ingest.take() {
            self.set_clock_to(last);
        }
        for result in done.results.drain(..) {
            self.work.push(result);
            self.run();
        }
    }

    /// Routes events that the component could not handle to port `err`. `batch` contains the data of these events. The
    /// events that are still in `batch` are not routed.
    pub(crate) fn reject(&mut self, batch: &Batch, rejected: Vec<Rejected>, token: Token) {
        self.set_clock(batch);
        let letters = DeadLetters { batch, rejected, token };
        let (work, control) = (&mut self.work, &*self.control);
        let mut env = Env { work, pool: &self.pool, control };
        letters.post(&self.name, &self.ports, &self.stats, &mut env);
        self.run();
    }

    /// Passes events that a sink gave up on to the targets of its port `err`, as they are.
    pub(crate) fn pass_on(&mut self, item: InFlight, why: OverflowReason) {
        self.set_clock(&item.batch);
        let work = &mut self.work;
        pass_on(owner_of(&self.name), &self.ports.err, item, why, &self.stats, |target, item| {
            work.push((target, item));
        });
        // The work list is a stack, and targets are served in the order of their links.
        self.work.reverse();
        self.run();
    }

    /// Returns the processors that the tasks of the flow share.
    pub(crate) fn processors(&self) -> &Processors {
        self.control.processors()
    }

    /// Returns the clock from which the tasks of the flow take the time.
    pub(crate) fn clock(&self) -> &Clock {
        self.control.clock()
    }

    /// Moves the batches to send, with the index of their queue, to `to`, which must be empty.
    pub(crate) fn take_outgoing(&mut self, to: &mut VecDeque<(usize, InFlight)>) {
        std::mem::swap(&mut self.outgoing, to);
    }

    /// Returns the time at which the next timer of an operator is due, or `None` before the first batch. Timers run
    /// at most once per [`SHORTEST_WAIT`].
    pub(crate) fn due(&self) -> Option<Instant> {
        let clock = self.clock?;
        let due = self.next_due()?;
        let due = clock.at + Duration::from_nanos(due.saturating_sub(clock.event));
        Some(clock.timers_run.map_or(due, |last| due.max(last + SHORTEST_WAIT)))
    }

    /// Calls the operators whose timer is due, and routes the events that they emit.
    pub(crate) fn run_timers(&mut self) {
        let Some(clock) = &mut self.clock else { return };
        let now = self.control.clock().now();
        clock.timers_run = Some(now);
        let now = clock.at(now);
        self.run_timers_at(now);
    }

    /// Returns the time for which the next timer of an operator is set, in ns since the Unix epoch.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.pipelines.iter().flat_map(|pipeline| &pipeline.steps).filter_map(Step::due).min()
    }

    /// Calls the operators whose timer is due at `now`, in ns since the Unix epoch, and routes the events that they
    /// emit.
    pub(crate) fn run_timers_at(&mut self, now: u64) {
        for pipeline in 0..self.pipelines.len() {
            for step in 0..self.pipelines[pipeline].steps.len() {
                if self.pipelines[pipeline].steps[step].due().is_some_and(|due| due <= now) {
                    self.call(pipeline, step, Call::Time(now));
                }
            }
        }
    }

    /// Drains the operators, so that they emit the events that they buffer. Logs the operators that still buffer events
    /// after that.
    pub(crate) fn drain(&mut self) {
        // Pipelines are stored in the order in which events pass them, so events that one pipeline emits reach later
        // pipelines before those are drained.
        for pipeline in 0..self.pipelines.len() {
            for step in 0..self.pipelines[pipeline].steps.len() {
                self.call(pipeline, step, Call::Drain);
            }
        }
        for pipeline in &self.pipelines {
            pipeline.report_buffered(&self.control);
        }
    }

    /// Drains the operators that are not part of `next`: see [`Routes::exchange`].
    pub(super) fn retire(&mut self, next: &[Stage]) {
        for pipeline in 0..self.pipelines.len() {
            let name = self.pipelines[pipeline].name.clone();
            let stage = next.iter().find(|it| it.name == name);
            for step in 0..self.pipelines[pipeline].steps.len() {
                if stage.is_none_or(|it| !it.keeps(step)) {
                    self.call(pipeline, step, Call::Drain);
                }
            }
        }
    }

    /// Replaces the ports and the pipelines. Operators that stay keep their state.
    pub(super) fn exchange(&mut self, ports: Ports, next: Vec<Stage>) {
        self.ports = ports;
        let mut running = std::mem::take(&mut self.pipelines);
        let mut pipeline = |stage: Stage| {
            let same = running.iter_mut().find(|it| it.name == stage.name);
            stage.into_pipeline(same)
        };
        self.pipelines = next.into_iter().map(&mut pipeline).collect();
        // These pipelines have only operators that do not stay.
        running.iter().for_each(|it| it.report_buffered(&self.control));
    }

    fn call(&mut self, pipeline: usize, step: usize, call: Call) {
        let (work, control) = (&mut self.work, &*self.control);
        let mut env = Env { work, pool: &self.pool, control };
        self.pipelines[pipeline].call(step, call, &mut env);
        self.run();
    }

    fn set_clock(&mut self, batch: &Batch) {
        if let Some(last) = batch.events().last() {
            self.set_clock_to(last.ingest_ns);
        }
    }

    fn set_clock_to(&mut self, event: u64) {
        if self.pipelines.is_empty() {
            return;
        }
        let timers_run = self.clock.and_then(|clock| clock.timers_run);
        self.clock = Some(EventClock { event, at: self.control.clock().now(), timers_run });
    }

    fn run(&mut self) {
        while let Some((target, item)) = self.work.pop() {
            match target {
                Target::Queue(queue) => self.outgoing.push_back((queue, item)),
                Target::Pipeline(pipeline) => {
                    let (work, control) = (&mut self.work, &*self.control);
                    let mut env = Env { work, pool: &self.pool, control };
                    self.pipelines[pipeline].process(item, &mut env);
                }
                Target::Rest(pipeline) => {
                    let (work, control) = (&mut self.work, &*self.control);
                    let mut env = Env { work, pool: &self.pool, control };
                    self.pipelines[pipeline].process_rest(item, &mut env);
                }
            }
        }
    }
}
