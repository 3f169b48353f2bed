//! Connectors whose connections are lost.

use std::{
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tremor_pdk::{Batch, Error, Exception, Result, Sides};

use super::{
    AT_ONCE, Harness, Setup, both,
    doubles::{Held, Pulls, Takes, Taking},
    lines::lines,
    peer::{Peer, Script, attempts},
    pulls, settled, sorted,
};
use crate::{
    dynamic::DynSink,
    engine::{
        account::stats::Counts,
        control::{Control, Phase},
        handle::ConnectorHandle,
        retry::backoff::Policy,
    },
    executor::{self, block_on},
};

fn lost<T>() -> Result<T> {
    Err(Error::connection_lost("gone"))
}

/// Runs a connector that is only a source; what it sends, a sink of doubles takes.
fn run(peer: &Arc<Peer>, policy: Policy) -> Counts {
    let Harness { source, mut sink, books, .. } = Setup::default().harness();
    let connector = peer.task(Some(source), None, policy);
    block_on(both(connector.run(), async {
        let taking = Box::new(Taking(Takes::of([])));
        sink.run(taking, &Arc::default()).await;
    }));
    settled(&books)
}

/// A source that brings so many times three events, once, and a sink that takes them once it has ended.
fn both_sides(
    pulls: usize,
    takes: impl IntoIterator<Item = Result<Vec<Exception>>>,
) -> (Peer, Pulls, Taking) {
    let (pulls, taking) = (Pulls::numbers(pulls), Taking(Takes::of(takes)));
    let (source, sink, ended) = (Mutex::new(Some(pulls.clone())), taking.clone(), &pulls.ended);
    let make_source = move |_: &_| match source.lock().unwrap().take() {
        Some(source) => Ok(Box::new(source) as _),
        None => Err(Error::internal("the source had ended")),
    };
    let ended = ended.clone();
    let make_sink =
        move |_: &_| Ok(Box::new(Held { taking: sink.clone(), may: ended.clone() }) as _);
    (Peer::new(Box::new(make_source), Box::new(make_sink)), pulls, taking)
}

const SIX: [&str; 6] = ["0", "1", "2", "3", "4", "5"];

#[test]
fn a_source_that_has_ended_does_not_keep_its_own_sink_from_being_connected_again() {
    let (peer, source, sink) = both_sides(2, [lost(), lost(), Ok(Vec::new()), lost()]);
    let (peer, harness) = (Arc::new(peer), Setup::default().harness());
    block_on(peer.both_sides(harness, AT_ONCE).run());
    assert_eq!(sink.0.lock().unwrap().delivered.concat(), SIX);
    assert_eq!(sorted(&source.heard), pulls(2, true), "it has heard of its acknowledgements");
    assert!(peer.control.failure().is_none());
    assert_eq!((peer.count("connect"), peer.count("source")), (4, 1));
    assert!(peer.calls().ends_with(&["close"]));
}

/// A sink that drains the flow with its first batch, and loses its connection when the source has
/// noticed.
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
fn a_source_that_drains_does_not_keep_its_own_sink_from_being_connected_again() {
    let (mut peer, mut source, sink) = both_sides(1, []);
    // It would bring more some day.
    source.until = Some(Arc::default());
    let (given, control, ended) = (source.clone(), peer.control.clone(), source.ended.clone());
    peer.source = Box::new(move |_| Ok(Box::new(given.clone())));
    let (taking, first) = (sink.clone(), AtomicUsize::default());
    peer.sink = Box::new(move |_| match first.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(Box::new(Drains { control: control.clone(), ended: ended.clone() })),
        _ => Ok(Box::new(taking.clone())),
    });
    let (peer, harness) = (Arc::new(peer), Setup::default().harness());
    block_on(peer.both_sides(harness, AT_ONCE).run());
    assert_eq!(sink.0.lock().unwrap().delivered.concat(), SIX[..3]);
    assert_eq!(sorted(&source.heard), pulls(1, true));
    assert_eq!((peer.count("connect"), peer.count("source")), (2, 1));
}

#[test]
fn a_source_that_waits_for_other_sinks_does_not_keep_its_own_from_being_connected_again() {
    let (mut peer, source, sink) = both_sides(2, []);
    // There is another one, which is connected with the second connection of this one.
    let control = Arc::new(Control::new());
    let other = Arc::new(ConnectorHandle::new("other".into(), None));
    control.add_sink(1, other, vec![(0, "peer".to_owned())], Weak::new());
    peer.control = control.clone();
    let sources = Mutex::new(vec![source.clone(), Pulls::numbers(0)]);
    peer.source = Box::new(move |_| Ok(Box::new(sources.lock().unwrap().pop().unwrap())));
    let connections = AtomicUsize::default();
    peer.sink = Box::new(move |connection| {
        match connections.fetch_add(1, Ordering::Relaxed) {
            0 => connection.break_off(),
            _ => control.sink_ready("other"),
        }
        Ok(Box::new(sink.clone()))
    });
    let (peer, harness) = (Arc::new(peer), Setup::default().harness());
    block_on(peer.both_sides(harness, AT_ONCE).run());
    assert_eq!(sorted(&source.heard), pulls(2, true));
    assert_eq!(peer.count("connect"), 2);
}

