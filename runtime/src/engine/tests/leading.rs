//! Leading stateless operators, which several tasks run in parallel.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tremor_abi::batch::Pool;
use tremor_pdk::{Batch, Buffered, Error, Operator, Output, Result, ValueRef, Verdict};

use super::{doubles, doubles::Records, doubles::Shared};
use crate::{
    codec::{MakeCodec, Terminator},
    components,
    engine::{
        control::Control,
        parts::{MakeInstance, MakeOperator, OperatorInstance},
        processors::Processors,
        queue::{self, Bounds, Receiver},
        route::{
            leading::{Factory, Leading, LeadingPart},
            pipeline::{Pipeline, Restarts, Step},
            router::{Encoding, Outlet, Router},
            routes::Routes,
        },
        target::{Ports, Target},
        tracking::{
            stats::{ComponentCounts, Stats},
            token::{InFlight, Token},
        },
    },
    executor::block_on,
};

/// The value of an event on which [`Sorts`] panics.
const POISON: u64 = 1_000_000;

/// A stateless operator that keeps some events, and sends, discards and rejects others.
#[derive(Clone)]
struct Sorts;

impl Operator for Sorts {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        if doubles::values(batch).contains(&POISON.to_string()) {
            return Err(Error::panicked("poison"));
        }
        output.divert(batch, |event| {
            let number = event.value().and_then(ValueRef::as_i64).unwrap_or_default();
            match number % 7 {
                1 | 3 => Verdict::Port(0),
                5 => Verdict::Discard,
                6 => Verdict::Reject(Error::bad_data(number)),
                _ => Verdict::Keep,
            }
        });
        Ok(())
    }
}

/// An operator that buffers events although it is declared as stateless.
#[derive(Clone)]
struct Absorbs;

impl Operator for Absorbs {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let mut buffered = Buffered::new();
        buffered.absorb_all(batch, output);
        std::mem::forget(buffered);
        Ok(())
    }
}

/// A source with tasks that share a pipeline: a stateless operator, and then an operator that records the order of the
/// events.
struct Flow {
    routers: Vec<Router>,
    /// The queues behind the ports `out`, `err` and `odd` of the pipeline.
    queues: Vec<Receiver>,
    source: Arc<Stats>,
    pipeline: Arc<Stats>,
    seen: Shared<Vec<String>>,
}

impl Flow {
    /// Creates a flow with a number of tasks, which create their own instances of `first` with `make`. Without `make`,
    /// the operator runs in the routes.
    fn new<O: Operator + Clone>(tasks: usize, first: &O, make: Option<MakeInstance>) -> Self {
        let (source, pipeline) = (Arc::<Stats>::default(), Arc::<Stats>::default());
        let (control, seen) = (Arc::new(Control::new()), Shared::<Vec<String>>::default());
        let most = Bounds { events: usize::MAX, bytes: usize::MAX };
        let (senders, queues): (Vec<_>, Vec<_>) =
            (0..3).map(|_| queue::bounded(most, &Processors::default())).unzip();
        let restarts = Arc::<Restarts>::default();
        let own = vec![("odd".to_owned(), vec![Target::Queue(2)])];
        let another = first.clone();
        let restart = move || Ok(Box::new(another.clone()) as Box<dyn Operator>);
        let step =
            Step::new("first", Box::new(first.clone()), Some(Box::new(restart)), own.clone());
        let steps = vec![
            step.stateless(restarts.clone()),
            Step::new("second", Box::new(Records(seen.clone())), None, Vec::new()),
        ];
        let (out, err) = (vec![Target::Queue(0)], vec![Target::Queue(1)]);
        let ports = Ports { out, err, ..Ports::default() };
        let main: Arc<str> = "main".into();
        let leading = ports.clone();
        let (name, stats) = (main.clone(), pipeline.clone());
        let pipelines = vec![Pipeline { name, steps, ports, stats }];
        let ports = Ports { out: vec![Target::Pipeline(0)], ..Ports::default() };
        let outlet = |queue| Outlet { queue, stats: Arc::default() };
        let outlets = senders.into_iter().map(outlet).collect();
        let routes = Routes::new(
            "source".into(),
            ports.clone(),
            pipelines,
            Pool::new(8),
            source.clone(),
            control.clone(),
        );
        let first_router =
            Router::new(routes, outlets, Some(encoding()), Pool::new(8), source.clone());
        let helpers = (1..tasks).map(|_| first_router.another(encoding(), Pool::new(8)));
        let helpers: Vec<_> = helpers.collect();
        let mut routers = vec![first_router];
        routers.extend(helpers);
        if let Some(make) = make {
            let ports_of_part = Ports { out: vec![Target::Rest(0)], ..leading };
            let operators = vec![Factory { label: "first".into(), make, ports: own, restarts }];
            let part = LeadingPart {
                name: main,
                operators,
                ports: ports_of_part,
                stats: pipeline.clone(),
            };
            let leading = Arc::new(Leading {
                name: "source".into(),
                ports,
                stats: source.clone(),
                control: control.clone(),
                pipelines: vec![part],
                has_helped: AtomicBool::new(false),
            });
            for (position, router) in routers.iter_mut().enumerate() {
                router.lead(leading.clone(), position > 0);
            }
        }
        Self { routers, queues, source, pipeline, seen }
    }

