//! Tests of the engine with test doubles of connectors: a source, operators and a sink, with and without helper tasks.

mod acknowledging;
mod batch_page;
mod batching;
mod connecting;
mod doubles;
mod fragments;
mod gathering;
mod helping;
mod in_flight;
mod leading;
mod limits;
mod lingering;
mod parallel;
mod pausing;
mod peer;
mod processing;
mod reconnecting;
mod retrying;
mod rounds;
mod supervising;
mod ticking;
mod timed;
mod yielding;

use std::{
    future::{Future, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use serde_json::Value as Config;
use tremor_abi::batch::Pool;
use tremor_pdk::Operator;

use self::doubles::{Counted, Pulls, Reports, Shared, SinkScript};
use crate::engine::{
    Kind,
    control::Control,
    handle::{
        ConnectorHandle,
        connection::{Connection, End},
    },
    logging::notices::Notices,
    processors::Processors,
    queue::{self, Bounds, Receiver, Sender},
    retry::backoff::Policy,
    route::{
        pipeline::{Pipeline, Step},
        router::{Encoding, Outlet, Router},
        routes::Routes,
    },
    sink::{
        SinkSide, TICK, backlog::Backlog, postprocessors::Postprocessors, retry::Retries,
        terms::Terms,
    },
    source::{SourceSide, batch_sizer::BatchSizer, intake::IntakeState, worker::Worker},
    target::{Ports, Target},
    tracking::stats::{Component, Counts, FlowCounters, Stats},
};
use crate::{
    codec::{BatchDecoder, Codec, MakeCodec, Terminator},
    components,
    dynamic::{DynSink, DynSource},
    executor::block_on,
};

/// Parameters of a source that feeds a sink through a pipeline.
struct Setup {
    /// Codec of the source.
    source_codec: &'static str,
    /// Codec of the sink.
    sink_codec: &'static str,
    /// Limits of the sink's queue.
    bounds: Bounds,
    /// Number of helper tasks of the source.
    helpers: usize,
    operators: Vec<Box<dyn Operator>>,
    /// `true` if the port `err` of the source is linked to the sink as well.
    err: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            source_codec: "json",
            sink_codec: "json",
            bounds: Bounds::default(),
            helpers: 0,
            operators: Vec::new(),
            err: false,
        }
    }
}

/// The source side and the sink side of a flow, and values that tests observe.
struct Harness {
    source: SourceSide,
    sink: SinkSide,
    counters: FlowCounters,
    /// Number of decoded batches.
    decoded: Arc<AtomicUsize>,
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
    decoded: usize,
    letters: Vec<String>,
}

impl Outcome {
    fn messages(&self) -> Vec<&str> {
        self.delivered.iter().flatten().map(String::as_str).collect()
    }
}

fn codec(name: &str) -> Codec {
    components::codec(name, &Config::Null).unwrap()
}

fn encoding(name: &str) -> Encoding {
    let codec = MakeCodec::encoder(&codec(name)).unwrap();
    Encoding { codec, terminator: Terminator::default(), pool: Pool::new(8) }
}

/// Creates the router of a component.
fn router(
    name: &str,
    pipelines: Vec<Pipeline>,
    ports: Ports,
    queues: Vec<Outlet>,
    sink_codec: Option<&str>,
    stats: &Arc<Stats>,
) -> Router {
    let pool = Pool::new(8);
    let encoding = sink_codec.map(encoding);
    let routes = Routes::new(
        name.into(),
        ports,
        pipelines,
        pool.clone(),
        stats.clone(),
        Arc::new(Control::new()),
    );
    Router::new(routes, queues, encoding, pool, stats.clone())
}

fn outlet(queue: Sender, stats: &Arc<Stats>) -> Outlet {
    Outlet { queue, stats: stats.clone() }
}

/// Creates a pipeline whose events go to the first queue.
fn pipeline(operators: Vec<Box<dyn Operator>>, stats: Arc<Stats>) -> Pipeline {
    let steps =
        operators.into_iter().map(|operator| Step::new("operator", operator, None, Vec::new()));
    let out = vec![Target::Queue(0)];
    let ports = Ports { out, ..Ports::default() };
    Pipeline { name: "main".into(), steps: steps.collect(), ports, stats }
}

fn source_side(id: u32, router: Router, name: &str) -> SourceSide {
    let codec = Some(MakeCodec::decoder(&codec(name)).unwrap());
    SourceSide {
        intake: IntakeState { id, ..IntakeState::default() },
        worker: Worker { router, codec, sizer: BatchSizer::default() },
        helpers: Vec::new(),
        control: Arc::new(Control::new()),
        notices: notices(),
        breaker: Arc::default(),
        handle: Arc::new(ConnectorHandle::new(name.into(), None)),
    }
}

