//! Tests of preprocessing that never ends: each poll of the source's task does at most two rounds, and interrupts and
//! pauses take effect between two rounds.

use std::{
    future::poll_fn,
    num::NonZeroU64,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_pdk::{Batch, Output, Preprocessor, Pull, Result};

use super::{
    Harness, Setup,
    doubles::{Pulls, ScriptedSink, SinkScript},
};
use crate::{
    dynamic::DynSource,
    engine::{
        control::{Control, Phase},
        handle::{
            ConnectorHandle,
            connection::{Connection, End},
        },
        source::SourceSide,
    },
    executor::{alone, block_on},
    processor::endless::Endless,
};

/// A source whose preprocessor never finishes.
struct Scene {
    source: SourceSide,
    rounds: Arc<AtomicUsize>,
    connection: Arc<Connection>,
}

impl Scene {
    fn new() -> Self {
        let rounds = Arc::<AtomicUsize>::default();
        let counted = rounds.clone();
        let endless = move || Box::new(Endless::new(&counted)) as _;
        let Harness { source, .. } = Setup::default().preprocessor(endless(), endless).harness();
        Self { source, rounds, connection: Arc::default() }
    }

    /// Polls the source's task a hundred times, then calls `interrupt`, and then polls the task up to `after` more
    /// times. Returns how the connection ended, if it ended, and the number of rounds after `interrupt`.
    fn run(
        &mut self,
        double: impl DynSource + 'static,
        interrupt: impl FnOnce(&Control, &ConnectorHandle, &Connection),
        after: usize,
    ) -> (Option<Result<(), End>>, usize) {
        const BEFORE: usize = 100;
        let Self { source, rounds, connection } = self;
        let (control, handle) = (source.control.clone(), source.handle.clone());
        let mut runs = pin!(source.pull_until_end(Box::new(double), connection));
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = || {
            let before = rounds.load(Ordering::Relaxed);
            let polled = runs.as_mut().poll(&mut context).map(|end| end.map(drop));
            let count = rounds.load(Ordering::Relaxed) - before;
            assert!(count <= 2, "{count} rounds in one poll");
            polled
        };
        for _ in 0..BEFORE {
            assert!(poll().is_pending());
        }
        let before = rounds.load(Ordering::Relaxed);
        assert!(before >= BEFORE / 2, "{before}");
        interrupt(&control, &handle, connection);
        let end = (0..after).find_map(|_| match poll() {
            Poll::Ready(end) => Some(end),
            Poll::Pending => None,
        });
        (end, rounds.load(Ordering::Relaxed) - before)
    }
}

/// Returns a source that wants acknowledgements.
fn tracked() -> Pulls {
    let until = Some(Arc::<AtomicBool>::default());
    Pulls { fragments: true, until, ..Pulls::of(&[&["bomb"]]) }
}

/// A source that wants no acknowledgements.
struct Untracked(Pulls);

impl DynSource for Untracked {
    fn poll_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        self.0.poll_pull(context, batch)
    }

    fn give_up(&mut self, batch: &mut Batch) {
        self.0.give_up(batch);
    }
}

/// A preprocessor that outputs one message in each round. After its first input, it outputs `left` messages in total.
struct Many {
    left: usize,
    has_begun: bool,
}

