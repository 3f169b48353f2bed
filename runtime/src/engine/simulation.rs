//! The simulation of a flow without its connectors, on one thread and with a simulated clock.
//!
//! Operators, codecs and processors are the same as in the engine. Connectors, queues, tasks and the clock are
//! simulated.

use std::{collections::VecDeque, sync::Arc};

use tremor_abi::batch::{HostBatch, Pool, Rejected};
use tremor_pdk::{Batch, Error};

use crate::engine::{
    control::Control,
    parts::Parts,
    plan::assembly::{FlowRestarts, postprocessors, preprocessors, steps},
    route::{pipeline::Pipeline, routes::Routes},
    sink::postprocessors::Postprocessors,
    source::preprocessors::{Next, Preprocessed, Preprocessors, StreamEnd},
    target::{Ports, Target},
    tracking::token::{InFlight, Token},
};
use crate::{
    clock::Clock,
    codec::{BatchDecoder, BatchEncoder, MakeCodec},
    flow::{self, ERR, Flow, Node, NodeId, OUT, Role},
};

/// A flow whose sources get their events from [`Simulation::feed`]. Collects the events that leave the flow.
pub(crate) struct Simulation {
    /// Routes that all sources share. Before events are routed, the name and the ports are set to those of the source
    /// or sink that emits them.
    routes: Routes,
    pool: Pool,
    sources: Vec<Source>,
    outlets: Vec<Outlet>,
    /// The simulated clock, which components of the flow read too.
    clock: Clock,
    /// Batches that are moved from the routes to outlets, with the position of the outlet. Empty between calls.
    outgoing: VecDeque<(usize, InFlight)>,
}

struct Source {
    name: String,
    ports: Ports,
    preprocessors: Preprocessors,
    codec: Option<Box<dyn BatchDecoder>>,
}

/// An end of the flow: a sink, or a port without a link.
struct Outlet {
    name: String,
    queue: VecDeque<Batch>,
    /// Targets of events that the sink cannot encode.
    err: Vec<Target>,
    codec: Option<Box<dyn BatchEncoder>>,
    postprocessors: Postprocessors,
    taken: Vec<Taken>,
}

/// A batch that left the flow.
pub(crate) struct Taken {
    /// Values, with metadata.
    pub(crate) values: Batch,
    /// The bytes that the connector would have received, if the connector has a codec and bytes were requested.
    pub(crate) encoded: Option<Batch>,
}

/// Assigns positions to pipelines and outlets while a simulation is created.
struct Plan<'p> {
    flow: &'p Flow,
    staged: Vec<NodeId>,
    sinks: Vec<NodeId>,
    names: Vec<String>,
}

impl Plan<'_> {
    fn add(&mut self, name: String) -> Target {
        self.names.push(name);
        Target::Queue(self.names.len() - 1)
    }

    fn port(&mut self, node: &Node, port: &str) -> Vec<Target> {
        let edges = node.output(port);
        if edges.is_empty() {
            return vec![self.add(format!("{}.{port}", node.name))];
        }
        let target = |edge: &flow::EdgeId| {
            let to = self.flow.graph.edge(*edge).to;
            let position = |ids: &[NodeId]| ids.iter().position(|id| *id == to);
            position(&self.staged)
                .map(Target::Pipeline)
                .or_else(|| position(&self.sinks).map(Target::Queue))
        };
        edges.iter().filter_map(target).collect()
    }

    fn ports(&mut self, node: &Node) -> Ports {
        let (out, err) = (self.port(node, OUT), self.port(node, ERR));
        Ports { out, err, ..Ports::default() }
    }
}

