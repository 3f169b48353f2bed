//! A running process is asked, by a client of its own and by the program's.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::net::UnixDatagram,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    running::Running,
    tremor::{Run, Scene, finish},
};

/// Longer than any of these tests takes.
const LONG: Duration = Duration::from_mins(2);

/// A run that can be asked.
pub(crate) struct Asked {
    run: Running,
    pub(crate) address: String,
}

/// Starts flows with an API at some port.
pub(crate) fn start(scene: Scene, flows: &[&str]) -> Asked {
    start_with(scene, flows, flows.len(), |command| command)
}

/// Starts `count` flows with further arguments, with an API at some port and with what else is `set`.
pub(crate) fn start_with(
    scene: Scene,
    arguments: &[&str],
    count: usize,
    set: impl FnOnce(&mut Command) -> &mut Command,
) -> Asked {
    let arguments = [&["--api", "127.0.0.1:0"], arguments].concat();
    let mut run = Running::of(scene, &arguments, set);
    let line = run.until("the admin API listens address=");
    let address = line.rsplit_once('=').unwrap().1.to_owned();
    let asked = Asked { run, address };
    let begun = |it: &Value| it["flows"].as_array().is_some_and(|it| it.len() == count);
    asked.until("/v1/flows", begun);
    asked
}

impl Asked {
    pub(crate) fn pid(&self) -> u32 {
        self.run.pid()
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> (u16, String) {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        write!(connection, "{head}connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    #[track_caller]
    pub(crate) fn json(&self, method: &str, path: &str) -> Value {
        let (status, body) = self.request(method, path);
        assert!(status < 300, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Returns the folder of the flow.
    pub(crate) fn path(&self) -> &Path {
        self.run.scene.path()
    }

    /// Asks until the answer is as it should be.
    #[track_caller]
    pub(crate) fn until(&self, path: &str, is: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let value = self.json("GET", path);
            if is(&value) {
                return value;
            }
            assert!(start.elapsed() < LONG, "{value}");
        }
    }

    /// Waits for an event on stdout until this time.
    pub(crate) fn event_until(&self, end: Instant) -> Option<String> {
        self.run.event_until(end)
    }

    /// A command of the program that asks at this address.
    fn ask(&self, arguments: &[&str]) -> Command {
        self.run.scene.command(&[arguments, &["--api", &self.address]].concat())
    }

    /// Waits for a line of the log with `part` in it.
    #[track_caller]
    pub(crate) fn until_log(&mut self, part: &str) -> String {
        self.run.until(part)
    }

    /// Waits until the next server listens. Returns its address.
    #[track_caller]
    pub(crate) fn listens(&mut self) -> String {
        self.run.listens().0
    }

    /// Sends these signals, one right after the other.
    pub(crate) fn signal(&self, names: &[&str]) {
        self.run.signal(names);
    }

    /// Sends a signal and waits for the end.
    #[track_caller]
    pub(crate) fn stop(self, signal: &str) -> Run {
        self.run.signal(&[signal]);
        self.run.end()
    }

    /// Waits for the end of the flows, and returns the log.
    pub(crate) fn ended(self) -> String {
        let ended = self.run.end();
        ended.expect(0, &[]);
        ended.stderr
    }

    /// What it logged, once it has ended as it should.
    pub(crate) fn end(self) -> String {
        let ended = self.stop("TERM");
        ended.expect(0, &[]);
        ended.stderr
    }
}

pub(crate) fn live() -> Asked {
    let scene = Scene::new(
        "name: live
connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: file, codec: json, postprocessors: [lines], config: { path: out, mode: append } }
pipelines:
  main: { operators: [passthrough] }
links: [ticks -> main, main -> output]",
    );
    let scene = scene.write(
        "short.yaml",
        b"name: short
connectors:
  ticks: { type: metronome, config: { interval_ms: 1, count: 20 } }
  one: { type: 'null' }
  two: { type: 'null' }
links: [ticks -> one, ticks -> two]",
    );
    start(scene, &["flow.yaml", "short.yaml"])
}

fn component<'f>(flow: &'f Value, name: &str) -> &'f Value {
    let components = flow["components"].as_array().unwrap();
    components.iter().find(|it| it["name"] == name).unwrap()
}

fn count(component: &Value, result: &str) -> i64 {
    component["events"][result].as_i64().unwrap()
}

#[track_caller]
fn sums_hold(flow: &Value) {
    for component in flow["components"].as_array().unwrap() {
        let of = |result| count(component, result);
        let went = ["delivered", "dead_lettered", "discarded", "merged", "failed", "in_flight"];
        let went: i64 = went.into_iter().map(of).sum();
        assert_eq!(of("taken") + of("created"), went, "{component}");
    }
}

#[test]
fn for_each_component_the_sum_holds_while_a_flow_runs_and_once_it_has_ended() {
    let asked = live();
    let short = asked.until("/v1/flows/short", |flow| flow["state"] == "stopped");
    sums_hold(&short);
    let ticks = component(&short, "ticks");
    let results = ["taken", "created", "delivered", "in_flight"].map(|it| count(ticks, it));
    assert_eq!(results, [20, 20, 40, 0]);
    for sink in ["one", "two"] {
        let sink = component(&short, sink);
        assert_eq!((count(sink, "delivered"), count(sink, "in_flight")), (20, 0));
    }
    sums_hold(&asked.json("GET", "/v1/flows/live"));
    // With both ends paused, what the sink does not have yet is in its queue.
    for connector in ["output", "ticks"] {
        let path = format!("/v1/flows/live/connectors/{connector}");
        asked.json("POST", &format!("{path}/pause"));
        asked.until(&path, |connector| connector["state"] == "paused");
    }
    let paused = asked.json("GET", "/v1/flows/live");
    sums_hold(&paused);
    let [ticks, main, output] = ["ticks", "main", "output"].map(|name| component(&paused, name));
    assert_eq!(count(ticks, "delivered"), count(main, "taken"));
    let queued = output["queue"]["events"].as_i64().unwrap();
    assert_eq!(count(main, "delivered"), count(output, "taken") + queued);
    let (_, metrics) = asked.request("GET", "/metrics");
    let sample = format!(
        "tremor_queue_events{{flow=\"live\",component=\"output\",role=\"sink\"}} {queued}\n"
    );
    assert!(metrics.contains(&sample), "{metrics}");
    for connector in ["output", "ticks"] {
        asked.json("POST", &format!("/v1/flows/live/connectors/{connector}/resume"));
    }
    asked.json("POST", "/v1/flows/live/connectors/output/restart");
    let is_new = |it: &Value| it["state"] == "running" && it["restarts"] == 1;
    asked.until("/v1/flows/live/connectors/output", is_new);
    let before = count(output, "delivered");
    asked.until("/v1/flows/live", |flow| count(component(flow, "output"), "delivered") > before);
    let log = asked.end();
    assert!(!log.contains(['\r', '\x1b']), "stderr is no terminal: {log}");
}

#[test]
fn a_run_is_ready_once_its_connectors_are_connected_and_nothing_of_a_flow_that_has_ended_is_changed()
 {
    let asked = live();
    asked.until("/v1/flows/short", |flow| flow["state"] == "stopped");
    while asked.request("GET", "/readyz").0 != 200 {}
    let (status, body) = asked.request("POST", "/v1/flows/short/connectors/one/pause");
    assert_eq!(status, 409, "{body}");
    asked.end();
}

#[test]
fn a_flow_that_is_drained_ends_and_the_run_with_its_last_flow() {
    let asked = live();
    let flow = asked.json("POST", "/v1/flows/live/drain");
    assert_ne!(flow["state"], "running");
    asked.run.end().expect(0, &["flow `live`: ", "flow `short`: 20 events in, 40 out"]);
}

/// The first lines that a command prints, which is ended then.
fn first_lines(mut command: Command, count: usize) -> Vec<String> {
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines = lines.take(count).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    lines
}

#[test]
fn a_tap_shows_events_as_they_pass_and_says_which_ports_there_are() {
    let asked = live();
    for (component, port) in [("ticks", "out"), ("main", "in"), ("output", "in")] {
        for named in [component.to_owned(), format!("{component}/{port}")] {
            let line = &first_lines(asked.ask(&["tap", "live", &named]), 2)[1];
            let event: Value = serde_json::from_str(line).unwrap();
            assert!(event["event"].is_object(), "{event}");
        }
    }
    let output = finish(asked.ask(&["tap", "live", "main/other"]).spawn().unwrap());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("no port `other`; there is `err`, `in`, `out`"), "{stderr}");
    let mut tap = asked.ask(&["tap", "live", "main"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(tap.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    asked.end();
    drop(tap.stdout.take());
    assert_eq!(finish(tap).status.code(), Some(0), "a tap ends with the run");
}

#[test]
fn top_prints_a_line_for_each_component_and_ends_with_the_process() {
    let asked = live();
    let mut child = asked.ask(&["top"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    assert!(line().starts_with("live/ticks source "));
    assert!(line().starts_with("live/main pipeline running in_flight="));
    while !line().contains("/s out=") {}
    asked.end();
    lines.for_each(drop);
    let output = finish(child);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("no admin API answers at 127.0.0.1:"), "{stderr}");
}

#[test]
fn a_service_manager_hears_that_flows_run_that_they_go_on_and_that_they_end() {
    let scene = Scene::new(
        "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: 'null' }
links: [ticks -> output]",
    );
    let path = scene.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let hears = || {
        let mut message = [0; 256];
        let length = socket.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).trim().to_owned()
    };
    let mut command = scene.command(&["run", "flow.yaml"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000").env_remove("WATCHDOG_PID");
    let run = command.spawn().unwrap();
    let mut heard = Vec::new();
    while !(heard.contains(&"READY=1".to_owned()) && heard.contains(&"WATCHDOG=1".to_owned())) {
        heard.push(hears());
    }
    Command::new("kill").args(["-TERM", &run.id().to_string()]).status().unwrap();
    while hears() != "STOPPING=1" {}
    assert_eq!(finish(run).status.code(), Some(0));
}

#[test]
fn an_api_that_everybody_could_reach_is_not_started() {
    let flow = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: 'null' }
links: [ticks -> output]";
    let scene = Scene::new(flow).write("token", b"a-token-that-everybody-can-read");
    let run = |more: &[&str]| scene.tremor(&[&["run", "flow.yaml"], more].concat());
    run(&["--api", "0.0.0.0:0"]).expect(2, &["which others can reach", "--api-token-file"]);
    let with_token = ["--api", "127.0.0.1:0", "--api-token-file", "token"];
    run(&with_token).expect(2, &["other users can read or change it", "chmod 600 token"]);
    run(&["--api-token-file", "token"]).expect(2, &["--api"]);
}
