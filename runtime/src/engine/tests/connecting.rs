//! Connectors that lose their connections or cannot connect.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tremor_pdk::{Batch, Error, Exception, Pull, Result, Sides};

use super::{
    AT_ONCE, LONG, attempts,
    doubles::{Gated, Pulls, ScriptedSink, SinkScript},
    peer::{Peer, Script},
    pulls, settled, sorted,
};
use crate::{
    clock::Clock,
    dynamic::{DynSink, DynSource},
    engine::{
        control::{Control, Phase},
        tracking::stats::Counts,
    },
    executor::{self, alone::until_idle},
    flow,
};

fn lost<T>() -> Result<T> {
    Err(Error::connection_lost("gone"))
}

/// Runs a connector that is only a source, and a scripted sink that receives its events.
fn run(peer: &Arc<Peer>, reconnect: flow::Retry) -> Counts {
    settled(&peer.source(reconnect).plan().run_with(async {}).components)
}

/// Runs a connector whose source feeds its own sink.
fn run_both(peer: Peer, reconnect: flow::Retry) -> Arc<Peer> {
    let peer = Arc::new(peer);
    let setup = peer.flow("peer -> main -> peer").set("peer", |it| it.reconnect = reconnect);
    setup.plan().run_with(async {});
    peer
}

/// Creates a peer with a source and a sink. The source reads three events in each of `pulls` pulls, and can be created
/// only once. The sink answers no delivery before the source has ended.
fn both_sides(
    pulls: usize,
    script: impl IntoIterator<Item = Result<Vec<Exception>>>,
) -> (Peer, Pulls, ScriptedSink) {
    let (pulls, scripted) = (Pulls::numbers(pulls), ScriptedSink(SinkScript::of(script)));
    let (source, sink, ended) = (Mutex::new(Some(pulls.clone())), scripted.clone(), &pulls.ended);
    let make_source = move |_: &_| match source.lock().unwrap().take() {
        Some(source) => Ok(Box::new(source) as _),
        None => Err(Error::internal("the source had ended")),
    };
    let ended = ended.clone();
    let make_sink =
        move |_: &_| Ok(Box::new(Gated { scripted: sink.clone(), is_open: ended.clone() }) as _);
    (Peer::new(Box::new(make_source), Box::new(make_sink)), pulls, scripted)
}

/// A sink that drains the flow with its first batch, and loses its connection once the source has ended.
struct Drains {
    control: Arc<Control>,
    ended: Arc<AtomicBool>,
}

