//! Tests of sinks that violate the contract of plugins. The error names the sink, and no undelivered event counts as
//! delivered.

use crate::{running::Running, tremor::Scene};

/// Returns a flow of three events to a sink with a fault.
fn scene(sink: &str, fault: &str) -> Scene {
    let text = format!(
        "connectors:
  input: {{ type: file, codec: string, preprocessors: [lines], config: {{ path: in, mode: read }} }}
  sink: {{ type: {sink}, codec: string, restart: {{ attempts: 0 }}, config: {{ fault: {fault} }} }}
  dead: {{ type: stdio, codec: json, postprocessors: [lines] }}
links: [input -> sink, sink/err -> dead]"
    );
    Scene::new(&text).write("in", b"1\n2\n3\n")
}

#[test]
fn rejected_event_of_another_batch_fails_the_delivery() {
    let run = scene("hostile", "verify_rejects_copy").run();
    run.expect(1, &["`sink`", "rejected an event of another batch; reject events of the batch"]);
    assert_eq!(run.stdout, "", "no event of the batch goes to the dead letters");
}

#[test]
fn sink_that_ignores_its_flush_is_named() {
    let mut running =
        Running::of(scene("hostile_sink", "ignores_flush"), &["flow.yaml"], |command| command);
    let line = running.until("the sink returned from `flush`");
    assert!(line.contains("component=sink events=3"), "{line}");
}
