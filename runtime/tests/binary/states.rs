//! Tests of how retries and their ends are shown: in states, metrics, readiness, log lines and notifications to the
//! service manager.

use std::{
    io::{ErrorKind, Read},
    os::unix::net::UnixDatagram,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use hostile_peers::http::{Server, response};
use serde_json::Value;

use crate::{
    api::{Asked, start, start_with},
    tremor::{Run, Scene, finish},
};

/// Maximum time to wait for a condition. Longer than these tests take.
const LONG: Duration = Duration::from_mins(2);

/// Starts an HTTP server that answers all requests with the same status, which the test can change.
fn server(status: u16) -> (Server, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(status));
    let own = status.clone();
    (Server::start(move |_| response(&format!("{} S", own.load(Ordering::Relaxed)), "1")), status)
}

/// Waits until a connector of the flow is in this state, and returns the connector.
#[track_caller]
pub(crate) fn until_state(asked: &Asked, connector: &str, state: &str) -> Value {
    asked.until(&format!("/v1/flows/flow/connectors/{connector}"), |it| it["state"] == state)
}

/// Waits until `/readyz` answers with this status, and returns the body.
#[track_caller]
pub(crate) fn until_ready(asked: &Asked, expected: u16) -> String {
    let start = Instant::now();
    loop {
        let (status, body) = asked.request("GET", "/readyz");
        if status == expected {
            return body;
        }
        assert!(start.elapsed() < LONG, "{body}");
    }
}

