//! Sources that a reload replaces.

use std::sync::{Arc, Mutex};

use tremor_pdk::Error;

use super::{Scene, Silent, TWO_SINKS, delivered, replace, succession, until};
use crate::engine::{
    Stage,
    handle::status::State,
    tests::{
        AT_ONCE, Setup, component,
        doubles::{Pulls, ScriptedSink, SinkScript},
        peer::Peer,
        pulls, settled, sorted,
    },
};

#[test]
fn source_is_closed_before_its_successor_connects() {
    let (mut first, second) = (Pulls::numbers(3), Pulls::numbers(2));
    first.until = Some(Arc::default());
    let given = first.clone();
    let replaced = Arc::new(Peer::of_source(Box::new(move |_| Ok(Box::new(given.clone())))));
    let (given, closed) = (second.clone(), first.closed.clone());
    let was_closed = Arc::<Mutex<Vec<bool>>>::default();
    let seen = was_closed.clone();
    let next = Arc::new(Peer::of_source(Box::new(move |_| {
        seen.lock().unwrap().push(!closed.lock().unwrap().is_empty());
        Ok(Box::new(given.clone()))
    })));
    let silent = Silent::new();
    let setup = Setup::default().connect("source", &replaced).connect("sink", &silent.peer());
    let planned = setup.connect("letters", &ScriptedSink(SinkScript::of([])).peer()).plan();
    let parts = Setup::default().connect("source", &next).successor("source");
    let mut succession = succession(&planned, "source", parts);
    let control = planned.control.clone();
    let report = planned.run_with(async {
        until(&control, || control.connector("sink").unwrap().in_flight() > 0).await;
        replace(&control, &mut succession).await;
        drop(succession);
        silent.open();
    });
    assert!(report.failure.is_none(), "{:?}", report.failure);
    assert_eq!(*was_closed.lock().unwrap(), [true]);
    assert_eq!(replaced.calls().last(), Some(&"close"));
    // The source is not notified of events that are delivered later, as after a lost connection.
    assert_eq!(sorted(&first.reports), pulls(3, false));
    assert_eq!(sorted(&second.reports), pulls(2, true));
    assert_eq!(delivered(&silent.scripted).len(), 15);
    assert_eq!(settled(&report.components).events_out, 15);
}

#[test]
fn both_sides_of_a_connector_are_replaced() {
    const OWN_SINK: &str = "peer -> main -> peer";
    let first = Pulls { until: Some(Arc::default()), ..Pulls::numbers(1) };
    let (reports, silent) = (first.reports.clone(), Silent::new());
    let (second, sink) = (Pulls::numbers(2), ScriptedSink(SinkScript::of([])));
    let given = silent.clone();
    let replaced = Arc::new(Peer::new(
        Box::new(move |_| Ok(Box::new(first.clone()))),
        Box::new(move |_| Ok(Box::new(given.clone()))),
    ));
    let given = sink.clone();
    let next = Arc::new(Peer::new(
        Box::new(move |_| Ok(Box::new(second.clone()))),
        Box::new(move |_| Ok(Box::new(given.clone()))),
    ));
    let planned = Setup::of(OWN_SINK).connect("peer", &replaced).plan();
    let parts = Setup::of(OWN_SINK).connect("peer", &next).successor("peer");
    let mut succession = succession(&planned, "peer", parts);
    let control = planned.control.clone();
    let report = planned.run_with(async {
        until(&control, || control.connector("peer").unwrap().in_flight() == 3).await;
        replace(&control, &mut succession).await;
        drop(succession);
    });
    assert!(report.failure.is_none(), "{:?}", report.failure);
    assert_eq!(delivered(&sink), ["0", "1", "2", "0", "1", "2", "3", "4", "5"]);
    assert_eq!(*reports.lock().unwrap(), [(1, false)]);
    assert_eq!(replaced.calls().last(), Some(&"close"));
    assert_eq!(settled(&report.components).events_out, 9);
}

#[test]
fn incomplete_message_of_replaced_source_is_discarded() {
    let fragments = |messages: &[&[&str]]| Pulls { fragments: true, ..Pulls::of(messages) };
    let first = Pulls { until: Some(Arc::default()), ..fragments(&[&["1\n2"]]) };
    let (reports, second) = (first.reports.clone(), fragments(&[&["3\n"]]));
    let [replaced, next] = [first, second]
        .map(|pulls| Arc::new(Peer::of_source(Box::new(move |_| Ok(Box::new(pulls.clone()))))));
    let setup = || Setup::default().set("source", |it| it.preprocessors.push(component("lines")));
    let sink = ScriptedSink(SinkScript::of([]));
    let letters = ScriptedSink(SinkScript::of([])).peer();
    let planned = setup().connect("source", &replaced).connect("letters", &letters);
    let planned = planned.connect("sink", &sink.peer()).plan();
    let parts = setup().connect("source", &next).successor("source");
    let mut succession = succession(&planned, "source", parts);
    let control = planned.control.clone();
    let report = planned.run_with(async {
        until(&control, || delivered(&sink) == ["1"]).await;
        replace(&control, &mut succession).await;
        drop(succession);
    });
    assert_eq!(delivered(&sink), ["1", "3"]);
    assert_eq!(*reports.lock().unwrap(), [(1, false)], "the pull has an incomplete message");
    let counts = settled(&report.components);
    assert_eq!((counts.events_in, counts.events_out, counts.failed), (2, 2, 0));
}

#[test]
fn source_that_has_finished_is_not_replaced() {
    let (scene, silent) = (Scene::new(1), Silent::new());
    let planned = scene.plan(&silent.peer(), AT_ONCE);
    let next = Arc::new(Peer::of_source(Box::new(|_| Err(Error::internal("no")))));
    let parts = Setup::of(TWO_SINKS).connect("source", &next).successor("source");
    let mut succession = succession(&planned, "source", parts);
    let control = planned.control.clone();
    let report = planned.run_with(async {
        let source = control.connector("source").unwrap();
        until(&control, || source.status().state == State::Draining).await;
        succession.request();
        assert!(matches!(succession.stage(), Stage::Ended));
        silent.open();
        drop(succession);
    });
    scene.check(&report, &delivered(&silent.scripted));
    assert_eq!(next.count("new"), 0);
}
