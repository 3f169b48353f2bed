//! A source, operators and a sink, with doubles for connectors: what becomes of batches, whichever
//! tasks take them through.

mod doubles;
mod fragments;
mod helping;
mod reconnecting;
mod taking_through;

use std::{
    future::{Future, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use serde_json::Value as Config;
use tremor_pdk::{Operator, abi::batch::Pool};

use self::doubles::{Counted, Heard, Pulls, Shared, Takes};
use super::{
    connection::{Connection, End},
    control::Control,
    intake::Inlet,
    pace::Pace,
    queue::{self, Bounds, Receiver, Sender},
    router::{Encoding, Router},
    routes::{Ports, Routes, Target},
    sink::SinkSide,
    source::SourceSide,
    stage::{Stage, Step},
    standing::Standing,
    stats::{Counts, Stats},
    worker::Worker,
};
use crate::{
    codec::{self, BatchDecoder, Codec, MakeCodec},
    executor::block_on,
    processor::Framing,
};

/// What there is to a source that feeds a sink.
struct Setup {
    /// What the source decodes.
    source_codec: &'static str,
    /// What the sink gets.
    sink_codec: &'static str,
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
            helpers: 0,
            operators: Vec::new(),
            err: false,
        }
    }
}

/// Both sides, and what can be known of them from outside.
struct Lanes {
    source: SourceSide,
    sink: SinkSide,
    stats: Arc<Stats>,
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
    codec::lookup(name, &Config::Null).unwrap()
}

fn encoding(name: &str) -> Encoding {
    let codec = MakeCodec::encoder(&codec(name)).unwrap();
    Encoding { codec, suffix: Vec::new(), pool: Pool::new(8) }
}

/// A component's way into queues.
fn router(
    name: &str,
    stages: Vec<Stage>,
    ports: Ports,
    queues: Vec<Sender>,
    sink_codec: Option<&str>,
    stats: &Arc<Stats>,
) -> Router {
    let pool = Pool::new(8);
    let encoding = sink_codec.map(encoding);
    let routes = Routes::new(name.into(), ports, stages, pool.clone(), stats.clone());
    Router::new(routes, queues, encoding, pool, stats.clone())
}

/// One pipeline whose events go to the first queue.
fn stage(operators: Vec<Box<dyn Operator>>) -> Stage {
    let steps = operators.into_iter().map(|operator| Step::new(operator, None, Vec::new()));
    let out = vec![Target::Queue(0)];
    Stage { name: "main".into(), steps: steps.collect(), ports: Ports { out, err: Vec::new() } }
}

fn source_side(id: u32, router: Router, name: &str) -> SourceSide {
    let codec = Some(MakeCodec::decoder(&codec(name)).unwrap());
    SourceSide {
        inlet: Inlet { id, ..Inlet::default() },
        worker: Worker { router, codec, pace: Pace::default() },
        helpers: Vec::new(),
        control: Arc::new(Control::new(0)),
    }
}

fn sink_side(queue: Receiver, router: Router, name: &str) -> SinkSide {
    SinkSide {
        queue,
        router,
        codec: Some(MakeCodec::encoder(&codec(name)).unwrap()),
        framing: Framing::default(),
        control: Arc::new(Control::new(0)),
        pending: std::collections::VecDeque::new(),
        undrained: false,
        standing: Arc::new(Standing::new(name.into(), None)),
    }
}

impl Setup {
    fn lanes(self) -> Lanes {
        let stats = Arc::<Stats>::default();
        let (sender, queue) = queue::bounded(Bounds::default());
        let (dead, letters) = queue::bounded(Bounds::default());
        let err = if self.err { vec![Target::Queue(0)] } else { Vec::new() };
        let ports = Ports { out: vec![Target::Stage(0)], err };
        let stages = vec![stage(self.operators)];
        let to_sink = Some(self.sink_codec);
        let routed = router("source", stages, ports, vec![sender], to_sink, &stats);
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
        let ports = Ports { out: Vec::new(), err: vec![Target::Queue(0)] };
        let routed = router("sink", Vec::new(), ports, vec![dead], None, &stats);
        let sink = sink_side(queue, routed, self.sink_codec);
        Lanes { source, sink, stats, decoded, letters }
    }
}

impl Lanes {
    /// Runs both sides to their end. The sink is connected again as often as it is lost.
    fn run(self, pulls: Pulls, takes: &Shared<Takes>) -> Outcome {
        let heard = pulls.heard.clone();
        let Self { mut source, mut sink, stats, decoded, mut letters } = self;
        let connection = Arc::<Connection>::default();
        let sink_runs = async {
            loop {
                let double = Box::new(doubles::Taking(takes.clone()));
                match sink.run(double, &connection).await {
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
            counts: stats.counts(),
            decoded: decoded.load(Ordering::Relaxed),
            letters: dead,
        }
    }
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
