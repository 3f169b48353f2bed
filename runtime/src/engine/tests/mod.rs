//! Tests of the engine with test doubles of connectors, operators and preprocessors. The flows of the tests are parsed
//! and planned in the same way as those of flow files.

mod acknowledging;
mod batch_page;
mod batching;
mod beside;
mod connecting;
mod disk_faults;
mod doubles;
mod editing;
mod fragments;
mod gathering;
mod helping;
mod in_flight;
mod leading;
mod limits;
mod lingering;
mod overflow;
mod parallel;
mod pausing;
mod peer;
mod processing;
mod random_disks;
mod random_links;
mod reconnecting;
mod relieving;
mod relinking;
mod replacing;
mod retrying;
mod rounds;
mod stopping;
mod storing;
mod supervising;
mod ticking;
mod timed;
mod yielding;

use std::{
    collections::{HashMap, VecDeque},
    future::{Future, poll_fn},
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use serde_json::Value as Config;
use tremor_log::{Disk, SystemDisk};
use tremor_pdk::{Error, Operator, Postprocessor, Preprocessor, lock};

use self::{
    doubles::{Pulls, Reports, ScriptedSink, Shared, SinkScript},
    peer::Peer,
};
use crate::clock::Clock;
use crate::engine::{
    Component, ComponentCounts, ConnectorType, Control, Counts, FlowCounters, FlowHandle, Kind,
    MakePreprocessor, OperatorInstance, Parts, Planned, Processors, Report,
    connector::{ConnectorTask, handover::Replaceable},
    handle::connection::{Connection, End},
    parts::MakeConnector,
    plan::assembly,
    queue::Receiver,
    sink::SinkSide,
    source::SourceSide,
};
use crate::{
    codec::MakeCodec,
    components,
    dynamic::{DynSink, DynSource},
    executor::{alone, block_on},
    flow::{self, Environment, Flow, Limits, Span},
    memory::FlowMemory,
    plugin::HostContext,
};

/// The components that flows of tests may link.
const COMPONENTS: &str = "
connectors:
  source: { type: double, codec: json }
  sink: { type: double, codec: json }
  letters: { type: double, codec: json }
  peer: { type: double, codec: json }
pipelines:
  main: {}
  late: {}
";

/// Name of components that the test provides.
const DOUBLE: &str = "double";

/// Name of the stateless operator that the test provides.
const STATELESS: &str = "stateless";

/// Creates the instances of the stateless operator, which has a port `odd`.
type MakeStateless = Arc<dyn Fn() -> Result<Box<dyn Operator>, Error> + Send + Sync>;

/// A flow and its test doubles, which the plan of the product turns into tasks.
struct Setup {
    flow: Flow,
    doubles: Doubles,
    control: Arc<Control>,
}

/// The components that a test provides. All others are built in.
#[derive(Default)]
struct Doubles {
    connectors: Mutex<HashMap<String, MakeConnector>>,
    operators: Mutex<VecDeque<Box<dyn Operator>>>,
    stateless: Option<MakeStateless>,
    preprocessors: Mutex<VecDeque<(Box<dyn Preprocessor>, MakePreprocessor)>>,
    disk: Option<Arc<dyn Disk>>,
}

impl Parts for Doubles {
    fn disk(&self) -> Arc<dyn Disk> {
        self.disk.clone().unwrap_or_else(|| Arc::new(SystemDisk))
    }

    fn connector(&self, connector: &flow::Connector) -> Result<ConnectorType, flow::Diagnostic> {
        let make = lock(&self.connectors).remove(&connector.name.value);
        let none = || -> MakeConnector { Box::new(|_, _| Err(Error::internal("no connector"))) };
        Ok(ConnectorType { codec: self.codec(connector)?, make: make.unwrap_or_else(none) })
    }

    fn codec(
        &self,
        connector: &flow::Connector,
    ) -> Result<Option<Box<dyn MakeCodec>>, flow::Diagnostic> {
        let codec = |codec: &flow::Component| {
            Box::new(components::codec(&codec.name.value, &Config::Null).unwrap()) as _
        };
        Ok(connector.codec.as_ref().map(codec))
    }

    fn operator(
        &self,
        _: &str,
        component: &flow::Component,
    ) -> Result<OperatorInstance, flow::Diagnostic> {
        if component.name.value == STATELESS {
            return Ok(stateless(self.stateless.clone().unwrap()).unwrap());
        }
        let operator = lock(&self.operators).pop_front().unwrap();
        Ok(OperatorInstance { operator, ports: Vec::new(), make: None, another: None })
    }

    fn is_stateless(&self, component: &flow::Component) -> bool {
        component.name.value == STATELESS
    }

    fn preprocessor(
        &self,
        _: &str,
        component: &flow::Component,
    ) -> Result<(Box<dyn Preprocessor>, MakePreprocessor), flow::Diagnostic> {
        let name = &component.name.value;
        if name == DOUBLE {
            return Ok(lock(&self.preprocessors).pop_front().unwrap());
        }
        let factory = components::factory(flow::Kind::Preprocessor, name).unwrap();
        let make = move || factory.preprocessor(&Config::Null, &HostContext::new("", "", ()));
        Ok((make().unwrap(), Box::new(make)))
    }

    fn postprocessor(
        &self,
        connector: &str,
        _: &flow::Component,
    ) -> Result<Box<dyn Postprocessor>, flow::Diagnostic> {
        panic!("`{connector}` has no postprocessors")
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self::of("source -> main -> sink, sink/err -> letters")
    }
}

/// Time that the simulated clock of a flow shows at its start, in ns.
const START_NS: u64 = 1_000_000_000;

/// Returns the control of a flow whose sources have this number of helper tasks. The clock of the flow is simulated.
fn control(helpers: usize) -> Arc<Control> {
    let processors = Processors::new(1 + helpers);
    Arc::new(Control::new(Clock::simulated(START_NS)).of_run(
        Arc::default(),
        processors,
        FlowMemory::default(),
    ))
}

/// Creates an instance of the stateless operator of a test.
fn stateless(make: MakeStateless) -> Result<OperatorInstance, Error> {
    let (operator, ports, again, another) = (make()?, vec!["odd".to_owned()], make.clone(), make);
    Ok(OperatorInstance {
        operator,
        ports,
        make: Some(Box::new(move || again())),
        another: Some(Box::new(move || stateless(another.clone()))),
    })
}

fn component(name: &str) -> flow::Component {
    flow::Component::new(name, Span::START)
}

impl Setup {
    /// Creates a flow with these links. Its connectors retry without waits, any number of times, and its sources have
    /// no helper tasks.
    fn of(links: &str) -> Self {
        let text = format!("{COMPONENTS}links: [{links}]");
        let draft = flow::parse("test.yaml", text, &Limits::default(), &Environment::default());
        let mut flow = draft.and_then(flow::Draft::finish).unwrap();
        for connector in &mut flow.spec.connectors {
            (connector.retry, connector.reconnect) = (AT_ONCE, AT_ONCE);
        }
        Self { flow, doubles: Doubles::default(), control: control(0) }
    }

    /// Changes the keys of a connector.
    fn set(mut self, connector: &str, change: impl FnOnce(&mut flow::Connector)) -> Self {
        let mut connectors = self.flow.spec.connectors.iter_mut();
        change(connectors.find(|it| it.name.value == connector).unwrap());
        self
    }

    fn codec(self, connector: &str, name: &str) -> Self {
        self.set(connector, |it| it.codec = Some(component(name)))
    }

    fn helpers(self, count: usize) -> Self {
        Self { control: control(count), ..self }
    }

    /// Adds operators to a pipeline. Call this for the pipelines in the order of the flow.
    fn operators(mut self, pipeline: &str, operators: Vec<Box<dyn Operator>>) -> Self {
        let mut pipelines = self.flow.spec.pipelines.iter_mut();
        let pipeline = pipelines.find(|it| it.name.value == pipeline).unwrap();
        pipeline.operators.extend(operators.iter().map(|_| component(DOUBLE)));
        lock(&self.doubles.operators).extend(operators);
        self
    }

    /// Adds a stateless operator to the pipeline `main`, whose instances are created with `make`.
    fn stateless(
        mut self,
        make: impl Fn() -> Result<Box<dyn Operator>, Error> + Send + Sync + 'static,
    ) -> Self {
        self.doubles.stateless = Some(Arc::new(make));
        self.flow.spec.pipelines[0].operators.push(component(STATELESS));
        self
    }

    /// Adds a preprocessor to the connector `source`. `again` creates its further instances.
    fn preprocessor(
        self,
        first: Box<dyn Preprocessor>,
        again: impl Fn() -> Box<dyn Preprocessor> + Send + 'static,
    ) -> Self {
        lock(&self.doubles.preprocessors).push_back((first, Box::new(move || Ok(again()))));
        self.set("source", |it| it.preprocessors.push(component(DOUBLE)))
    }

    /// Sets the instances of a connector.
    fn connect(self, connector: &str, peer: &Arc<Peer>) -> Self {
        lock(&self.doubles.connectors).insert(connector.to_owned(), peer.clone().make());
        self
    }

    /// Creates the parts with which `connector` of another flow with the same links can be replaced.
    fn successor(self, connector: &str) -> Replaceable {
        assembly::successor(&self.flow, &self.doubles, connector).unwrap()
    }

    fn plan(self) -> Planned {
        Planned::new(&self.flow, &self.doubles, self.control).unwrap()
    }

    /// Plans a flow from `source` to `sink` whose sides the test runs itself.
    fn harness(self) -> Harness {
        let mut planned = self.plan();
        let source = planned.take("source").source.unwrap();
        let sink = planned.take("sink").sink.unwrap();
        let letters = planned.take("letters").sink.unwrap().queue;
        let Planned { control, counters, .. } = planned;
        Harness { source, sink, control, counters, letters }
    }

    /// Runs a flow from `source` to `sink` until its end.
    fn run(self, pulls: Pulls, script: &Shared<SinkScript>) -> Outcome {
        let sink = ScriptedSink(script.clone());
        self.run_into(pulls, script, move || Box::new(sink.clone()))
    }

    /// Runs a flow in the same way as [`Setup::run`]. `double` creates the sink, which records its deliveries in
    /// `script`.
    fn run_into(
        self,
        pulls: Pulls,
        script: &Shared<SinkScript>,
        double: impl Fn() -> Box<dyn DynSink> + Send + Sync + 'static,
    ) -> Outcome {
        let (reports, letters) = (pulls.reports.clone(), ScriptedSink(SinkScript::of([])));
        let source = Arc::new(Peer::of_source(Box::new(move |_| Ok(Box::new(pulls.clone())))));
        let sink = Arc::new(Peer::of_sink(Box::new(move |_| Ok(double()))));
        let report = self
            .connect("source", &source)
            .connect("sink", &sink)
            .connect("letters", &letters.peer())
            .plan()
            .run_with(async {});
        assert!(report.failure.is_none(), "{:?}", report.failure);
        let letters = lock(&letters.0).delivered.concat();
        Outcome {
            delivered: lock(script).delivered.clone(),
            reports: sorted(&reports),
            counts: settled(&report.components),
            components: report.components,
            letters,
        }
    }
}

/// The source side and the sink side of a flow, and values that tests observe.
struct Harness {
    source: SourceSide,
    sink: SinkSide,
    control: Arc<Control>,
    counters: Arc<FlowCounters>,
    /// Dead letters of the sink.
    letters: Receiver,
}

/// Result of a run.
struct Outcome {
    /// The delivered messages by batch.
    delivered: Vec<Vec<String>>,
    /// Pulls that ended, in ascending order. The second value is `true` if the pull was acknowledged.
    reports: Vec<(u64, bool)>,
    counts: Counts,
    components: Vec<Component>,
    letters: Vec<String>,
}

impl Outcome {
    /// Returns the counts of a component.
    fn of(&self, component: &str, kind: Kind) -> ComponentCounts {
        let mut components = self.components.iter();
        components.find(|it| it.name == component && it.kind == kind).unwrap().counts
    }

    fn messages(&self) -> Vec<&str> {
        self.delivered.iter().flatten().map(String::as_str).collect()
    }
}

/// Attempts of any number, without waits.
const AT_ONCE: flow::Retry =
    flow::Retry { attempts: None, backoff: Some(Duration::ZERO), max_backoff: Some(Duration::MAX) };

/// Waits that are almost certainly longer than a test.
const LONG: flow::Retry = flow::Retry { backoff: Some(Duration::from_secs(1 << 40)), ..AT_ONCE };

/// Returns `count` attempts after the first one, without waits.
fn attempts(count: u64) -> flow::Retry {
    flow::Retry { attempts: Some(count), ..AT_ONCE }
}

impl SourceSide {
    /// Runs a source until it has ended and the end of all its pulls was reported to it.
    async fn run(&mut self, source: Box<dyn DynSource>, connection: &Arc<Connection>) -> End {
        match self.pull_until_end(source, connection).await {
            Ok(acks) => acks.run().await.map_or_else(End::of, |()| End::Finished),
            Err(end) => end,
        }
    }
}

impl Planned {
    /// Removes the task of a connector from the flow.
    fn take(&mut self, connector: &str) -> ConnectorTask {
        let tasks = &mut self.tasks.connectors;
        let found = tasks.iter().position(|it| &*it.name == connector).unwrap();
        tasks.remove(found)
    }

    /// Runs the flow until its end, and `work` at the same time. If the sources have helpers, the tasks run on several
    /// threads and the clock stands still. Otherwise they run on this thread, and the clock advances while they wait.
    fn run_with(self, work: impl Future<Output = ()>) -> Report {
        let control = self.control.clone();
        let mut report = None;
        let ended = async { report = Some(self.start().ended(Duration::from_hours(1)).await) };
        if control.processors().count() > 1 {
            block_on(both(ended, work));
        } else {
            alone::run(control.clock(), both(ended, work));
        }
        report.unwrap()
    }

    /// Runs the flow until its end on this thread, and `work` at the same time. The clock advances while they wait.
    fn run_beside<F: Future<Output = ()>>(self, work: impl FnOnce(FlowHandle) -> F) -> Report {
        let (control, mut report) = (self.control.clone(), None);
        alone::run(control.clock(), async {
            let flow = self.start();
            let handle = flow.handle();
            let ended = async { report = Some(flow.ended(Duration::from_hours(1)).await) };
            both(ended, work(handle)).await;
        });
        report.unwrap()
    }
}

/// Checks that no event is in flight, and returns the counts of all events.
fn settled(components: &[Component]) -> Counts {
    for Component { kind, counts, .. } in components {
        assert_eq!(counts.in_flight(), 0, "{kind:?}: {counts:?}");
    }
    Counts::of(components)
}

fn sorted(reports: &Reports) -> Vec<(u64, bool)> {
    let mut reports = reports.lock().unwrap().clone();
    reports.sort_unstable();
    reports
}

/// Returns the pulls 1 to `last`, all with the same end.
fn pulls(last: u64, acknowledged: bool) -> Vec<(u64, bool)> {
    (1..=last).map(|pull| (pull, acknowledged)).collect()
}

/// Runs two futures concurrently in this thread.
async fn both(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    // The futures are boxed, because without optimisation every nested call would copy them to its stack frame.
    let (mut one, mut other) = (Box::pin(one), Box::pin(other));
    let mut done = [false; 2];
    poll_fn(|context| {
        done[0] = done[0] || one.as_mut().poll(context).is_ready();
        done[1] = done[1] || other.as_mut().poll(context).is_ready();
        if done == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
