//! Parts of components: codecs, processors, operators and settings, and the parts of a connector that a reload can
//! replace.

use std::{collections::HashMap, sync::Arc};

use tremor_pdk::{Component as _, Error};

use crate::{
    codec::MakeCodec,
    engine::{
        connector::{self, handover::Replaceable},
        control::overrun::CALL_LIMIT,
        parts::{ConnectorType, OperatorInstance, Parts},
        retry::{
            backoff::{Attempts, Policy, Restarts},
            part_restarts::PartRestarts,
        },
        route::{leading::Factory, step::Step},
        sink::{parts::SinkParts, postprocessors::Postprocessors, retry, terms::Terms},
        source::{batch_sizer::BatchSizer, parts::SourceParts, preprocessors::Preprocessors},
        target::Target,
    },
    flow::{self, Flow, Node, NodeId, Role},
    processor::Join,
};

/// Returns the codec of a source or sink, or `None` for connectors of values.
pub(super) fn codec(
    flow: &Flow,
    parts: &dyn Parts,
    node: &Node,
) -> Result<Option<Box<dyn MakeCodec>>, flow::Diagnostic> {
    parts.codec(&flow.spec.connectors[node.index])
}

/// Creates the parts of the connector `name` that its specification determines, so that a running connector can get
/// them.
///
/// # Errors
/// Returns the reason why a component cannot be created, with its location in the flow file.
pub(crate) fn successor(
    flow: &Flow,
    parts: &dyn Parts,
    name: &str,
) -> Result<Replaceable, flow::Diagnostic> {
    let mut connectors = flow.spec.connectors.iter();
    let Some(spec) = connectors.find(|it| it.name.value == name) else {
        return Err(flow.error(flow::Span::START, format!("there is no connector `{name}`")));
    };
    let kind = parts.connector(spec)?;
    let [has_source, has_sink] =
        [Role::Source, Role::Sink].map(|role| flow.graph.find(role, name).is_some());
    let is_raw = kind.codec.is_some();
    let postprocessors = has_sink.then(|| postprocessors(parts, spec, is_raw)).transpose()?;
    replaceable(flow, parts, spec, kind, has_source, postprocessors)
}

/// Creates the parts of a connector that its specification determines. `postprocessors` are those of its sink, if it has
/// one.
pub(super) fn replaceable(
    flow: &Flow,
    parts: &dyn Parts,
    spec: &flow::Connector,
    ConnectorType { codec, make }: ConnectorType,
    has_source: bool,
    postprocessors: Option<Postprocessors>,
) -> Result<Replaceable, flow::Diagnostic> {
    let codec = codec.as_deref();
    let broken = |error: Error| flow.error(spec.component.name.at, error.to_string());
    let source = || {
        Ok(SourceParts {
            preprocessors: preprocessors(parts, spec, codec.is_some())?,
            codec: codec.map(MakeCodec::decoder).transpose().map_err(broken)?,
            sizer: batch_sizer(spec),
        })
    };
    let sink = |postprocessors| {
        Ok(SinkParts {
            postprocessors,
            codec: codec.map(MakeCodec::encoder).transpose().map_err(broken)?,
            terms: terms(spec),
            retry: Policy::of(spec.retry, retry::MAX_BACKOFF),
        })
    };
    let reconnect = Policy::of(spec.reconnect, connector::MAX_BACKOFF);
    Ok(Replaceable {
        make,
        reconnect: Attempts::new(reconnect),
        restarts: Restarts::of(spec.restart, reconnect),
        call_limit: spec.call_limit.unwrap_or(CALL_LIMIT),
        source: has_source.then(source).transpose()?,
        sink: postprocessors.map(sink).transpose()?,
    })
}

/// Returns the settings of the flow file for the deliveries of a sink.
pub(super) fn terms(spec: &flow::Connector) -> Terms {
    let in_flight = spec.in_flight.map(|set| set.get().try_into().unwrap_or(usize::MAX));
    Terms { in_flight, ordered: spec.ordered, batch: spec.batch }
}

/// Creates the postprocessors of all sinks.
pub(super) fn all_postprocessors(
    flow: &Flow,
    parts: &dyn Parts,
) -> Result<HashMap<NodeId, Postprocessors>, flow::Diagnostic> {
    let sinks = flow.graph.nodes().filter(|(_, node)| node.role == Role::Sink);
    let of_sink = |(id, node): (NodeId, &Node)| {
        let is_raw = codec(flow, parts, node)?.is_some();
        Ok((id, postprocessors(parts, &flow.spec.connectors[node.index], is_raw)?))
    };
    sinks.map(of_sink).collect()
}

