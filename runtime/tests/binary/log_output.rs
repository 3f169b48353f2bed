//! Tests of a standard error that nobody reads, and of the format of the log.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write, pipe},
    net::TcpStream,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::Value;

use crate::{
    api,
    peer::{free_address, wait_until},
    running::Running,
    tremor::{Run, Scene, finish},
};

/// A flow that copies lines of JSON from stdin to stdout. Lines that are not JSON are logged as failed events.
const ECHO: &str = "connectors:
  input: { type: stdio, codec: json, preprocessors: [lines] }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [input -> output]";

/// A process that runs [`ECHO`].
struct Echo {
    child: Child,
    events: BufReader<ChildStdout>,
}

impl Echo {
    fn start(scene: &Scene, stderr: impl Into<Stdio>) -> Self {
        let mut command = scene.command(&["run", "flow.yaml"]);
        command.env("TREMOR_LOG", "debug").stdin(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().unwrap();
        let events = BufReader::new(child.stdout.take().unwrap());
        Self { child, events }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn event(&mut self) -> String {
        let mut line = String::new();
        self.events.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn signal(&self) {
        signal(&self.child);
    }

    fn end(self) -> Run {
        Run::of(&finish(self.child))
    }
}

fn signal(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
}

/// Returns a full pipe. If `is_blocking` is set, a write blocks; otherwise it fails.
fn full_pipe(is_blocking: bool) -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    if is_blocking {
        fcntl_setfl(&writer, flags).unwrap();
    }
    (reader, writer)
}

#[test]
fn closed_stderr_reader_costs_no_event() {
    let scene = Scene::new(ECHO);
    let mut echo = Echo::start(&scene, Stdio::piped());
    echo.send("{\"n\":1}");
    assert_eq!(echo.event(), "{\"n\":1}");
    drop(echo.child.stderr.take());
    for number in 2..5 {
        echo.send("not JSON");
        echo.send(&format!("{{\"n\":{number}}}"));
        assert_eq!(echo.event(), format!("{{\"n\":{number}}}"));
    }
    assert_eq!(echo.end().status, Some(0));
}

#[test]
fn metric_counts_log_lines_that_stderr_did_not_accept() {
    let scene = Scene::new(ECHO);
    let address = free_address();
    let mut command = scene.command(&["run", "--api", &address, "flow.yaml"]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut child = command.stdin(Stdio::piped()).stderr(full).spawn().unwrap();
    let mut echo = Echo { events: BufReader::new(child.stdout.take().unwrap()), child };
    echo.send("not JSON");
    echo.send("{\"n\":1}");
    assert_eq!(echo.event(), "{\"n\":1}");
    let dropped = || {
        let mut connection = TcpStream::connect(&address).unwrap();
        write!(connection, "GET /metrics HTTP/1.0\r\nhost: {address}\r\n\r\n").unwrap();
        let mut metrics = String::new();
        connection.read_to_string(&mut metrics).unwrap();
        let values =
            metrics.lines().filter_map(|it| it.strip_prefix("tremor_log_lines_dropped_total "));
        values.map(|value| value.parse::<u64>().unwrap()).next().unwrap()
    };
    while dropped() == 0 {
        thread::yield_now();
    }
    assert_eq!(echo.end().status, Some(0));
}

#[test]
fn full_disk_for_stderr_costs_no_event() {
    let scene = Scene::new(ECHO);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut echo = Echo::start(&scene, full);
    echo.send("not JSON");
    echo.send("{\"n\":1}");
    assert_eq!(echo.event(), "{\"n\":1}");
    assert_eq!(echo.end().status, Some(0));
}

#[test]
fn full_stderr_pipe_delays_neither_events_nor_sigterm() {
    for is_blocking in [true, false] {
        let scene = Scene::new(ECHO);
        let (reader, writer) = full_pipe(is_blocking);
        let mut echo = Echo::start(&scene, writer);
        for number in 0..100 {
            echo.send("not JSON");
            echo.send(&format!("{{\"n\":{number}}}"));
            assert_eq!(echo.event(), format!("{{\"n\":{number}}}"));
        }
        echo.signal();
        assert_eq!(echo.end().status, Some(0), "blocking: {is_blocking}");
        drop(reader);
    }
}

/// The plugin writes the report of a panic itself. After the first panic the connector restarts twice, and then the
/// flow fails.
#[test]
fn panic_with_full_stderr_does_not_block_its_thread() {
    let flow = "connectors:
  bad:
    type: hostile
    restart: { attempts: 2 }
    reconnect: { backoff: 1ms, max_backoff: 1ms }
    hang_limit: 1h
    config: { fault: pull_panic }
  output: { type: 'null' }
links: [bad -> output]";
    let scene = Scene::new(flow);
    let (reader, writer) = full_pipe(true);
    let mut command = scene.command(&["run", "flow.yaml"]);
    let child = command.stderr(writer).spawn().unwrap();
    drop(command);
    assert_eq!(finish(child).status.code(), Some(1));
    drop(reader);
}

#[test]
fn second_signal_ends_hung_run_with_full_stderr() {
    let flow = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  bad: { type: hostile, config: { fault: deliver_hang } }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [ticks -> bad, ticks -> output]";
    let scene = Scene::new(flow);
    let (reader, writer) = full_pipe(true);
    let mut command = scene.command(&["run", "--drain-timeout", "1000", "flow.yaml"]);
    let mut child = command.stderr(writer).spawn().unwrap();
    drop(command);
    let mut events = BufReader::new(child.stdout.take().unwrap());
    events.read_line(&mut String::new()).unwrap();
    // Signals that arrive soon after the first one belong to the same request. Nothing reports that here, because
    // stderr is full.
    wait_until(|| {
        signal(&child);
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(child.wait().unwrap().code(), Some(4));
    drop(reader);
}

/// Parses all lines, and checks that each of them is a JSON object.
#[track_caller]
fn parsed(stderr: &str) -> Vec<Value> {
    let object = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("text: {line}"));
        assert!(value["timestamp"].is_string() && value["message"].is_string(), "{line}");
        value
    };
    stderr.lines().map(object).collect()
}

/// A flow that fails, because the path of its sink is a folder.
const FAILS: &str = "connectors:
  input: { type: file, codec: json, preprocessors: [lines], config: { path: in, mode: read } }
  output: { type: file, codec: json, config: { path: ., mode: append } }
links: [input -> output]";

/// A flow that logs warnings: some of its events fail, and its source reads the file that the sink writes.
const WARNS: &str = "connectors:
  input: { type: file, codec: json, preprocessors: [lines], config: { path: in, mode: read } }
  copy: { type: file, codec: json, config: { path: in2, mode: append } }
  again: { type: file, codec: json, config: { path: in2, mode: append } }
links: [input -> copy, input -> again]";

#[test]
fn json_format_applies_to_warnings_errors_and_summary() {
    let scene = Scene::new(FAILS).write("warns.yaml", WARNS.as_bytes());
    let scene = scene.write("in", b"not JSON\n{}\n");
    let run = |flows: &[&str]| {
        let command = [&["run", "--log-format", "json"], flows].concat();
        let mut command = scene.command(&command);
        command.env("TREMOR_LOG", "debug");
        Run::of(&finish(command.spawn().unwrap()))
    };
    let ended = run(&["flow.yaml", "warns.yaml"]);
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    let lines = parsed(&ended.stderr);
    let find = |level: &str, flow: &str, part: &str| {
        let found = lines.iter().find(|line| {
            line["level"] == level
                && line["flow"] == flow
                && line["message"].as_str().unwrap().contains(part)
        });
        found.unwrap_or_else(|| panic!("no {level} `{part}` of {flow}: {}", ended.stderr))
    };
    find("WARN", "warns", "write the same file");
    assert_eq!(find("INFO", "warns", "events in, ")["events_out"], 2);
    assert_eq!(find("ERROR", "warns", "events failed")["component"], "input");
    find("INFO", "warns", "the flow has ended");
    find("ERROR", "flow", "error: flow `flow` failed");
    find("ERROR", "flow", "the flow has failed");
    let of_component = lines.iter().filter(|line| line.get("component").is_some());
    of_component.for_each(|line| assert!(line.get("flow").is_some(), "{line}"));

    let wrong = run(&["nowhere.yaml"]);
    assert_eq!((wrong.status, parsed(&wrong.stderr).len()), (Some(2), 1), "{}", wrong.stderr);
}

#[test]
fn lines_of_plugins_and_requests_name_their_flow() {
    let flow = "connectors:
  server: { type: tcp_server, codec: string, preprocessors: [lines], config: { listen: '127.0.0.1:0' } }
  nowhere: { type: 'null' }
links: [server -> nowhere]";
    let asked = api::start(Scene::new(flow), &["flow.yaml"]);
    for request in ["pause", "resume", "restart"] {
        asked.json("POST", &format!("/v1/flows/flow/connectors/server/{request}"));
    }
    asked.until("/v1/flows/flow", |it| {
        let server = &it["connectors"][0];
        server["restarts"] == 1 && server["state"] == "running"
    });
    asked.json("POST", "/v1/flows/flow/drain");
    let log = asked.ended();
    for part in [
        "listens on 127.0.0.1",
        "the connector pauses because of a request",
        "the connector resumes because of a request",
        "the connector restarts because of a request",
        "the flow drains because of a request",
        "the flow has ended",
    ] {
        let line = log.lines().find(|line| line.contains(part));
        assert!(line.is_some_and(|it| it.ends_with(" flow=flow")), "{part}: {log}");
    }
}

#[test]
fn sink_that_gave_up_never_logs_that_it_delivers_again() {
    let flow = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1, count: 3 } }
  bad: { type: hostile, retry: { attempts: 2, backoff: 1ms }, config: { fault: deliver_full } }
links: [ticks -> bad]";
    let mut running = Running::of(Scene::new(flow), &["flow.yaml"], |command| command);
    running.until("the peer accepts no events at the moment");
    let run = running.end();
    run.expect(3, &["not delivered after 3 attempts", "3 failed"]);
    assert!(!run.stderr.contains("delivers again"), "{}", run.stderr);
}

#[test]
fn stdout_that_is_closed_or_full_does_not_panic() {
    let scene = Scene::new(ECHO);
    for arguments in [
        &["schema"][..],
        &["plugin", "list"],
        &["plugin", "inspect", "stdio"],
        &["completions", "bash"],
        &["check", "flow.yaml"],
    ] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let stderr = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let child = scene.command(arguments).stdout(writer).stderr(stderr).spawn().unwrap();
        assert_eq!(finish(child).status.code(), Some(0), "{arguments:?}");
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let run = Run::of(&finish(scene.command(arguments).stdout(full).spawn().unwrap()));
        assert!(!run.stderr.contains("panicked"), "{arguments:?}: {}", run.stderr);
    }
}
