//! Tests of sinks that violate the contract of plugins. The error names the sink, and no undelivered event counts as
//! delivered.

use std::fs;

use crate::{running::Running, support::library, tremor::Scene};

/// Returns a flow of three events to a sink of a fixture. The plugin is in a folder of its own, because other plugins
/// of these tests have components with the same names.
fn scene(package: &str, sink: &str) -> Scene {
    let text = format!(
        "plugins: [own]
connectors:
  input: {{ type: file, codec: string, preprocessors: [lines], config: {{ path: in, mode: read }} }}
  sink: {{ type: {sink}, codec: string, restart: {{ attempts: 0 }} }}
  dead: {{ type: stdio, codec: json, postprocessors: [lines] }}
links: [input -> sink, sink/err -> dead]"
    );
    let scene = Scene::new(&text).write("in", b"1\n2\n3\n");
    let folder = scene.path().join("own");
    fs::create_dir(&folder).unwrap();
    fs::copy(library(package), folder.join("libfixture.so")).unwrap();
    scene
}

#[test]
fn rejected_event_of_another_batch_fails_the_delivery() {
    let run = scene("fixture-faults", "rejects_another_batch").run();
    run.expect(1, &["`sink`", "rejected an event of another batch; reject events of the batch"]);
    assert_eq!(run.stdout, "", "no event of the batch goes to the dead letters");
}

#[test]
fn sink_that_ignores_its_flush_is_named() {
    let mut running =
        Running::of(scene("fixture-step-faults", "ignores_flush"), &["flow.yaml"], |command| {
            command
        });
    let line = running.until("the sink returned from `flush`");
    assert!(line.contains("component=sink events=3"), "{line}");
}
