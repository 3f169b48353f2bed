//! Links that change while their flow runs.

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use tremor_pdk::Error;

use super::{
    AT_ONCE, LONG, Setup, attempts,
    doubles::{Fives, Pulls, ScriptedSink, SinkScript},
    peer::Peer,
    pulls,
    replacing::{Silent, until},
    settled, sorted,
};
use crate::{
    engine::{
        ComponentCounts, FlowHandle, Kind, Planned, Relinking, Remainder, Report, exchange,
        handle::status::State,
    },
    flow::Flow,
};

/// Time that a removed sink has to deliver what it has.
const DEADLINE: Duration = Duration::from_secs(10);

/// A flow from `source` that is going to get other links.
struct Scene {
    source: Arc<Peer>,
    pulls: Pulls,
    sink: ScriptedSink,
}

impl Scene {
    /// Creates the flow for a source with this number of pulls of three events, after the first of which it is idle for a
    /// minute.
    fn idle(count: usize) -> Self {
        let pulls = Pulls { rest: Some(Duration::from_mins(1)), ..Pulls::numbers(count) };
        Self::of(pulls)
    }

    fn of(pulls: Pulls) -> Self {
        let given = pulls.clone();
        let source = Arc::new(Peer::of_source(Box::new(move |_| Ok(Box::new(given.clone())))));
        Self { source, pulls, sink: ScriptedSink(SinkScript::of([])) }
    }

    /// Returns a flow with these links. A single pull fills the queue of `peer`.
    fn setup(&self, links: &str) -> Setup {
        let setup = Setup::of(links).set("peer", |it| it.queue.max_events = NonZeroU64::new(1));
        setup.connect("source", &self.source).connect("sink", &self.sink.peer())
    }

    /// Returns all events of the source.
    fn events(&self) -> Vec<String> {
        (0..3 * self.pulls.left.len()).map(|number| number.to_string()).collect()
    }

    /// Checks that `sink` has delivered every event once, and that the source has noticed nothing.
    fn check(&self, report: &Report) {
        assert!(report.failure.is_none(), "{:?}", report.failure);
        assert_eq!(delivered(&self.sink), self.events());
        assert_eq!(sorted(&self.pulls.reports), pulls(self.pulls.left.len() as u64, true));
        assert_eq!(self.source.count("connect"), 1, "the source keeps its connection");
        settled(&report.components);
    }
}

fn delivered(sink: &ScriptedSink) -> Vec<String> {
    sink.0.lock().unwrap().delivered.concat()
}

fn counts(report: &Report, component: &str, kind: Kind) -> ComponentCounts {
    let mut components = report.components.iter();
    components.find(|it| it.name == component && it.kind == kind).unwrap().counts
}

/// Plans the change of a flow from `before` to `next`.
fn plan(handle: &FlowHandle, before: &Flow, next: Setup) -> Relinking {
    let Setup { flow, doubles, .. } = next;
    assert_eq!(handle.link_obstacle(&flow, before, &doubles), None);
    let trial = Setup::of("source -> sink");
    let peer = ScriptedSink(SinkScript::of([])).peer();
    let trial = trial.connect("peer", &peer).connect("letters", &peer);
    let trial = trial.operators("late", vec![Box::new(Fives::default())]).doubles;
    handle.relinking((&flow, before), (&trial, &doubles), &|| true).unwrap()
}

/// Completes a change of a flow. Returns what the removed sinks have left.
async fn complete(handle: &FlowHandle, mut relinking: Relinking) -> Vec<Remainder> {
    relinking.start();
    until(&handle.control, || relinking.are_tried()).await;
    assert!(relinking.failures().is_empty());
    exchange(relinking.take_exchanges()).await;
    remove(handle, relinking).await
}

/// Removes the connectors that leave, after the links were exchanged. Returns what they have left.
pub(super) async fn remove(handle: &FlowHandle, relinking: Relinking) -> Vec<Remainder> {
    let clock = handle.control.clock();
    let (mut removal, begun) = (relinking.complete(), clock.now());
    while !removal.advance(clock.elapsed(begun), DEADLINE) {
        clock.sleep(Duration::from_millis(10)).await;
    }
    removal.finish()
}

async fn until_full(handle: &FlowHandle, sink: &str) {
    let control = &handle.control;
    let is_full =
        || control.waits().iter().any(|(_, it)| it.sink == sink && it.reason == "queue full");
    until(control, is_full).await;
}

fn plan_flow(setup: Setup) -> (Planned, Flow) {
    let flow = setup.flow.clone();
    (setup.plan(), flow)
}

fn names(handle: &FlowHandle) -> Vec<String> {
    handle.status().connectors.into_iter().map(|it| it.connector).collect()
}

