//! Tests of `tremor bench`, and of the flows in `bench/flows`.

use std::env;

use serde_json::Value;

use crate::{
    logging::{flow_of_the_project, logging_vrl},
    tremor::{Run, Scene},
};

/// Five events. Three of them have a class of which one event may pass per window.
const EVENTS: &str = "{\"class\":\"a\",\"rate\":1}\n{\"class\":\"a\",\"rate\":1}\n\
                      {\"class\":\"a\",\"rate\":1}\n{\"class\":\"b\",\"rate\":9}\n\
                      {\"class\":\"b\",\"rate\":9}\n";

/// Returns a flow between `bench` connectors, through operators.
fn flow(operators: &str, links: &str) -> String {
    format!(
        "connectors:
  bench: {{ type: bench, codec: json, config: {{ file: in, iterations: 2 }} }}
  other: {{ type: bench, codec: json, config: {{ file: in, iterations: 3 }} }}
pipelines: {{ main: {{ operators: [{operators}] }} }}
links: [bench -> main -> bench{links}]"
    )
}

fn report(scene: &Scene, name: &str) -> Value {
    serde_json::from_str(&scene.read(name)).unwrap()
}

fn bench(scene: &Scene, more: &[&str]) -> Run {
    let arguments = ["bench", "flow.yaml", "--json", "out.json"];
    scene.tremor(&[&arguments, more].concat())
}

#[test]
fn benchmark_counts_every_event_and_reports_all_figures() {
    let scene = Scene::new(&flow("passthrough", "")).write("in", EVENTS.as_bytes());
    let run = bench(&scene, &["--hgrm", "out.hgrm"]);
    run.expect(0, &["10 events in, 10 out"]);
    let report = report(&scene, "out.json");
    for (key, expected) in [("events", 10), ("events_in", 10), ("bytes", 2 * 110)] {
        assert_eq!(report[key], expected, "{key}: {report}");
    }
    assert_eq!((&report["flow"], &report["link"]), (&"flow".into(), &"plugin".into()));
    for key in ["elapsed_s", "events_per_second", "bytes_per_second", "cpu_s", "cpu_ns_per_event"] {
        assert!(report[key].as_f64().unwrap() >= 0.0, "{key}: {report}");
    }
    for key in ["mean", "stdev", "p50", "p90", "p99", "p999", "max"] {
        assert!(report["latency_ns"][key].is_number(), "{key}: {report}");
    }
    let libraries = report["libraries"].as_array().unwrap();
    let [library] = &**libraries else { panic!("one library runs: {report}") };
    assert_eq!(library["name"], "connector-bench");
    assert_eq!(library["hash"].as_str().unwrap().len(), 32);
    for part in ["flow        flow\n", "events/s", "p99.9", "CPU", "connector-bench"] {
        assert!(run.stdout.contains(part), "`{part}` is not in:\n{}", run.stdout);
    }
    assert!(scene.read("out.hgrm").contains("Total count    =           10]"));
}

#[test]
fn report_names_flow_and_settings() {
    let scene = Scene::new(&flow("passthrough", "")).write("in", EVENTS.as_bytes());
    let run = bench(&scene, &["--rate", "100000"]);
    run.expect(0, &["10 events in, 10 out"]);
    let report = report(&scene, "out.json");
    for (pointer, expected) in [
        ("/machine/kernel", env::consts::ARCH),
        ("/build/rustc", "rustc 1."),
        ("/build/target", env::consts::ARCH),
        ("/build/version", "0."),
        ("/build/allocator", "system"),
        ("/data/0/path", "in"),
        ("/command/1", "bench"),
    ] {
        let found = report.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        assert!(found.contains(expected), "{pointer} has no `{expected}`: {report}");
    }
    for pointer in ["/machine/threads", "/machine/processors"] {
        assert!(report.pointer(pointer).and_then(Value::as_u64) >= Some(1), "{pointer}: {report}");
    }
    assert!(report["machine"]["cpu_features"].is_array(), "{report}");
    assert_eq!(report["data"][0]["bytes"], EVENTS.len());
    assert_eq!(report["data"][0]["hash"].as_str().unwrap().len(), 32);
    assert_eq!(report["rate"], 100_000.0);
    for part in ["offered     100000 events/s", "machine", "features", "rustc", "data", "command"] {
        assert!(run.stdout.contains(part), "`{part}` is not in:\n{}", run.stdout);
    }
}

#[test]
fn rate_is_divided_among_the_sources() {
    let text = flow("passthrough", ", other -> main");
    let scene = Scene::new(&text).write("in", EVENTS.as_bytes());
    bench(&scene, &["--rate", "30000"]).expect(0, &["25 events in, 25 out"]);
    assert_eq!(report(&scene, "out.json")["rate"], 30_000.0);
    bench(&scene, &[]).expect(0, &[]);
    assert_eq!(report(&scene, "out.json")["rate"], Value::Null);
}

#[test]
fn passing_and_excess_events_are_counted() {
    let operators = "bucket: { class: class, rate: rate, dimensions: none, window: 1h }";
    let overflow = ", main/overflow -> bench";
    for (links, expected) in [("", 5), (overflow, 10)] {
        let scene = Scene::new(&flow(operators, links)).write("in", EVENTS.as_bytes());
        bench(&scene, &[]).expect(0, &[&format!("10 events in, {expected} out")]);
        assert_eq!(report(&scene, "out.json")["events"], expected);
    }
}