/// Returns the number of retries of an operation from the metrics, for errors of all kinds together.
fn retries(asked: &Asked, component: &str, operation: &str) -> u64 {
    let (_, metrics) = asked.request("GET", "/metrics");
    let start = format!(
        "tremor_retries_total{{flow=\"flow\",component=\"{component}\",operation=\"{operation}\",kind="
    );
    let values = metrics.lines().filter(|line| line.starts_with(&start));
    values.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[track_caller]
fn expect_counts(log: &str, counts: &[(&str, usize)]) {
    for (line, count) in counts {
        assert_eq!(log.matches(line).count(), *count, "`{line}` in:\n{log}");
    }
}

#[test]
fn source_whose_pulls_fail_is_retrying_until_they_succeed() {
    let (server, status) = server(503);
    let scene = Scene::new(&format!(
        "connectors:
  input:
    type: http_client
    codec: json
    config: {{ url: 'http://{}/', interval: 200ms }}
  output: {{ type: 'null' }}
links: [input -> output]",
        server.address()
    ));
    let mut asked = start(scene, &["flow.yaml"]);
    let input = until_state(&asked, "input", "retrying");
    assert!(input["error"].as_str().unwrap().contains("503"), "{input}");
    let path = "/v1/flows/flow/connectors/input";
    asked.until(path, |it| it["retries"]["pull"].as_u64() > Some(2));
    let body = until_ready(&asked, 503);
    assert!(body.contains("the connector `input` of `flow` has been retrying for "), "{body}");
    assert!(retries(&asked, "input", "pull") > 2);
    let (_, metrics) = asked.request("GET", "/metrics");
    let state = "tremor_connector_state{flow=\"flow\",component=\"input\",state=\"retrying\"} 1\n";
    assert!(metrics.contains(state), "{metrics}");
    status.store(200, Ordering::Relaxed);
    asked.until_log("pulls succeed again");
    until_state(&asked, "input", "running");
    until_ready(&asked, 200);
    let log = asked.end();
    expect_counts(&log, &[("WARN the pull failed and is retried", 1), ("pulls succeed again", 1)]);
}

/// Returns a flow of `events` events to a sink at this address.
fn to_http(events: &str, address: &str, keys: &str) -> Scene {
    Scene::new(&format!(
        "connectors:
  input: {{ type: metronome, config: {{ interval_ms: 1, {events} }} }}
  output: {{ type: http_client, codec: json, {keys} config: {{ url: 'http://{address}/' }} }}
links: [input -> output]"
    ))
}

#[test]
fn sink_whose_deliveries_fail_is_retrying_until_they_succeed() {
    let (server, status) = server(503);
    let keys = "retry: { backoff: 1ms, max_backoff: 10ms },";
    let mut asked = start(to_http("", &server.address().to_string(), keys), &["flow.yaml"]);
    until_state(&asked, "output", "retrying");
    let body = until_ready(&asked, 503);
    assert!(body.contains("the connector `output` of `flow` has been retrying for "), "{body}");
    assert!(retries(&asked, "output", "deliver") > 0);
    status.store(200, Ordering::Relaxed);
    asked.until_log("delivers again");
    until_state(&asked, "output", "running");
    until_ready(&asked, 200);
    let log = asked.end();
    expect_counts(&log, &[("deliveries wait", 1), ("delivers again", 1)]);
}

/// Each of these statuses says that the configuration is wrong, and not the events.
#[test]
fn wrong_configuration_is_a_state_and_fails_no_event() {
    for (first, text) in [(401, "401 Unauthorized"), (407, "407 Proxy"), (404, "404 Not Found")] {
        let (server, status) = server(first);
        let keys = "retry: { backoff: 1ms, max_backoff: 10ms },";
        let flow = to_http("count: 50", &server.address().to_string(), keys);
        let mut asked = start(flow, &["flow.yaml"]);
        let output = until_state(&asked, "output", "retrying");
        assert!(output["error"].as_str().unwrap().contains(text), "{output}");
        asked.until("/v1/flows/flow/connectors/output", |it| {
            it["retries"]["deliver"].as_u64() > Some(2)
        });
        let line = asked.until_log("deliveries wait");
        assert!(line.contains(text) && line.contains("; check `") || first == 407, "{line}");
        status.store(200, Ordering::Relaxed);
        let log = asked.ended();
        expect_counts(&log, &[("50 events in, 50 out, 0 dead-lettered", 1)]);
    }
}

/// A batch of which the peer refuses one event, and which is too large for it.
#[test]
fn refused_batch_loses_only_the_refused_event() {
    let accepted = Arc::new(Mutex::new(Vec::new()));
    let seen = accepted.clone();
    let server = Server::start(move |request| {
        let body = request.text();
        if body.len() > 2_000 {
            return response("413 Too large", "");
        }
        if body.lines().any(|line| line == "{\"n\":321}") {
            return response("400 Bad", "wrong number");
        }
        seen.lock().unwrap().extend(body.lines().map(str::to_owned));
        response("200 OK", "")
    });
    let lines: Vec<_> = (0..500).map(|number| format!("{{\"n\":{number}}}")).collect();
    let scene = Scene::new(&format!(
        "connectors:
  input: {{ type: file, preprocessors: [lines], codec: json, config: {{ path: in, mode: read }} }}
  output:
    type: http_client
    codec: json
    batch: {{ max_events: 500, linger: 1s }}
    config: {{ url: 'http://{}/', format: ndjson }}
  dead: {{ type: stdio, codec: json, postprocessors: [lines] }}
links: [input -> output, output/err -> dead]",
        server.address()
    ));
    let run = scene.write("in", lines.join("\n").as_bytes()).run();
    run.expect(0, &["1 dead-lettered"]);
    let letter: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(letter["original"], lines[321]);
    let message = letter["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("answered with 400 Bad Request: wrong number"), "{message}");
    let expected = lines.iter().filter(|line| **line != lines[321]);
    assert!(accepted.lock().unwrap().iter().eq(expected));
}

#[test]
fn sink_that_gave_up_is_not_retrying_and_never_delivers_again() {
    let (server, _) = server(503);
    let keys = "retry: { attempts: 2, backoff: 1ms, max_backoff: 1ms },";
    let mut asked = start(to_http("count: 1", &server.address().to_string(), keys), &["flow.yaml"]);
    asked.until_log("retries ended because no attempt was left");
    let run = asked.stop("TERM");
    run.expect(
        3,
        &["1 events in, 0 out, 0 dead-lettered, 1 failed", "1 events of flow `flow` failed"],
    );
    expect_counts(&run.stderr, &[("deliveries wait", 1), ("delivers again", 0)]);
}

/// Runs a flow whose sink is down, with a service manager. Stops the process after the notification `until`, or after
/// the first failed connection if `until` is `None`. Returns all notifications.
fn notifications(arguments: &[&str], until: Option<&str>) -> (Vec<String>, Run) {
    let flow = "connectors:
  input: { type: metronome, config: { interval_ms: 1 } }
  output: { type: tcp_client, codec: json, config: { address: '127.0.0.1:1' } }
links: [input -> output]";
    let scene = Scene::new(flow);
    let path = scene.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let mut received: Vec<String> = Vec::new();
    let mut receive = |socket: &UnixDatagram| {
        let mut message = [0; 256];
        let length = match socket.recv(&mut message) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) => panic!("{error}"),
        };
        let message = String::from_utf8_lossy(&message[..length]).trim().to_owned();
        received.push(message.clone());
        Some(message)
    };
    let mut command = scene.command(&[&["run"], arguments, &["flow.yaml"]].concat());
    command.env("NOTIFY_SOCKET", &path).env_remove("WATCHDOG_USEC").env_remove("WATCHDOG_PID");
    command.env("TREMOR_LOG", "info");
    let mut run = command.spawn().unwrap();
    if let Some(until) = until {
        while receive(&socket).unwrap() != until {}
    } else {
        // Read the log up to the first line about the sink.
        let mut log = Vec::new();
        let mut stderr = run.stderr.take().unwrap();
        while !String::from_utf8_lossy(&log).contains("not connected") {
            let mut part = [0; 1024];
            let length = stderr.read(&mut part).unwrap();
            assert_ne!(length, 0, "{}", String::from_utf8_lossy(&log));
            log.extend_from_slice(&part[..length]);
        }
        thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
    }
    Command::new("kill").args(["-TERM", &run.id().to_string()]).status().unwrap();
    let run = Run::of(&finish(run));
    socket.set_nonblocking(true).unwrap();
    while receive(&socket).is_some() {}
    (received, run)
}