fn sink_side(queue: Receiver, router: Router, name: &str) -> SinkSide {
    SinkSide {
        queue,
        router,
        codec: Some(MakeCodec::encoder(&codec(name)).unwrap()),
        postprocessors: Postprocessors::default(),
        control: Arc::new(Control::new()),
        backlog: Backlog::new(None),
        terms: Terms::default(),
        is_grant_logged: false,
        tick: TICK,
        retries: Retries::new(AT_ONCE, notices()),
        undrained: false,
        handle: Arc::new(ConnectorHandle::new(name.into(), None)),
        outage: Arc::default(),
    }
}

/// A policy that permits any number of attempts, without waits.
const AT_ONCE: Policy = Policy { attempts: None, first: Duration::ZERO, max: Duration::MAX };

fn notices() -> Arc<Notices> {
    Arc::new(Notices::new("double".into(), Arc::default()))
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

impl Setup {
    fn harness(self) -> Harness {
        let mut counters = FlowCounters::default();
        let [stats, main, sinks] =
            [Kind::Source, Kind::Pipeline, Kind::Sink].map(|kind| counters.of("it", kind));
        let (sender, queue) = queue::bounded(self.bounds, &Processors::default());
        let (dead, letters) = queue::bounded(Bounds::default(), &Processors::default());
        let err = if self.err { vec![Target::Queue(0)] } else { Vec::new() };
        let ports = Ports { out: vec![Target::Pipeline(0)], err, ..Ports::default() };
        let pipelines = vec![pipeline(self.operators, main)];
        let to_sink = Some(self.sink_codec);
        let routed =
            router("source", pipelines, ports, vec![outlet(sender, &sinks)], to_sink, &stats);
        let mut source = source_side(0, routed, self.source_codec);
        let decoded = Arc::<AtomicUsize>::default();
        let decoder = || -> Option<Box<dyn BatchDecoder>> {
            let decoder = MakeCodec::decoder(&codec(self.source_codec)).unwrap();
            Some(Box::new(Counted { decoder, count: decoded.clone() }))
        };
        source.worker.codec = decoder();
        for _ in 0..self.helpers {
            let router = source.worker.router.another(encoding(self.sink_codec), Pool::new(8));
            let helper = Worker { router, codec: decoder(), sizer: BatchSizer::default() };
            source.helpers.push(helper);
        }
        let ports = Ports { err: vec![Target::Queue(0)], ..Ports::default() };
        let routed =
            router("sink", Vec::new(), ports, vec![outlet(dead, &Arc::default())], None, &sinks);
        let sink = sink_side(queue, routed, self.sink_codec);
        Harness { source, sink, counters, decoded, letters }
    }
}

impl Harness {
    /// Runs both sides to their end. The sink is reconnected whenever its connection is lost.
    fn run(self, pulls: Pulls, script: &Shared<SinkScript>) -> Outcome {
        self.run_into(pulls, script, || Box::new(doubles::ScriptedSink(script.clone())))
    }

    /// Runs both sides in the same way as [`Harness::run`]. `double` creates the sink, which records its deliveries in
    /// `script`.
    fn run_into(
        self,
        pulls: Pulls,
        script: &Shared<SinkScript>,
        double: impl Fn() -> Box<dyn DynSink>,
    ) -> Outcome {
        let reports = pulls.reports.clone();
        let Self { mut source, mut sink, counters, decoded, mut letters } = self;
        let connection = Arc::<Connection>::default();
        let sink_runs = async {
            loop {
                match sink.run(double(), &connection).await {
                    End::Finished => break,
                    End::Lost(_) => {}
                    end => panic!("{end:?}"),
                }
            }
        };
        let source_runs = async {
            let end = source.run(Box::new(pulls), &connection).await;
            assert!(matches!(end, End::Finished), "{end:?}");
        };
        let mut dead = Vec::new();
        let letters_are_read = async {
            while let Some(queued) = poll_fn(|context| letters.poll_receive(context)).await {
                dead.extend(doubles::values(&queued.item.batch));
                queued.item.token.settle();
            }
        };
        // The sink is polled before the source, because sinks start first in a flow too.
        block_on(both(sink_runs, both(source_runs, letters_are_read)));
        Outcome {
            delivered: script.lock().unwrap().delivered.clone(),
            reports: sorted(&reports),
            counts: settled(&counters),
            decoded: decoded.load(Ordering::Relaxed),
            letters: dead,
        }
    }
}

/// Checks that no event is in flight, and returns the counts of all events.
fn settled(counters: &FlowCounters) -> Counts {
    let components = counters.components();
    for Component { kind, counts, .. } in &components {
        assert_eq!(counts.in_flight(), 0, "{kind:?}: {counts:?}");
    }
    Counts::of(&components)
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
