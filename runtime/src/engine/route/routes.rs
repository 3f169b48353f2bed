//! Where a component's events go: through the pipelines that are run with it, towards queues.
//!
//! Nothing here waits. What is to go into queues is laid down in order, and the router puts it there ([`crate::engine::route::router`]).

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use tremor_abi::batch::{HostBatch, Pool, Rejected};
use tremor_pdk::Batch;

use crate::engine::{
    account::{
        stats::Stats,
        token::{InFlight, Token},
    },
    control::Control,
    processors::Processors,
    route::pipeline::{Call, Env, Letters, Pipeline, Step, fan_out},
    target::{Ports, Target},
    tuning::SHORTEST_WAIT,
};
use crate::flow::OUT;

/// Takes the events of one component through pipelines, to queues.
pub(crate) struct Routes {
    /// The component whose events these are.
    pub(crate) name: Arc<str>,
    pub(crate) ports: Ports,
    pipelines: Vec<Pipeline>,
    pool: Pool,
    stats: Arc<Stats>,
    control: Arc<Control>,
    /// What still has to be routed of the batch in hand. Empty between calls.
    work: Vec<(Target, InFlight)>,
    /// What goes into queues next, in order.
    outgoing: VecDeque<(usize, InFlight)>,
    /// None before the first batch.
    clock: Option<Clock>,
}

/// The clock of events: what the last event said, and the time that has passed since. So operators
/// that go by the time of events work on old events as they do on new ones.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// In ns since the Unix epoch.
    event: u64,
    at: Instant,
    /// When operators were last told the time.
    told: Option<Instant>,
}

impl Clock {
    fn now(&self) -> u64 {
        let passed = u64::try_from(self.at.elapsed().as_nanos()).unwrap_or(u64::MAX);
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

    /// Routes what a task has in hand: values out of port `out`, what it could not decode out of port
    /// `err`.
    pub(crate) fn take_in(&mut self, item: InFlight, rejected: Vec<Rejected>) {
        if !rejected.is_empty() {
            // Where `err` leads somewhere, they are not lost, and so their source has nothing to hear.
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

    /// Routes events that the component could not handle out of port `err`, and the others of
    /// their batch not at all: `batch` is only what the events point into.
    pub(crate) fn reject(&mut self, batch: &Batch, rejected: Vec<Rejected>, token: Token) {
        self.set_clock(batch);
        let letters = Letters { batch, rejected, token };
        let (work, control) = (&mut self.work, &*self.control);
        let mut env = Env { work, pool: &self.pool, control };
        letters.post(&self.name, &self.ports, &self.stats, &mut env);
        self.run();
    }

    /// The processors that the tasks of the flow run on.
    pub(crate) fn processors(&self) -> &Processors {
        self.control.processors()
    }

    /// Takes over what goes into queues next, with their positions, into an empty list.
    pub(crate) fn take_outgoing(&mut self, to: &mut VecDeque<(usize, InFlight)>) {
        std::mem::swap(&mut self.outgoing, to);
    }

    /// When an operator wants to be told the time.
    pub(crate) fn due(&self) -> Option<Instant> {
        let clock = self.clock?;
        let due = self.next_due()?;
        let due = clock.at + Duration::from_nanos(due.saturating_sub(clock.event));
        Some(clock.told.map_or(due, |told| due.max(told + SHORTEST_WAIT)))
    }

    /// Tells the time to the operators that wait for it, and routes what they emit.
    pub(crate) fn tell_time(&mut self) {
        let Some(clock) = &mut self.clock else { return };
        clock.told = Some(Instant::now());
        let now = clock.now();
        self.tell(now);
    }

    /// The earliest time that an operator wants to be told, in ns since the Unix epoch.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.pipelines.iter().flat_map(|pipeline| &pipeline.steps).filter_map(Step::due).min()
    }

    /// Tells operators that wait for it that it is `now`, in ns since the Unix epoch.
    pub(crate) fn tell(&mut self, now: u64) {
        for pipeline in 0..self.pipelines.len() {
            for step in 0..self.pipelines[pipeline].steps.len() {
                if self.pipelines[pipeline].steps[step].due().is_some_and(|due| due <= now) {
                    self.call(pipeline, step, Call::Time(now));
                }
            }
        }
    }

    /// Has operators emit the events that they buffer.
    pub(crate) fn drain(&mut self) {
        // Stages come in the order that events go through them.
        for pipeline in 0..self.pipelines.len() {
            for step in 0..self.pipelines[pipeline].steps.len() {
                self.call(pipeline, step, Call::Drain);
            }
        }
        for pipeline in &self.pipelines {
            pipeline.report_buffered(&self.control);
        }
    }

    fn call(&mut self, pipeline: usize, step: usize, call: Call) {
        let (work, control) = (&mut self.work, &*self.control);
        let mut env = Env { work, pool: &self.pool, control };
        self.pipelines[pipeline].call(step, call, &mut env);
        self.run();
    }

    fn set_clock(&mut self, batch: &Batch) {
        if self.pipelines.is_empty() {
            return;
        }
        if let Some(last) = batch.events().last() {
            let told = self.clock.and_then(|clock| clock.told);
            self.clock = Some(Clock { event: last.ingest_ns, at: Instant::now(), told });
        }
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
            }
        }
    }
}
