//! Tests of sinks that stop no source: sinks that are down, paused or never answer, beside others that work.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::{
    api::{Asked, start},
    tremor::Scene,
};

/// Returns a scene with a file of `count` lines, which a source with a checkpoint reads.
fn scene(count: usize, connectors: &str, rest: &str) -> Scene {
    let mut lines = String::new();
    (0..count).for_each(|number| writeln!(lines, "{{\"n\":{number}}}").unwrap());
    let text = format!(
        "connectors:
  input:
    type: file
    codec: json
    preprocessors: [lines]
    config: {{ path: in, mode: read, checkpoint: checkpoint, chunk_bytes: 256 }}
  good: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: good, mode: append }} }}
{connectors}{rest}"
    );
    Scene::new(&text).write("in", lines.as_bytes())
}

/// Returns the counts of a sink.
fn events(asked: &Asked, sink: &str) -> Value {
    let flow = asked.json("GET", "/v1/flows/flow");
    let components = flow["components"].as_array().unwrap();
    let is = |it: &&Value| it["name"] == sink && it["role"] == "sink";
    components.iter().find(is).unwrap()["events"].clone()
}

fn lines(scene: &Scene, name: &str) -> usize {
    scene.read(name).lines().count()
}

/// The source gets all acknowledgements, so the next run reads nothing again.
#[test]
fn sink_that_drops_stops_neither_the_flow_nor_its_end() {
    for sink in [
        "type: hostile, config: { fault: deliver_hang }",
        "type: tcp_client, codec: json, postprocessors: [lines], config: { address: '127.0.0.1:1' }",
    ] {
        for when_full in ["drop_newest", "drop_oldest"] {
            let bad = format!(
                "  bad: {{ queue: {{ max_events: 20, when_full: {when_full} }}, {sink} }}\n"
            );
            let scene = scene(1_000, &bad, "links: [input -> bad, input -> good]");
            let arguments = ["run", "--drain-timeout", "200ms", "flow.yaml"];
            let run = scene.tremor(&arguments);
            run.expect(0, &["1000 events in, 1000 out, 0 dead-lettered, 1000 dropped"]);
            assert!(run.stderr.contains("events were dropped"), "{}", run.stderr);
            assert_eq!(lines(&scene, "good"), 1_000, "{sink}, {when_full}");
            scene.tremor(&arguments).expect(0, &["0 events in, 0 out"]);
        }
    }
}

#[test]
fn overflow_of_a_sink_that_is_down_reaches_err_with_the_reason() {
    let bad = "  bad:
    type: tcp_client
    codec: json
    postprocessors: [lines]
    queue: { max_events: 20, when_full: dead_letter }
    config: { address: '127.0.0.1:1' }
  rest: { type: file, codec: json, postprocessors: [lines], config: { path: rest, mode: append } }
pipelines:
  note:
    operators:
      - type: set
        config: { edits: [{ field: why, template: '{%overflow.sink} {%overflow.reason}' }] }
";
    let scene =
        scene(100, bad, "links: [input -> bad, input -> good, bad/err -> note, note -> rest]");
    let run = scene.tremor(&["run", "--drain-timeout", "200ms", "flow.yaml"]);
    run.expect(0, &["100 events in, 200 out, 100 dead-lettered"]);
    let rest = scene.read("rest");
    let mut events: Vec<Value> = rest.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    events.sort_by_key(|it| it["n"].as_u64());
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["n"], number, "{rest}");
        assert!(event["why"] == "bad queue_full" || event["why"] == "bad flow_ended", "{event}");
    }
    assert_eq!(events.last().unwrap()["why"], "bad flow_ended");
    assert_eq!((events.len(), lines(&scene, "good")), (100, 100));
}

#[test]
fn paused_sink_that_drops_stops_no_source_and_continues() {
    let scene = Scene::new(
        "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: 'null', queue: { max_events: 5, when_full: drop_oldest } }
links: [ticks -> output]",
    );
    let mut asked = start(scene, &["flow.yaml"]);
    let path = "/v1/flows/flow/connectors/output";
    asked.json("POST", &format!("{path}/pause"));
    let dropped = |it: &Value| it["events"]["dropped"].as_u64() > Some(20);
    let is_dropping = |it: &Value| it["components"].as_array().unwrap().iter().any(dropped);
    asked.until("/v1/flows/flow", is_dropping);
    let source = asked.json("GET", "/v1/flows/flow/connectors/ticks");
    assert_eq!((&source["waits_for"], &source["state"]), (&json!([]), &json!("running")));
    let (_, metrics) = asked.request("GET", "/metrics");
    let sample =
        "tremor_dropped_events_total{flow=\"flow\",component=\"output\",reason=\"queue_full\"} ";
    assert!(metrics.contains(sample), "{metrics}");
    let line = asked.until_log("events were dropped");
    assert!(line.contains("component=output") && line.contains("events="), "{line}");
    let before = events(&asked, "output")["delivered"].as_u64();
    asked.json("POST", &format!("{path}/resume"));
    let delivers = |it: &Value| {
        let delivered =
            |it: &Value| it["role"] == "sink" && it["events"]["delivered"].as_u64() > before;
        it["components"].as_array().unwrap().iter().any(delivered)
    };
    asked.until("/v1/flows/flow", delivers);
    let counts = events(&asked, "output");
    let of = |name: &str| counts[name].as_i64().unwrap();
    assert_eq!(of("taken"), of("delivered") + of("dropped") + of("in_flight"), "{counts}");
    asked.end();
}

/// The restarts happen while events flow.
#[test]
fn sink_restarted_a_hundred_times_accounts_for_each_event() {
    for (when_full, err) in
        [("drop_newest", ""), ("drop_oldest", ""), ("dead_letter", ", often/err -> rest")]
    {
        let scene = Scene::new(&format!(
            "connectors:
  ticks: {{ type: metronome, config: {{ interval_ms: 1 }} }}
  good: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: good, mode: append }} }}
  rest: {{ type: 'null' }}
  often: {{ type: 'null', queue: {{ max_events: 5, when_full: {when_full} }} }}
links: [ticks -> good, ticks -> often{err}]"
        ));
        let asked = start(scene, &["flow.yaml"]);
        let path = "/v1/flows/flow/connectors/often";
        (0..100).for_each(|_| _ = asked.json("POST", &format!("{path}/restart")));
        asked.until(path, |it| it["state"] == "running");
        asked.json("POST", "/v1/flows/flow/connectors/ticks/pause");
        asked.until("/v1/flows/flow/connectors/ticks", |it| it["state"] == "paused");
        // The sinks account for each event of the source once their queues are empty.
        asked.until("/v1/flows/flow", |flow| {
            let components = flow["components"].as_array().unwrap();
            let sum = |name: &str, role: &str, counts: &[&str]| {
                let is = |it: &&Value| it["name"] == name && it["role"] == role;
                let events = &components.iter().find(is).unwrap()["events"];
                assert_eq!(events["failed"], 0, "{when_full}: {flow}");
                counts.iter().map(|count| events[count].as_u64().unwrap()).sum::<u64>()
            };
            let read = sum("ticks", "source", &["taken"]);
            sum("good", "sink", &["delivered"]) == read
                && sum("often", "sink", &["taken"]) == read
                && sum("often", "sink", &["delivered", "dropped", "dead_lettered"]) == read
        });
        asked.end();
    }
}
