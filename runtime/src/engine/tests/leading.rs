//! Leading stateless operators, which several tasks run in parallel. The tests choose the task that routes a batch.

use std::{
    future::poll_fn,
    num::NonZeroU64,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tremor_pdk::{Batch, Buffered, Error, Operator, Output, Result, Value, ValueRef, Verdict};

use super::{
    Setup,
    doubles::{self, Records, Shared},
};
use crate::{
    engine::{
        ComponentCounts, FlowCounters, Kind, Planned,
        queue::Receiver,
        route::router::{Router, Ticket},
        tracking::token::{InFlight, Token},
    },
    executor::block_on,
    flow,
};

/// A flow whose source encodes for the sink, because every port leads to the queue of the sink.
const ONE_SOURCE: &str = "source -> main -> sink, main/err -> sink, main/odd -> late -> sink";

/// A flow in which each of two sources runs the operators of the pipelines.
const TWO_SOURCES: &str =
    "source -> main -> sink, main/err -> sink, main/odd -> late -> sink, peer -> main";

/// The value of an event on which [`Sorts`] panics.
const POISON: u64 = 1_000_000;

/// A stateless operator that keeps some events, and sends, discards and rejects others.
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
struct Absorbs;

impl Operator for Absorbs {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let mut buffered = Buffered::new();
        buffered.absorb_all(batch, output);
        std::mem::forget(buffered);
        Ok(())
    }
}

/// The tasks of a flow whose first operator is stateless. Unless several sources feed this operator, an operator that
/// records the order of the events follows.
struct Scene {
    /// The routers of all tasks of all sources. The task of a source precedes its helper tasks.
    routers: Vec<Router>,
    queue: Receiver,
    counters: Arc<FlowCounters>,
    seen: Shared<Vec<String>>,
    /// Number of attempts to create an instance of the stateless operator.
    made: Arc<AtomicUsize>,
}

impl Scene {
    /// Plans a flow. Attempts to create more than `most` instances of its stateless operator fail.
    fn new<O: Operator>(links: &str, helpers: usize, most: usize, operator: fn() -> O) -> Self {
        let (seen, made) = (Shared::<Vec<String>>::default(), Arc::<AtomicUsize>::default());
        let count = made.clone();
        let make = move || match count.fetch_add(1, Ordering::Relaxed) {
            number if number < most => Ok(Box::new(operator()) as _),
            _ => Err(Error::configuration("no")),
        };
        let unlimited = |it: &mut flow::Connector| {
            it.queue.max_events = Some(NonZeroU64::MAX);
            it.queue.max_bytes = Some(NonZeroU64::MAX);
        };
        let setup = Setup::of(links).helpers(helpers).set("sink", unlimited).stateless(make);
        let setup = if links == ONE_SOURCE {
            setup.operators("main", vec![Box::new(Records(seen.clone()))])
        } else {
            setup
        };
        let mut planned = setup.plan();
        let queue = planned.take("sink").sink.unwrap().queue;
        let Planned { tasks, counters, .. } = planned;
        let sources = tasks.connectors.into_iter().filter_map(|task| task.source);
        let workers = sources.flat_map(|source| [source.worker].into_iter().chain(source.helpers));
        let routers = workers.map(|worker| worker.router).collect();
        Self { routers, queue, counters, seen, made }
    }

    /// Routes a batch with one of the tasks.
    fn take_in(&mut self, task: usize, numbers: &[u64]) {
        route(&mut self.routers[task], numbers, |router| router.egress.ticket());
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
                        let (numbers, ticket) = {
                            let mut left = left.lock().unwrap();
                            let Some(numbers) = left.next() else { break };
                            (numbers, router.egress.ticket())
                        };
                        route(router, &numbers, |_| ticket);
                    }
                });
            }
        });
    }

    /// Ends the flow.
    fn end(self) -> Ended {
        let Self { routers, mut queue, counters, seen, .. } = self;
        for mut router in routers {
            block_on(router.close());
        }
        let mut received = Vec::new();
        block_on(async {
            while let Some(queued) = poll_fn(|context| queue.poll_receive(context)).await {
                received.extend(doubles::values(&queued.item.batch));
                queued.item.token.settle();
            }
        });
        let mut components = counters.components();
        components.retain(|it| it.kind != Kind::Sink);
        let counts: Vec<_> = components.into_iter().map(|it| (it.name, it.counts)).collect();
        assert!(counts.iter().all(|(_, counts)| counts.in_flight() == 0), "{counts:?}");
        let seen = seen.lock().unwrap().clone();
        Ended { received, seen, counts }
    }
}

/// Routes a batch of numbers with the ticket that `ticket` returns.
fn route(router: &mut Router, numbers: &[u64], ticket: impl FnOnce(&Router) -> Ticket) {
    let mut batch = Batch::new();
    numbers.iter().for_each(|number| batch.push(number).unwrap());
    let mut ticket = ticket(router);
    router.stats.taken(numbers.len());
    let item = InFlight::new(batch, Token::untracked());
    block_on(router.take_in(&mut ticket, item, Vec::new()));
}

/// The results of a flow.
#[derive(Debug, PartialEq)]
struct Ended {
    /// The events that the sink received.
    received: Vec<String>,
    /// The events that passed the stateless operator.
    seen: Vec<String>,
    /// The names and counts of sources and pipelines.
    counts: Vec<(String, ComponentCounts)>,
}

impl Ended {
    /// Returns the counts of the pipeline `main`.
    fn main(&self) -> ComponentCounts {
        self.counts.iter().find(|(name, _)| name == "main").unwrap().1
    }

