//! Where a task's events go: through the pipelines that it runs itself, into the queues of other
//! tasks.
//!
//! A pipeline that one task feeds is run by that task, to completion, a batch at a time; only a
//! pipeline that several tasks feed has a task of its own.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tremor_pdk::{
    Batch,
    abi::batch::{Pool, Rejected},
};

use super::{
    delivery::{InFlight, Token},
    queue::{Sender, Spent},
    stage::{Around, Call, Letters, Stage, fan_out},
    stats::Stats,
};

/// How long an operator waits at least that wants to be told the time again as soon as it was.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Where the events of one port go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A pipeline that this task runs: its position in [`Router::stages`].
    Stage(usize),
    /// The queue of another task: its position in [`Router::queues`].
    Queue(usize),
}

/// Where the events of a component's ports go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports {
    pub(crate) out: Vec<Target>,
    pub(crate) err: Vec<Target>,
}

/// The way of events out of one component.
pub(crate) struct Router {
    /// The component whose events these are.
    pub(crate) name: Arc<str>,
    pub(crate) ports: Ports,
    pub(crate) stages: Vec<Stage>,
    pub(crate) queues: Vec<Sender>,
    pub(crate) pool: Pool,
    pub(crate) stats: Arc<Stats>,
    /// What still has to be routed of the batch in hand. Empty between calls.
    pub(crate) work: Vec<(Target, InFlight)>,
    /// None before the first batch.
    pub(crate) clock: Option<Clock>,
}

/// The clock of events: what the last event said, and the time that has passed since. So operators
/// that go by the time of events work on old events as they do on new ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
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

impl Router {
    /// Routes a batch out of port `out`.
    pub(crate) async fn emit(&mut self, item: InFlight) {
        self.set_clock(&item.batch);
        fan_out(&self.ports.out, item, &mut self.work, &self.stats);
        self.run().await;
    }

    /// Routes events that the component could not handle out of port `err`, and the others of
    /// their batch not at all: `batch` is only what the events point into.
    pub(crate) async fn reject(&mut self, batch: &Batch, rejected: Vec<Rejected>, token: Token) {
        self.set_clock(batch);
        let letters = Letters { batch, rejected, token };
        let mut around = Around { work: &mut self.work, pool: &self.pool, stats: &self.stats };
        letters.post(&self.name, &self.ports.err, &mut around);
        self.run().await;
    }

    /// What sending has taken since this was last asked.
    pub(crate) fn take_spent(&mut self) -> Spent {
        self.queues.iter_mut().map(Sender::take_spent).fold(Spent::default(), |sum, spent| Spent {
            waiting: sum.waiting + spent.waiting,
            handing: sum.handing + spent.handing,
        })
    }

    /// When an operator wants to be told the time.
    pub(crate) fn due(&self) -> Option<Instant> {
        let clock = self.clock?;
        let due = self.next_due()?;
        let due = clock.at + Duration::from_nanos(due.saturating_sub(clock.event));
        Some(clock.told.map_or(due, |told| due.max(told + SHORTEST_WAIT)))
    }

    /// Whether it is time to tell an operator so.
    pub(crate) fn is_due(&self) -> bool {
        self.due().is_some_and(|due| due <= Instant::now())
    }

    /// Tells the time to the operators that wait for it, and routes what they emit.
    pub(crate) async fn tell_time(&mut self) {
        let Some(clock) = &mut self.clock else { return };
        clock.told = Some(Instant::now());
        let now = clock.now();
        self.tell(now).await;
    }

    /// The earliest time that an operator wants to be told, in ns since the Unix epoch.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let steps = self.stages.iter().flat_map(|stage| &stage.steps);
        steps.filter_map(super::stage::Step::due).min()
    }

    /// Tells operators that wait for it that it is `now`, in ns since the Unix epoch.
    pub(crate) async fn tell(&mut self, now: u64) {
        for stage in 0..self.stages.len() {
            for step in 0..self.stages[stage].steps.len() {
                if self.stages[stage].steps[step].due().is_some_and(|due| due <= now) {
                    self.call(stage, step, Call::Time(now)).await;
                }
            }
        }
    }

    /// The end: operators emit what they hold back, then queues that nobody else feeds end.
    pub(crate) async fn close(&mut self) {
        self.drain().await;
        self.queues.clear();
    }

    /// Operators emit what they hold back.
    pub(crate) async fn drain(&mut self) {
        // Stages come in the order that events go through them.
        for stage in 0..self.stages.len() {
            for step in 0..self.stages[stage].steps.len() {
                self.call(stage, step, Call::Drain).await;
            }
        }
    }

    async fn call(&mut self, stage: usize, step: usize, call: Call) {
        let mut around = Around { work: &mut self.work, pool: &self.pool, stats: &self.stats };
        self.stages[stage].call(step, call, &mut around);
        self.run().await;
    }

    fn set_clock(&mut self, batch: &Batch) {
        if self.stages.is_empty() {
            return;
        }
        if let Some(last) = batch.events().last() {
            let told = self.clock.and_then(|clock| clock.told);
            self.clock = Some(Clock { event: last.ingest_ns, at: Instant::now(), told });
        }
    }

    async fn run(&mut self) {
        while let Some((target, item)) = self.work.pop() {
            match target {
                Target::Queue(queue) => {
                    let Some(queue) = self.queues.get_mut(queue) else { continue };
                    // A task that has failed takes nothing more: the events fail with it.
                    if let Some(refused) = queue.send(item).await {
                        self.stats.failed(refused.batch.len());
                    }
                }
                Target::Stage(stage) => {
                    let (work, stats) = (&mut self.work, &*self.stats);
                    let mut around = Around { work, pool: &self.pool, stats };
                    self.stages[stage].process(item, &mut around);
                }
            }
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // Nothing, unless the task was stopped: what operators held back fails with its tokens.
        self.stats.failed(self.stages.iter().map(Stage::held).sum());
    }
}