    /// Routes a batch with one of the tasks.
    fn take_in(&mut self, task: usize, numbers: &[u64]) {
        let router = &mut self.routers[task];
        let mut ticket = router.egress.ticket();
        router.stats.taken(numbers.len());
        let item = InFlight::new(batch(numbers), Token::untracked());
        block_on(router.take_in(&mut ticket, item, Vec::new()));
    }

    /// Routes the batches in their order, with all tasks at the same time.
    fn take_in_all(&mut self, batches: Vec<Vec<u64>>) {
        let left = Mutex::new(batches.into_iter());
        std::thread::scope(|scope| {
            for router in &mut self.routers {
                let left = &left;
                scope.spawn(move || {
                    loop {
                        // The lock makes the order of the tickets that of the batches.
                        let (numbers, mut ticket) = {
                            let mut left = left.lock().unwrap();
                            let Some(numbers) = left.next() else { break };
                            (numbers, router.egress.ticket())
                        };
                        router.stats.taken(numbers.len());
                        let item = InFlight::new(batch(&numbers), Token::untracked());
                        block_on(router.take_in(&mut ticket, item, Vec::new()));
                    }
                });
            }
        });
    }

    /// Ends the flow.
    fn end(self) -> Ended {
        let Self { mut routers, queues, source, pipeline, seen } = self;
        block_on(routers[0].close());
        drop(routers);
        let seen = seen.lock().unwrap().clone();
        let counts = [source.counts(), pipeline.counts()];
        assert_eq!(counts.map(|it| it.in_flight()), [0, 0], "{counts:?}");
        Ended { ports: queues.into_iter().map(received).collect(), seen, counts }
    }
}

fn encoding() -> Encoding {
    let codec = components::codec("json", &serde_json::Value::Null).unwrap();
    let codec = MakeCodec::encoder(&codec).unwrap();
    Encoding { codec, terminator: Terminator::default(), pool: Pool::new(8) }
}

/// Returns a function that creates instances of `operator`, and the number of its calls.
fn factory<O: Operator + Clone + Sync>(operator: O) -> (MakeInstance, Arc<AtomicUsize>) {
    let count = Arc::<AtomicUsize>::default();
    let made = count.clone();
    let make = move || {
        made.fetch_add(1, Ordering::Relaxed);
        let (first, another) = (operator.clone(), operator.clone());
        let make: MakeOperator = Box::new(move || Ok(Box::new(another.clone())));
        let operator = Box::new(first);
        Ok(OperatorInstance { operator, ports: Vec::new(), make: Some(make), another: None })
    };
    (Box::new(make), count)
}

/// The events that left a flow, by port, and its counts.
#[derive(Debug, PartialEq)]
struct Ended {
    ports: Vec<Vec<String>>,
    seen: Vec<String>,
    counts: [ComponentCounts; 2],
}