#[test]
fn sink_with_full_queue_is_removed_while_source_waits() {
    let scene = Scene::of(Pulls::numbers(20));
    let silent = Silent::new();
    let before = scene.setup("source -> sink, source -> peer").connect("peer", &silent.peer());
    let (planned, before) = plan_flow(before);
    let next = scene.setup("source -> sink");
    let report = planned.run_beside(async |handle| {
        until_full(&handle, "peer").await;
        let relinking = plan(&handle, &before, next);
        let left = complete(&handle, relinking).await;
        let Some(Remainder { lost: lost @ 1.., stored: None, has_ended: true, .. }) = left.first()
        else {
            panic!("{left:?}")
        };
        assert!(*lost < 30, "the source was interrupted, and not the sink filled: {lost}");
        assert_eq!(names(&handle), ["source", "sink"]);
        assert_eq!(handle.memory().status().components.len(), 2);
    });
    scene.check(&report);
    let peer = counts(&report, "peer", Kind::Sink);
    assert_eq!((peer.failed, peer.undelivered), (peer.taken, peer.taken));
}

/// The second begins when the connection is lost, and what the sink gives up is part of what it has left.
#[test]
fn removed_sink_that_loses_its_connection_has_a_second() {
    let scene = Scene::of(Pulls::numbers(20));
    let silent = Silent::new().peer();
    silent.connects.lock().unwrap().extend([Ok(()), Err(Error::connection_lost("gone"))]);
    let before = scene.setup("source -> sink, source -> peer").connect("peer", &silent);
    let (planned, before) = plan_flow(before.set("peer", |it| it.reconnect = LONG));
    let next = scene.setup("source -> sink");
    let report = planned.run_beside(async |handle| {
        until_full(&handle, "peer").await;
        let mut relinking = plan(&handle, &before, next);
        relinking.start();
        exchange(relinking.take_exchanges()).await;
        let (clock, peer) = (handle.control.clock(), handle.control.connector("peer").unwrap());
        let (mut removal, begun) = (relinking.complete(), clock.now());
        let mut lost_at = None;
        while !removal.advance(clock.elapsed(begun), DEADLINE) {
            if lost_at.is_none() && clock.elapsed(begun) >= DEADLINE / 2 {
                peer.restart();
                lost_at = Some(clock.now());
            }
            clock.sleep(Duration::from_millis(10)).await;
        }
        let took = clock.elapsed(lost_at.unwrap());
        assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(2), "{took:?}");
        let left = removal.finish();
        assert!(left[0].has_ended && left[0].lost > 0, "{left:?}");
    });
    scene.check(&report);
    let peer = counts(&report, "peer", Kind::Sink);
    assert_eq!((peer.failed, peer.undelivered), (peer.taken, peer.taken));
}

#[test]
fn removed_sink_that_is_down_has_a_second() {
    let scene = Scene::idle(20);
    let down = ScriptedSink(SinkScript::of([])).peer();
    down.connects.lock().unwrap().extend([Ok(()), Err(Error::connection_lost("gone"))]);
    let before = scene.setup("source -> sink, source -> peer").connect("peer", &down);
    let before = before.set("peer", |it| it.reconnect = LONG);
    let (planned, before) = plan_flow(before);
    let next = scene.setup("source -> sink");
    let report = planned.run_beside(async |handle| {
        let peer = handle.control.connector("peer").unwrap();
        until(&handle.control, || peer.status().state == State::Running).await;
        peer.restart();
        until(&handle.control, || peer.status().state == State::Connecting).await;
        let relinking = plan(&handle, &before, next);
        let begun = handle.control.clock().now();
        complete(&handle, relinking).await;
        let took = handle.control.clock().elapsed(begun);
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert_eq!(names(&handle), ["source", "sink"]);
    });
    scene.check(&report);
}

#[test]
fn undelivered_events_of_removed_sink_go_to_err() {
    let scene = Scene::of(Pulls::numbers(20));
    let (silent, letters) = (Silent::new(), ScriptedSink(SinkScript::of([])));
    let links = "source -> sink, source -> peer, source/err -> letters, peer/err -> letters";
    let before = scene.setup(links).connect("peer", &silent.peer());
    let (planned, before) = plan_flow(before.connect("letters", &letters.peer()));
    let next = scene.setup("source -> sink, source/err -> letters");
    let report = planned.run_beside(async |handle| {
        until_full(&handle, "peer").await;
        let relinking = plan(&handle, &before, next);
        let left = complete(&handle, relinking).await;
        assert_eq!((left[0].lost, left[0].has_ended), (0, true));
    });
    scene.check(&report);
    let passed_on = delivered(&letters);
    assert_eq!(passed_on, scene.events()[..passed_on.len()]);
    let peer = counts(&report, "peer", Kind::Sink);
    assert_eq!((peer.dead_lettered, peer.failed), (passed_on.len() as u64, 0));
}