#[test]
fn several_sources_are_counted_together() {
    let text = flow("passthrough", ", other -> main");
    let scene = Scene::new(&text).write("in", EVENTS.as_bytes());
    bench(&scene, &[]).expect(0, &["25 events in, 25 out"]);
    assert_eq!(report(&scene, "out.json")["events"], 25);
}

#[test]
fn command_line_overrides_flow_file() {
    let scene = Scene::new(&flow("passthrough", "")).write("in", b"").write("more", b"1\n2\n");
    let run = bench(&scene, &["--data", "more"]);
    run.expect(0, &["4 events in"]);
    let run = bench(&scene, &["--data", "more", "--duration", "0.05", "--warmup", "10ms"]);
    run.expect(0, &[]);
    let report = report(&scene, "out.json");
    assert!(report["events"].as_u64() < report["events_in"].as_u64(), "{report}");
    assert!(report["events_in"].as_u64() > Some(4), "no `iterations` any more: {report}");
}

#[test]
fn invalid_benchmark_fails_without_a_result() {
    let through = |links| flow("passthrough", links);
    for (flow, data, more, status, parts) in [
        (through(""), "{\n1\n", [].as_slice(), 1, ["no figures: 2 of 4", "codec"]),
        (through(""), "", &[], 1, ["in: the file has no events", "one event per line"]),
        (
            through(""),
            "1\n",
            &["--data", "none"],
            2,
            [
                "none: there is no such file to replay",
                "`cargo xtask generate-logs` writes the data",
            ],
        ),
        (
            through(", main -> other"),
            "1\n",
            &[],
            2,
            ["flow.yaml:2:", "1 of these sources and 2 of these sinks"],
        ),
        (through(""), "1\n", &["--warmup", "3600"], 1, ["nothing was measured", "--warmup"]),
        (
            through(""),
            "1\n",
            &["--link", "static"],
            2,
            ["needs a build that contains the plugins", "cargo xtask build-static"],
        ),
        (
            through(""),
            "1\n",
            &["--duration", "-1"],
            2,
            ["--duration", "a duration such as `250ms`"],
        ),
        (through(""), "1\n", &["--rate", "0"], 2, ["--rate", "a number of events per second"]),
    ] {
        let scene = Scene::new(&flow).write("in", data.as_bytes());
        let run = bench(&scene, more);
        run.expect(status, &parts);
        assert!(run.stdout.is_empty() && !scene.has("out.json"), "{more:?}: {}", run.stdout);
    }
}

/// Event for the flows of `bench/flows`.
const EVENT: &str = r#"{"application":"app1","index_type":"edilog","tags":["tag2"]}"#;
const PACKED: &str = "gaVoZWxsb6V3b3JsZA==";

/// Runs a flow of the project on this event, and returns the number of events that it delivered.
fn events_of(name: &str, data: &str, tremor: impl Fn(&Scene, &[&str]) -> Run) -> Value {
    let text = flow_of_the_project(name).replace(DURATION, "iterations: 2");
    let scene = Scene::new(&text)
        .write("in", format!("{data}\n{data}\n").as_bytes())
        .write("logging.vrl", logging_vrl().as_bytes());
    let run = tremor(&scene, &["bench", "flow.yaml", "--json", "out.json", "--data", "in"]);
    run.expect(0, &["0 dead-lettered"]);
    report(&scene, "out.json")["events"].clone()
}

#[test]
fn flows_of_the_project_lose_no_event() {
    for (name, data) in [
        ("passthrough", EVENT),
        ("passthrough-json", EVENT),
        ("passthrough-json-acknowledged", EVENT),
        ("passthrough-msgpack", PACKED),
        ("passthrough-two-inputs", EVENT),
        ("throughput-logging-json", EVENT),
        ("throughput-logging-msgpack", PACKED),
        ("set-field", EVENT),
        ("batched", EVENT),
        ("containers", "2026-01-02T03:04:05.678Z stdout F a message"),
        ("slow-sink", EVENT),
        ("slow-sink-in-order", EVENT),
    ] {
        let sources = if name.ends_with("two-inputs") { 2 } else { 1 };
        assert_eq!(events_of(name, data, Scene::tremor), 4 * sources, "{name}");
    }
}

#[test]
#[ignore = "builds the plugin `vrl` with its 400 packages, which takes minutes: `cargo xtask ci` does"]
fn flows_of_the_project_with_vrl_lose_no_event() {
    for (name, data) in [
        ("throughput-logging-json-vrl", EVENT),
        ("throughput-logging-msgpack-vrl", PACKED),
        ("set-field-vrl", EVENT),
    ] {
        assert_eq!(events_of(name, data, Scene::tremor_with_vrl), 4, "{name}");
    }
}

/// Setting of the duration in the flows of the project. The test replaces it by a number of iterations, so that the
/// result does not depend on the clock.
const DURATION: &str = "warmup_s: 2, duration_s: 10";
