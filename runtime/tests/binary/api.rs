//! Tests of the admin API of a running process, with a client in the test and with the commands of the program.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    running::Running,
    tremor::{Run, Scene, finish},
};

/// Maximum time to wait for a condition. Longer than these tests take.
pub(crate) const LONG: Duration = Duration::from_mins(2);

/// A running process with an admin API.
pub(crate) struct Asked {
    run: Running,
    pub(crate) address: String,
}

/// Starts flows, with the admin API at a free port.
pub(crate) fn start(scene: Scene, flows: &[&str]) -> Asked {
    start_with(scene, flows, flows.len(), |command| command)
}

/// Starts `count` flows with further arguments, with the admin API at a free port. `set` changes the command.
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

    /// Repeats a request until `is` returns `true` for the response.
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

    /// Waits for an event on stdout until `end`.
    pub(crate) fn event_until(&self, end: Instant) -> Option<String> {
        self.run.event_until(end)
    }

    /// Returns a command of the program that uses the API of this process.
    fn ask(&self, arguments: &[&str]) -> Command {
        self.run.scene.command(&[arguments, &["--api", &self.address]].concat())
    }

    /// Runs a command of the program that uses the API of this process, and returns its output.
    pub(crate) fn tremor(&self, arguments: &[&str]) -> Run {
        Run::of(&finish(self.ask(arguments).spawn().unwrap()))
    }

    /// Runs a command that uses the API of this process until it prints a line that starts with `begin`.
    pub(crate) fn first_line_of(&self, arguments: &[&str], begin: &str) -> String {
        let mut child = self.ask(arguments).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let found = lines.find_map(|line| line.ok().filter(|it| it.starts_with(begin))).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        found
    }

    /// Waits for a line of the log that contains `part`.
    #[track_caller]
    pub(crate) fn until_log(&mut self, part: &str) -> String {
        self.run.until(part)
    }

    /// Waits until the next server listens. Returns its address.
    #[track_caller]
    pub(crate) fn listens(&mut self) -> String {
        self.run.listens().0
    }

    /// Sends these signals without a delay between them.
    pub(crate) fn signal(&self, names: &[&str]) {
        self.run.signal(names);
    }

    /// Sends a signal and waits for the process to end.
    #[track_caller]
    pub(crate) fn stop(self, signal: &str) -> Run {
        self.run.signal(&[signal]);
        self.run.end()
    }

    /// Waits until the flows have ended, and returns the log.
    pub(crate) fn ended(self) -> String {
        let ended = self.run.end();
        ended.expect(0, &[]);
        ended.stderr
    }

    /// Stops the process, checks that it succeeds, and returns the log.
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
fn assert_counts_add_up(flow: &Value) {
    for component in flow["components"].as_array().unwrap() {
        let of = |result| count(component, result);
        let went = ["delivered", "dead_lettered", "discarded", "merged", "failed", "in_flight"];
        let went: i64 = went.into_iter().map(of).sum();
        assert_eq!(of("taken") + of("created"), went, "{component}");
    }
}

#[test]
fn event_counts_add_up_during_and_after_a_run() {
    let asked = live();
    let short = asked.until("/v1/flows/short", |flow| flow["state"] == "stopped");
    assert_counts_add_up(&short);
    let ticks = component(&short, "ticks");
    let results = ["taken", "created", "delivered", "in_flight"].map(|it| count(ticks, it));
    assert_eq!(results, [20, 20, 40, 0]);
    for sink in ["one", "two"] {
        let sink = component(&short, sink);
        assert_eq!((count(sink, "delivered"), count(sink, "in_flight")), (20, 0));
    }
    assert_counts_add_up(&asked.json("GET", "/v1/flows/live"));
    // While source and sink are paused, events that the sink has not received are in its queue.
    for connector in ["output", "ticks"] {
        let path = format!("/v1/flows/live/connectors/{connector}");
        asked.json("POST", &format!("{path}/pause"));
        asked.until(&path, |connector| connector["state"] == "paused");
    }
    let paused = asked.json("GET", "/v1/flows/live");
    assert_counts_add_up(&paused);
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
    assert!(!log.contains(['\r', '\x1b']), "stderr is not a terminal: {log}");
}

