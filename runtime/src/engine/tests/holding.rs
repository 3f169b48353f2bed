//! Sources that are not pulled for a while: a sink that they feed is down, or their connector is paused.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tremor_pdk::{Batch, Buffered, Error, Exception, Operator, Output, Pull, Result};

use super::{
    AT_ONCE, Harness, Setup, both,
    doubles::{Pulls, Takes, Taking},
    notices,
    peer::Peer,
    pulls, sorted,
};
use crate::{
    dynamic::{DynSink, DynSource},
    engine::{
        control::Phase,
        handle::{
            connection::{Connection, End},
            gate::Gate,
            status::State,
        },
        queue::Bounds,
        retry::{backoff::Policy, breaker::Outage},
        sink::retry::Retries,
    },
    executor::{self, block_on},
};

/// Several turns of all tasks.
async fn turns() {
    for _ in 0..100 {
        executor::yield_now().await;
    }
}

/// A sink that takes nothing until it is told to.
#[derive(Clone)]
struct Down {
    is_up: Arc<AtomicBool>,
    taking: Taking,
}

impl DynSink for Down {
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        if self.is_up.load(Ordering::Relaxed) {
            return self.taking.poll_deliver(context, slot, batch);
        }
        Poll::Ready(Err(Error::full("down")))
    }
}

#[test]
fn while_a_sink_takes_nothing_its_source_knows_and_is_not_pulled() {
    let Harness { mut source, mut sink, .. } = Setup::default().harness();
    sink.outage = Arc::new(Outage::new(vec![source.breaker.clone()]));
    let retry =
        Policy { first: Duration::from_millis(1), max: Duration::from_millis(1), ..AT_ONCE };
    sink.retries = Retries::new(retry, notices());
    let (double, takes) = (Pulls::numbers(50), Takes::of([]));
    let (breaker, heard) = (double.breaker.clone(), double.heard.clone());
    let brought = source.worker.router.stats.clone();
    let down = Down { is_up: Arc::default(), taking: Taking(takes.clone()) };
    let (is_up, connection) = (down.is_up.clone(), Arc::<Connection>::default());
    let sink_runs = async {
        let end = sink.run(Box::new(down), &connection).await;
        assert!(matches!(end, End::Finished), "{end:?}");
    };
    let source_runs = async {
        let end = source.run(Box::new(double), &Arc::default()).await;
        assert!(matches!(end, End::Finished), "{end:?}");
    };
    let rest = async {
        while breaker.lock().unwrap().is_empty() {
            executor::yield_now().await;
        }
        let before = brought.counts().taken;
        turns().await;
        assert!(before < 50 * 3, "the source is not through");
        assert_eq!(brought.counts().taken, before);
        is_up.store(true, Ordering::Relaxed);
    };
    block_on(both(both(sink_runs, source_runs), rest));
    assert_eq!(*breaker.lock().unwrap(), [true, false]);
    assert_eq!(takes.lock().unwrap().delivered.len(), 50);
    assert_eq!(sorted(&heard), pulls(50, true));
}

#[test]
fn a_sink_that_cannot_be_connected_is_down() {
    let Harness { mut sink, source, .. } = Setup::default().harness();
    let breaker = source.breaker.clone();
    sink.outage = Arc::new(Outage::new(vec![breaker.clone()]));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (shown, own) = (seen.clone(), breaker.clone());
    let taking = Taking(Takes::of([]));
    let peer = Arc::new(Peer::new(
        Box::new(|_| Err(Error::internal("no source"))),
        Box::new(move |_| {
            shown.lock().unwrap().push(own.is_open());
            Ok(Box::new(taking.clone()))
        }),
    ));
    *peer.connects.lock().unwrap() = [1, 2].map(|_| Err(Error::connection_refused("no"))).into();
    block_on(both(peer.task(None, Some(sink), AT_ONCE).run(), async {
        while peer.count("sink") == 0 || breaker.is_open() {
            executor::yield_now().await;
        }
        // Nothing comes any more.
        drop(source);
    }));
    assert_eq!(*seen.lock().unwrap(), [true], "it was down as long as no attempt had gone well");
    assert_eq!(peer.count("connect"), 3);
}

/// A source that always has something, one event a pull, until the flow drains.
#[derive(Clone, Default)]
struct Ticks {
    pulled: Arc<AtomicUsize>,
}

impl DynSource for Ticks {
    fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        self.pulled.fetch_add(1, Ordering::Relaxed);
        batch.push_message(b"1");
        Poll::Ready(Ok(Pull::Events))
    }

    fn give_up(&mut self, _: &mut Batch) {}
}

/// A sink whose deliveries wait as long as it is told.
struct Slow {
    holds: Arc<AtomicBool>,
    under_way: Arc<AtomicBool>,
    delivered: Arc<AtomicUsize>,
}

impl DynSink for Slow {
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        _: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        self.under_way.store(true, Ordering::Relaxed);
        if self.holds.load(Ordering::Relaxed) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.under_way.store(false, Ordering::Relaxed);
        self.delivered.fetch_add(batch.len(), Ordering::Relaxed);
        Poll::Ready(Ok(Vec::new()))
    }
}

/// A connector of both sides, linked to itself, and what is known of it from outside.
struct Scene {
    peer: Arc<Peer>,
    pulled: Arc<AtomicUsize>,
    delivered: Arc<AtomicUsize>,
    holds: Arc<AtomicBool>,
    under_way: Arc<AtomicBool>,
}