impl Simulation {
    /// Creates the pipelines, codecs and processors of a checked flow. `is_encoded` gets the name of a sink and returns
    /// whether the encoded bytes are requested in addition to the values. `clock` is a simulated clock, which the
    /// components of `parts` read.
    ///
    /// # Errors
    /// Returns the reason why a component cannot be created, with its location in the flow file.
    pub(crate) fn new(
        flow: &Flow,
        parts: &dyn Parts,
        clock: Clock,
        is_encoded: impl Fn(&str) -> bool,
    ) -> Result<Self, flow::Diagnostic> {
        let graph = &flow.graph;
        let of = |role| graph.nodes().filter(move |(_, node)| node.role == role);
        let ids = |role| of(role).map(|(id, _)| id).collect();
        let mut plan =
            Plan { flow, staged: ids(Role::Pipeline), sinks: ids(Role::Sink), names: Vec::new() };
        // Sinks are added first, so that the position of a sink among the outlets is its position among the sinks.
        of(Role::Sink).for_each(|(_, node)| _ = plan.add(node.name.clone()));
        let (mut pipelines, restarts) = (Vec::new(), FlowRestarts::new(flow));
        for (_, node) in of(Role::Pipeline) {
            let mut port = |node: &Node, port: &str| plan.port(node, port);
            let (steps, _) = steps(flow, parts, node, &restarts, &mut port)?;
            let ports = plan.ports(node);
            let (name, stats) = (node.name.as_str().into(), Arc::default());
            pipelines.push(Pipeline { name, steps, ports, stats });
        }
        let mut sources = Vec::new();
        for (_, node) in of(Role::Source) {
            let spec = &flow.spec.connectors[node.index];
            let codec = parts.codec(spec)?;
            let broken = |error: Error| flow.error(spec.component.name.at, error.to_string());
            sources.push(Source {
                name: node.name.clone(),
                ports: plan.ports(node),
                preprocessors: preprocessors(parts, spec, codec.is_some())?,
                codec: codec.as_deref().map(MakeCodec::decoder).transpose().map_err(broken)?,
            });
        }
        let mut encoders = Vec::new();
        for (_, node) in of(Role::Sink) {
            let spec = &flow.spec.connectors[node.index];
            let codec = if is_encoded(&node.name) { parts.codec(spec)? } else { None };
            let broken = |error: Error| flow.error(spec.component.name.at, error.to_string());
            let err = plan.port(node, ERR);
            let postprocessors = postprocessors(parts, spec, codec.is_some())?;
            let codec = codec.as_deref().map(MakeCodec::encoder).transpose().map_err(broken)?;
            encoders.push((err, codec, postprocessors));
        }
        // The outlets after the sinks are ports without a link. They encode nothing.
        let mut encoders = encoders.into_iter();
        let outlets = plan.names.into_iter().map(|name| {
            let (err, codec, postprocessors) = encoders.next().unwrap_or_default();
            Outlet { name, queue: VecDeque::new(), err, codec, postprocessors, taken: Vec::new() }
        });
        let outlets = outlets.collect();
        let (pool, control) = (Pool::new(8), Arc::new(Control::new(clock.clone())));
        let (name, ports, stats) = ("".into(), Ports::default(), Arc::default());
        let routes = Routes::new(name, ports, pipelines, pool.clone(), stats, control);
        Ok(Self { routes, pool, sources, outlets, clock, outgoing: VecDeque::new() })
    }

