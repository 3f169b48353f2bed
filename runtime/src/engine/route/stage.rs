//! Pipelines that a component gets while its flow runs.

use std::sync::Arc;

use crate::engine::{
    route::{pipeline::Pipeline, step::Step},
    target::{NamedTargets, Ports},
    tracking::stats::Stats,
};

/// A pipeline as it will be after the exchange.
pub(crate) struct Stage {
    pub(crate) name: Arc<str>,
    pub(crate) ports: Ports,
    pub(crate) stats: Arc<Stats>,
    pub(crate) operators: Vec<Origin>,
    /// Targets of the operators' own ports.
    pub(crate) own_ports: NamedTargets,
}

/// The origin of an operator of a pipeline.
pub(crate) enum Origin {
    /// The operator at this position of the running pipeline, with its state.
    Running(usize),
    New(Box<Step>),
}

impl Stage {
    /// Returns whether the operator at `position` of the running pipeline stays.
    pub(super) fn keeps(&self, position: usize) -> bool {
        self.operators.iter().any(|it| matches!(it, Origin::Running(at) if *at == position))
    }

    /// Creates the pipeline. Moves the operators that stay out of `running`, the pipeline with the same name.
    pub(super) fn into_pipeline(self, running: Option<&mut Pipeline>) -> Pipeline {
        let Self { name, ports, stats, operators, own_ports } = self;
        let mut none = Vec::new();
        let left = running.map_or(&mut none, |it| &mut it.steps);
        let mut from: Vec<_> = left.drain(..).map(Some).collect();
        let mut steps = Vec::with_capacity(operators.len());
        for operator in operators {
            let step = match operator {
                Origin::New(step) => Some(*step),
                Origin::Running(at) => from.get_mut(at).and_then(Option::take),
            };
            steps.extend(step.map(|mut step| {
                step.set_targets(&own_ports);
                step
            }));
        }
        left.extend(from.into_iter().flatten());
        Pipeline { name, steps, ports, stats }
    }
}
