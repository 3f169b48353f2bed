//! Plugins on tokio: two libraries at once, and connectors with a runtime each.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
};

use crate::{running::Running, tremor::Scene};

/// How many threads of a runtime a process has.
fn threads(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let names = tasks.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok());
    names.filter(|name| name.trim() == "tokio-plugin").count()
}

#[test]
fn connectors_have_a_runtime_each_and_the_process_ends_under_load() {
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
    // A connection that breaks is made again, on the same runtime.
    for _ in 0..3 {
        let (peer, _) = listener.accept().unwrap();
        assert!(BufReader::new(peer).lines().take(10).all(|line| line.is_ok()));
    }
    let (peer, _) = listener.accept().unwrap();
    let mut lines = BufReader::new(peer).lines();
    assert!(lines.next().unwrap().is_ok());
    assert_eq!(threads(running.pid()), 3, "three connectors of two libraries");
    running.signal(&["TERM"]);
    // What is still on its way is read.
    while lines.next().is_some_and(|line| line.is_ok()) {}
    // What ends with the threads of tokio asks the host once more, and the process may be ending by then.
    running.end().expect(0, &[]);
}

#[test]
fn a_panic_on_tokio_restarts_its_connector_and_the_runtime_goes_on() {
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
