//! A source, operators and a sink, with doubles for connectors: what becomes of batches, whichever
//! tasks take them through.

mod acknowledging;
mod batch_page;
mod batching;
mod connecting;
mod doubles;
mod fragments;
mod gathering;
mod helping;
mod holding;
mod in_flight;
mod limits;
mod lines;
mod lingering;
mod parallel;
mod peer;
mod reconnecting;
mod retrying;
mod rounds;
mod supervising;
mod taking_through;
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

use self::doubles::{Counted, Heard, Pulls, Shared, Takes};
use crate::engine::{
    Kind,
    account::stats::{Books, Component, Counts, Stats},
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
    source::{SourceSide, intake::Inlet, pace::Pace, worker::Worker},
    target::{Ports, Target},
};
use crate::{
    codec::{BatchDecoder, Codec, MakeCodec, Terminator},
    components,
    dynamic::{DynSink, DynSource},
    executor::block_on,
};

/// What there is to a source that feeds a sink.
struct Setup {
    /// What the source decodes.
    source_codec: &'static str,
    /// What the sink gets.
    sink_codec: &'static str,
    /// Of the sink's queue.
    bounds: Bounds,
    /// Tasks that may help the source's own.
    helpers: usize,
    operators: Vec<Box<dyn Operator>>,
    /// Whether what the source cannot decode goes to the sink as well.
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

/// Both sides, and what can be known of them from outside.
struct Harness {
    source: SourceSide,
    sink: SinkSide,
    books: Books,
    /// How many batches were decoded.
    decoded: Arc<AtomicUsize>,
    /// Dead letters of the sink.
    letters: Receiver,
}

/// What came of a run.
struct Outcome {
    /// The messages that were delivered, a list a batch.
    delivered: Vec<Vec<String>>,
    /// Pulls that ended, in order of their numbers, and whether they were acknowledged.
    heard: Vec<(u64, bool)>,
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

/// A component's way into queues.
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

/// One pipeline whose events go to the first queue.
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
        inlet: Inlet { id, ..Inlet::default() },
        worker: Worker { router, codec, pace: Pace::default() },
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

/// Any number of attempts, without a wait.
const AT_ONCE: Policy = Policy { attempts: None, first: Duration::ZERO, max: Duration::MAX };

fn notices() -> Arc<Notices> {
    Arc::new(Notices::new("double".into(), Arc::default()))
}

impl SourceSide {
    /// Runs a source until it knows what became of everything that it brought.
    async fn run(&mut self, source: Box<dyn DynSource>, connection: &Arc<Connection>) -> End {
        match self.bring(source, connection).await {
            Ok(settling) => settling.run().await.map_or_else(End::of, |()| End::Finished),
            Err(end) => end,
        }
    }
}

impl Setup {
    fn harness(self) -> Harness {
        let mut books = Books::default();
        let [stats, main, sinks] =
            [Kind::Source, Kind::Pipeline, Kind::Sink].map(|kind| books.of("it", kind));
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
            let helper = Worker { router, codec: decoder(), pace: Pace::default() };
            source.helpers.push(helper);
        }
        let ports = Ports { err: vec![Target::Queue(0)], ..Ports::default() };
        let routed =
            router("sink", Vec::new(), ports, vec![outlet(dead, &Arc::default())], None, &sinks);
        let sink = sink_side(queue, routed, self.sink_codec);
        Harness { source, sink, books, decoded, letters }
    }
}

impl Harness {
    /// Runs both sides to their end. The sink is connected again as often as it is lost.
    fn run(self, pulls: Pulls, takes: &Shared<Takes>) -> Outcome {
        self.run_into(pulls, takes, || Box::new(doubles::Taking(takes.clone())))
    }

    /// The same with a sink that leaves what it takes in `takes`.
    fn run_into(
        self,
        pulls: Pulls,
        takes: &Shared<Takes>,
        double: impl Fn() -> Box<dyn DynSink>,
    ) -> Outcome {
        let heard = pulls.heard.clone();
        let Self { mut source, mut sink, books, decoded, mut letters } = self;
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
        // The sink is there before the source begins, as in a flow.
        block_on(both(sink_runs, both(source_runs, letters_are_read)));
        Outcome {
            delivered: takes.lock().unwrap().delivered.clone(),
            heard: sorted(&heard),
            counts: settled(&books),
            decoded: decoded.load(Ordering::Relaxed),
            letters: dead,
        }
    }
}

/// What became of all events, once none is under way.
fn settled(books: &Books) -> Counts {
    let components = books.components();
    for Component { kind, counts, .. } in &components {
        assert_eq!(counts.in_flight(), 0, "{kind:?}: {counts:?}");
    }
    Counts::of(&components)
}

fn sorted(heard: &Heard) -> Vec<(u64, bool)> {
    let mut heard = heard.lock().unwrap().clone();
    heard.sort_unstable();
    heard
}

/// Pulls 1 to `last`, all with the same end.
fn pulls(last: u64, acknowledged: bool) -> Vec<(u64, bool)> {
    (1..=last).map(|pull| (pull, acknowledged)).collect()
}

/// Runs two futures in turn, in this thread.
async fn both(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    // On the heap: without optimisation every layer has them on the stack once more.
    let (mut one, mut other) = (Box::pin(one), Box::pin(other));
    let mut done = [false; 2];
    poll_fn(|context| {
        done[0] = done[0] || one.as_mut().poll(context).is_ready();
        done[1] = done[1] || other.as_mut().poll(context).is_ready();
        if done == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
