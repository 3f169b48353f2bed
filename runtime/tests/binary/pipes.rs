//! Tests of the plugin `file` with named pipes.

use std::{
    fs,
    os::unix::net::UnixListener,
    process::{Child, Command, Stdio},
};

use crate::{api, running::Running, tremor::Scene};

const FLOW: &str = "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: json
    config: { path: from, mode: read }
  output:
    type: file
    codec: json
    postprocessors: [lines]
    config: { path: to, mode: append }
links: [input -> output]";

fn make_pipe(scene: &Scene, name: &str) {
    let made = Command::new("mkfifo").arg(scene.path().join(name)).status();
    assert!(made.unwrap().success(), "mkfifo {name}");
}

fn shell(scene: &Scene, script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(scene.path()).stdin(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn pipe_is_read_until_writers_close_and_written_to_reader() {
    let scene = Scene::new(FLOW);
    ["from", "to"].iter().for_each(|name| make_pipe(&scene, name));
    let mut reader = shell(&scene, "cat to > read");
    // The second writer continues the message of the first writer.
    let mut writer = shell(&scene, "{ printf '1\\n{\"a\":'; printf '2}\\n3'; } > from");
    scene.run().expect(0, &["3 events in, 3 out"]);
    assert!(writer.wait().unwrap().success() && reader.wait().unwrap().success());
    assert_eq!(scene.read("read"), "1\n{\"a\":2}\n3\n");
}

#[test]
fn unread_events_of_a_pipe_wait_for_the_next_reader() {
    let scene = Scene::new(FLOW);
    ["from", "to"].iter().for_each(|name| make_pipe(&scene, name));
    // The sink can open the pipe once a reader has opened it. This reader closes the pipe before the event arrives.
    let mut first = shell(&scene, "exec 3< to; exec 3<&-; echo 1 > from");
    let mut running = Running::of(scene, &["flow.yaml"], |command| command);
    running.until("Broken pipe");
    assert!(first.wait().unwrap().success());
    let mut next = shell(&running.scene, "cat to > read");
    assert!(next.wait().unwrap().success());
    assert_eq!(running.scene.read("read"), "1\n");
    running.end().expect(0, &["1 events in, 1 out"]);
}

#[test]
fn sink_without_a_reader_of_its_pipe_names_the_remedy() {
    let scene = Scene::new(FLOW).write("from", b"1\n");
    make_pipe(&scene, "to");
    let mut running = Running::of(scene, &["flow.yaml"], |command| command);
    let line = running.until("waiting for a process to read the pipe `to`; start its reader");
    assert!(line.contains("component=\"output\""), "{line}");
    let mut reader = shell(&running.scene, "cat to > read");
    running.end().expect(0, &["1 events in, 1 out"]);
    assert!(reader.wait().unwrap().success());
}

#[test]
fn socket_at_path_of_file_is_refused_with_remedy() {
    for (name, doing) in [("from", "read"), ("to", "write")] {
        let scene = Scene::new(FLOW).write(if name == "from" { "to" } else { "from" }, b"");
        let _socket = UnixListener::bind(scene.path().join(name)).unwrap();
        let error = format!("cannot {doing} `{name}`");
        scene.run().expect(1, &[&error, "it is a socket; use a connector of type `unix_client`"]);
    }
}

#[test]
fn signal_ends_flow_with_idle_pipe() {
    let scene = Scene::new(FLOW);
    make_pipe(&scene, "from");
    let mut running = Running::of(scene, &["--drain-timeout", "1", "flow.yaml"], |command| command);
    running.until("component=output");
    running.signal(&["TERM"]);
    let run = running.end();
    assert!(run.status.is_some(), "the process has ended without a signal: {}", run.stderr);
}

/// Returns the number of threads for blocking work.
fn blocking_threads(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
    let names = tasks.flatten().filter_map(|task| name(task).ok());
    names.filter(|name| name.starts_with("blocking-")).count()
}

/// The threads for blocking work end soon after their last job, so they can be counted.
#[test]
fn pipes_without_peers_occupy_no_threads() {
    let (from, to): (Vec<_>, Vec<_>) =
        (0..24).map(|number| (format!("from{number}"), format!("to{number}"))).unzip();
    let connectors = from.iter().zip(&to).map(|(from, to)| {
        format!(
            "  {from}: {{ type: file, codec: json, config: {{ path: {from}, mode: read }} }}
  {to}: {{ type: file, codec: json, config: {{ path: {to}, mode: append }} }}
  null{from}: {{ type: 'null' }}\n"
        )
    });
    let connectors = connectors.collect::<String>();
    let links =
        from.iter().zip(&to).map(|(from, to)| format!("{from} -> null{from}, ticks -> {to}"));
    let links = links.collect::<Vec<_>>().join(", ");
    let scene = Scene::new(&format!(
        "connectors:
  ticks: {{ type: metronome, config: {{ interval_ms: 1000 }} }}
{connectors}links: [{links}]"
    ));
    from.iter().chain(&to).for_each(|name| make_pipe(&scene, name));
    let asked = api::start(scene, &["flow.yaml"]);
    let is = |state| move |it: &serde_json::Value| it["state"] == state;
    for (from, to) in from.iter().zip(&to) {
        asked.until(&format!("/v1/flows/flow/connectors/{from}"), is("running"));
        asked.until(&format!("/v1/flows/flow/connectors/{to}"), is("connecting"));
    }
    asked.until("/v1/flows/flow", |_| blocking_threads(asked.pid()) <= 12);
}

/// Flows share the threads for blocking work, so a blocked sink must not use many of them.
#[test]
fn restarts_of_blocked_sink_occupy_few_threads() {
    let scene = Scene::new(FLOW);
    ["from", "to"].iter().for_each(|name| make_pipe(&scene, name));
    let asked = api::start(scene, &["flow.yaml"]);
    for restarts in 1..=40 {
        // A request before the instance connects counts as the same start, so it is repeated.
        asked.until("/v1/flows/flow/connectors/output", |it| {
            let is_new = it["restarts"].as_i64() >= Some(restarts) && it["state"] == "connecting";
            if !is_new {
                asked.json("POST", "/v1/flows/flow/connectors/output/restart");
            }
            is_new
        });
    }
    let blocking = blocking_threads(asked.pid());
    assert!(blocking < 20, "{blocking} threads for blocking work");
}