#[test]
fn added_sink_gets_events_after_the_cut() {
    let scene = Scene::idle(20);
    let added = ScriptedSink(SinkScript::of([]));
    let (planned, before) = plan_flow(scene.setup("source -> sink"));
    let next = scene.setup("source -> sink, source -> peer").connect("peer", &added.peer());
    let report = planned.run_beside(async |handle| {
        until(&handle.control, || !delivered(&scene.sink).is_empty()).await;
        let relinking = plan(&handle, &before, next);
        assert!(complete(&handle, relinking).await.is_empty());
        assert_eq!(names(&handle), ["source", "sink", "peer"]);
    });
    scene.check(&report);
    assert_eq!(delivered(&added), scene.events()[3..]);
}

#[test]
fn added_sink_that_fails_on_trial_leaves_again() {
    let scene = Scene::idle(20);
    let added = ScriptedSink(SinkScript::of([])).peer();
    added.connects.lock().unwrap().push_back(Err(Error::connection_lost("no")));
    let (planned, before) = plan_flow(scene.setup("source -> sink"));
    let next = scene.setup("source -> sink, source -> late -> peer").connect("peer", &added);
    let next = next.operators("late", vec![Box::new(Fives::default())]);
    let next = next.set("peer", |it| it.reconnect = attempts(0));
    let report = planned.run_beside(async |handle| {
        let components = || handle.status().components.len();
        let before_reload = components();
        let mut relinking = plan(&handle, &before, next);
        assert!(components() > before_reload);
        relinking.start();
        until(&handle.control, || !relinking.failures().is_empty()).await;
        drop(relinking);
        assert_eq!(
            (names(&handle), components()),
            (vec!["source".into(), "sink".into()], before_reload)
        );
    });
    scene.check(&report);
    assert!(added.calls().iter().all(|call| *call != "sink"));
}

#[test]
fn link_moves_from_one_sink_to_another() {
    let scene = Scene::idle(20);
    let [one, other] = [(); 2].map(|()| ScriptedSink(SinkScript::of([])));
    let links = |to: &str| {
        format!("source -> sink, source -> {to}, source/err -> letters, source/err -> peer")
    };
    let setup = |to: &str| {
        let setup = scene.setup(&links(to)).connect("peer", &one.peer());
        setup.connect("letters", &other.peer())
    };
    let (planned, before) = plan_flow(setup("peer"));
    let next = setup("letters");
    let report = planned.run_beside(async |handle| {
        until(&handle.control, || !delivered(&one).is_empty()).await;
        let relinking = plan(&handle, &before, next);
        assert!(complete(&handle, relinking).await.is_empty());
    });
    scene.check(&report);
    assert_eq!(delivered(&one), scene.events()[..3]);
    assert_eq!(delivered(&other), scene.events()[3..]);
}

#[test]
fn removed_operator_emits_what_it_buffers() {
    let scene = Scene::idle(4);
    let links = "source -> main -> sink";
    let before = scene.setup(links).operators("main", vec![Box::new(Fives::default())]);
    let (planned, before) = plan_flow(before);
    let next = scene.setup(links);
    let report = planned.run_beside(async |handle| {
        handle.control.clock().sleep(Duration::from_secs(1)).await;
        assert!(delivered(&scene.sink).is_empty());
        let relinking = plan(&handle, &before, next);
        complete(&handle, relinking).await;
        let first = || delivered(&scene.sink) == scene.events()[..3];
        until(&handle.control, first).await;
    });
    scene.check(&report);
}

#[test]
fn equal_operator_keeps_its_state() {
    let scene = Scene::idle(5);
    let setup = |links: &str| {
        let setup = scene.setup(links).operators("main", vec![Box::new(Fives::default())]);
        setup.set("letters", |it| it.reconnect = AT_ONCE)
    };
    let (planned, before) = plan_flow(setup("source -> main -> sink"));
    let added = ScriptedSink(SinkScript::of([]));
    let next = setup("source -> main -> sink, main -> peer").connect("peer", &added.peer());
    let report = planned.run_beside(async |handle| {
        handle.control.clock().sleep(Duration::from_secs(1)).await;
        let relinking = plan(&handle, &before, next);
        complete(&handle, relinking).await;
    });
    scene.check(&report);
    assert_eq!(delivered(&added), scene.events(), "the operator had the first events");
}
