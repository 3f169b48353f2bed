//! Tests of connectors that fail, panic and hang. They are restarted until their flow fails, and other flows continue.

use std::thread;

use crate::{running::Running, tremor::Scene};

const QUICKLY: &str = "reconnect: { backoff: 1ms, max_backoff: 1ms }";

/// Returns a flow from a faulty source.
fn source(keys: &str, config: &str) -> Scene {
    Scene::new(&format!(
        "connectors:
  bad: {{ type: hostile, {QUICKLY}, {keys}, config: {{ {config} }} }}
  nowhere: {{ type: 'null' }}
links: [bad -> nowhere]"
    ))
}

/// Returns a flow of these events to a faulty sink.
fn sink(events: &str, keys: &str, config: &str) -> Scene {
    Scene::new(&format!(
        "connectors:
  good: {{ type: hostile, pull: {{ max_events: 10 }}, config: {{ {events} }} }}
  bad: {{ type: hostile, {QUICKLY}, {keys}, config: {{ {config} }} }}
links: [good -> bad]"
    ))
}

/// A second flow, of a thousand events.
const OTHER: &str = "connectors:
  input: { type: hostile, config: { count: 1000, pace_ms: 1 } }
  output: { type: file, codec: string, postprocessors: [lines], config: { path: out, mode: write } }
links: [input -> output]";

fn with_other(scene: Scene) -> Scene {
    scene.write("other.yaml", OTHER.as_bytes())
}

/// Checks that the other flow has delivered all events in order.
#[track_caller]
fn expect_all(scene: &Scene) {
    let numbers: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    assert_eq!(scene.read("out").lines().collect::<Vec<_>>(), numbers);
}

#[test]
fn panicking_source_restarts_until_only_its_flow_fails() {
    let keys = "restart: { attempts: 3 }";
    let scene = with_other(source(keys, "fault: pull_panic, after: 10, count: 20"));
    let run = scene.tremor(&["run", "flow.yaml", "other.yaml"]);
    run.expect(
        1,
        &[
            "connector restarts component=bad",
            "flow `flow`: 40 events in, 40 out",
            "error: flow `flow` failed: connector `bad`: failed again after 3 restarts within 60s: ",
            "flow `other`: 1000 events in, 1000 out",
        ],
    );
    expect_all(&scene);
}

#[test]
fn panics_within_the_limit_are_only_logged() {
    for fault in ["pull_panic", "start_panic", "connect_panic"] {
        let run = source("restart: { attempts: 2 }", &format!("fault: {fault}, times: 2")).run();
        run.expect(0, &["10 events in, 10 out", "connector restarts component=bad", "panicked"]);
    }
}

#[test]
fn events_of_failed_sink_are_delivered_after_restart() {
    for fault in ["deliver_panic", "deliver_error", "signal_panic"] {
        let run =
            sink("count: 500", "in_flight: 4", &format!("fault: {fault}, times: 3, after: 100"))
                .run();
        run.expect(0, &["500 events in, 500 out, 0 dead-lettered", "component=bad"]);
    }
}

#[test]
fn connector_can_end_the_process_when_its_flow_fails() {
    for (on_failure, ends) in [("continue", false), ("exit", true)] {
        let keys = format!("restart: {{ attempts: 1 }}, on_failure: {on_failure}");
        let other = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [ticks -> output]";
        let scene = source(&keys, "fault: pull_panic").write("other.yaml", other.as_bytes());
        let arguments = ["flow.yaml", "other.yaml"];
        let mut running = Running::of(scene, &arguments, |command| command);
        running.until("component=bad state=\"failed\"");
        if !ends {
            (0..100).for_each(|_| _ = running.event());
            running.signal(&["INT"]);
        }
        let run = running.end();
        run.expect(1, &["flow `flow` failed: connector `bad`: failed again after a restart"]);
        assert!(!run.stderr.contains("flow `other` failed"), "{}", run.stderr);
    }
}

