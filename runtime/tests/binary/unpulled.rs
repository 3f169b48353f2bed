//! Tests of files that are rotated, created and deleted while the source is not pulled.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    time::{Duration, Instant},
};

use crate::{
    api::{Asked, start},
    states::{until_ready, until_state},
    tremor::Scene,
};

/// Maximum time to wait for a condition. Longer than these tests take.
const LONG: Duration = Duration::from_mins(2);

/// Number of rotations, and of files that come and go.
const ROUNDS: usize = 4;

/// Returns a scene with a flow that follows the files in `logs`, and sends their lines to `address`.
fn following(address: SocketAddr, keys: &str) -> Scene {
    let scene = Scene::new(&format!(
        "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: string
    config: {{ path: 'logs/*.log', mode: read, follow: true, checkpoint: at{keys} }}
  output: {{ type: tcp_client, codec: string, postprocessors: [lines], config: {{ address: '{address}' }} }}
links: [input -> output]"
    ));
    fs::create_dir(scene.path().join("logs")).unwrap();
    scene
}

/// Waits until a metric of the source has this value.
#[track_caller]
fn until_metric(asked: &Asked, name: &str, value: usize) {
    let start = Instant::now();
    let line = format!("tremor_plugin_file_{name}");
    loop {
        let (_, metrics) = asked.request("GET", "/metrics");
        let mut lines = metrics.lines().filter(|it| it.starts_with(&line));
        if lines.any(|it| it.ends_with(&format!("}} {value}"))) {
            return;
        }
        assert!(start.elapsed() < LONG, "{name} is not {value}: {metrics}");
    }
}

/// Rotates a log and creates and deletes other files, as soon as the source has seen each of them. Returns the lines,
/// sorted.
fn rotate_and_delete(asked: &Asked) -> Vec<String> {
    let logs = asked.path().join("logs");
    let (mut lines, mut bytes) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        for (file, line) in [("app.log", "app"), ("pod.log", "pod")] {
            let line = format!("{line} {round}");
            writeln!(File::create(logs.join(file)).unwrap(), "{line}").unwrap();
            bytes += line.len() + 1;
            lines.push(line);
        }
        until_metric(asked, "unread_bytes", bytes);
        until_metric(asked, "files", 2 * (round + 1));
        // The renamed file replaces the one of the last round, as with `rotate 1` of logrotate.
        fs::rename(logs.join("app.log"), logs.join("app.log.1")).unwrap();
        fs::remove_file(logs.join("pod.log")).unwrap();
    }
    lines.sort();
    lines
}

/// Accepts the connection of the sink, and returns `count` lines, sorted.
fn received(listener: &TcpListener, count: usize) -> Vec<String> {
    let (mut peer, _) = listener.accept().unwrap();
    peer.set_read_timeout(Some(LONG)).unwrap();
    let (mut text, mut buffer) = (String::new(), [0; 1 << 10]);
    while text.lines().count() < count || !text.ends_with('\n') {
        let read = peer.read(&mut buffer).unwrap();
        assert!(read > 0, "the sink has closed its connection after: {text}");
        text += std::str::from_utf8(&buffer[..read]).unwrap();
    }
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn files_that_vanish_while_sink_is_down_are_read() {
    // The address is free again once the listener is dropped.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let asked = start(following(address, ""), &["flow.yaml"]);
    let lines = rotate_and_delete(&asked);
    let listener = TcpListener::bind(address).unwrap();
    assert_eq!(received(&listener, lines.len()), lines);
    asked.end();
}

#[test]
fn files_that_vanish_while_source_is_paused_are_read() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = start(following(address, ""), &["flow.yaml"]);
    let path = "/v1/flows/flow/connectors/input";
    until_state(&asked, "input", "running");
    asked.json("POST", &format!("{path}/pause"));
    until_state(&asked, "input", "paused");
    let lines = rotate_and_delete(&asked);
    asked.json("POST", &format!("{path}/resume"));
    assert_eq!(received(&listener, lines.len()), lines);
    asked.end();
}

/// Only one file may be open, so that the other one cannot be held.
#[test]
fn loss_while_sink_is_down_is_counted_and_shown() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut asked = start(following(address, ", max_open_files: 1"), &["flow.yaml"]);
    let logs = asked.path().join("logs");
    fs::write(logs.join("a.log"), "one\n").unwrap();
    until_metric(&asked, "files", 1);
    fs::write(logs.join("b.log"), "12345\n").unwrap();
    until_metric(&asked, "unread_bytes", 10);
    for name in ["a.log", "b.log"] {
        fs::remove_file(logs.join(name)).unwrap();
    }
    until_metric(&asked, "bytes_lost", 6);
    until_metric(&asked, "files_lost", 1);
    let line = asked.until_log("bytes of 1 file are lost");
    assert!(line.contains("b.log` was deleted or moved while closed"), "{line}");
    until_metric(&asked, "problem_lost_files", 1);
    let listener = TcpListener::bind(address).unwrap();
    assert_eq!(received(&listener, 1), ["one"]);
    let input = until_state(&asked, "input", "retrying");
    assert!(input["error"].to_string().contains("6 bytes of 1 file are lost"), "{input}");
    until_ready(&asked, 503);
    asked.end();
}