impl Preprocessor for Many {
    fn process(&mut self, batch: &mut Batch, _: &mut Output) -> Result<()> {
        self.has_begun |= !batch.is_empty();
        batch.retain(|_| false);
        if self.has_more() {
            self.left -= 1;
            batch.push_message(b"1");
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.has_begun && self.left > 0
    }

    fn buffers(&self, _stream: u64) -> bool {
        self.has_more()
    }

    fn streams(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// Runs a source whose preprocessor outputs forty messages, and loses its connection after the first poll. The limit of
/// the queue is 4 events. If `sink_works` is set, the sink is polled once for every five polls of the source, otherwise
/// never. Returns the maximum number of events in the queue, the number of delivered messages, and the number of failed
/// events.
fn lose_with_full_queue(sink_works: bool) -> (usize, usize, u64) {
    let many = |left| Box::new(Many { left, has_begun: false }) as Box<dyn Preprocessor>;
    let setup = Setup::default().preprocessor(many(40), move || many(0));
    let setup = setup.set("sink", |it| it.queue.max_events = NonZeroU64::new(4));
    let Harness { mut source, mut sink, letters: _letters, control, .. } = setup.harness();
    let (gauge, stats) = (sink.queue.gauge(), source.worker.router.stats.clone());
    let (script, own, lost) = (SinkScript::of([]), Arc::<Connection>::default(), Arc::default());
    let (mut turns, mut peak) = (0, 0);
    {
        let mut sink_runs = Box::pin(sink.run(Box::new(ScriptedSink(script.clone())), &own));
        let mut source_runs =
            Box::pin(source.pull_until_end(Box::new(Untracked(tracked())), &lost));
        let end = alone::run(
            control.clock(),
            poll_fn(|context| {
                turns += 1;
                if sink_works && turns % 5 == 0 {
                    assert!(sink_runs.as_mut().poll(context).is_pending());
                }
                let polled = source_runs.as_mut().poll(context);
                peak = peak.max(gauge.events());
                if turns == 1 {
                    lost.break_off();
                }
                if sink_works {
                    context.waker().wake_by_ref();
                }
                polled
            }),
        );
        assert!(matches!(end, Err(End::Interrupted)), "the lost connection ends the source");
        drop(source_runs);
        drop(source);
        if sink_works {
            assert!(matches!(block_on(sink_runs), End::Finished));
        }
    }
    let delivered = script.lock().unwrap().delivered.concat().len();
    (peak, delivered, stats.counts().failed)
}

#[test]
fn lost_connection_keeps_the_queue_bounded_and_all_events() {
    assert_eq!(lose_with_full_queue(true), (4, 40, 0));
}

/// If the source and the sink belong to one connector, the sink has a connection again only after the source has ended.
/// Therefore a source that waited for the full queue of this sink would wait forever.
#[test]
fn lost_connection_does_not_wait_for_full_queue_forever() {
    let (peak, _, failed) = lose_with_full_queue(false);
    assert_eq!(peak, 12, "events in a queue of 4");
    assert_eq!(failed, 1, "the remainder counts as one event");
}

#[test]
fn draining_flow_preprocesses_until_it_is_stopped() {
    let mut scene = Scene::new();
    let drain = |control: &Control, _: &ConnectorHandle, _: &Connection| {
        control.advance(Phase::Draining);
    };
    let (end, rounds) = scene.run(tracked(), drain, 1_000);
    assert!(end.is_none(), "pulled events may still arrive: {end:?}");
    assert_eq!(rounds, 1_000);
}

#[test]
fn lost_connection_ends_endless_preprocessing() {
    let lose = |_: &Control, _: &ConnectorHandle, connection: &Connection| connection.break_off();
    let (mut scene, double) = (Scene::new(), tracked());
    let reports = double.reports.clone();
    let (end, rounds) = scene.run(double, lose, 1_000);
    assert!(matches!(end, Some(Err(End::Interrupted))), "{end:?}");
    assert_eq!(rounds, 65);
    assert_eq!(*reports.lock().unwrap(), [(1, false)]);
    assert!(!scene.source.intake.preprocessors.has_more(), "the remaining input is discarded");
}

#[test]
fn abandoned_input_counts_as_one_failed_event() {
    let lose = |_: &Control, _: &ConnectorHandle, connection: &Connection| connection.break_off();
    let mut scene = Scene::new();
    let (end, _) = scene.run(Untracked(tracked()), lose, 1_000);
    assert!(matches!(end, Some(Err(End::Interrupted))), "{end:?}");
    let counts = scene.source.worker.router.stats.counts();
    assert_eq!((counts.taken, counts.failed), (1, 1));
}

#[test]
fn paused_source_preprocesses_nothing_further() {
    let mut scene = Scene::new();
    let pause = |_: &Control, handle: &ConnectorHandle, _: &Connection| handle.gate.pause();
    let (end, rounds) = scene.run(tracked(), pause, 100);
    assert!(end.is_none(), "{end:?}");
    assert_eq!(rounds, 0);
}

/// A source whose pulls read one message and ask for a wait of one hour.
struct Hourly(Arc<AtomicUsize>);

impl DynSource for Hourly {
    fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        batch.stream(0).push_fragment(b"hour");
        Poll::Ready(Ok(Pull::Idle(Duration::from_hours(1))))
    }

    fn give_up(&mut self, _: &mut Batch) {}
}

#[test]
fn pause_does_not_end_the_wait_that_a_source_asked_for() {
    let many = || Box::new(Many { left: 100, has_begun: false }) as _;
    let Harness { mut source, .. } = Setup::default().preprocessor(many(), many).harness();
    let (gate, stats) = (source.handle.clone(), source.worker.router.stats.clone());
    let (pulls, connection) = (Arc::<AtomicUsize>::default(), Arc::default());
    let mut runs = pin!(source.pull_until_end(Box::new(Hourly(pulls.clone())), &connection));
    let mut poll = |times| {
        let mut context = Context::from_waker(Waker::noop());
        (0..times).for_each(|_| assert!(runs.as_mut().poll(&mut context).is_pending()));
    };
    poll(10);
    gate.gate.pause();
    poll(10);
    assert!(stats.counts().taken < 100, "the pause begins before all input is preprocessed");
    gate.gate.resume();
    gate.gate.open();
    poll(1_000);
    assert_eq!((pulls.load(Ordering::Relaxed), stats.counts().taken), (1, 100));
}