    /// Returns the names of the connectors that are sources.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|source| source.name.as_str())
    }

    /// Passes a batch to the flow as if `source` had read it. First advances the clock to the time of the first event
    /// and runs the timers that are due until then, then sets the clock to the time of the last event. Drops the batch
    /// if there is no source of this name.
    pub(crate) fn feed(&mut self, source: &str, batch: Batch) {
        if let Some(first) = batch.events().first() {
            self.advance(first.ingest_ns);
        }
        let Some(index) = self.sources.iter().position(|known| known.name == source) else {
            return;
        };
        if let Some(last) = batch.events().last() {
            self.clock.set_ns(last.ingest_ns);
        }
        let is_raw = batch.events().iter().any(|event| batch.value(event).is_none());
        if is_raw {
            self.sources[index].preprocessors.push(batch, None);
            self.emit_all(index);
        } else {
            self.emit(index, batch, Vec::new());
        }
    }

    /// Processes the input of a source's preprocessors until they have no more output.
    fn emit_all(&mut self, source: usize) {
        loop {
            let Preprocessed { mut batch, mut rejected, is_made_here, .. } =
                match self.sources[source].preprocessors.next() {
                    Next::Piece(piece) => piece,
                    Next::More => continue,
                    Next::Nothing => return,
                };
            let rejected_events = rejected.iter_mut().map(|rejected| &mut rejected.event);
            for event in batch.events_mut().iter_mut().chain(rejected_events) {
                if is_made_here && event.ingest_ns == 0 {
                    event.ingest_ns = self.clock.now_ns();
                }
            }
            self.emit(source, batch, rejected);
        }
    }

    fn emit(&mut self, source: usize, mut batch: Batch, mut rejected: Vec<Rejected>) {
        // Sources are numbered from 1, because events without a source have the number 0.
        let id = u32::try_from(source + 1).unwrap_or(u32::MAX);
        batch.events_mut().iter_mut().for_each(|event| event.source = id);
        loop {
            let Source { name, ports, codec, .. } = &mut self.sources[source];
            if let Some(codec) = codec {
                rejected.extend(codec.decode_batch(&mut batch).rejected);
            }
            let left = batch.take_undecoded();
            self.routes.name = name.as_str().into();
            self.routes.ports = ports.clone();
            let item = InFlight::new(batch, Token::untracked());
            self.routes.take_in(item, std::mem::take(&mut rejected));
            self.collect();
            let Some(left) = left else { return };
            batch = left;
        }
    }

    /// Advances the clock to `to`, in ns since the Unix epoch. Calls preprocessors and operators, in order, at the
    /// times for which their timers are set.
    pub(crate) fn advance(&mut self, to: u64) {
        // If a component sets its timer to the same time again, it is not called a second time.
        let (mut last_round, mut last_operator) = (None, None);
        loop {
            let round = (self.next_round()).filter(|due| *due <= to && last_round != Some(*due));
            let operator = self.routes.next_due();
            let operator = operator.filter(|due| *due <= to && last_operator != Some(*due));
            match (round, operator) {
                (Some(due), operator) if operator.is_none_or(|other| due <= other) => {
                    last_round = Some(due);
                    self.clock.set_ns(due.max(self.clock.now_ns()));
                    for source in 0..self.sources.len() {
                        self.sources[source].preprocessors.push_time(self.clock.now_ns());
                        self.emit_all(source);
                    }
                }
                (_, Some(due)) => {
                    last_operator = Some(due);
                    self.routes.run_timers_at(due);
                    self.collect();
                }
                (_, None) => break,
            }
        }
        self.clock.set_ns(to.max(self.clock.now_ns()));
    }

    /// Returns the earliest time at which a preprocessor has to be called.
    fn next_round(&self) -> Option<u64> {
        self.sources.iter().filter_map(|source| source.preprocessors.due()).min()
    }

    /// Ends all streams and then all operators, which emit what they still buffer.
    pub(crate) fn finish(&mut self) {
        for source in 0..self.sources.len() {
            self.sources[source].preprocessors.end(StreamEnd::Complete);
            self.emit_all(source);
        }
        self.routes.drain();
        self.collect();
    }

    /// Removes and returns the batches that left the flow, by the name of the outlet.
    pub(crate) fn taken(&mut self) -> impl Iterator<Item = (&str, Vec<Taken>)> {
        let outlets = self.outlets.iter_mut();
        outlets.map(|outlet| (outlet.name.as_str(), std::mem::take(&mut outlet.taken)))
    }

    /// Moves the output of the routes to the outlets, and encodes it if that is requested. Events that cannot be
    /// encoded go to their port `err`, so this repeats until the routes have no more output.
    fn collect(&mut self) {
        let mut has_rejected = true;
        while has_rejected {
            has_rejected = false;
            self.routes.take_outgoing(&mut self.outgoing);
            for (outlet, item) in self.outgoing.drain(..) {
                self.outlets[outlet].queue.push_back(item.batch);
            }
            for outlet in &mut self.outlets {
                while let Some(mut batch) = outlet.queue.pop_front() {
                    let Some(codec) = &mut outlet.codec else {
                        outlet.taken.push(Taken { values: batch, encoded: None });
                        continue;
                    };
                    let terminator = outlet.postprocessors.terminator();
                    let (mut encoded, mut rejected) =
                        codec.encode_batch(&mut batch, &self.pool, terminator);
                    rejected.extend(outlet.postprocessors.process(&mut encoded, &mut batch));
                    if !rejected.is_empty() {
                        has_rejected = true;
                        self.routes.name = outlet.name.as_str().into();
                        self.routes.ports = Ports { err: outlet.err.clone(), ..Ports::default() };
                        self.routes.reject(&batch, rejected, Token::untracked());
                    }
                    outlet.taken.push(Taken { values: batch, encoded: Some(encoded) });
                }
            }
        }
    }
}