/// The restarts of the operators of each pipeline, in the order of the flow file.
pub(crate) struct FlowRestarts(pub(super) Vec<Vec<Arc<PartRestarts>>>);

impl FlowRestarts {
    pub(crate) fn new(flow: &Flow) -> Self {
        let of_pipeline =
            |pipeline: &flow::Pipeline| pipeline.operators.iter().map(|_| Arc::default()).collect();
        Self(flow.spec.pipelines.iter().map(of_pipeline).collect())
    }
}

/// Creates the operators of a pipeline. `port` returns the targets of a port of the pipeline. The second result creates
/// further instances of the leading stateless operators. Several tasks may run the pipeline, each with its own
/// operators, so `restarts` is shared by all calls for a flow.
pub(crate) fn steps(
    flow: &Flow,
    parts: &dyn Parts,
    node: &Node,
    restarts: &FlowRestarts,
    port: &mut dyn FnMut(&Node, &str) -> Vec<Target>,
) -> Result<(Vec<Step>, Vec<Factory>), flow::Diagnostic> {
    let (mut steps, mut leading) = (Vec::new(), Vec::new());
    let operators = flow.spec.pipelines[node.index].operators.iter();
    for ((number, component), restarts) in (1..).zip(operators).zip(&restarts.0[node.index]) {
        let created = step(parts, node, (number, component), restarts, port)?;
        let is_leading = leading.len() == steps.len();
        leading.extend(created.1.filter(|_| is_leading));
        steps.push(created.0);
    }
    Ok((steps, leading))
}

/// Creates the operator `number` of a pipeline. The second result creates further instances if the operator is stateless.
pub(super) fn step(
    parts: &dyn Parts,
    node: &Node,
    (number, component): (usize, &flow::Component),
    restarts: &Arc<PartRestarts>,
    port: &mut dyn FnMut(&Node, &str) -> Vec<Target>,
) -> Result<(Step, Option<Factory>), flow::Diagnostic> {
    let OperatorInstance { operator, ports, make, another } =
        parts.operator(&node.name, component)?;
    let port = |name: String| {
        let targets = port(node, &name);
        (name, targets)
    };
    let ports: Vec<_> = ports.into_iter().map(port).collect();
    let label = format!("operator {number} (`{}`)", component.name.value).into_boxed_str();
    let step = Step::new(label.clone(), operator, make, ports.clone());
    let Some(make) = another else { return Ok((step, None)) };
    let factory = Factory { label, make, ports, restarts: restarts.clone() };
    Ok((step.stateless(restarts.clone()), Some(factory)))
}

/// Creates the preprocessors of a source. If `is_raw` is set, the source reads bytes and gets a further preprocessor
/// at the end, [`Join`].
pub(crate) fn preprocessors(
    parts: &dyn Parts,
    spec: &flow::Connector,
    is_raw: bool,
) -> Result<Preprocessors, flow::Diagnostic> {
    let make = |component| parts.preprocessor(&spec.name.value, component);
    let join = is_raw.then(|| flow::Component::new(Join::NAME, spec.component.name.at));
    let preprocessors = spec.preprocessors.iter().chain(&join).map(make);
    let names = spec.preprocessors.iter().map(|it| it.name.value.clone());
    let preprocessors = preprocessors.collect::<Result<Vec<_>, _>>()?;
    Ok(Preprocessors::restartable(preprocessors).named(&spec.name.value, names))
}

/// Creates the postprocessors of a sink: none unless `is_raw` is set, because postprocessors process only bytes.
pub(crate) fn postprocessors(
    parts: &dyn Parts,
    spec: &flow::Connector,
    is_raw: bool,
) -> Result<Postprocessors, flow::Diagnostic> {
    let mut all = Postprocessors::default();
    for component in spec.postprocessors.iter().filter(|_| is_raw) {
        all.push(&component.name.value, parts.postprocessor(&spec.name.value, component)?);
    }
    Ok(all)
}

pub(super) fn batch_sizer(spec: &flow::Connector) -> BatchSizer {
    let set = spec.pull.max_events;
    set.map_or_else(BatchSizer::default, |set| {
        BatchSizer::fixed(u32::try_from(set.get()).unwrap_or(u32::MAX))
    })
}
