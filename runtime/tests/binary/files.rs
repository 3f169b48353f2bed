//! Tests of the plugin `file` with a checkpoint, with which several runs of the program read a file.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    process::Command,
};

use crate::{http::post, running::Running, tremor::Scene};

fn flow(source: &str) -> String {
    format!(
        "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: json
    config: {{ path: in, mode: read, checkpoint: at, {source} }}
  output:
    type: file
    codec: json
    postprocessors: [lines]
    config: {{ path: out, mode: append, sync: batch }}
links: [input -> output]"
    )
}

fn append(scene: &Scene, text: &str) {
    let mut file = File::options().append(true).open(scene.path().join("in")).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn run_continues_where_the_last_one_ended() {
    let scene = Scene::new(&flow("chunk_bytes: 5")).write("in", b"1\n22\n333\n4444444\n5");
    scene.run().expect(0, &["5 events in, 5 out"]);
    assert_eq!(scene.read("out"), "1\n22\n333\n4444444\n5\n");
    scene.run().expect(0, &["0 events in"]);
    append(&scene, "6\n");
    scene.run().expect(0, &["1 events in, 1 out"]);
    assert_eq!(scene.read("out"), "1\n22\n333\n4444444\n5\n6\n");
}

#[test]
fn failed_event_is_redelivered_with_all_later_ones() {
    let scene = Scene::new(&flow("chunk_bytes: 4")).write("in", b"1\n2\nbad\n3\n");
    for _ in 0..2 {
        let run = scene.run();
        assert_ne!(run.status, Some(0), "{}", run.stderr);
    }
    let text = scene.read("in").replace("bad", "  9");
    std::fs::write(scene.path().join("in"), text).unwrap();
    // The file has other first bytes now, so it counts as another file and is read from its start.
    scene.run().expect(0, &[]);
    let out = scene.read("out");
    for event in ["1\n", "2\n", "9\n", "3\n"] {
        assert!(out.contains(event), "{out}");
    }
}

#[test]
fn damaged_checkpoint_fails_flow_with_remedy() {
    let scene = Scene::new(&flow("")).write("in", b"1\n").write("at", b"{ \"version\": 1, ");
    let run = scene.run();
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    for part in ["at`", "is damaged", "delete it"] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    assert!(!scene.has("out") || scene.read("out").is_empty());
}

/// With another terminator than that of the positions, the next run would begin within a message.
#[test]
fn positions_and_preprocessor_agree_on_ends_of_messages() {
    let flow = |first: &str, keys: &str| {
        format!(
            "connectors:
  input: {{ type: file, preprocessors: [{first}], codec: string, config: {{ path: in, mode: read, {keys} }} }}
  output: {{ type: 'null' }}
links: [input -> output]"
        )
    };
    let separated = "{ type: lines, config: { separator: ';' } }";
    for (first, keys) in [
        ("length-prefixed", "checkpoint: at"),
        ("length-prefixed", "checkpoint: at, message_end: \"\\n\""),
        ("length-prefixed", "offset: true"),
        ("gzip", "checkpoint: at"),
        ("json-values", "checkpoint: at"),
        ("csv-records", "checkpoint: at, message_end: \"\\n\""),
        ("{ decode-text: { encoding: utf-16 } }, lines", "checkpoint: at"),
        (separated, "checkpoint: at"),
        ("lines", "checkpoint: at, message_end: ';'"),
        ("hostile_preprocessor", "checkpoint: at"),
    ] {
        let scene = Scene::new(&flow(first, keys)).write("in", b"");
        for command in ["check", "run"] {
            let parts =
                ["flow.yaml:2:", "after a restart, the source would begin within a message"];
            scene.tremor(&[command, "flow.yaml"]).expect(2, &parts);
        }
    }
    for (first, keys) in [
        ("length-prefixed", "offset: false"),
        ("length-prefixed", "checkpoint: at, message_end: ''"),
        (separated, "checkpoint: at, message_end: ';'"),
        ("lines", "checkpoint: at"),
        ("cri", "checkpoint: at"),
        ("hostile_preprocessor", "checkpoint: at, message_end: \"\\n\""),
    ] {
        let scene = Scene::new(&flow(first, keys)).write("in", b"");
        scene.tremor(&["check", "flow.yaml"]).expect(0, &[]);
    }
}

#[test]
fn stopped_flow_keeps_position_of_followed_file() {
    let text = "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: string
    config: { path: in, mode: read, checkpoint: at, follow: true, poll_interval: 1ms }
  output: { type: stdio, codec: string, postprocessors: [lines] }
links: [input -> output]";
    let scene = Scene::new(text).write("in", b"one\ntwo\nha");
    let run = |expected: &str| {
        let mut child = scene.command(&["run", "flow.yaml"]).spawn().unwrap();
        let mut events = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        events.read_line(&mut line).unwrap();
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        events.read_to_string(&mut line).unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert_eq!(line, expected, "{stderr}");
    };
    run("one\ntwo\n");
    append(&scene, "lf a line\n");
    run("half a line\n");
}

fn limit_descriptors(running: &Running, soft: u32) {
    let arguments = [format!("--pid={}", running.pid()), format!("--nofile={soft}:")];
    assert!(Command::new("prlimit").args(arguments).status().unwrap().success());
}

/// The process has no free descriptor while the file is rotated, as if clients of another flow used them up.
#[test]
fn rotation_without_descriptors_is_retried() {
    let flow = "connectors:
  input: { type: metronome, config: { interval_ms: 5 } }
  output:
    type: file
    codec: json
    postprocessors: [lines]
    config: { path: out, mode: append, rotate: { max_bytes: 1, keep: 3 } }
links: [input -> output]";
    let mut running = Running::of(Scene::new(flow), &["flow.yaml"], |command| command);
    running.until("component=output state=running");
    limit_descriptors(&running, 3);
    running.until("deliveries wait");
    limit_descriptors(&running, 1_000);
    running.until("delivers again");
    running.signal(&["TERM"]);
    running.end().expect(0, &[]);
}

/// If another process renames, deletes or truncates the file, no event that is acknowledged after that is lost. A line
/// that can be read in the file is not acknowledged yet, so each step waits for the response to its event.
#[test]
fn sink_follows_name_of_file_that_others_rotate() {
    for mode in ["append", "truncate", "write"] {
        let flow = format!(
            "connectors:
  input:
    type: http_server
    codec: string
    config: {{ listen: '127.0.0.1:0', respond: delivered }}
  output:
    type: file
    codec: string
    postprocessors: [lines]
    config: {{ path: out, mode: {mode} }}
links: [input -> output]"
        );
        let mut running = Running::of(Scene::new(&flow), &["flow.yaml"], |command| command);
        let (address, _) = running.listens();
        let (out, renamed) = (running.scene.path().join("out"), running.scene.path().join("out.1"));
        let deliver = |line| assert_eq!(post(&address, line).expect("an answer").0, 200, "{line}");
        deliver("one");
        fs::rename(&out, &renamed).unwrap();
        deliver("two");
        deliver("three");
        fs::remove_file(&out).unwrap();
        deliver("four");
        assert_eq!(fs::read_to_string(&out).unwrap(), "four\n", "{mode}");
        fs::write(&out, "").unwrap();
        deliver("five");
        running.signal(&["TERM"]);
        let scene_files =
            [fs::read_to_string(&renamed).unwrap(), fs::read_to_string(&out).unwrap()];
        running.end().expect(0, &["5 events in, 5 out"]);
        assert_eq!(scene_files, ["one\ntwo\n", "five\n"], "{mode}");
    }
}
