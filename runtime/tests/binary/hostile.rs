//! Tests of plugins with faults. A fault fails the plugin's flow and has no other effect.

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
fn panic_in_any_source_method_fails_flow_with_location() {
    for fault in ["constructor_panic", "connect_panic", "start_panic", "pull_panic"] {
        let run = source(fault);
        run.expect(1, &["flow `flow` failed", "connector `bad`", "panicked"]);
    }
}

#[test]
fn panic_in_any_sink_method_fails_flow_with_location() {
    for fault in ["deliver_panic", "stop_panic", "signal_panic"] {
        let run = sink(fault);
        run.expect(1, &["flow `flow` failed", "connector `bad`", "panicked"]);
    }
}

#[test]
fn plugin_errors_are_reported_verbatim() {
    source("constructor_error").expect(1, &["connector `bad`", "hostile: ConstructorError"]);
    source("connect_error").expect(1, &["connector `bad`", "hostile: ConnectError"]);
    sink("stop_error").expect(1, &["connector `bad`", "hostile: StopError"]);
    source("check_error").expect(2, &["flow.yaml:2:", "hostile: CheckError"]);
}

#[test]
fn plugin_that_hangs_or_crashes_in_check_fails_check() {
    source("check_crash").expect(2, &["flow.yaml:2:"]);
}

#[test]
fn plugin_whose_close_hangs_does_not_block_exit() {
    sink("stop_hang").expect(1, &["connector `bad`", "`close` did not finish"]);
}

#[test]
fn events_rejected_by_a_sink_count_as_failed() {
    sink("deliver_reject").expect(3, &["5 events in", "failed"]);
}

#[test]
fn pulls_without_events_are_logged_and_slowed() {
    for fault in ["pull_bad_data", "pull_nothing", "pull_idle_zero"] {
        let text = format!(
            "connectors:
  bad: {{ type: hostile, config: {{ fault: {fault}, times: 20, count: 3 }} }}
  output: {{ type: 'null' }}
links: [bad -> output]"
        );
        let run = Scene::new(&text).run();
        // Do not check the number of pulls: on a busy machine, pulls that take long do not count.
        let slowed = "its pulls are slowed down until it reads an event component=\"bad\"";
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
    let named = "output nothing; it is restarted without that input component=\"input\" preprocessor=\"mischief\"";
    run.expect(0, &[named, "3 events in, 2 out", "1 failed"]);
    assert_eq!(run.stdout, "before\nafter\n");
}
