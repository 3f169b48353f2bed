//! How many events are in flight where a sink does not answer: a batch in the sink's hands, a full
//! queue, and a batch with each task that takes batches through. `docs/guide/flows.md` promises it.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use tremor_pdk::{Acks, Batch, Exception, Pull, Result};

use super::{Harness, Heard, Setup, doubles::Hears, helping::steady};
use crate::dynamic::{DynSink, DynSource};
use crate::engine::{
    Kind,
    account::stats::Books,
    handle::connection::Connection,
    processors::Processors,
    queue::{Bounds, mailbox::Host},
    source::{pace::Pace, shared_intake::SharedIntake},
    sync::gauge::Gauge,
};

/// A source that always has as much as it is asked for.
#[derive(Clone, Default)]
struct Endless {
    brought: Arc<AtomicUsize>,
    heard: Heard,
    /// Number of events in flight from which it is not pulled; zero is any number.
    most: usize,
}

impl DynSource for Endless {
    fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        while !batch.is_full() {
            batch.push_message(b"1");
            self.brought.fetch_add(1, Ordering::Relaxed);
        }
        Poll::Ready(Ok(Pull::Events))
    }

    fn give_up(&mut self, _: &mut Batch) {}

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        Ok(Some(Box::new(Hears {
            heard: self.heard.clone(),
            most_in_flight: self.most,
            ..Hears::default()
        })))
    }
}

/// A sink that answers so many deliveries, and then none.
#[derive(Clone, Default)]
struct Answers {
    left: Arc<AtomicUsize>,
    delivered: Arc<AtomicUsize>,
}

impl DynSink for Answers {
    fn poll_deliver(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return Poll::Pending;
        }
        self.left.store(left - 1, Ordering::Relaxed);
        self.delivered.fetch_add(batch.len(), Ordering::Relaxed);
        Poll::Ready(Ok(Vec::new()))
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The tasks of a flow, polled in turn by the test.
struct Flow {
    tasks: Vec<Pin<Box<dyn Future<Output = ()>>>>,
    source: Endless,
    sink: Answers,
    books: Books,
    queue: Gauge,
}

impl Flow {
    /// A source whose own task and so many helpers take batches of so many events to a sink, which
    /// whatever sends to it may run.
    fn of(bounds: Bounds, batch: u32, helpers: usize) -> Self {
        Self::of_source(bounds, batch, helpers, 0)
    }

    /// Makes a harness whose source is not pulled from `most` events in flight on.
    fn of_source(bounds: Bounds, batch: u32, helpers: usize, most: usize) -> Self {
        let harness = Setup { bounds, helpers, ..Setup::default() }.harness();
        let Harness { mut source, sink: mut side, books, .. } = harness;
        let (endless, answers, queue) =
            (Endless { most, ..Endless::default() }, Answers::default(), side.queue.gauge());
        let (mailbox, double) = (side.queue.mailbox(), Box::new(answers.clone()));
        let connection = Arc::<Connection>::default();
        let sink = Host::new(mailbox, async move { _ = side.run(double, &connection).await });
        let mut tasks: Vec<Pin<Box<dyn Future<Output = ()>>>> = vec![Box::pin(sink)];
        source.worker.pace = Pace::fixed(batch);
        if helpers == 0 {
            let double = Box::new(endless.clone());
            tasks.push(Box::pin(async move { _ = source.bring(double, &Arc::default()).await }));
        } else {
            let intake = SharedIntake::new(steady(endless.clone()), Processors::new(usize::MAX));
            endless.brought.store(0, Ordering::Relaxed);
            let intake = Arc::new(intake);
            for mut worker in source.helpers.into_iter().chain([source.worker]) {
                let intake = intake.clone();
                worker.pace = Pace::fixed(batch);
                tasks.push(Box::pin(async move { while intake.help_once(&mut worker).await {} }));
            }
        }
        Self { tasks, source: endless, sink: answers, books, queue }
    }

    /// Polls all tasks until none goes on. After each poll the counts say how many events the source has
    /// brought of which the sink has not taken delivery.
    fn settle(&mut self) {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(woken.clone());
        let mut goes_on = true;
        while goes_on {
            for task in &mut self.tasks {
                assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                let brought = self.source.brought.load(Ordering::Relaxed);
                let delivered = self.sink.delivered.load(Ordering::Relaxed);
                assert_eq!(in_flight(&self.books), brought - delivered);
            }
            goes_on = woken.0.swap(false, Ordering::Relaxed);
        }
    }

    /// Where the events in flight are: in the sink's hands, in the queue, with other tasks.
    fn whereabouts(&self) -> [usize; 3] {
        let counts = |kind| {
            let components = self.books.components().into_iter();
            components
                .filter(move |it| it.kind == kind)
                .map(|it| it.counts.in_flight())
                .sum::<i64>()
        };
        assert_eq!((counts(Kind::Source), counts(Kind::Pipeline)), (0, 0), "they hold nothing");
        let in_hand = usize::try_from(counts(Kind::Sink)).unwrap();
        let queued = self.queue.events();
        [in_hand, queued, in_flight(&self.books) - queued - in_hand]
    }
}

/// What the source has taken in and components have made, less what has ended.
fn in_flight(books: &Books) -> usize {
    let (mut came, mut ended) = (0, 0);
    for component in books.components() {
        let counts = component.counts;
        came += counts.created + if component.kind == Kind::Source { counts.taken } else { 0 };
        ended += counts.discarded + counts.merged + counts.failed + counts.dead_lettered;
        ended += if component.kind == Kind::Sink { counts.delivered } else { 0 };
    }
    usize::try_from(came - ended).unwrap()
}

#[test]
fn a_sink_that_never_answers_has_a_batch_its_queue_is_full_and_each_task_has_a_batch() {
    for helpers in 0..4 {
        for (events, batch) in [(1, 1), (1, 3), (3, 3), (4, 3), (60, 3), (61, 7), (256, 100)] {
            let bounds = Bounds { events, ..Bounds::default() };
            let mut flow = Flow::of(bounds, batch, helpers);
            let batch = batch as usize;
            let expected = [batch, events.div_ceil(batch) * batch, (helpers + 1) * batch];
            for _ in 0..3 {
                flow.settle();
                assert_eq!(flow.whereabouts(), expected, "{helpers} helpers, {bounds:?}");
            }
        }
    }
}

#[test]
fn source_is_pulled_up_to_its_limit_of_events_in_flight() {
    for most in 1..6 {
        let mut flow = Flow::of_source(Bounds::default(), 3, 0, 3 * most);
        flow.settle();
        assert_eq!(flow.whereabouts().iter().sum::<usize>(), 3 * most);
        flow.sink.left.store(4, Ordering::Relaxed);
        flow.settle();
        assert_eq!(flow.sink.delivered.load(Ordering::Relaxed), 3 * 4);
        assert_eq!(flow.whereabouts().iter().sum::<usize>(), 3 * most);
    }
}

#[test]
fn as_much_as_a_sink_takes_is_brought_and_the_source_has_heard_of_it() {
    let mut flow = Flow::of(Bounds { events: 10, ..Bounds::default() }, 3, 0);
    flow.settle();
    let stuck = flow.whereabouts();
    for answers in [1, 2, 50] {
        flow.sink.left.store(answers, Ordering::Relaxed);
        flow.settle();
        assert_eq!(flow.whereabouts(), stuck);
        let heard = flow.source.heard.lock().unwrap();
        assert!(heard.iter().all(|(_, acknowledged)| *acknowledged));
        assert_eq!(3 * heard.len(), flow.sink.delivered.load(Ordering::Relaxed));
    }
}
