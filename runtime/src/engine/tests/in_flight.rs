//! The number of events in flight if a sink does not answer: one batch in the sink, a full queue, and one batch in each
//! task of the source. `docs/guide/flows.md` states this limit.

use std::{
    num::NonZeroU64,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use tremor_pdk::{Acks, Batch, Exception, Pull, Result};

use super::{Harness, Reports, Setup, doubles::RecordingAcks, helping::steady};
use crate::clock::Clock;
use crate::dynamic::{DynSink, DynSource};
use crate::engine::{
    Kind,
    handle::connection::Connection,
    processors::Processors,
    queue::mailbox::Host,
    source::{batch_sizer::BatchSizer, shared_intake::SharedIntake},
    sync::gauge::Gauge,
    tracking::stats::FlowCounters,
};

/// A source that fills every batch.
#[derive(Clone, Default)]
struct Endless {
    produced: Arc<AtomicUsize>,
    reports: Reports,
    /// Maximum number of events in flight; 0 for no limit.
    most: usize,
}

impl DynSource for Endless {
    fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        while !batch.is_full() {
            batch.push_message(b"1");
            self.produced.fetch_add(1, Ordering::Relaxed);
        }
        Poll::Ready(Ok(Pull::Events))
    }

    fn give_up(&mut self, _: &mut Batch) {}

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        Ok(Some(Box::new(RecordingAcks {
            reports: self.reports.clone(),
            most_in_flight: self.most,
            ..RecordingAcks::default()
        })))
    }
}

/// A sink that answers `left` deliveries, and no later ones.
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

/// The tasks of a flow. The test polls one task after the other.
struct Flow {
    tasks: Vec<Pin<Box<dyn Future<Output = ()>>>>,
    source: Endless,
    sink: Answers,
    counters: Arc<FlowCounters>,
    queue: Gauge,
}

impl Flow {
    /// Creates a flow whose source reads batches of `batch` events with its own task and `helpers` helper tasks. The
    /// queue of the sink has the limit `queue`, in events.
    /// Senders may run the sink.
    fn of(queue: u32, batch: u32, helpers: usize) -> Self {
        Self::of_source(queue, batch, helpers, 0)
    }

    /// Creates a flow whose source may have at most `most` events in flight.
    fn of_source(queue: u32, batch: u32, helpers: usize, most: usize) -> Self {
        let setup = Setup::default().helpers(helpers);
        let setup = setup.set("sink", |it| it.queue.max_events = NonZeroU64::new(queue.into()));
        let Harness { mut source, sink: mut side, counters, .. } = setup.harness();
        let (endless, answers, queue) =
            (Endless { most, ..Endless::default() }, Answers::default(), side.queue.gauge());
        let (mailbox, double) = (side.queue.mailbox(), Box::new(answers.clone()));
        let connection = Arc::<Connection>::default();
        let sink = Host::new(mailbox, async move { _ = side.run(double, &connection).await });
        let mut tasks: Vec<Pin<Box<dyn Future<Output = ()>>>> = vec![Box::pin(sink)];
        source.worker.sizer = BatchSizer::fixed(batch);
        if helpers == 0 {
            let double = Box::new(endless.clone());
            tasks.push(Box::pin(async move {
                _ = source.pull_until_end(double, &Arc::default()).await;
            }));
        } else {
            let intake = SharedIntake::new(
                steady(endless.clone()),
                Processors::new(usize::MAX),
                Clock::simulated(0),
            );
            endless.produced.store(0, Ordering::Relaxed);
            let intake = Arc::new(intake);
            for mut worker in source.helpers.into_iter().chain([source.worker]) {
                let intake = intake.clone();
                worker.sizer = BatchSizer::fixed(batch);
                tasks.push(Box::pin(async move { while intake.help_once(&mut worker).await {} }));
            }
        }
        Self { tasks, source: endless, sink: answers, counters, queue }
    }

    /// Polls all tasks until none of them makes progress. After each poll, checks that the metrics show the events that
    /// were produced and not delivered.
    fn settle(&mut self) {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(woken.clone());
        let mut continues = true;
        while continues {
            for task in &mut self.tasks {
                assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                let produced = self.source.produced.load(Ordering::Relaxed);
                let delivered = self.sink.delivered.load(Ordering::Relaxed);
                assert_eq!(in_flight(&self.counters), produced - delivered);
            }
            continues = woken.0.swap(false, Ordering::Relaxed);
        }
    }

    /// Returns the numbers of events in flight in the sink, in its queue, and in other tasks.
    fn whereabouts(&self) -> [usize; 3] {
        let counts = |kind| {
            let components = self.counters.components().into_iter();
            components
                .filter(move |it| it.kind == kind)
                .map(|it| it.counts.in_flight())
                .sum::<i64>()
        };
        assert_eq!(
            (counts(Kind::Source), counts(Kind::Pipeline)),
            (0, 0),
            "sources and pipelines buffer no events"
        );
        let in_hand = usize::try_from(counts(Kind::Sink)).unwrap();
        let queued = self.queue.events();
        [in_hand, queued, in_flight(&self.counters) - queued - in_hand]
    }
}

/// Returns the number of events that were read or created and have not ended, according to the metrics.
fn in_flight(counters: &FlowCounters) -> usize {
    let (mut came, mut ended) = (0, 0);
    for component in counters.components() {
        let counts = component.counts;
        came += counts.created + if component.kind == Kind::Source { counts.taken } else { 0 };
        ended += counts.discarded + counts.merged + counts.failed + counts.dead_lettered;
        ended += if component.kind == Kind::Sink { counts.delivered } else { 0 };
    }
    usize::try_from(came - ended).unwrap()
}

/// With a sink that never answers, one batch is in the sink, its queue is full, and each task of the source has one
/// batch.
#[test]
fn events_in_flight_are_bounded_if_a_sink_never_answers() {
    for helpers in 0..4 {
        for (events, batch) in [(1, 1), (1, 3), (3, 3), (4, 3), (60, 3), (61, 7), (256, 100)] {
            let mut flow = Flow::of(events, batch, helpers);
            let (events, batch) = (events as usize, batch as usize);
            let expected = [batch, events.div_ceil(batch) * batch, (helpers + 1) * batch];
            for _ in 0..3 {
                flow.settle();
                assert_eq!(flow.whereabouts(), expected, "{helpers} helpers, {events} events");
            }
        }
    }
}

#[test]
fn source_is_pulled_up_to_its_limit_of_events_in_flight() {
    for most in 1..6 {
        let mut flow = Flow::of_source(256, 3, 0, 3 * most);
        flow.settle();
        assert_eq!(flow.whereabouts().iter().sum::<usize>(), 3 * most);
        flow.sink.left.store(4, Ordering::Relaxed);
        flow.settle();
        assert_eq!(flow.sink.delivered.load(Ordering::Relaxed), 3 * 4);
        assert_eq!(flow.whereabouts().iter().sum::<usize>(), 3 * most);
    }
}

#[test]
fn source_is_pulled_and_notified_as_the_sink_answers() {
    let mut flow = Flow::of(10, 3, 0);
    flow.settle();
    let stuck = flow.whereabouts();
    for answers in [1, 2, 50] {
        flow.sink.left.store(answers, Ordering::Relaxed);
        flow.settle();
        assert_eq!(flow.whereabouts(), stuck);
        let reports = flow.source.reports.lock().unwrap();
        assert!(reports.iter().all(|(_, acknowledged)| *acknowledged));
        assert_eq!(3 * reports.len(), flow.sink.delivered.load(Ordering::Relaxed));
    }
}