#[test]
fn connector_that_blocked_its_thread_restarts_without_loss() {
    let blocked = "blocked its thread for";
    // Emit many events: they continue until the runtime has noticed that the blocked call returned.
    let config = "fault: deliver_hold, hold_ms: 500, times: 1, after: 10";
    let scene = sink("count: 1000000, pace_ms: 1", "call_limit: 100ms", config);
    let mut running = Running::of(scene, &["flow.yaml"], |command| command);
    let restarts = running.until("connector restarts component=bad");
    assert!(restarts.contains("`deliver` ") && restarts.contains(blocked), "{restarts}");
    running.signal(&["INT"]);
    let run = running.end();
    run.expect(0, &["0 dead-lettered"]);
    let [received, delivered] = run.events();
    assert_eq!(received, delivered, "{}", run.stderr);

    let config = "fault: pull_hold, hold_ms: 500, after: 5, pace_ms: 1";
    let run = source("call_limit: 100ms, restart: { attempts: 1 }", config).run();
    run.expect(
        1,
        &["failed again after a restart within 60s", "`pull` ", blocked, "`call_limit` of 100ms"],
    );

    let config = "fault: deliver_hold, hold_ms: 500, times: 1";
    let run = sink("count: 10", "call_limit: 10s", config).run();
    run.expect(0, &["10 events in, 10 out"]);
    assert!(!run.stderr.contains("restarts"), "{}", run.stderr);
}

#[test]
fn endless_call_fails_its_flow_and_no_other() {
    let fails = |scene: Scene, call: &str| {
        let scene = with_other(scene);
        let arguments = ["run", "flow.yaml", "other.yaml", "--drain-timeout", "1"];
        let says = format!(
            "error: flow `flow` failed: connector `bad`: `{call}` has not returned within 300ms"
        );
        let run = scene.tremor(&arguments);
        run.expect(1, &[&says, "flow `other`: 1000 events in, 1000 out"]);
        expect_all(&scene);
    };
    // Run the cases in parallel, because each of them takes seconds.
    thread::scope(|scope| {
        for (scene, call) in [
            (source("hang_limit: 300ms", "fault: pull_block"), "pull"),
            (source("hang_limit: 300ms", "fault: constructor_block"), "new"),
            (sink("count: 500", "hang_limit: 300ms", "fault: deliver_block"), "deliver"),
        ] {
            scope.spawn(move || fails(scene, call));
        }
    });
}

#[test]
fn processor_call_that_never_returns_fails_the_flow() {
    let text = "connectors:
  input:
    type: file
    hang_limit: 300ms
    preprocessors: [lines, mischief]
    codec: string
    config: { path: in, mode: read }
  output: { type: 'null' }
links: [input -> output]";
    let scene = Scene::new(text).write("in", b"block\n");
    let run = scene.tremor(&["run", "flow.yaml", "--drain-timeout", "1"]);
    run.expect(1, &["connector `input`: `preprocessor `mischief`: process` has not returned"]);
}

#[test]
fn failed_events_are_logged_once_a_second_with_count() {
    let run = sink("count: 300, pace_ms: 1", "err: dead_letter", "fault: deliver_reject").run();
    run.expect(3, &["300 events in, 0 out, 0 dead-lettered, 300 failed"]);
    let lines = run.stderr.lines().filter(|line| line.contains("events failed component=bad"));
    let events = |line: &str| -> u32 {
        assert!(
            line.contains("hostile: DeliverReject") && line.contains("link `bad/err`"),
            "{line}"
        );
        let (_, rest) = line.split_once(" events=").unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    let events: Vec<u32> = lines.map(events).collect();
    assert_eq!(events.iter().sum::<u32>(), 300);
    // The log has lines for the first and the last event, and at most one line per second between them. 20 lines leave
    // time for a slow machine.
    assert!(events.len() < 20, "{events:?}");
}

#[test]
fn failure_of_flow_with_pipeline_is_reported() {
    let scene = Scene::new(
        "connectors:
  input:
    type: script
    codec: string
    config: { transactional: true, connections: [[{ messages: [error] }]] }
  output: { type: 'null' }
pipelines: { main: { operators: [mischief] } }
links: [input -> main -> output]",
    );
    scene.run().expect(1, &["error: flow `flow` failed: pipeline `main`: "]);
}