impl DynSink for Drains {
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        _: usize,
        _: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        self.control.advance(Phase::Draining);
        if self.ended.load(Ordering::Relaxed) {
            return Poll::Ready(lost());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[test]
fn own_sink_of_a_draining_source_is_reconnected() {
    let (mut peer, mut source, sink) = both_sides(1, []);
    // Without `until`, the source would end after its pull instead of waiting until it is drained.
    source.until = Some(Arc::default());
    let (given, control, ended) = (source.clone(), peer.control.clone(), source.ended.clone());
    peer.source = Box::new(move |_| Ok(Box::new(given.clone())));
    let (scripted, first) = (sink.clone(), AtomicUsize::default());
    peer.sink = Box::new(move |_| match first.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(Box::new(Drains { control: control.clone(), ended: ended.clone() })),
        _ => Ok(Box::new(scripted.clone())),
    });
    let peer = run_both(peer, AT_ONCE);
    assert_eq!(sink.0.lock().unwrap().delivered.concat(), ["0", "1", "2"]);
    assert_eq!(sorted(&source.reports), pulls(1, true));
    assert_eq!((peer.count("connect"), peer.count("source")), (2, 1));
}

#[test]
fn own_sink_of_a_source_that_awaits_other_sinks_is_reconnected() {
    let (mut peer, source, sink) = both_sides(2, []);
    let sources = Mutex::new(vec![source.clone(), Pulls::numbers(0)]);
    peer.source = Box::new(move |_| Ok(Box::new(sources.lock().unwrap().pop().unwrap())));
    let connections = AtomicUsize::default();
    peer.sink = Box::new(move |connection| {
        if connections.fetch_add(1, Ordering::Relaxed) == 0 {
            connection.break_off();
        }
        Ok(Box::new(sink.clone()))
    });
    let peer = Arc::new(peer);
    // The source also feeds another sink, which becomes ready only after the second connection of this connector.
    let (own, scripted) = (peer.clone(), ScriptedSink(SinkScript::of([])));
    let other = Arc::new(Peer::of_sink(Box::new(move |_| match own.count("sink") {
        0 | 1 => lost(),
        _ => Ok(Box::new(scripted.clone())),
    })));
    let setup = peer.flow("peer -> main -> peer, main -> sink").connect("sink", &other);
    // Attempts without waits would take the only thread.
    let wait = Some(Duration::from_millis(1));
    let retry = flow::Retry { attempts: None, backoff: wait, max_backoff: wait };
    setup.set("sink", |it| it.reconnect = retry).plan().run_with(async {});
    assert_eq!(sorted(&source.reports), pulls(2, true));
    assert_eq!(peer.count("connect"), 2);
}

#[test]
fn acknowledgement_that_a_source_rejects_fails_the_connector() {
    let (mut peer, source, _) = both_sides(2, []);
    let source = Pulls { rejects_acks: true, ..source };
    peer.source = Box::new(move |_| Ok(Box::new(source.clone())));
    let peer = run_both(peer, AT_ONCE);
    let failure = peer.control.failure().unwrap().error.to_string();
    assert!(failure.contains("no acknowledgements"), "{failure}");
    assert_eq!(peer.count("connect"), 1, "the connector does not reconnect");
}

#[test]
fn refused_and_lost_connections_count_as_attempts_together() {
    let peer = Script::of(std::iter::repeat_n(lost(), 100)).peer();
    let refused = || Err(Error::connection_refused("nobody there"));
    *peer.connects.lock().unwrap() = [Ok(()), refused(), refused()].into();
    run(&peer, attempts(2));
    assert_eq!(peer.count("connect"), 3);
    assert_eq!(peer.count("source"), 1);
}

#[test]
fn received_event_resets_the_attempts_to_connect() {
    let peer = Script::of((0..200).map(|pull| if pull % 2 == 0 { Ok("0") } else { lost() })).peer();
    assert_eq!(run(&peer, attempts(0)).events_out, 100);
    assert!(peer.control.failure().is_none());
    assert_eq!(peer.count("connect"), 101);
}

#[test]
fn delivered_event_resets_the_attempts_to_connect() {
    let each = |pull| if pull % 2 == 0 { Ok(Vec::new()) } else { lost() };
    // Deliveries of a lost connection are repeated on the next one.
    let (peer, _, sink) = both_sides(10, (0..20).map(each));
    let peer = run_both(peer, attempts(0));
    assert!(peer.control.failure().is_none(), "{:?}", peer.control.failure());
    assert_eq!(sink.0.lock().unwrap().delivered.len(), 10);
}

/// A source whose pulls take the time `lasts`.
struct Lasting {
    script: Script,
    clock: Clock,
    lasts: Duration,
}

impl DynSource for Lasting {
    fn poll_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        self.clock.advance(self.lasts);
        self.script.poll_pull(context, batch)
    }

    fn give_up(&mut self, _: &mut Batch) {}
}

/// A connection counts as long if it lasts longer than the maximum wait, which is a second here.
#[test]
fn long_connection_resets_the_attempts_to_connect() {
    let limit = Duration::from_secs(1);
    for (lasts, connects) in [(limit + Duration::from_nanos(1), 101), (limit, 1)] {
        let script = Script::of(std::iter::repeat_n(lost(), 100));
        let mut peer = Peer::of_source(Box::new(|_| lost()));
        let clock = peer.control.clock().clone();
        peer.source = Box::new(move |_| {
            let (script, clock) = (script.clone(), clock.clone());
            Ok(Box::new(Lasting { script, clock, lasts }))
        });
        let peer = Arc::new(peer);
        run(&peer, flow::Retry { max_backoff: Some(limit), ..attempts(0) });
        assert_eq!(peer.control.failure().is_none(), connects > 1);
        assert_eq!(peer.count("connect"), connects);
    }
}

