//! Sources that are not pulled for some time, because a sink that they feed is down or their connector is paused.

use std::{
    num::NonZeroU64,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_pdk::{Batch, Buffered, Error, Exception, Operator, Output, Pull, Result};

use super::{
    Harness, Setup, both, control,
    doubles::{Pulls, ScriptedSink, Shared, SinkScript},
    peer::Peer,
    pulls, sorted,
};
use crate::{
    clock::Clock,
    dynamic::{DynSink, DynSource},
    engine::{
        control::Phase,
        handle::{
            connection::{Connection, End},
            gate::Gate,
            status::State,
        },
        retry::breaker::Breaker,
        tuning::TIME_SLICE,
    },
    executor::{
        self,
        alone::{self, until_idle},
    },
    flow,
};

/// A sink that accepts nothing until `is_up` is set.
#[derive(Clone)]
struct Down {
    is_up: Arc<AtomicBool>,
    scripted: ScriptedSink,
}

impl DynSink for Down {
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        if self.is_up.load(Ordering::Relaxed) {
            return self.scripted.poll_deliver(context, slot, batch);
        }
        Poll::Ready(Err(Error::full("down")))
    }
}

#[test]
fn source_of_a_down_sink_is_notified_and_not_pulled() {
    let soon = Some(Duration::from_millis(1));
    let retry = flow::Retry { attempts: None, backoff: soon, max_backoff: soon };
    let setup = Setup::default().set("sink", |it| it.retry = retry);
    let Harness { mut source, mut sink, control, .. } = setup.harness();
    let (double, script) = (Pulls::numbers(50), SinkScript::of([]));
    let (breaker, reports) = (double.breaker.clone(), double.reports.clone());
    let stats = source.worker.router.stats.clone();
    let down = Down { is_up: Arc::default(), scripted: ScriptedSink(script.clone()) };
    let (is_up, connection) = (down.is_up.clone(), Arc::<Connection>::default());
    let sink_runs = async {
        let end = sink.run(Box::new(down), &connection).await;
        assert!(matches!(end, End::Finished), "{end:?}");
    };
    let source_runs = async {
        let end = source.run(Box::new(double), &Arc::default()).await;
        assert!(matches!(end, End::Finished), "{end:?}");
    };
    let others = async {
        while breaker.lock().unwrap().is_empty() {
            executor::yield_now().await;
        }
        let before = stats.counts().taken;
        until_idle().await;
        assert!(before < 50 * 3, "the source has more data");
        assert_eq!(stats.counts().taken, before);
        is_up.store(true, Ordering::Relaxed);
    };
    alone::run(control.clock(), both(both(sink_runs, source_runs), others));
    assert_eq!(*breaker.lock().unwrap(), [true, false]);
    assert_eq!(script.lock().unwrap().delivered.len(), 50);
    assert_eq!(sorted(&reports), pulls(50, true));
}

#[test]
fn sink_is_down_until_it_is_connected() {
    let seen = Shared::<Vec<bool>>::default();
    let breaker = Arc::<OnceLock<Arc<Breaker>>>::default();
    let (shown, own) = (seen.clone(), breaker.clone());
    let scripted = ScriptedSink(SinkScript::of([]));
    let peer = Arc::new(Peer::of_sink(Box::new(move |_| {
        shown.lock().unwrap().push(own.get().unwrap().is_open());
        Ok(Box::new(scripted.clone()))
    })));
    *peer.connects.lock().unwrap() = [1, 2].map(|_| Err(Error::connection_refused("no"))).into();
    let mut planned = peer.flow("source -> main -> peer").plan();
    let source = planned.take("source").source.unwrap();
    let breaker = breaker.get_or_init(|| source.breaker.clone()).clone();
    planned.run_with(async {
        while peer.count("sink") == 0 || breaker.is_open() {
            executor::yield_now().await;
        }
        // Dropping the source ends the sink's queue.
        drop(source);
    });
    assert_eq!(*seen.lock().unwrap(), [true], "the sink was down until an attempt succeeded");
    assert_eq!(peer.count("connect"), 3);
}

/// A source that always has data. A pull takes the time after which a task yields, and reads one event.
#[derive(Clone)]
struct Ticks {
    clock: Clock,
    pulled: Arc<AtomicUsize>,
}

impl DynSource for Ticks {
    fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        self.clock.advance(TIME_SLICE);
        self.pulled.fetch_add(1, Ordering::Relaxed);
        batch.push_message(b"1");
        Poll::Ready(Ok(Pull::Events))
    }

    fn give_up(&mut self, _: &mut Batch) {}
}

