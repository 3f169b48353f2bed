//! Tests of plugins that use tokio: with two libraries in one process, and with a runtime for each connector.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
};

use hostile_peers::{PATIENCE, acceptor::accept_within};

use crate::{running::Running, tremor::Scene};

/// Returns the number of threads of tokio runtimes in a process.
fn threads(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let names = tasks.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok());
    names.filter(|name| name.trim() == "tokio-plugin").count()
}

#[test]
fn connectors_have_own_runtime_and_process_ends_under_load() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let scene = Scene::new(&format!(
        "connectors:
  one: {{ type: tokio_clock, config: {{}} }}
  two: {{ type: tokio_clock, config: {{}} }}
  peer: {{ type: forward, codec: json, reconnect: {{ backoff: 1ms }}, config: {{ address: '{address}' }} }}
links: [one -> peer, two -> peer]"
    ));
    scene.tremor(&["check", "flow.yaml"]).expect(0, &[]);
    let running = Running::of(scene, &["flow.yaml"], |it| it);
    // Each lost connection is established again on the same tokio runtime.
    for _ in 0..3 {
        let peer = accept_within(&listener, PATIENCE).unwrap();
        assert!(BufReader::new(peer).lines().take(10).all(|line| line.is_ok()));
    }
    let peer = accept_within(&listener, PATIENCE).unwrap();
    let mut lines = BufReader::new(peer).lines();
    assert!(lines.next().unwrap().is_ok());
    assert_eq!(threads(running.pid()), 3, "three connectors of two libraries");
    running.signal(&["TERM"]);
    // Read the remaining lines, including those in flight.
    while lines.next().is_some_and(|line| line.is_ok()) {}
    // Objects that are dropped together with tokio's threads call the host once more, possibly while the process ends.
    running.end().expect(0, &[]);
}

#[test]
fn panic_on_tokio_restarts_only_its_connector() {
    let scene = Scene::new(
        "connectors:
  one:
    type: tokio_clock
    reconnect: { backoff: 1ms }
    restart: { attempts: 3, within: 1m }
    config: { panics_at: 2 }
  terminal: { type: stdio, codec: json, postprocessors: [lines] }
links: [one -> terminal]",
    );
    let run = scene.run();
    run.expect(1, &["as the flow says"]);
    assert_eq!(run.stdout, "0\n1\n".repeat(4), "the first instance, and three more");
}
