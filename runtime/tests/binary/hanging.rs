//! Plugins that block a thread, or never answer: others go on, and people are told.

use crate::{running::Running, tremor::Scene};

/// Flows whose connectors block, one thread each, and another flow in the same process.
fn blocking() -> Scene {
    let text = "connectors:
  one: { type: hostile, config: { fault: pull_block } }
  two: { type: hostile, config: { fault: pull_block } }
  ticks: { type: metronome, config: { interval_ms: 1 } }
  three: { type: hostile, config: { fault: deliver_block } }
  nowhere: { type: 'null' }
links: [one -> nowhere, two -> nowhere, ticks -> three]";
    let other = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [ticks -> output]";
    Scene::new(text).write("other.yaml", other.as_bytes())
}

#[test]
fn connectors_that_block_their_threads_stop_no_other_flow_and_are_reported() {
    for threads in ["1", "2"] {
        let mut running = Running::of(blocking(), &["flow.yaml", "other.yaml"], |command| {
            command.env("TREMOR_THREADS", threads)
        });
        // In whatever order they get a thread.
        let blocked = [(); 3].map(|()| running.until("hostile: "));
        assert_eq!(blocked.iter().filter(|line| line.contains("PullBlock")).count(), 2);
        (0..200).for_each(|_| _ = running.event());
        let reports = [(); 3].map(|()| running.until("a call blocks its thread"));
        for (component, call) in [("one", "pull"), ("two", "pull"), ("three", "deliver")] {
            let named = format!("component={component} call={call} ");
            assert!(reports.iter().any(|line| line.contains(&named)), "{named}: {reports:?}");
        }
    }
}

#[test]
fn more_connectors_that_block_than_there_can_be_threads_are_told_of_once() {
    let names: Vec<String> = (0..5).map(|number| format!("blocks_{number}")).collect();
    let connector =
        |name: &String| format!("  {name}: {{ type: hostile, config: {{ fault: pull_block }} }}\n");
    let connectors: String = names.iter().map(connector).collect();
    let links: Vec<String> = names.iter().map(|name| format!("{name} -> nowhere")).collect();
    let links = links.join(", ");
    let text = format!("connectors:\n{connectors}  nowhere: {{ type: 'null' }}\nlinks: [{links}]");
    let mut running = Running::of(Scene::new(&text), &["flow.yaml"], |command| {
        command.env("TREMOR_THREADS", "1")
    });
    // Of five, four find a thread.
    (0..4).for_each(|_| _ = running.until("hostile: PullBlock"));
    running.until("more calls of plugins block threads than the executor has threads");
}

#[test]
fn whatever_part_of_a_component_blocks_is_named() {
    let parts = [
        (
            "preprocessors: [lines, mischief], codec: string",
            "[]",
            "preprocessor `mischief`: process",
        ),
        ("preprocessors: [lines], codec: mischief", "[]", "codec `mischief`: decode"),
        ("preprocessors: [lines], codec: string", "[mischief]", "operator `mischief`: process"),
    ];
    for (input, operators, call) in parts {
        let text = format!(
            "connectors:
  input: {{ type: file, {input}, config: {{ path: in, mode: read }} }}
  output: {{ type: 'null' }}
pipelines:
  main: {{ operators: {operators} }}
links: [input -> main, main -> output]"
        );
        let scene = Scene::new(&text).write("in", b"block\n");
        let mut running = Running::of(scene, &["flow.yaml"], |command| command);
        let report = running.until("a call blocks its thread");
        assert!(report.contains(&format!("call={call} ")), "{call}: {report}");
    }
}
