//! Where a task's events go: through the pipelines that it runs itself, into the queues of other
//! tasks.
//!
//! A pipeline that one task feeds is run by that task, to completion, a batch at a time; only a
//! pipeline that several tasks feed has a task of its own.

use std::sync::Arc;

use tremor_pdk::{
    Batch,
    abi::batch::{Pool, Rejected},
};

use super::{
    dead_letter,
    delivery::{InFlight, Token},
    queue::Sender,
    stats::Stats,
};
use crate::operator::Operator;

/// Where the events of one port go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A pipeline that this task runs: its position in [`Router::stages`].
    Stage(usize),
    /// The queue of another task: its position in [`Router::queues`].
    Queue(usize),
}

/// Where the events of a component's ports go.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    pub(crate) out: Vec<Target>,
    pub(crate) err: Vec<Target>,
}

/// A pipeline as one task runs it.
pub(crate) struct Stage {
    pub(crate) name: Arc<str>,
    pub(crate) operators: Vec<Box<dyn Operator>>,
    pub(crate) ports: Ports,
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
}

impl Router {
    /// Routes a batch out of port `out`.
    pub(crate) async fn emit(&mut self, item: InFlight) {
        fan_out(&self.ports.out, item, &mut self.work, &self.stats);
        self.run().await;
    }

    /// Routes events that the component could not handle out of port `err`, and the others of
    /// their batch not at all: `batch` is only what the events point into.
    pub(crate) async fn reject(&mut self, batch: &Batch, rejected: Vec<Rejected>, token: Token) {
        let letters = Letters { batch, rejected, token };
        letters.post(&self.name, &self.ports.err, &mut self.work, &self.pool, &self.stats);
        self.run().await;
    }

    /// Lets go of everything downstream: queues that nobody else feeds end.
    pub(crate) fn close(&mut self) {
        self.queues.clear();
    }

    async fn run(&mut self) {
        while let Some((target, item)) = self.work.pop() {
            match target {
                Target::Queue(queue) => {
                    let Some(queue) = self.queues.get(queue) else { continue };
                    // A task that has failed takes nothing more: the events fail with it.
                    if let Some(refused) = queue.send(item).await {
                        self.stats.failed(refused.batch.len());
                    }
                }
                Target::Stage(stage) => {
                    self.stages[stage].process(item, &mut self.work, &self.pool, &self.stats);
                }
            }
        }
    }
}

impl Stage {
    fn process(
        &mut self,
        item: InFlight,
        work: &mut Vec<(Target, InFlight)>,
        pool: &Pool,
        stats: &Stats,
    ) {
        let InFlight { mut batch, token } = item;
        for operator in &mut self.operators {
            let processed = operator.process(&mut batch);
            if processed.discarded > 0 {
                stats.discarded(processed.discarded);
            }
            if !processed.rejected.is_empty() {
                let (rejected, token) = (processed.rejected, token.clone());
                let letters = Letters { batch: &batch, rejected, token };
                letters.post(&self.name, &self.ports.err, work, pool, stats);
            }
            if batch.is_empty() {
                return token.settle();
            }
        }
        fan_out(&self.ports.out, InFlight { batch, token }, work, stats);
    }
}

/// Hands a batch to every target; the last gets it without a copy.
fn fan_out(targets: &[Target], item: InFlight, work: &mut Vec<(Target, InFlight)>, stats: &Stats) {
    let Some((last, others)) = targets.split_last() else {
        stats.discarded(item.batch.len());
        return item.token.settle();
    };
    // The work list is a stack: with the last target at the bottom, targets are served in the
    // order of their links.
    let bottom = work.len();
    for target in others.iter().rev() {
        let copy = InFlight { batch: item.batch.clone(), token: item.token.clone() };
        work.push((*target, copy));
    }
    work.insert(bottom, (*last, item));
}

struct Letters<'b> {
    batch: &'b Batch,
    rejected: Vec<Rejected>,
    token: Token,
}

impl Letters<'_> {
    fn post(
        self,
        name: &str,
        err: &[Target],
        work: &mut Vec<(Target, InFlight)>,
        pool: &Pool,
        stats: &Stats,
    ) {
        let Some(first) = self.rejected.first() else { return self.token.settle() };
        let count = self.rejected.len();
        if err.is_empty() {
            stats.failed(count);
            tracing::error!(
                component = name,
                events = count,
                first = %first.error,
                "events failed; link `{name}/err` to keep them"
            );
            return;
        }
        stats.dead_lettered(count);
        tracing::debug!(component = name, events = count, first = %first.error, "dead-lettered");
        let batch = dead_letter::letters(name, self.batch, &self.rejected, pool);
        fan_out(err, InFlight { batch, token: self.token }, work, stats);
    }
}