#[test]
fn run_is_ready_once_connected_and_ended_flow_is_immutable() {
    let asked = live();
    asked.until("/v1/flows/short", |flow| flow["state"] == "stopped");
    while asked.request("GET", "/readyz").0 != 200 {}
    let (status, body) = asked.request("POST", "/v1/flows/short/connectors/one/pause");
    assert_eq!(status, 409, "{body}");
    asked.end();
}

#[test]
fn drained_flow_ends_and_run_ends_with_last_flow() {
    let asked = live();
    let flow = asked.json("POST", "/v1/flows/live/drain");
    assert_ne!(flow["state"], "running");
    asked.run.end().expect(0, &["flow `live`: ", "flow `short`: 20 events in, 40 out"]);
}

/// Returns the first lines that a command prints, and kills it.
fn first_lines(mut command: Command, count: usize) -> Vec<String> {
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines = lines.take(count).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    lines
}

#[test]
fn tap_shows_passing_events_and_names_ports() {
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
    assert!(stderr.contains("no port `other`; available: `err`, `in`, `out`"), "{stderr}");
    let mut tap = asked.ask(&["tap", "live", "main"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(tap.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    asked.end();
    drop(tap.stdout.take());
    assert_eq!(finish(tap).status.code(), Some(0), "a tap ends with the run");
}

#[test]
fn top_prints_components_and_ends_with_the_process() {
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
    assert!(stderr.contains("cannot reach an admin API at 127.0.0.1:"), "{stderr}");
}

/// The socket of a service manager has a path, or an abstract name after `@`.
#[test]
fn service_manager_is_notified_of_start_watchdog_and_stop() {
    for is_abstract in [false, true] {
        let scene = Scene::new(
            "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: 'null' }
links: [ticks -> output]",
        );
        let path = scene.path().join("notify");
        let address = if is_abstract {
            SocketAddr::from_abstract_name(path.as_os_str().as_bytes())
        } else {
            SocketAddr::from_pathname(&path)
        };
        let socket = UnixDatagram::bind_addr(&address.unwrap()).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        let receive = || {
            let mut message = [0; 256];
            let length = socket.recv(&mut message).unwrap();
            String::from_utf8_lossy(&message[..length]).trim().to_owned()
        };
        let mut command = scene.command(&["run", "flow.yaml"]);
        let prefix = if is_abstract { "@" } else { "" };
        command.env("NOTIFY_SOCKET", format!("{prefix}{}", path.display()));
        command.env("WATCHDOG_USEC", "200000").env_remove("WATCHDOG_PID");
        let run = command.spawn().unwrap();
        let mut expected = vec!["READY=1", "WATCHDOG=1"];
        while !expected.is_empty() {
            let received = receive();
            expected.retain(|state| *state != received);
        }
        Command::new("kill").args(["-TERM", &run.id().to_string()]).status().unwrap();
        while receive() != "STOPPING=1" {}
        assert_eq!(finish(run).status.code(), Some(0));
    }
}

#[test]
fn api_reachable_by_everybody_is_not_started() {
    let flow = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: 'null' }
links: [ticks -> output]";
    let scene = Scene::new(flow).write("token", b"a-token-that-everybody-can-read");
    let run = |more: &[&str]| scene.tremor(&[&["run", "flow.yaml"], more].concat());
    run(&["--api", "0.0.0.0:0"])
        .expect(2, &["other machines can reach this address", "--api-token-file"]);
    let with_token = ["--api", "127.0.0.1:0", "--api-token-file", "token"];
    run(&with_token).expect(2, &["other users can read or change it", "chmod 600 token"]);
    run(&["--api-token-file", "token"]).expect(2, &["--api"]);
}
