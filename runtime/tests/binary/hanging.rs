//! Tests of plugins that block a thread: other flows continue, and the log names the component and the call.

use crate::{running::Running, tremor::Scene};

/// Returns a flow with three connectors that block one thread each, and `other.yaml`, a flow that works.
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
fn blocking_connectors_are_reported_and_stop_no_other_flow() {
    for threads in ["1", "2"] {
        let mut running = Running::of(blocking(), &["flow.yaml", "other.yaml"], |command| {
            command.env("TREMOR_THREADS", threads)
        });
        // The order depends on which connector gets a thread first.
        let blocked = [(); 3].map(|()| running.until("hostile: "));
        assert_eq!(blocked.iter().filter(|line| line.contains("PullBlock")).count(), 2);
        (0..200).for_each(|_| _ = running.event());
        let reports = [(); 3].map(|()| running.until("a call into the plugin blocks its thread"));
        for (component, call) in [("one", "pull"), ("two", "pull"), ("three", "deliver")] {
            let named = format!("component={component} call={call} ");
            assert!(reports.iter().any(|line| line.contains(&named)), "{named}: {reports:?}");
        }
    }
}

#[test]
fn connectors_that_block_all_threads_are_reported() {
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
    // The executor has one thread, and replaces blocked threads as long as there are at most four. Therefore four of
    // the five connectors block a thread, and the fifth connector never runs.
    (0..4).for_each(|_| _ = running.until("hostile: PullBlock"));
    running.until("calls of plugins block more threads than the executor can replace");
}

#[test]
fn report_names_blocking_processor_codec_or_operator() {
    let cases = [
        (
            "preprocessors: [lines, mischief], codec: string",
            "[]",
            "preprocessor `mischief`: process",
        ),
        ("preprocessors: [lines], codec: mischief", "[]", "codec `mischief`: decode"),
        ("preprocessors: [lines], codec: string", "[mischief]", "operator `mischief`: process"),
    ];
    for (input, operators, call) in cases {
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
        let report = running.until("a call into the plugin blocks its thread");
        assert!(report.contains(&format!("call={call} ")), "{call}: {report}");
    }
}