#[test]
fn run_whose_sink_is_down_starts_and_is_ready_once() {
    let (received, run) = notifications(&[], Some("READY=1"));
    assert_eq!(received, ["READY=1", "STOPPING=1"]);
    run.expect(0, &[]);
}

#[test]
fn run_that_waits_for_its_connectors_is_never_ready_in_shutdown() {
    let (received, _) = notifications(&["--ready", "connected"], None);
    assert_eq!(received, ["STOPPING=1"]);
}

/// Runs a flow from a file to a sink that is down, and stops it with a drain deadline of a second.
fn stopped(config: &str) -> Run {
    let scene = Scene::new(&format!(
        "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: json
    config: {{ path: in, mode: read, follow: true, {config} }}
  output:
    type: http_client
    codec: json
    retry: {{ backoff: 1ms, max_backoff: 10ms }}
    config: {{ url: 'http://127.0.0.1:1/' }}
links: [input -> output]"
    ));
    let scene = scene.write("in", b"1\n2\n3\n");
    let mut asked = start_with(scene, &["--drain-timeout", "1", "flow.yaml"], 1, |command| command);
    asked.until_log("deliveries wait");
    asked.stop("TERM")
}

#[test]
fn stop_while_sink_is_down_succeeds_if_source_is_replayable() {
    stopped("checkpoint: position").expect(
        0,
        &[
            "warning: flow `flow` was stopped before everything had been delivered",
            "`output`",
            "note: the next run reads the events of `input` again\n",
        ],
    );
    stopped("").expect(
        4,
        &["error: flow `flow` was stopped before everything had been delivered", "`output`"],
    );
}

#[test]
fn exit_status_distinguishes_success_from_failed_events() {
    let flow = |err: &str, input: &[u8]| {
        let text = format!(
            "connectors:
  input: {{ type: file, preprocessors: [lines], codec: json, {err} config: {{ path: in, mode: read }} }}
  output: {{ type: 'null' }}
links: [input -> output]"
        );
        Scene::new(&text).write("in", input).run()
    };
    // A message that cannot be decoded was never accepted. A run without any accepted message fails.
    flow("", b"1\nx\n2\n").expect(0, &["3 events in, 2 out", "1 failed"]);
    flow("", b"x\ny\n")
        .expect(3, &["2 events in, 0 out", "2 failed", "error: 2 events of flow `flow` failed"]);
    flow("err: discard,", b"1\nx\n2\n").expect(0, &["1 discarded"]);
}

#[test]
fn operator_that_buffers_after_drain_is_named_and_fails_events() {
    let scene = Scene::new(
        "connectors:
  input: { type: file, preprocessors: [lines], codec: string, config: { path: in, mode: read } }
  output: { type: 'null' }
pipelines: { main: { operators: [mischief] } }
links: [input -> main -> output]",
    );
    let run = scene.write("in", b"forget\nother\nforget\n").run();
    let line = "operator 1 (`mischief`) of the pipeline still buffers 2 events";
    run.expect(3, &["3 events in, 1 out", "2 failed", "component=main", line]);
}

#[test]
fn source_at_its_pull_limit_names_the_pipeline_that_buffers() {
    let text = "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: json
    config: { path: in, mode: read, checkpoint: position, chunk_bytes: 4096, read_ahead: 2 }
  output: { type: 'null' }
pipelines:
  main: { operators: [{ window: { events: 50000, aggregates: { count: { function: count } } } }] }
links: [input -> main -> output]";
    let lines = "1234567\n".repeat(10_000);
    let asked = start(Scene::new(text).write("in", lines.as_bytes()), &["flow.yaml"]);
    let waits = |it: &Value| it["waits_for"][0]["reason"] == "pull limit";
    let input = asked.until("/v1/flows/flow/connectors/input", waits);
    assert_eq!(input["waits_for"][0]["sink"], "main", "{input}");
    asked.stop("TERM").expect(0, &["flow `flow`: "]);
}

#[test]
fn check_rejects_wrong_modes_and_warns_of_truncate() {
    let flow = |input: &str, output: &str| {
        let text = format!(
            "connectors:
  input: {{ type: file, codec: json, config: {{ path: in, mode: {input} }} }}
  output:
    type: file
    codec: json
    postprocessors: [lines]
    config: {{ path: out, mode: {output} }}
links: [input -> output]"
        );
        Scene::new(&text).tremor(&["check", "flow.yaml"])
    };
    flow("append", "read").expect(2, &["`input` has no source", "`output` has no sink"]);
    flow("read", "truncate").expect(0, &["`mode: truncate` deletes events that it has delivered"]);
    assert!(!flow("read", "append").stderr.contains("warning"));
}
