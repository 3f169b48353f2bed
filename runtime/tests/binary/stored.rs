//! Tests of queues on disk: processes that are killed or stopped while a sink is down.

use std::{collections::BTreeMap, fmt::Write, fs, ops::Range, path::Path};

use crate::{
    api::{Asked, start_with},
    http::post,
    tremor::Scene,
};

/// A sink that is down.
const DOWN: &str =
    "type: tcp_client, codec: json, postprocessors: [lines], config: { address: '127.0.0.1:1' }";

/// A source of requests, each answered when its events are durable.
const SERVER: &str =
    "type: http_server, codec: json, config: { listen: '127.0.0.1:0', respond: delivered }";

/// A source that has no events.
const NOTHING: &str =
    "type: file, codec: json, preprocessors: [lines], config: { path: in, mode: read }";

/// Returns a sink that works, and writes to the file `out` of this folder.
fn up(folder: &Path) -> String {
    let path = folder.join("out");
    format!(
        "type: file, codec: json, postprocessors: [lines], config: {{ path: '{}', mode: append }}",
        path.display()
    )
}

fn out(folder: &Path) -> String {
    fs::read_to_string(folder.join("out")).unwrap()
}

/// Returns a flow from a source to a sink whose queue is in this folder.
fn scene(source: &str, sink: &str, folder: &Path) -> Scene {
    let path = folder.join("queue");
    let queue = format!("queue: {{ disk: {{ path: '{}', max_bytes: 4MiB }} }}", path.display());
    Scene::new(&format!(
        "connectors:
  input: {{ {source} }}
  output: {{ {queue}, {sink} }}
links: [input -> output]
"
    ))
    .write("in", b"")
}

/// Starts a flow and sends it requests, one after the other. All of them are accepted.
fn send(sink: &str, folder: &Path, numbers: Range<usize>) -> Asked {
    let scene = scene(SERVER, sink, folder);
    let mut asked = start_with(scene, &["flow.yaml"], 1, |command| command);
    let address = asked.listens();
    for number in numbers {
        let (status, answer) = post(&address, &format!("{{\"n\":{number}}}")).unwrap();
        assert_eq!(status, 200, "{answer}");
    }
    asked
}

fn lines(count: usize) -> String {
    let mut lines = String::new();
    (0..count).for_each(|number| writeln!(lines, "{{\"n\":{number}}}").unwrap());
    lines
}

#[test]
fn acknowledged_events_survive_kills_and_are_delivered_once() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let run = send(DOWN, folder.path(), round * 10..round * 10 + 10).stop("KILL");
        assert_eq!(run.status, None, "a signal ended it: {}", run.stderr);
    }
    let scene = scene(NOTHING, &up(folder.path()), folder.path());
    scene.run().expect(0, &["0 events in, 40 out, 0 dead-lettered, "]);
    assert_eq!(out(folder.path()), lines(40));
    scene.run().expect(0, &["0 events in, 0 out"]);
    assert_eq!(out(folder.path()), lines(40));
}

/// An event is delivered again only if the kill came before it was durable that the event was delivered.
#[test]
fn kills_during_deliveries_lose_no_acknowledged_event() {
    const EVENTS: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let sink = up(folder.path());
    for round in 0..4 {
        send(&sink, folder.path(), round * EVENTS..(round + 1) * EVENTS).stop("KILL");
    }
    scene(NOTHING, &sink, folder.path()).run().expect(0, &["0 events in, "]);
    let mut counts = BTreeMap::<String, usize>::new();
    for line in out(folder.path()).lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    let expected = lines(4 * EVENTS);
    for line in expected.lines() {
        let count = counts.remove(line).unwrap_or_default();
        assert!((1..=5).contains(&count), "{line}: {count}");
    }
    assert!(counts.is_empty(), "{counts:?}");
}

#[test]
fn drain_stores_what_a_sink_that_is_down_has_not_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let run = send(DOWN, folder.path(), 0..10).stop("TERM");
    run.expect(0, &["10 events in, 0 out, 0 dead-lettered, 10 stored, "]);
    assert!(!run.stderr.contains("was stopped before"), "{}", run.stderr);
    scene(NOTHING, &up(folder.path()), folder.path()).run().expect(0, &["0 events in, 10 out"]);
    assert_eq!(out(folder.path()), lines(10));
}

#[test]
fn second_process_on_a_folder_ends_and_names_the_holder() {
    let folder = tempfile::tempdir().unwrap();
    let first = send(DOWN, folder.path(), 0..1);
    let second = scene(NOTHING, &up(folder.path()), folder.path()).run();
    let holder = format!("in use by process {} (`tremor`)", first.pid());
    second.expect(2, &["error: the queue on disk ", &holder]);
    first.end();
}
