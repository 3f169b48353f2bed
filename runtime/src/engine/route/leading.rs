//! The leading stateless operators of pipelines, which the tasks of a source run in parallel.
//!
//! Each task that decodes batches of the source has its own instances of these operators, and passes a batch through
//! them before it enters the first in-order section. The results are batches with their targets, in the order in which
//! the [routes](crate::engine::route::routes) would have routed them. In the section, the task only adds these batches
//! to the routes, which continue with the first operator that is not stateless.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tremor_abi::batch::{HostBatch, Pool, Rejected};
use tremor_pdk::{Batch, Result};

use crate::engine::{
    control::Control,
    parts::{MakeInstance, OperatorInstance},
    retry::part_restarts::PartRestarts,
    route::{
        fan_out::{DeadLetters, Env, fan_out},
        pipeline::Pipeline,
        step::Step,
    },
    target::{Ports, Target},
    tracking::{
        stats::Stats,
        token::{InFlight, Token},
    },
};
use crate::flow::OUT;

/// The leading stateless operators of the pipelines that the tasks of a source run.
pub(crate) struct Leading {
    /// Name, ports and metrics of the source.
    pub(crate) name: Arc<str>,
    pub(crate) ports: Ports,
    pub(crate) stats: Arc<Stats>,
    pub(crate) control: Arc<Control>,
    /// By the index of the pipeline as a target.
    pub(crate) pipelines: Vec<LeadingPart>,
    /// `true` once a helper has processed a batch. Until then the source's own task does not use its further instances.
    pub(crate) has_helped: AtomicBool,
}

/// The leading stateless operators of one pipeline.
pub(crate) struct LeadingPart {
    pub(crate) name: Arc<str>,
    pub(crate) operators: Vec<Factory>,
    /// The ports of the pipeline. If other operators follow, the target of `out` is [`Target::Rest`].
    pub(crate) ports: Ports,
    pub(crate) stats: Arc<Stats>,
}

/// Creates instances of a stateless operator for further tasks.
pub(crate) struct Factory {
    /// Position and type of the operator, for messages.
    pub(crate) label: Box<str>,
    pub(crate) make: MakeInstance,
    /// Names and targets of the operator's own ports.
    pub(crate) ports: Vec<(String, Vec<Target>)>,
    /// Restarts of all instances together.
    pub(crate) restarts: Arc<PartRestarts>,
}

/// The instances of the leading stateless operators of a single task.
pub(crate) struct Instances {
    of: Arc<Leading>,
    /// `true` if the task is a helper.
    is_helper: bool,
    pool: Pool,
    /// The leading parts of the pipelines that the task runs, by index. `None` for a pipeline without leading stateless
    /// operators.
    pipelines: Vec<Option<Pipeline>>,
    /// A stack of batches that still have to be processed or routed, with their targets. Empty between calls.
    work: Vec<(Target, InFlight)>,
    done: Done,
}

/// The results of leading stateless operators for one decoded batch.
#[derive(Default)]
pub(crate) struct Done {
    /// Time of the last decoded event, in ns since the Unix epoch.
    pub(crate) last_ingest: Option<u64>,
    /// Batches with their targets, in the order in which they have to be routed.
    pub(crate) results: Vec<(Target, InFlight)>,
}

impl Leading {
    /// Returns whether any pipeline has a leading stateless operator.
    pub(crate) fn has_operators(&self) -> bool {
        self.pipelines.iter().any(|part| !part.operators.is_empty())
    }

    fn instances(&self) -> Result<Vec<Option<Pipeline>>> {
        let create = |part: &LeadingPart| {
            let steps = part.operators.iter().map(Factory::step).collect::<Result<Vec<_>>>()?;
            let is_whole = !matches!(part.ports.out[..], [Target::Rest(_)]);
            let (name, ports, stats) = (part.name.clone(), part.ports.clone(), part.stats.clone());
            // A pipeline without operators only passes batches on, which its leading part does as well.
            Ok((is_whole || !steps.is_empty()).then_some(Pipeline { name, steps, ports, stats }))
        };
        self.pipelines.iter().map(create).collect()
    }
}

impl Factory {
    fn step(&self) -> Result<Step> {
        let OperatorInstance { operator, make, .. } = (self.make)()?;
        let step = Step::new(self.label.clone(), operator, make, self.ports.clone());
        Ok(step.stateless(self.restarts.clone()))
    }
}

impl Instances {
    /// Creates the instances of one task. Returns `None` if an instance cannot be created. The task then leaves all
    /// operators to the routes.
    pub(crate) fn new(of: Arc<Leading>, is_helper: bool, pool: Pool) -> Option<Self> {
        let created = of.instances().inspect_err(|error| {
            let component = &*of.name;
            tracing::warn!(
                component,
                %error,
                "operators run on one core, because no further instance can be created"
            );
        });
        let (pipelines, work, done) = (created.ok()?, Vec::new(), Done::default());
        Some(Self { of, is_helper, pool, pipelines, work, done })
    }

    /// Returns the instances if several tasks process batches. Otherwise the routes run all operators.
    pub(crate) fn ready(&mut self) -> Option<&mut Self> {
        if self.is_helper {
            self.of.has_helped.store(true, Ordering::Relaxed);
        }
        self.of.has_helped.load(Ordering::Relaxed).then_some(self)
    }

    /// Takes in a decoded batch, and passes its events through the leading operators. The counterpart of
    /// [`Routes::take_in`](crate::engine::route::routes::Routes::take_in).
    pub(crate) fn take_in(&mut self, item: InFlight, rejected: Vec<Rejected>) -> Done {
        if !rejected.is_empty() {
            if self.of.ports.err.is_empty() {
                item.token.undecodable(&rejected);
            }
            self.reject(&item.batch, rejected, item.token.clone());
        }
        self.note_time(&item.batch);
        if item.batch.is_empty() {
            item.token.settle();
        } else {
            fan_out((OUT, &self.of.ports.out), item, &mut self.work, &self.of.stats);
            self.run();
        }
        std::mem::take(&mut self.done)
    }

    /// Keeps the memory of results that were routed.
    pub(crate) fn reuse(&mut self, done: Done) {
        self.done = done;
    }

    fn reject(&mut self, batch: &Batch, rejected: Vec<Rejected>, token: Token) {
        self.note_time(batch);
        let Self { of, pool, work, .. } = self;
        let letters = DeadLetters { batch, rejected, token };
        letters.post(&of.name, &of.ports, &of.stats, &mut Env { work, pool, control: &of.control });
        self.run();
    }

    fn note_time(&mut self, batch: &Batch) {
        if let Some(last) = batch.events().last() {
            self.done.last_ingest = Some(last.ingest_ns);
        }
    }

    fn run(&mut self) {
        let Self { of, pool, pipelines, work, done, .. } = self;
        while let Some((target, item)) = work.pop() {
            let pipeline = match target {
                Target::Pipeline(index) => pipelines[index].as_mut(),
                _ => None,
            };
            match pipeline {
                Some(pipeline) => {
                    pipeline.process(item, &mut Env { work, pool, control: &of.control });
                }
                None => done.results.push((target, item)),
            }
        }
    }
}