/// Whether deliveries wait, and the waker of the delivery that waits.
#[derive(Default)]
struct Blocks {
    is_set: bool,
    waiting: Option<Waker>,
}

/// A sink whose deliveries wait while `blocks` is set.
struct Slow {
    blocks: Shared<Blocks>,
    in_flight: Arc<AtomicBool>,
    delivered: Arc<AtomicUsize>,
}

impl DynSink for Slow {
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        _: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        self.in_flight.store(true, Ordering::Relaxed);
        let mut blocks = self.blocks.lock().unwrap();
        if blocks.is_set {
            blocks.waiting = Some(context.waker().clone());
            return Poll::Pending;
        }
        self.in_flight.store(false, Ordering::Relaxed);
        self.delivered.fetch_add(batch.len(), Ordering::Relaxed);
        Poll::Ready(Ok(Vec::new()))
    }
}

/// A connector whose source feeds its own sink, and values that tests observe.
struct Scene {
    peer: Arc<Peer>,
    pulled: Arc<AtomicUsize>,
    delivered: Arc<AtomicUsize>,
    blocks: Shared<Blocks>,
    in_flight: Arc<AtomicBool>,
}

impl Scene {
    fn new() -> Self {
        let (control, pulled) = (control(0), Arc::<AtomicUsize>::default());
        let ticks = Ticks { clock: control.clock().clone(), pulled: pulled.clone() };
        let (blocks, in_flight) = (Shared::<Blocks>::default(), Arc::<AtomicBool>::default());
        let delivered = Arc::<AtomicUsize>::default();
        let (held, way, count) = (blocks.clone(), in_flight.clone(), delivered.clone());
        let mut peer = Peer::new(
            Box::new(move |_| Ok(Box::new(ticks.clone()))),
            Box::new(move |_| {
                let (blocks, in_flight) = (held.clone(), way.clone());
                Ok(Box::new(Slow { blocks, in_flight, delivered: count.clone() }))
            }),
        );
        peer.control = control;
        Self { peer: Arc::new(peer), pulled, delivered, blocks, in_flight }
    }

    /// Runs the connector and `work` at the same time until the flow has drained. `work` gets the connector's gate.
    fn run(&self, work: impl AsyncFnOnce(&Gate)) {
        self.run_with(|setup| setup, work);
    }

    fn run_with(&self, change: impl FnOnce(Setup) -> Setup, work: impl AsyncFnOnce(&Gate)) {
        let planned = change(self.peer.flow("peer -> main -> peer")).plan();
        let handle = self.peer.control.connector("peer").unwrap();
        planned.run_with(async {
            while self.delivered() == 0 {
                executor::yield_now().await;
            }
            work(&handle.gate).await;
            self.peer.control.advance(Phase::Draining);
        });
        assert!(self.peer.control.failure().is_none(), "{:?}", self.peer.control.failure());
        assert_eq!(self.state(), State::Stopped);
        assert_eq!(self.pulled.load(Ordering::Relaxed), self.delivered(), "no event was lost");
        // An instance that is replaced during a pause is not notified of the end of the pause.
        let replaced = self.peer.count("new") - 1;
        assert!(self.peer.count("on_pause") - self.peer.count("on_resume") <= replaced);
    }

    /// Sets whether deliveries wait.
    fn set_blocks(&self, is_set: bool) {
        let mut blocks = self.blocks.lock().unwrap();
        blocks.is_set = is_set;
        blocks.waiting.take().into_iter().for_each(Waker::wake);
    }

    fn delivered(&self) -> usize {
        self.delivered.load(Ordering::Relaxed)
    }

    fn state(&self) -> State {
        self.peer.control.connectors()[0].state
    }

    async fn until(&self, call: &str, count: usize) {
        while self.peer.count(call) < count {
            executor::yield_now().await;
        }
    }

    /// Checks that no event is pulled or delivered.
    async fn nothing_flows(&self) {
        let before = (self.pulled.load(Ordering::Relaxed), self.delivered());
        until_idle().await;
        assert_eq!((self.pulled.load(Ordering::Relaxed), self.delivered()), before);
        assert!(!self.in_flight.load(Ordering::Relaxed));
    }
}

#[test]
fn no_event_flows_while_a_connector_is_paused() {
    let scene = Scene::new();
    scene.run(async |gate| {
        for round in 1..4 {
            gate.pause();
            scene.until("on_pause", round).await;
            scene.nothing_flows().await;
            assert_eq!(scene.state(), State::Paused);
            assert_eq!(scene.peer.count("on_resume"), round - 1);
            let before = scene.delivered();
            gate.resume();
            scene.until("on_resume", round).await;
            while scene.delivered() == before {
                executor::yield_now().await;
            }
            assert_eq!(scene.state(), State::Running);
        }
        // The connector does not notice a pause that ends before its task runs.
        gate.pause();
        gate.resume();
        let before = scene.delivered();
        while scene.delivered() == before {
            executor::yield_now().await;
        }
    });
    assert_eq!((scene.peer.count("on_pause"), scene.peer.count("on_resume")), (3, 3));
}