impl Scene {
    fn new() -> Self {
        let ticks = Ticks::default();
        let pulled = ticks.pulled.clone();
        let [holds, under_way] = [(); 2].map(|()| Arc::<AtomicBool>::default());
        let delivered = Arc::<AtomicUsize>::default();
        let (held, way, count) = (holds.clone(), under_way.clone(), delivered.clone());
        let peer = Peer::new(
            Box::new(move |_| Ok(Box::new(ticks.clone()))),
            Box::new(move |_| {
                let (holds, under_way) = (held.clone(), way.clone());
                Ok(Box::new(Slow { holds, under_way, delivered: count.clone() }))
            }),
        );
        Self { peer: Arc::new(peer), pulled, delivered, holds, under_way }
    }

    /// Runs the connector beside `work`, which has its gate.
    fn run(&self, work: impl AsyncFnOnce(&Gate)) {
        self.run_with(Setup::default(), work);
    }

    fn run_with(&self, setup: Setup, work: impl AsyncFnOnce(&Gate)) {
        let task = self.peer.both_sides(setup.harness(), AT_ONCE);
        let handle = self.peer.control.connector("peer").unwrap();
        block_on(both(task.run(), async {
            while self.delivered() == 0 {
                executor::yield_now().await;
            }
            work(&handle.gate).await;
            self.peer.control.advance(Phase::Draining);
        }));
        assert!(self.peer.control.failure().is_none(), "{:?}", self.peer.control.failure());
        assert_eq!(self.state(), State::Stopped);
        assert_eq!(self.pulled.load(Ordering::Relaxed), self.delivered(), "nothing was lost");
        // An instance may be replaced while it is paused.
        let replaced = self.peer.count("new") - 1;
        assert!(self.peer.count("on_pause") - self.peer.count("on_resume") <= replaced);
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

    /// What has happened stays as it is.
    async fn nothing_flows(&self) {
        let before = (self.pulled.load(Ordering::Relaxed), self.delivered());
        turns().await;
        assert_eq!((self.pulled.load(Ordering::Relaxed), self.delivered()), before);
        assert!(!self.under_way.load(Ordering::Relaxed));
    }
}

#[test]
fn no_event_flows_from_a_pause_until_it_is_resumed() {
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
        // One that is taken back at once is no pause.
        gate.pause();
        gate.resume();
        let before = scene.delivered();
        while scene.delivered() == before {
            executor::yield_now().await;
        }
    });
    assert_eq!(scene.peer.count("on_pause"), 3);
}

#[test]
fn a_connector_is_paused_once_its_sink_has_answered() {
    let scene = Scene::new();
    scene.run(async |gate| {
        scene.holds.store(true, Ordering::Relaxed);
        while !scene.under_way.load(Ordering::Relaxed) {
            executor::yield_now().await;
        }
        gate.pause();
        turns().await;
        assert_eq!(scene.peer.count("on_pause"), 0, "a delivery is under way");
        scene.holds.store(false, Ordering::Relaxed);
        scene.until("on_pause", 1).await;
        scene.nothing_flows().await;
        gate.resume();
    });
}

/// An operator that emits at the next time what it has buffered.
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
fn a_source_rests_where_what_an_operator_puts_out_in_time_finds_no_room() {
    let scene = Scene::new();
    let bounds = Bounds { events: 1, ..Bounds::default() };
    let setup = Setup { bounds, operators: vec![Box::new(Later::default())], ..Setup::default() };
    scene.run_with(setup, async |gate| {
        scene.holds.store(true, Ordering::Relaxed);
        let mut before = usize::MAX;
        // It pulls again and again unless it waits.
        while std::mem::replace(&mut before, scene.pulled.load(Ordering::Relaxed)) != before {
            turns().await;
        }
        gate.pause();
        scene.holds.store(false, Ordering::Relaxed);
        scene.until("on_pause", 1).await;
        scene.nothing_flows().await;
        gate.resume();
    });
}

#[test]
fn a_flow_that_drains_resumes_what_is_paused() {
    let scene = Scene::new();
    scene.run(async |gate| {
        gate.pause();
        scene.until("on_pause", 1).await;
    });
    assert!(scene.peer.calls().ends_with(&["on_pause", "on_resume", "close"]));
}

#[test]
fn a_pause_lasts_through_a_lost_connection() {
    let scene = Scene::new();
    scene.run(async |gate| {
        gate.pause();
        scene.until("on_pause", 1).await;
        scene.peer.last_connection().break_off();
        scene.until("sink", 2).await;
        scene.nothing_flows().await;
        assert_eq!((scene.peer.count("on_pause"), scene.state()), (1, State::Paused), "it knows");
        gate.resume();
        scene.until("on_resume", 1).await;
    });
}

#[test]
fn a_connector_that_is_restarted_from_outside_loses_nothing_and_has_not_failed() {
    let scene = Scene::new();
    scene.run(async |_| {
        let handle = scene.peer.control.connector("peer").unwrap();
        for round in 1..10 {
            handle.restart();
            let before = scene.delivered();
            scene.until("sink", round + 1).await;
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
fn a_delivery_under_way_is_made_again_by_the_next_instance_and_a_pause_lasts() {
    let scene = Scene::new();
    scene.run(async |gate| {
        let handle = scene.peer.control.connector("peer").unwrap();
        scene.holds.store(true, Ordering::Relaxed);
        while !scene.under_way.load(Ordering::Relaxed) {
            executor::yield_now().await;
        }
        handle.restart();
        scene.until("sink", 2).await;
        let before = scene.delivered();
        scene.holds.store(false, Ordering::Relaxed);
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
