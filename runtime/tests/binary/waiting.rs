//! Tests of sources that wait for sinks, and of how the API, the metrics and the log show that.

use serde_json::{Value, json};

use crate::{
    api::{Asked, start, start_with},
    tremor::Scene,
};

/// Returns a connector of a flow.
fn connector<'f>(flow: &'f Value, name: &str) -> &'f Value {
    flow["connectors"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap()
}

/// Waits until the source `name` waits for sinks because of `reason`, and returns the list of these sinks.
#[track_caller]
fn until_waits(asked: &Asked, name: &str, reason: &str) -> Value {
    let path = format!("/v1/flows/flow/connectors/{name}");
    let waits = |it: &Value| it["waits_for"].as_array().is_some_and(|it| !it.is_empty());
    let found =
        asked.until(&path, |it| waits(it) && it["waits_for"][0]["reason"].as_str() == Some(reason));
    found["waits_for"].clone()
}

#[test]
fn sink_that_cannot_connect_stops_its_own_link_only() {
    let scene = Scene::new(
        "connectors:
  fast: { type: metronome, config: { interval_ms: 1, count: 50 } }
  slow: { type: metronome, config: { interval_ms: 1 } }
  good: { type: file, codec: json, postprocessors: [lines], config: { path: good, mode: write } }
  bad:
    type: tcp_client
    codec: json
    postprocessors: [lines]
    config: { address: '127.0.0.1:1' }
links: [fast -> good, slow -> bad]",
    );
    let mut asked = start(scene, &["flow.yaml"]);
    let has_ended = |it: &Value| it["state"] == "stopped";
    let flow = |asked: &Asked| asked.json("GET", "/v1/flows/flow");
    asked.until("/v1/flows/flow/connectors/good", has_ended);
    let has_error = |it: &Value| it["waits_for"][0]["error"].is_string();
    let slow = asked.until("/v1/flows/flow/connectors/slow", has_error);
    let waits = &slow["waits_for"];
    assert_eq!((&waits[0]["sink"], &waits[0]["reason"]), (&json!("bad"), &json!("connecting")));
    assert!(waits[0]["error"].as_str().unwrap().contains("refused"), "{waits}");
    assert_eq!(waits.as_array().map(Vec::len), Some(1));
    let flow = flow(&asked);
    assert_eq!(connector(&flow, "fast")["waits_for"], json!([]));
    let components = flow["components"].as_array().unwrap();
    let delivered = |name: &str| {
        let component = components.iter().find(|it| it["name"] == name).unwrap();
        component["events"]["delivered"].as_u64().unwrap()
    };
    assert_eq!([delivered("good"), delivered("slow")], [50, 0]);
    let (_, metrics) = asked.request("GET", "/metrics");
    assert!(metrics.contains("tremor_waiting{flow=\"flow\",component=\"slow\",for=\"bad\"} "));
    assert!(!metrics.contains("component=\"fast\",for="));
    let line = asked.until_log(" waits ");
    for part in ["flow=flow", "component=slow", "for=bad", "reason=\"connecting\"", "error="] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn full_queue_behind_pipeline_names_the_sink_at_its_end() {
    // Use two sources and a stateful operator, so that the pipeline has a task and a queue of its own.
    let scene = Scene::new(
        "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  idle: { type: hostile, config: { fault: pull_hang } }
  stuck: { type: hostile, queue: { max_events: 1 }, config: { fault: deliver_hang } }
pipelines:
  main: { operators: [{ type: mischief, config: { } }] }
links: [ticks -> main, idle -> main, main -> stuck]",
    );
    let asked = start(scene, &["flow.yaml"]);
    let waits = until_waits(&asked, "ticks", "queue full");
    assert_eq!(waits[0]["sink"], "stuck");
    let flow = asked.json("GET", "/v1/flows/flow");
    assert_eq!(connector(&flow, "idle")["waits_for"], json!([]));
    assert_eq!(connector(&flow, "stuck")["waits_for"], json!([]));
}

#[test]
fn source_that_fills_queue_of_paused_sink_waits_until_resumed() {
    let scene = Scene::new(
        "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: 'null', queue: { max_events: 1 } }
links: [ticks -> output]",
    );
    let asked = start(scene, &["flow.yaml"]);
    let path = "/v1/flows/flow/connectors/output";
    asked.json("POST", &format!("{path}/pause"));
    let waits = until_waits(&asked, "ticks", "paused");
    assert_eq!(waits[0]["sink"], "output");
    asked.json("POST", &format!("{path}/resume"));
    asked.until("/v1/flows/flow/connectors/ticks", |it| it["waits_for"] == json!([]));
    asked.end();
}

/// Memory that nobody returns stops the source, and no queue is full.
#[test]
fn memory_that_a_plugin_keeps_is_reported_with_its_component() {
    let scene = Scene::new(
        "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: 'null' }
pipelines:
  main: { operators: [{ type: hostile_operator, config: { fault: keeps_memory } }] }
links: [ticks -> main, main -> output]",
    );
    let arguments = ["--memory-limit", "32MiB", "flow.yaml"];
    let mut asked = start_with(scene, &arguments, 1, |command| command);
    let waits = until_waits(&asked, "ticks", "memory");
    assert_eq!(waits[0]["sink"], "main");
    assert!(waits[0]["bytes"].as_u64().unwrap() >= 1 << 30, "{waits}");
    let (_, metrics) = asked.request("GET", "/metrics");
    assert!(metrics.contains("tremor_waiting{flow=\"flow\",component=\"ticks\",for=\"main\"} "));
    let line = asked.until_log(" waits, because the flow may use no more memory");
    for part in ["component=ticks", "for=main", "reason=\"memory\"", "bytes="] {
        assert!(line.contains(part), "{line}");
    }
    let (status, body) = asked.request("GET", "/readyz");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("the source `ticks` of `flow` has waited for "), "{body}");
    assert!(body.contains(" s for memory that `main` uses"), "{body}");
    asked.end();
}

#[test]
fn plugin_that_gets_no_memory_is_reported_with_the_holder() {
    let scene = Scene::new(
        "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  wants: { type: hostile, config: { fault: pull_wants_memory } }
  output: { type: 'null' }
pipelines:
  main: { operators: [{ type: hostile_operator, config: { fault: borrows_memory } }] }
links: [ticks -> main, main -> output, wants -> output]",
    );
    let arguments = ["--memory-limit", "32MiB", "flow.yaml"];
    let mut asked = start_with(scene, &arguments, 1, |command| command);
    let line = asked.until_log("component=wants used=\"`main`: ");
    assert!(line.contains("the plugin has requested memory for 5 s and got none"), "{line}");
}