#[test]
fn pause_begins_once_the_sink_has_answered() {
    let scene = Scene::new();
    scene.run(async |gate| {
        scene.set_blocks(true);
        while !scene.in_flight.load(Ordering::Relaxed) {
            executor::yield_now().await;
        }
        gate.pause();
        until_idle().await;
        assert_eq!(scene.peer.count("on_pause"), 0, "a delivery is in flight");
        scene.set_blocks(false);
        scene.until("on_pause", 1).await;
        scene.nothing_flows().await;
        gate.resume();
    });
}

/// An operator that buffers all events and emits them when its timer runs.
#[derive(Default)]
struct Later {
    events: Batch,
    buffered: Buffered,
}

impl Operator for Later {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.events.append(self.buffered.absorb_all(batch, output));
        Ok(())
    }

    fn due(&self) -> Option<u64> {
        (!self.buffered.is_empty()).then_some(0)
    }

    fn on_time(&mut self, _: u64, output: &mut Output) -> Result<()> {
        self.flush(output)
    }

    fn flush(&mut self, output: &mut Output) -> Result<()> {
        self.buffered.emit_events(output, Output::OUT, std::mem::take(&mut self.events));
        Ok(())
    }
}

#[test]
fn source_is_not_pulled_while_output_of_a_timer_is_blocked() {
    let scene = Scene::new();
    let later = |setup: Setup| {
        let setup = setup.operators("main", vec![Box::new(Later::default())]);
        setup.set("peer", |it| it.queue.max_events = NonZeroU64::new(1))
    };
    scene.run_with(later, async |gate| {
        scene.set_blocks(true);
        // The source is pulled until it has to wait.
        until_idle().await;
        gate.pause();
        scene.set_blocks(false);
        scene.until("on_pause", 1).await;
        scene.nothing_flows().await;
        gate.resume();
    });
}

#[test]
fn draining_flow_resumes_paused_connectors() {
    let scene = Scene::new();
    scene.run(async |gate| {
        gate.pause();
        scene.until("on_pause", 1).await;
    });
    assert!(scene.peer.calls().ends_with(&["on_pause", "on_resume", "close"]));
}

#[test]
fn pause_continues_after_a_lost_connection() {
    let scene = Scene::new();
    scene.run(async |gate| {
        gate.pause();
        scene.until("on_pause", 1).await;
        scene.peer.last_connection().break_off();
        scene.until("sink", 2).await;
        while scene.state() != State::Paused {
            executor::yield_now().await;
        }
        scene.nothing_flows().await;
        assert_eq!(
            scene.peer.count("on_pause"),
            1,
            "the connector is not notified of the pause again"
        );
        gate.resume();
        scene.until("on_resume", 1).await;
    });
}

#[test]
fn requested_restart_loses_no_event_and_is_not_a_failure() {
    let scene = Scene::new();
    scene.run(async |_| {
        let handle = scene.peer.control.connector("peer").unwrap();
        for round in 1..10 {
            handle.restart();
            scene.until("sink", round + 1).await;
            let before = scene.delivered();
            while scene.delivered() == before {
                executor::yield_now().await;
            }
            assert_eq!((scene.peer.count("close"), scene.state()), (round, State::Running));
        }
        assert_eq!(handle.status().restarts, 9);
    });
    assert_eq!((scene.peer.count("new"), scene.peer.count("close")), (10, 10));
}

#[test]
fn restart_repeats_the_delivery_in_flight_and_keeps_pause() {
    let scene = Scene::new();
    scene.run(async |gate| {
        let handle = scene.peer.control.connector("peer").unwrap();
        scene.set_blocks(true);
        while !scene.in_flight.load(Ordering::Relaxed) {
            executor::yield_now().await;
        }
        handle.restart();
        scene.until("sink", 2).await;
        let before = scene.delivered();
        scene.set_blocks(false);
        while scene.delivered() == before {
            executor::yield_now().await;
        }
        gate.pause();
        scene.until("on_pause", 1).await;
        handle.restart();
        scene.until("on_pause", 2).await;
        scene.nothing_flows().await;
        assert_eq!(scene.state(), State::Paused);
        gate.resume();
        scene.until("on_resume", 1).await;
    });
}