#[test]
fn missing_half_fails_the_connector_at_once() {
    let mut peer = Peer::of_source(Box::new(|_| Ok(Box::new(Script::default()))));
    peer.sides = Sides::SINK;
    let peer = Arc::new(peer);
    run(&peer, AT_ONCE);
    let failure = peer.control.failure().unwrap().error.to_string();
    assert!(
        failure.contains("`connect` returned no source, although `sides` names it"),
        "{failure}"
    );
    assert_eq!(peer.count("connect"), 1);
}

#[test]
fn connect_that_cannot_make_a_half_is_retried() {
    let failures = AtomicUsize::default();
    let peer = Arc::new(Peer::of_source(Box::new(move |_| {
        match failures.fetch_add(1, Ordering::Relaxed) {
            0..20 => lost(),
            _ => Ok(Box::new(Script::default())),
        }
    })));
    run(&peer, AT_ONCE);
    assert!(peer.control.failure().is_none(), "{:?}", peer.control.failure());
    assert_eq!(peer.count("connect"), 21);
}

#[test]
fn lost_connection_is_followed_by_a_wait() {
    let peer = Script::of([lost()]).peer();
    peer.source(LONG).plan().run_with(async {
        while peer.control.connector("peer").unwrap().status().error.is_none() {
            executor::yield_now().await;
        }
        peer.control.advance(Phase::Stopped);
    });
    assert_eq!(peer.count("connect"), 1);
    assert!(peer.calls().ends_with(&["close"]), "the end of the flow ends the wait");
}

#[test]
fn lost_connections_leave_no_waker_behind() {
    const LOST: usize = 10_000;
    let peer = Script::of(std::iter::repeat_n(lost(), LOST)).peer();
    run(&peer, AT_ONCE);
    assert_eq!(peer.count("connect"), LOST + 1);
    // The number of tasks that wait at a call of the connector does not grow with the lost connections.
    let most = peer.most_waiting.load(Ordering::Relaxed);
    assert_eq!(most, 2, "wakers");
}

/// A sink that never answers.
struct Never;

impl DynSink for Never {
    fn poll_deliver(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        _: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        Poll::Pending
    }
}

/// The source and the sink belong to the same connector.
#[test]
fn lost_connections_do_not_overfill_the_connectors_own_queue() {
    let (mut peer, _, _) = both_sides(0, []);
    peer.source = Box::new(|_| Ok(Box::new(Pulls::numbers(1_000))));
    let (connected, connections) = async_channel::unbounded();
    peer.sink = Box::new(move |connection| {
        connected.try_send(connection.clone()).map_err(Error::internal)?;
        Ok(Box::new(Never))
    });
    let peer = Arc::new(peer);
    let planned = peer.flow("peer -> main -> peer").plan();
    let source = planned.tasks.connectors[0].source.as_ref().unwrap();
    let stats = source.worker.router.stats.clone();
    let taken = || stats.counts().taken;
    planned.run_with(async {
        while taken() < 256 {
            executor::yield_now().await;
        }
        let mut connection = connections.recv().await.unwrap();
        // Each loss takes a long time of the clock, because the source waits for capacity of the full queue.
        for _ in 0..4 {
            connection.break_off();
            connection = connections.recv().await.unwrap();
            // If the source pulled again, it would do so before all tasks wait.
            until_idle().await;
        }
        peer.control.advance(Phase::Stopped);
    });
    // The queue contains 258 events, and one batch of three events has not reached it.
    assert_eq!(taken(), 261, "events with a queue limit of 256");
}
