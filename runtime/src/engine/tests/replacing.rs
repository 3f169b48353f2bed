//! Connectors that a reload replaces while their flow runs.

mod sources;

use std::{
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_pdk::{Batch, Error, Exception, Result};

use super::{
    AT_ONCE, LONG, Setup, attempts,
    doubles::{Pulls, ScriptedSink, Shared, SinkScript, exception},
    peer::Peer,
    pulls, settled, sorted,
};
use crate::{
    dynamic::DynSink,
    engine::{
        Planned, Report, Stage, Succession,
        connector::handover::Replaceable,
        control::{Control, Phase},
        handle::status::State,
        succession::Member,
    },
    executor::alone,
    flow,
};

/// Links from a source to two sinks, of which tests replace `peer`.
const TWO_SINKS: &str = "source -> sink, source -> peer";

/// A sink that answers no delivery before it is opened.
#[derive(Clone)]
pub(super) struct Silent {
    pub(super) scripted: ScriptedSink,
    is_open: Arc<AtomicBool>,
    waiting: Shared<Option<Waker>>,
}

impl Silent {
    pub(super) fn new() -> Self {
        let (is_open, waiting) = (Arc::default(), Shared::default());
        Self { scripted: ScriptedSink(SinkScript::of([])), is_open, waiting }
    }

    pub(super) fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
        self.waiting.lock().unwrap().take().into_iter().for_each(Waker::wake);
    }

    pub(super) fn peer(&self) -> Arc<Peer> {
        let sink = self.clone();
        Arc::new(Peer::of_sink(Box::new(move |_| Ok(Box::new(sink.clone())))))
    }
}