#[test]
fn an_acknowledgement_that_a_source_cannot_take_any_more_fails_the_connector() {
    let (mut peer, source, _) = both_sides(2, []);
    let source = Pulls { deaf: true, ..source };
    peer.source = Box::new(move |_| Ok(Box::new(source.clone())));
    let (peer, harness) = (Arc::new(peer), Setup::default().harness());
    block_on(peer.both_sides(harness, AT_ONCE).run());
    let failure = peer.control.failure().unwrap().error.to_string();
    assert!(failure.contains("deaf"), "{failure}");
    assert_eq!(peer.count("connect"), 1, "another connection does not mend it");
}

#[test]
fn lost_connections_that_were_of_no_use_are_attempts_that_have_failed() {
    for allowed in [0, 3] {
        let peer = Script::of(std::iter::repeat_n(lost(), 100)).peer();
        run(&peer, attempts(allowed));
        assert_eq!(peer.count("connect") as u64, allowed + 1);
        let failure = peer.control.failure().unwrap().error.to_string();
        let attempts = if allowed == 0 { "after 1 attempt:" } else { "after 4 attempts:" };
        assert!(failure.contains(attempts) && failure.ends_with("gone"), "{failure}");
    }
    // Those that could not be made are of the same kind.
    let peer = Script::of(std::iter::repeat_n(lost(), 100)).peer();
    let refused = || Err(Error::connection_refused("nobody there"));
    *peer.connects.lock().unwrap() = [Ok(()), refused(), refused()].into();
    run(&peer, attempts(2));
    assert_eq!(peer.count("connect"), 3);
    assert_eq!(peer.count("source"), 1);
}

#[test]
fn attempts_begin_again_after_an_event_that_came() {
    let peer = Script::of((0..200).map(|pull| if pull % 2 == 0 { Ok("0") } else { lost() })).peer();
    assert_eq!(run(&peer, attempts(0)).events_out, 100);
    assert!(peer.control.failure().is_none());
    assert_eq!(peer.count("connect"), 101);
}

#[test]
fn attempts_begin_again_after_an_event_that_was_delivered() {
    let each = |pull| if pull % 2 == 0 { Ok(Vec::new()) } else { lost() };
    // Those that a lost connection had are delivered again on the next.
    let (peer, _, sink) = both_sides(10, (0..20).map(each));
    let (peer, harness) = (Arc::new(peer), Setup::default().harness());
    block_on(peer.both_sides(harness, attempts(0)).run());
    assert!(peer.control.failure().is_none(), "{:?}", peer.control.failure());
    assert_eq!(sink.0.lock().unwrap().delivered.len(), 10);
}

#[test]
fn attempts_begin_again_after_a_connection_that_has_lasted() {
    let peer = Script::of(std::iter::repeat_n(lost(), 100)).peer();
    // Whatever lasts at all has lasted longer than this.
    run(&peer, Policy { max: Duration::ZERO, ..attempts(0) });
    assert!(peer.control.failure().is_none());
    assert_eq!(peer.count("connect"), 101);
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
fn a_lost_connection_is_not_made_again_at_once() {
    let peer = Script::of([lost()]).peer();
    let Harness { source, .. } = Setup::default().harness();
    // Any time up to this is long.
    let policy = Policy { first: Duration::from_secs(1 << 40), ..AT_ONCE };
    let connector = peer.task(Some(source), None, policy);
    block_on(both(connector.run(), async {
        while peer.control.connector("peer").unwrap().status().error.is_none() {
            executor::yield_now().await;
        }
        peer.control.advance(Phase::Stopped);
    }));
    assert_eq!(peer.count("connect"), 1);
    assert!(peer.calls().ends_with(&["close"]), "a wait ends with the flow");
}

#[test]
fn ten_thousand_lost_connections_leave_nothing_behind_and_few_lines() {
    const LOST: usize = 10_000;
    let peer = Script::of(std::iter::repeat_n(lost(), LOST)).peer();
    let lines = lines("peer", || _ = run(&peer, AT_ONCE));
    assert_eq!(peer.count("connect"), LOST + 1);
    // Its own task, its source and the sink of the doubles.
    let most = peer.most_waiting.load(Ordering::Relaxed);
    assert!(most <= 3, "{most} wakers");
    // The last says how many were left out.
    assert!(lines <= 11, "{lines} lines");
}

/// A sink that takes nothing.
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

#[test]
fn what_a_source_brings_with_each_lost_connection_does_not_fill_the_queue_of_its_own_sink() {
    let (mut peer, _, _) = both_sides(0, []);
    peer.source = Box::new(|_| Ok(Box::new(Pulls::numbers(1_000))));
    let connected = Arc::new(Mutex::new(None));
    let shown = connected.clone();
    peer.sink = Box::new(move |connection| {
        *shown.lock().unwrap() = Some(connection.clone());
        Ok(Box::new(Never))
    });
    let (peer, harness) = (Arc::new(peer), Setup::default().harness());
    let stats = harness.source.worker.router.stats.clone();
    let brought = || stats.counts().taken;
    block_on(both(peer.both_sides(harness, AT_ONCE).run(), async {
        while brought() < 256 {
            executor::yield_now().await;
        }
        for connections in 2..20 {
            connected.lock().unwrap().take().unwrap().break_off();
            while peer.count("sink") < connections {
                executor::yield_now().await;
            }
            // Time for the source, were it to bring something.
            for _ in 0..1_000 {
                executor::yield_now().await;
            }
        }
        peer.control.advance(Phase::Stopped);
    }));
    // The queue is full with 258, the sink has a batch, and the source had one.
    assert!(brought() <= 264, "{} in a queue that takes 256", brought());
}
