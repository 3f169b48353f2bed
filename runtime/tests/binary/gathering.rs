//! Tests of a sink that gathers several deliveries into one object. The age limit of an object is longer than the
//! tests.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use crate::tremor::{Run, Scene, finish};

/// Returns a flow that gathers the lines of a file into objects. Each line is a delivery. `keys` are keys of the sink.
fn flow(keys: &str) -> Scene {
    let text = format!(
        "connectors:
  input:
    type: file
    codec: string
    preprocessors: [lines]
    config: {{ path: in, mode: read }}
  objects:
    type: objects
    codec: string
    config: {{ folder: out, max_bytes: 1GiB, max_age: 1h }}
    batch: {{ max_events: 1 }}
{keys}links: [input -> objects]"
    );
    Scene::new(&text).write("in", b"1\n2\n3\n4\n5\n6\n7\n8\n9\n")
}

/// Returns the objects of a run, in the order of their creation.
fn objects(scene: &Scene) -> Vec<String> {
    let entries = fs::read_dir(scene.path().join("out")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn finite_input_ends_with_a_flush() {
    let scene = flow("");
    scene.run().expect(0, &["9 events in, 9 out, 0 dead-lettered"]);
    assert_eq!(objects(&scene).concat(), "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
}

#[test]
fn drain_by_signal_stores_gathered_deliveries() {
    let text = "connectors:
  input: { type: stdio, preprocessors: [lines], codec: string }
  objects:
    type: objects
    codec: string
    config: { folder: out, max_bytes: 1GiB, max_age: 1h }
  output: { type: stdio, codec: string, postprocessors: [lines] }
links: [input -> objects, input -> output]";
    let scene = Scene::new(text);
    let mut child = scene.command(&["run", "flow.yaml"]).stdin(Stdio::piped()).spawn().unwrap();
    // Keep stdin open, so that the input does not end by itself.
    let mut stdin = child.stdin.take().unwrap();
    let mut echo = BufReader::new(child.stdout.take().unwrap());
    for line in ["one\n", "two\n", "three\n"] {
        stdin.write_all(line.as_bytes()).unwrap();
        let mut echoed = String::new();
        echo.read_line(&mut echoed).unwrap();
        assert_eq!(echoed, line);
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let run = Run::of(&child.wait_with_output().unwrap());
    drop(stdin);
    run.expect(0, &["3 events in, 6 out, 0 dead-lettered"]);
    assert_eq!(objects(&scene), ["one\ntwo\nthree\n"]);
}

#[test]
fn smaller_grant_is_logged_and_leads_to_smaller_objects() {
    let scene = flow("    in_flight: 2\n");
    let run = Run::of(&finish(scene.command(&["run", "flow.yaml"]).spawn().unwrap()));
    run.expect(0, &["the sink asks for more deliveries in flight", "wanted=64 granted=2"]);
    let objects = objects(&scene);
    assert_eq!(objects.concat(), "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    assert!(objects.len() > 1, "{objects:?}");
}

#[test]
fn ordered_stream_is_stored_delivery_by_delivery() {
    let scene = flow("    ordered: true\n");
    scene.run().expect(0, &["9 events in, 9 out, 0 dead-lettered"]);
    assert_eq!(objects(&scene).concat(), "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
}
