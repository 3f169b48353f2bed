//! Tests of queues on disk: processes that are killed or stopped while a sink is down.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    ops::Range,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use hostile_peers::http::{Server, response};

use crate::{
    api::{Asked, start_with},
    http::post,
    tremor::Scene,
};

/// A sink that is down.
pub(crate) const DOWN: &str =
    "type: tcp_client, codec: json, postprocessors: [lines], config: { address: '127.0.0.1:1' }";

/// A source of requests, each answered when its events are durable.
const SERVER: &str =
    "type: http_server, codec: json, config: { listen: '127.0.0.1:0', respond: delivered }";

/// A source that has no events.
pub(crate) const NOTHING: &str =
    "type: file, codec: json, preprocessors: [lines], config: { path: in, mode: read }";

/// Returns a sink that works, and writes to the file `out` of this folder.
pub(crate) fn up(folder: &Path) -> String {
    let path = folder.join("out");
    format!(
        "type: file, codec: json, postprocessors: [lines], config: {{ path: '{}', mode: append }}",
        path.display()
    )
}

pub(crate) fn out(folder: &Path) -> String {
    fs::read_to_string(folder.join("out")).unwrap()
}

/// Returns a flow from a source to a sink whose queue is in this folder.
pub(crate) fn scene(source: &str, sink: &str, folder: &Path) -> Scene {
    let path = folder.join("queue");
    let queue = format!(
        "queue: {{ disk: {{ path: '{}', max_bytes: 4MiB, identify: true }} }}",
        path.display()
    );
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
pub(crate) fn send(sink: &str, folder: &Path, numbers: Range<usize>) -> Asked {
    let scene = scene(SERVER, sink, folder);
    let mut asked = start_with(scene, &["flow.yaml"], 1, |command| command);
    let address = asked.listens();
    for number in numbers {
        let (status, answer) = post(&address, &format!("{{\"n\":{number}}}")).unwrap();
        assert_eq!(status, 200, "{answer}");
    }
    asked
}

pub(crate) fn lines(count: usize) -> String {
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
    let holder = format!("it is in use by the process {}; ", first.pid());
    second.expect(2, &["error: ", "cannot open the log ", &holder]);
    first.end();
}

/// A server that is silent, refuses or accepts requests.
struct Sink {
    server: Server,
    mode: Arc<AtomicUsize>,
    /// The header `x-id` and the body of each request, whatever its answer.
    got: Arc<Mutex<Vec<(String, String)>>>,
}

/// Number of an event that a [`Sink`] refuses permanently.
const REFUSED: &str = "{\"n\":7}";

impl Sink {
    const SILENT: usize = 0;
    const BUSY: usize = 1;
    const UP: usize = 2;

    fn start() -> Self {
        let (mode, got) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (now, all) = (mode.clone(), got.clone());
        let server = Server::start(move |request| {
            let id = request.header("x-id").unwrap_or_default().to_owned();
            all.lock().unwrap().push((id, request.text()));
            match now.load(Ordering::Relaxed) {
                Self::SILENT => Vec::new(),
                Self::BUSY => response("503 Service Unavailable", ""),
                _ if request.text() == REFUSED => response("400 Bad Request", ""),
                _ => response("200 OK", ""),
            }
        });
        Self { server, mode, got }
    }

    /// Returns the configuration of a sink that sends each event with the number of the queue.
    fn config(&self) -> String {
        let address = self.server.address();
        format!(
            "type: http_client, codec: json, \
             config: {{ url: 'http://{address}/', headers: {{ x-id: '{{%queue.id}}' }} }}"
        )
    }
}

/// Kills a process after each round of requests, while the sink is silent, busy or up by turns. Returns the number of
/// requests that the sink got for each event.
fn kill_rounds(rounds: usize, folder: &Path) -> BTreeMap<String, usize> {
    const EVENTS: usize = 10;
    let sink = Sink::start();
    for round in 0..rounds {
        sink.mode.store(round % 3, Ordering::Relaxed);
        send(&sink.config(), folder, round * EVENTS..(round + 1) * EVENTS).stop("KILL");
    }
    sink.mode.store(Sink::UP, Ordering::Relaxed);
    let run = scene(NOTHING, &sink.config(), folder).run();
    run.expect(0, &["0 events in, "]);
    assert!(!run.stderr.contains("stored"), "{}", run.stderr);
    let (mut counts, mut ids) = (BTreeMap::new(), BTreeMap::new());
    for (id, event) in sink.got.lock().unwrap().drain(..) {
        *counts.entry(event.clone()).or_default() += 1;
        assert_eq!(*ids.entry(id).or_insert_with(|| event.clone()), event, "an ID of two events");
    }
    // A peer that removes repeated IDs has each event once.
    assert_eq!(ids.len(), rounds * EVENTS);
    counts
}

fn check_rounds(rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let counts = kill_rounds(rounds, folder.path());
    let missing: Vec<_> = (0..rounds * 10)
        .map(|it| format!("{{\"n\":{it}}}"))
        .filter(|it| !counts.contains_key(it))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    let rejected = folder.path().join("queue/rejected");
    let files = fs::read_dir(rejected).unwrap().map(|it| fs::read_to_string(it.unwrap().path()));
    let refused: String = files.map(Result::unwrap).collect();
    assert_eq!(refused.matches(REFUSED).count(), 1, "{refused}");
}

#[test]
fn kills_lose_no_event_while_a_sink_comes_and_goes() {
    check_rounds(10);
}

/// Takes minutes. The environment variable `TREMOR_KILLS` has the number of kills.
#[test]
#[ignore = "takes minutes"]
fn many_kills_lose_no_event_while_a_sink_comes_and_goes() {
    let kills = std::env::var("TREMOR_KILLS").ok().and_then(|it| it.parse().ok());
    check_rounds(kills.unwrap_or(1_000));
}
