//! Tests of the codecs of the bundled plugins with the whole program.

use std::fs;

use serde_json::Value;

use crate::{support::workspace, tremor::Scene};

/// Returns a flow of the folder `examples`, with a file beside it.
fn example(name: &str, file: &str) -> Scene {
    let folder = workspace().join("examples");
    let flow = fs::read_to_string(folder.join(name)).unwrap();
    let flow: Vec<&str> = flow.lines().filter(|line| !line.starts_with("plugins:")).collect();
    Scene::new(&flow.join("\n")).write(file, &fs::read(folder.join(file)).unwrap())
}

#[test]
fn prometheus_example_emits_an_event_for_each_sample() {
    let run = example("prometheus.yaml", "scrape.prom").run();
    run.expect(0, &["10 events in, 7 out, 0 dead-lettered"]);
    let events: Vec<Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names = ["name", "type", "value", "help"].map(|key| &events[4][key]);
    assert_eq!(names, ["queue_wait_seconds", "summary", "NaN", "How long requests waited."]);
    assert_eq!(events[3]["family"], "http_request_duration_seconds");
}

#[test]
fn otlp_example_converts_json_to_protobuf() {
    let scene = example("otlp.yaml", "requests.jsonl");
    scene.run().expect(0, &["2 events in, 1 out, 0 dead-lettered"]);
    // Reading the written request and encoding it as JSON returns the second line.
    let again = "connectors:
  input:
    type: file
    preprocessors: [length-prefixed]
    codec: { otlp: { signal: logs } }
    config: { path: errors.pb, mode: read }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [input -> output]";
    let scene = scene.write("again.yaml", again.as_bytes());
    let run = scene.tremor(&["run", "again.yaml"]);
    run.expect(0, &["1 events in, 1 out"]);
    let expected = scene.read("requests.jsonl");
    let [found, expected] = [run.stdout.lines().next(), expected.lines().nth(1)]
        .map(|line| serde_json::from_str::<Value>(line.unwrap()).unwrap());
    assert_eq!(found, expected);
}

#[test]
fn invalid_request_or_sample_goes_to_err_with_its_position() {
    let flow = "connectors:
  samples:
    type: file
    preprocessors: [prometheus]
    codec: prometheus
    config: { path: samples, mode: read }
  request:
    type: file
    codec: { otlp: { signal: logs } }
    config: { path: request, mode: read }
  output: { type: stdio, codec: json, postprocessors: [lines] }
  dead: { type: file, codec: json, postprocessors: [lines], config: { path: dead, mode: write } }
links: [samples -> output, request -> output, samples/err -> dead, request/err -> dead]";
    let scene = Scene::new(flow)
        .write("samples", b"# TYPE a gauge\na{b=\"c} 1\na 2\n")
        .write("request", b"\x0a\x05abc");
    let run = scene.run();
    run.expect(0, &["3 events in, 1 out, 2 dead-lettered"]);
    assert!(run.stdout.contains("\"value\":2.0"), "{}", run.stdout);
    let dead = scene.read("dead");
    for expected in [
        "line 2, column 5: expected a closing quote in this line",
        "expected 5 bytes, found 3 at byte 1",
    ] {
        assert!(dead.contains(expected), "{dead}");
    }
}