impl DynSink for Silent {
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        if self.is_open.load(Ordering::Relaxed) {
            return self.scripted.poll_deliver(context, slot, batch);
        }
        *self.waiting.lock().unwrap() = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Prepares the hand-over of a connector of a flow.
fn succession(planned: &Planned, connector: &str, next: Replaceable) -> Succession {
    let task = planned.tasks.connectors.iter().find(|it| &*it.name == connector).unwrap();
    Member::of(task).succession(next, planned.control.calls())
}

/// Waits until `is` returns `true`, while the clock advances.
pub(super) async fn until(control: &Control, is: impl Fn() -> bool) {
    while !is() {
        control.clock().sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until a hand-over has reached a stage.
async fn until_stage(control: &Control, of: &Succession, is: impl Fn(&Stage) -> bool) {
    until(control, || is(&of.stage())).await;
}

/// Hands a connector over, up to the first attempt of the successor to connect.
async fn replace(control: &Control, succession: &mut Succession) {
    succession.request();
    until_stage(control, succession, |it| matches!(it, Stage::Closed)).await;
    succession.release(true);
    until_stage(control, succession, |it| !matches!(it, Stage::Released | Stage::Exchanged)).await;
}

/// Hands a connector back to its predecessor, up to the first attempt to connect.
async fn restore(control: &Control, succession: &Succession) {
    succession.request_back();
    until_stage(control, succession, |it| matches!(it, Stage::Closed)).await;
    succession.release(false);
    until_stage(control, succession, |it| !matches!(it, Stage::Released | Stage::Exchanged)).await;
}

/// A flow from a source to a sink that accepts everything and to a sink that is replaced.
struct Scene {
    source: Arc<Peer>,
    pulls: Pulls,
    sink: ScriptedSink,
}

impl Scene {
    /// Creates the flow for a source with this number of pulls of three events.
    fn new(count: usize) -> Self {
        let pulls = Pulls::numbers(count);
        let given = pulls.clone();
        let source = Arc::new(Peer::of_source(Box::new(move |_| Ok(Box::new(given.clone())))));
        Self { source, pulls, sink: ScriptedSink(SinkScript::of([])) }
    }

    /// Plans the flow. `reconnect` are the rules of the sink that is replaced.
    fn plan(&self, replaced: &Arc<Peer>, reconnect: flow::Retry) -> Planned {
        let setup = Setup::of(TWO_SINKS).set("peer", |it| {
            it.reconnect = reconnect;
            it.queue.max_events = NonZeroU64::new(4);
        });
        let setup = setup.connect("source", &self.source).connect("sink", &self.sink.peer());
        setup.connect("peer", replaced).plan()
    }

    /// Checks that every event was delivered by both sinks, the second of which has `delivered` these messages, and that
    /// the source kept its connection.
    fn check(&self, report: &Report, delivered: &[String]) {
        let count = self.pulls.left.len();
        let numbers: Vec<String> = (0..3 * count).map(|number| number.to_string()).collect();
        assert!(report.failure.is_none(), "{:?}", report.failure);
        assert_eq!(self.sink.0.lock().unwrap().delivered.concat(), numbers);
        assert_eq!(delivered, numbers);
        assert_eq!(sorted(&self.pulls.reports), pulls(count as u64, true));
        let counts = settled(&report.components);
        assert_eq!((counts.events_out, counts.failed), (6 * count as u64, 0));
        assert_eq!(self.source.count("connect"), 1, "the source keeps its connection");
    }
}

fn delivered(sink: &ScriptedSink) -> Vec<String> {
    sink.0.lock().unwrap().delivered.concat()
}

/// Creates the successor of `peer`.
fn successor(peer: &Arc<Peer>) -> Replaceable {
    Setup::of(TWO_SINKS).connect("peer", peer).successor("peer")
}

#[test]
fn sink_with_full_queue_is_replaced_without_its_source() {
    let (scene, silent, next) = (Scene::new(20), Silent::new(), ScriptedSink(SinkScript::of([])));
    let replaced = silent.peer();
    let planned = scene.plan(&replaced, AT_ONCE);
    let mut succession = succession(&planned, "peer", successor(&next.peer()));
    let control = planned.control.clone();
    let report = planned.run_with(async {
        let is_blocked =
            || control.waits().iter().any(|(_, it)| it.sink == "peer" && it.reason == "queue full");
        until(&control, is_blocked).await;
        replace(&control, &mut succession).await;
        assert!(succession.was_connected());
        drop(succession);
    });
    scene.check(&report, &delivered(&next));
    assert_eq!(*replaced.calls(), ["new", "connect", "sink", "on_start", "close"]);
}

#[test]
fn backlog_is_encoded_by_the_codec_of_the_successor() {
    let pulls = Pulls::of(&[&["\"a\""], &["\"b\"", "\"c\""]]);
    let source = Arc::new(Peer::of_source(Box::new(move |_| Ok(Box::new(pulls.clone())))));
    let (silent, next) = (Silent::new(), ScriptedSink(SinkScript::of([])));
    let batch = flow::Batch { max_events: NonZeroU64::new(2), ..flow::Batch::default() };
    let setup = Setup::of(TWO_SINKS).set("peer", |it| {
        (it.in_flight, it.batch) = (NonZeroU64::new(1), Some(batch));
    });
    let setup = setup.connect("source", &source).connect("peer", &silent.peer());
    let planned = setup.connect("sink", &ScriptedSink(SinkScript::of([])).peer()).plan();
    let parts = Setup::of(TWO_SINKS).codec("peer", "string").connect("peer", &next.peer());
    let mut succession = succession(&planned, "peer", parts.successor("peer"));
    let control = planned.control.clone();
    let report = planned.run_with(async {
        let connector = control.connector("peer").unwrap();
        until(&control, || connector.in_flight() == 3).await;
        replace(&control, &mut succession).await;
        drop(succession);
    });
    assert_eq!(delivered(&next), ["a", "b", "c"]);
    assert_eq!(settled(&report.components).events_out, 6);
}

#[test]
fn connecting_sink_is_replaced_without_its_backoff() {
    let (scene, next) = (Scene::new(5), ScriptedSink(SinkScript::of([])));
    let replaced = Silent::new().peer();
    *replaced.connects.lock().unwrap() = [Err(Error::connection_refused("no"))].into();
    let planned = scene.plan(&replaced, LONG);
    let mut succession = succession(&planned, "peer", successor(&next.peer()));
    let control = planned.control.clone();
    let begun = control.clock().now();
    let report = planned.run_with(async {
        until(&control, || replaced.count("connect") == 1).await;
        replace(&control, &mut succession).await;
        assert!(!succession.was_connected());
        drop(succession);
    });
    scene.check(&report, &delivered(&next));
    assert!(control.clock().elapsed(begun) < Duration::from_mins(1));
}

#[test]
fn sink_that_waits_for_a_restart_is_replaced_at_once() {
    let (scene, next) = (Scene::new(5), ScriptedSink(SinkScript::of([])));
    let replaced = ScriptedSink(SinkScript::of([Err(Error::panicked("oh"))])).peer();
    let planned = scene.plan(&replaced, LONG);
    let mut succession = succession(&planned, "peer", successor(&next.peer()));
    let control = planned.control.clone();
    let report = planned.run_with(async {
        let connector = control.connector("peer").unwrap();
        until(&control, || connector.status().state == State::Restarting).await;
        replace(&control, &mut succession).await;
        drop(succession);
    });
    scene.check(&report, &delivered(&next));
    assert_eq!(replaced.count("new"), 1);
}

#[test]
fn paused_sink_is_replaced_and_stays_paused() {
    let (scene, silent, next) = (Scene::new(5), Silent::new(), ScriptedSink(SinkScript::of([])));
    silent.open();
    let planned = scene.plan(&silent.peer(), AT_ONCE);
    let mut succession = succession(&planned, "peer", successor(&next.peer()));
    let control = planned.control.clone();
    let connector = control.connector("peer").unwrap();
    connector.gate.pause();
    let report = planned.run_with(async {
        until(&control, || connector.status().state == State::Paused).await;
        replace(&control, &mut succession).await;
        drop(succession);
        until(&control, || connector.status().state == State::Paused).await;
        assert_eq!(delivered(&next), [""; 0]);
        connector.gate.resume();
    });
    scene.check(&report, &delivered(&next));
}

#[test]
fn flow_that_drains_delivers_through_the_successor() {
    let (scene, silent, next) = (Scene::new(1), Silent::new(), ScriptedSink(SinkScript::of([])));
    let planned = scene.plan(&silent.peer(), AT_ONCE);
    let mut succession = succession(&planned, "peer", successor(&next.peer()));
    let control = planned.control.clone();
    let report = planned.run_with(async {
        let connector = control.connector("peer").unwrap();
        until(&control, || connector.in_flight() == 3).await;
        succession.request();
        until_stage(&control, &succession, |it| matches!(it, Stage::Closed)).await;
        control.advance(Phase::Draining);
        control.clock().sleep(Duration::from_secs(1)).await;
        succession.release(true);
        until_stage(&control, &succession, |it| matches!(it, Stage::Ended)).await;
        drop(succession);
    });
    scene.check(&report, &delivered(&next));
}

#[test]
fn released_sink_is_exchanged_although_the_reload_ends() {
    let (scene, silent, next) = (Scene::new(5), Silent::new(), ScriptedSink(SinkScript::of([])));
    let planned = scene.plan(&silent.peer(), AT_ONCE);
    let mut succession = succession(&planned, "peer", successor(&next.peer()));
    let control = planned.control.clone();
    let report = planned.run_with(async {
        until(&control, || control.connector("peer").unwrap().in_flight() > 0).await;
        succession.request();
        until_stage(&control, &succession, |it| matches!(it, Stage::Closed)).await;
        succession.release(true);
        drop(succession);
    });
    scene.check(&report, &delivered(&next));
}

#[test]
fn sink_whose_reload_ends_before_the_release_is_kept() {
    let (scene, silent, next) = (Scene::new(5), Silent::new(), ScriptedSink(SinkScript::of([])));
    let planned = scene.plan(&silent.peer(), AT_ONCE);
    let mut succession = succession(&planned, "peer", successor(&next.peer()));
    let control = planned.control.clone();
    let report = planned.run_with(async {
        until(&control, || control.connector("peer").unwrap().in_flight() > 0).await;
        succession.request();
        until_stage(&control, &succession, |it| matches!(it, Stage::Closed)).await;
        drop(succession);
        silent.open();
    });
    scene.check(&report, &delivered(&silent.scripted));
    assert_eq!(delivered(&next), [""; 0]);
}

#[test]
fn connector_that_closes_after_its_reload_is_handed_back() {
    let (scene, silent, next) = (Scene::new(5), Silent::new(), Silent::new());
    let planned = scene.plan(&silent.peer(), AT_ONCE);
    let mut succession = succession(&planned, "peer", successor(&next.peer()));
    let control = planned.control.clone();
    let report = planned.run_with(async {
        until(&control, || control.connector("peer").unwrap().in_flight() > 0).await;
        replace(&control, &mut succession).await;
        succession.request_back();
        succession.release(false);
        assert!(matches!(succession.stage(), Stage::Requested));
        drop(succession);
        silent.open();
    });
    scene.check(&report, &delivered(&silent.scripted));
}

/// Replaces a sink by a successor that fails, hands it back, and runs the flow to its end.
fn hand_back(fails: impl FnOnce(&Peer), reconnect: flow::Retry) {
    let (scene, silent) = (Scene::new(20), Silent::new());
    let planned = scene.plan(&silent.peer(), AT_ONCE);
    let next = ScriptedSink(SinkScript::of([])).peer();
    fails(&next);
    let setup = Setup::of(TWO_SINKS).set("peer", |it| it.reconnect = reconnect);
    let parts = setup.connect("peer", &next).successor("peer");
    let mut succession = succession(&planned, "peer", parts);
    let control = planned.control.clone();
    let report = planned.run_with(async {
        until(&control, || control.connector("peer").unwrap().in_flight() > 0).await;
        replace(&control, &mut succession).await;
        let stage = succession.stage();
        assert!(matches!(&stage, Stage::Failed(error) if error.to_string().contains("no")));
        restore(&control, &succession).await;
        assert!(matches!(succession.stage(), Stage::Tried(None)));
        silent.open();
        drop(succession);
    });
    scene.check(&report, &delivered(&silent.scripted));
    assert_eq!(next.count("new"), 1, "the failed successor is not restarted");
}

#[test]
fn successor_whose_constructor_fails_is_handed_back() {
    let fails = |next: &Peer| *next.news.lock().unwrap() = [Err(Error::internal("no"))].into();
    hand_back(fails, AT_ONCE);
}

#[test]
fn successor_that_cannot_connect_is_handed_back() {
    let fails = |error: Error| {
        move |next: &Peer| *next.connects.lock().unwrap() = [Err(error.clone())].into()
    };
    hand_back(fails(Error::configuration("no")), AT_ONCE);
    hand_back(fails(Error::connection_refused("no")), attempts(0));
}

#[test]
fn constructor_fails_before_anything_is_closed() {
    let (scene, silent) = (Scene::new(5), Silent::new());
    silent.open();
    let replaced = silent.peer();
    let planned = scene.plan(&replaced, AT_ONCE);
    let control = planned.control.clone();
    let next = ScriptedSink(SinkScript::of([])).peer();
    *next.news.lock().unwrap() = [Err(Error::internal("no"))].into();
    let [trial, later] = [(); 2].map(|()| Setup::of(TWO_SINKS).connect("peer", &next));
    let report = alone::run(control.clock(), async {
        let flow = planned.start();
        let handle = flow.handle();
        let create =
            |trial: &Setup| handle.succession(&trial.flow, "peer", &trial.doubles, &later.doubles);
        let error = create(&trial).err().unwrap().to_string();
        assert!(error.contains("cannot create the connector `peer`: no"), "{error}");
        let trial = Setup::of(TWO_SINKS).connect("peer", &next);
        assert!(create(&trial).is_ok(), "the first instance is only created");
        flow.ended(Duration::from_hours(1)).await
    });
    scene.check(&report, &delivered(&silent.scripted));
    assert_eq!(*next.calls(), ["new", "new"]);
    assert_eq!(replaced.count("close"), 1);
}

#[test]
fn predecessor_that_cannot_connect_again_is_retried() {
    let (scene, silent) = (Scene::new(5), Silent::new());
    silent.open();
    let replaced = silent.peer();
    let planned = scene.plan(&replaced, AT_ONCE);
    let next = ScriptedSink(SinkScript::of([])).peer();
    *next.news.lock().unwrap() = [Err(Error::internal("no"))].into();
    let mut succession = succession(&planned, "peer", successor(&next));
    let control = planned.control.clone();
    let connector = control.connector("peer").unwrap();
    connector.gate.pause();
    let report = planned.run_with(async {
        until(&control, || connector.status().state == State::Paused).await;
        replace(&control, &mut succession).await;
        let refused = || Err(Error::connection_refused("taken"));
        *replaced.connects.lock().unwrap() = [refused(), refused()].into();
        restore(&control, &succession).await;
        let stage = succession.stage();
        assert!(matches!(&stage, Stage::Tried(Some(error)) if error.to_string() == "taken"));
        drop(succession);
        connector.gate.resume();
    });
    scene.check(&report, &delivered(&silent.scripted));
    assert_eq!(replaced.count("connect"), 4);
}

#[test]
fn successor_without_peer_is_no_failure() {
    let (scene, next) = (Scene::new(5), ScriptedSink(SinkScript::of([])));
    let planned = scene.plan(&Silent::new().peer(), AT_ONCE);
    let peer = next.peer();
    *peer.connects.lock().unwrap() = [Err(Error::connection_refused("no"))].into();
    let later = Some(Duration::from_secs(1_000));
    let parts = Setup::of(TWO_SINKS).connect("peer", &peer).set("peer", |it| {
        it.reconnect = flow::Retry { attempts: Some(1), backoff: later, max_backoff: later };
    });
    let mut succession = succession(&planned, "peer", parts.successor("peer"));
    let control = planned.control.clone();
    let report = planned.run_with(async {
        until(&control, || control.connector("peer").unwrap().in_flight() > 0).await;
        replace(&control, &mut succession).await;
        assert!(matches!(succession.stage(), Stage::Tried(Some(_))));
        drop(succession);
    });
    scene.check(&report, &delivered(&next));
}

#[test]
fn failure_on_trial_fails_the_flow_after_the_reload() {
    let scene = Scene::new(5);
    let planned = scene.plan(&Silent::new().peer(), AT_ONCE);
    let next = ScriptedSink(SinkScript::of([Err(Error::authentication("who?"))])).peer();
    let mut succession = succession(&planned, "peer", successor(&next));
    let control = planned.control.clone();
    let report = planned.run_with(async {
        until(&control, || control.connector("peer").unwrap().in_flight() > 0).await;
        replace(&control, &mut succession).await;
        until_stage(&control, &succession, |it| matches!(it, Stage::Failed(_))).await;
        assert!(control.failure().is_none(), "the reload has not ended");
        drop(succession);
    });
    let failure = report.failure.unwrap();
    assert!(failure.error.to_string().ends_with("who?"), "{}", failure.error);
}

#[test]
fn sink_that_waits_for_the_queue_after_err_is_replaced() {
    const LINKS: &str = "source -> peer, peer/err -> letters";
    let rejects = || Ok(vec![exception(0..3, Error::bad_data("never"))]);
    let rejecting = ScriptedSink(SinkScript::of((0..20).map(|_| rejects())));
    let (scene, letters, next) = (Scene::new(20), Silent::new(), ScriptedSink(SinkScript::of([])));
    let setup = Setup::of(LINKS).set("letters", |it| it.queue.max_events = NonZeroU64::new(1));
    let setup = setup.connect("source", &scene.source).connect("peer", &rejecting.peer());
    let planned = setup.connect("letters", &letters.peer()).plan();
    let parts = Setup::of(LINKS).connect("peer", &next.peer()).successor("peer");
    let mut succession = succession(&planned, "peer", parts);
    let control = planned.control.clone();
    let report = planned.run_with(async {
        let waits = || control.connector("letters").unwrap().queued() > 0;
        until(&control, waits).await;
        control.clock().sleep(Duration::from_secs(1)).await;
        replace(&control, &mut succession).await;
        drop(succession);
        letters.open();
    });
    assert!(report.failure.is_none(), "{:?}", report.failure);
    let counts = settled(&report.components);
    let rejected = usize::try_from(counts.dead_lettered).unwrap();
    assert!(rejected < 60, "the successor gets events");
    assert_eq!((rejected + delivered(&next).len(), counts.failed), (60, 0));
}
