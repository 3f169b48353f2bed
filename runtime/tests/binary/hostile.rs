//! Plugins that misbehave fail their flow, and nothing else.

use crate::tremor::{Run, Scene};

fn source(fault: &str) -> Run {
    let text = format!(
        "connectors:
  bad: {{ type: hostile, restart: {{ attempts: 0 }}, config: {{ fault: {fault} }} }}
  output: {{ type: 'null' }}
links: [bad -> output]"
    );
    Scene::new(&text).run()
}

fn sink(fault: &str) -> Run {
    let text = format!(
        "connectors:
  ticks: {{ type: metronome, config: {{ interval_ms: 1, count: 5 }} }}
  bad: {{ type: hostile, restart: {{ attempts: 0 }}, config: {{ fault: {fault} }} }}
links: [ticks -> bad]"
    );
    Scene::new(&text).run()
}

#[test]
fn a_panic_anywhere_in_a_source_fails_the_flow_with_its_place() {
    for fault in ["constructor_panic", "connect_panic", "start_panic", "pull_panic"] {
        let run = source(fault);
        run.expect(1, &["flow `flow` failed", "connector `bad`", "panicked"]);
    }
}

#[test]
fn a_panic_anywhere_in_a_sink_fails_the_flow_with_its_place() {
    for fault in ["deliver_panic", "stop_panic", "signal_panic"] {
        let run = sink(fault);
        run.expect(1, &["flow `flow` failed", "connector `bad`", "panicked"]);
    }
}

#[test]
fn errors_of_a_plugin_are_told_in_its_words() {
    source("constructor_error").expect(1, &["connector `bad`", "hostile: ConstructorError"]);
    source("connect_error").expect(1, &["connector `bad`", "hostile: ConnectError"]);
    sink("stop_error").expect(1, &["connector `bad`", "hostile: StopError"]);
    source("check_error").expect(2, &["flow.yaml:2:", "hostile: CheckError"]);
}

#[test]
fn a_plugin_that_hangs_or_crashes_while_it_is_asked_is_a_wrong_configuration() {
    source("check_crash").expect(2, &["flow.yaml:2:"]);
}

#[test]
fn a_plugin_that_never_stops_does_not_keep_the_process() {
    sink("stop_hang").expect(1, &["connector `bad`", "`close` was not done"]);
}

#[test]
fn events_that_a_sink_refuses_are_counted_as_failed() {
    sink("deliver_reject").expect(3, &["5 events in", "failed"]);
}

#[test]
fn pulls_without_events_are_named_and_slowed_and_count_no_event() {
    for fault in ["pull_bad_data", "pull_nothing", "pull_idle_zero"] {
        let text = format!(
            "connectors:
  bad: {{ type: hostile, config: {{ fault: {fault}, times: 20, count: 3 }} }}
  output: {{ type: 'null' }}
links: [bad -> output]"
        );
        let run = Scene::new(&text).run();
        // A pull that takes long on a busy machine does not count, so the numbers of pulls vary.
        let slowed = "it is slowed down until it reads one component=\"bad\"";
        run.expect(0, &["3 events in", slowed, "reads events again component=\"bad\""]);
        assert!(!run.stderr.contains("failed,"), "{}", run.stderr);
    }
}

#[test]
fn preprocessor_with_endless_more_is_named_and_restarted() {
    let text = "connectors:
  input: { type: file, preprocessors: [lines, mischief], codec: string, config: { path: in, mode: read } }
  output: { type: stdio, codec: string, postprocessors: [lines] }
links: [input -> output]";
    let run = Scene::new(text).write("in", b"before\nmore\nafter\n").run();
    let named = "puts nothing out; it is restarted without that input preprocessor=\"mischief\"";
    run.expect(0, &[named, "3 events in, 2 out", "1 failed"]);
    assert_eq!(run.stdout, "before\nafter\n");
}