impl Ended {
    /// Returns the numbers of events that left by the ports `out`, `err` and `odd`.
    fn lengths(&self) -> [usize; 3] {
        [0, 1, 2].map(|port| self.ports[port].len())
    }
}

fn batch(numbers: &[u64]) -> Batch {
    let mut batch = Batch::new();
    numbers.iter().for_each(|number| batch.push(number).unwrap());
    batch
}

/// Returns the values that were sent to a queue.
fn received(mut queue: Receiver) -> Vec<String> {
    let mut all = Vec::new();
    block_on(async {
        while let Some(queued) = poll_fn(|context| queue.poll_receive(context)).await {
            all.extend(doubles::values(&queued.item.batch));
            queued.item.token.settle();
        }
    });
    all
}

/// Returns batches of consecutive numbers, with one to five numbers each.
fn consecutive(batches: u64) -> Vec<Vec<u64>> {
    let mut next = 0;
    let batch = |size| {
        let first = next;
        next += size;
        (first..next).collect()
    };
    (0..batches).map(|number| number % 5 + 1).map(batch).collect()
}

#[test]
fn results_and_counts_of_several_tasks_are_those_of_one() {
    let mut alone = Flow::new(1, &Sorts, None);
    alone.take_in_all(consecutive(2_000));
    let alone = alone.end();
    assert!(alone.ports.iter().all(|port| port.len() > 500), "{:?}", alone.counts);
    assert_eq!(alone.seen, alone.ports[0]);
    let (make, made) = factory(Sorts);
    let mut together = Flow::new(3, &Sorts, Some(make));
    // The instances of all tasks exist before the tasks race.
    for task in [1, 2, 0] {
        together.take_in(task, &[]);
    }
    together.take_in_all(consecutive(2_000));
    assert_eq!(made.load(Ordering::Relaxed), 3);
    assert_eq!(together.end(), alone);
}

/// Instances that were created later might read other versions of the files that their configuration names.
#[test]
fn instances_of_all_tasks_are_created_with_the_flow() {
    let (make, made) = factory(Sorts);
    let mut flow = Flow::new(2, &Sorts, Some(make));
    assert_eq!(made.load(Ordering::Relaxed), 2);
    for task in [0, 1, 0] {
        flow.take_in(task, &[0, 1]);
    }
    assert_eq!(made.load(Ordering::Relaxed), 2);
    assert_eq!(flow.end().lengths(), [3, 0, 3]);
}

#[test]
fn operators_stay_in_order_if_no_instance_can_be_created() {
    let make: MakeInstance = Box::new(|| Err(Error::configuration("no")));
    let mut flow = Flow::new(2, &Sorts, Some(make));
    for task in [0, 1, 0, 1] {
        flow.take_in(task, &[0, 1]);
    }
    assert_eq!(flow.end().lengths(), [4, 0, 4]);
}

#[test]
fn instances_share_the_budget_of_restarts_after_panics() {
    let (make, _) = factory(Sorts);
    let mut flow = Flow::new(3, &Sorts, Some(make));
    for task in [1, 2, 0] {
        flow.take_in(task, &[0]);
        flow.take_in(task, &[POISON]);
    }
    // Three restarts are allowed, so all instances still work.
    for task in [0, 1, 2] {
        flow.take_in(task, &[0]);
    }
    flow.take_in(1, &[POISON]);
    for task in [0, 1, 2] {
        flow.take_in(task, &[0]);
    }
    let ended = flow.end();
    assert_eq!(ended.lengths(), [6, 7, 0]);
    let last = ended.ports[1].last().unwrap();
    assert!(last.contains("first has panicked too often"), "{last}");
}

#[test]
fn stateless_operator_that_buffers_events_fails_them() {
    let (make, _) = factory(Absorbs);
    let mut flow = Flow::new(2, &Absorbs, Some(make));
    flow.take_in(1, &[0, 1]);
    flow.take_in(0, &[2]);
    let [_, counts] = flow.end().counts;
    assert_eq!((counts.taken, counts.failed), (3, 3));
}