    fn letters(&self) -> Vec<&str> {
        let letters = self.received.iter().map(String::as_str);
        letters.filter(|event| event.contains("\"component\":\"main\"")).collect()
    }
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
    let mut alone = Scene::new(ONE_SOURCE, 0, usize::MAX, || Sorts);
    alone.take_in_all(consecutive(2_000));
    let alone = alone.end();
    let counts = alone.main();
    assert!(alone.letters().len() > 500 && counts.discarded > 500, "{counts:?}");
    let mut together = Scene::new(ONE_SOURCE, 2, usize::MAX, || Sorts);
    // From now on, the source's own task uses its own instance as well.
    together.take_in(1, &[]);
    together.take_in_all(consecutive(2_000));
    assert_eq!(together.end(), alone);
}

/// Instances that were created later might read other versions of the files that their configuration names.
#[test]
fn instances_of_all_tasks_are_created_with_the_flow() {
    let mut scene = Scene::new(ONE_SOURCE, 1, usize::MAX, || Sorts);
    // The first instance is that of the in-order section.
    assert_eq!(scene.made.load(Ordering::Relaxed), 3);
    for task in [0, 1, 0] {
        scene.take_in(task, &[0, 1]);
    }
    assert_eq!(scene.made.load(Ordering::Relaxed), 3);
    assert_eq!(scene.end().received, ["0", "1", "0", "1", "0", "1"]);
}

#[test]
fn operators_stay_in_order_if_no_instance_can_be_created() {
    let mut scene = Scene::new(ONE_SOURCE, 1, 1, || Sorts);
    for task in [0, 1, 0, 1] {
        scene.take_in(task, &[0, 1]);
    }
    assert_eq!(scene.made.load(Ordering::Relaxed), 3);
    assert_eq!(scene.end().received, ["0", "1", "0", "1", "0", "1", "0", "1"]);
}

#[test]
fn instances_share_the_budget_of_restarts_after_panics() {
    for (links, helpers) in [(ONE_SOURCE, 2), (TWO_SOURCES, 0)] {
        let mut scene = Scene::new(links, helpers, usize::MAX, || Sorts);
        let tasks = scene.routers.len();
        assert_eq!(tasks, if links == ONE_SOURCE { 3 } else { 2 });
        // Restarts that are followed by a success use no budget.
        for number in 0..10 {
            scene.take_in(number % tasks, &[POISON]);
            scene.take_in((number + 1) % tasks, &[0]);
        }
        // Three restarts in a row are allowed.
        for number in 0..4 {
            scene.take_in(number % tasks, &[POISON]);
        }
        for task in 0..tasks {
            scene.take_in(task, &[4]);
        }
        let ended = scene.end();
        let letters = ended.letters();
        assert_eq!((letters.len(), ended.received.len()), (14 + tasks, 24 + tasks), "{links}");
        for letter in &letters[14..] {
            assert!(letter.contains("(`stateless`) has panicked too often"), "{letter}");
        }
    }
}

#[test]
fn stateless_operator_that_buffers_events_fails_them() {
    let mut scene = Scene::new(ONE_SOURCE, 1, usize::MAX, || Absorbs);
    scene.take_in(1, &[0, 1]);
    scene.take_in(0, &[2]);
    let counts = scene.end().main();
    assert_eq!((counts.taken, counts.failed), (3, 3));
}

/// A stateless operator that panics on [`POISON`] after it has created an event, and after it has edited all events if
/// `EDITS` is set.
struct Panics<const EDITS: bool>;

impl<const EDITS: bool> Operator for Panics<EDITS> {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let panics = doubles::values(batch).contains(&POISON.to_string());
        if EDITS {
            batch.for_each_mut(|mut event| event.set_metadata(Value::from(true)));
        }
        if panics {
            output.create(&"lost")?;
            return Err(Error::panicked("poison"));
        }
        output.divert(batch, |event| match event.value().and_then(ValueRef::as_u64) {
            Some(1) => Verdict::Port(0),
            _ => Verdict::Keep,
        });
        Ok(())
    }
}

/// The results of the calls that panicked are discarded.
#[test]
fn panic_of_a_stateless_operator_costs_one_event() {
    let mut scene = Scene::new(ONE_SOURCE, 0, usize::MAX, || Panics::<false>);
    for first in 0..100 {
        scene.take_in(0, &[10 * first + 2, POISON, 10 * first + 3]);
    }
    scene.take_in(0, &[1, POISON, POISON, 4]);
    // After seven panics in a row, the next event is still processed.
    scene.take_in(0, &[&[POISON; 7][..], &[4]].concat());
    let ended = scene.end();
    let letters = ended.letters();
    assert_eq!(letters.len(), 109);
    assert!(
        letters.iter().all(|it| it.contains("poison") && it.contains("1000000")),
        "{letters:?}"
    );
    assert_eq!(ended.received.len(), 312);
    assert_eq!(ended.main().failed, 0);
}

#[test]
fn batch_that_was_edited_before_a_panic_is_not_repeated() {
    let mut scene = Scene::new(ONE_SOURCE, 0, usize::MAX, || Panics::<true>);
    scene.take_in(0, &[2, POISON, 3]);
    scene.take_in(0, &[4]);
    assert_eq!(scene.end().letters().len(), 3);
}

/// A stateless operator that sends its first event and then panics on it.
struct SendsFirst;

impl Operator for SendsFirst {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.send(0, batch.part(0..1));
        Err(Error::panicked("poison"))
    }
}

/// The events that a call returns before it panics are not compared with those of the batch.
#[test]
fn events_that_all_panic_are_rejected_although_one_was_sent() {
    let mut scene = Scene::new(ONE_SOURCE, 0, usize::MAX, || SendsFirst);
    scene.take_in(0, &[1, 2]);
    let ended = scene.end();
    assert_eq!((ended.letters().len(), ended.main().failed), (2, 0));
}
