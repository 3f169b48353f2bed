//! Tests of lost connections, and of peers that accept no events for a while.

use serde_json::Value;

use crate::tremor::{Run, Scene};

fn flow(bad: &str, rest: &str) -> Scene {
    Scene::new(&format!("connectors:\n  bad: {{ type: hostile, {bad} }}\n{rest}"))
}

fn run(scene: &Scene, level: &str) -> Run {
    let mut command = scene.command(&["run", "flow.yaml"]);
    let child = command.env("TREMOR_LOG", level).spawn().unwrap();
    Run::of(&crate::tremor::finish(child))
}

const QUICKLY: &str = "{ backoff: 1ms, max_backoff: 1ms }";
const OUT: &str = "  output: { type: 'null' }\nlinks: [bad -> output]";

impl Run {
    /// Returns the number of lines of the log that contain `part`.
    fn lines(&self, part: &str) -> usize {
        self.stderr.lines().filter(|line| line.contains(part)).count()
    }
}

#[test]
fn event_is_delivered_if_sink_is_lost_after_source_ended() {
    let config = "config: { fault: deliver_lost_late, times: 1, transactional: true }";
    let scene = flow(&format!("reconnect: {QUICKLY}, {config}"), "links: [bad -> bad]");
    let run = run(&scene, "debug");
    run.expect(0, &["10 events in, 10 out", "connection lost", "pull 1 was acknowledged"]);
}

#[test]
fn connection_lost_without_events_counts_as_attempt() {
    for (attempts, made) in [(0, "1 attempt:"), (3, "4 attempts:")] {
        let reconnect = format!("{{ attempts: {attempts}, backoff: 1ms, max_backoff: 1h }}");
        let bad = format!("reconnect: {reconnect}, config: {{ fault: pull_lost }}");
        let after = format!("not connected after {made} hostile: PullLost");
        flow(&bad, OUT).run().expect(1, &["connector `bad`", &after]);
    }
}

#[test]
fn repeated_connection_losses_log_few_lines() {
    let bad = format!("reconnect: {QUICKLY}, config: {{ fault: pull_lost, times: 500 }}");
    let run = flow(&bad, OUT).run();
    run.expect(0, &["10 events in, 10 out", "left_out=99"]);
    assert_eq!(run.lines("component=bad"), 11, "{}", run.stderr);
}

#[test]
fn connectors_lost_together_log_few_lines() {
    const CONNECTORS: usize = 200;
    let bad = format!(
        "reconnect: {QUICKLY}, config: {{ fault: pull_lost, times: {CONNECTORS}, count: 1 }}"
    );
    let others = 0..CONNECTORS - 1;
    let links: Vec<_> = others.clone().map(|at| format!("c{at} -> output")).collect();
    let others: Vec<_> = others.map(|at| format!("  c{at}: *one\n")).collect();
    let scene = Scene::new(&format!(
        "connectors:\n  bad: &one {{ type: hostile, {bad} }}\n{}  output: {{ type: 'null' }}\n\
         links: [bad -> output, {}]",
        others.concat(),
        links.join(", ")
    ));
    let run = scene.run();
    run.expect(0, &["200 events in, 200 out", "left_out="]);
    assert!(run.stderr.lines().count() < 50, "{}", run.stderr);
}

#[test]
fn connector_that_feeds_itself_reconnects() {
    // Use two sources and a stateful operator, so that the pipeline has a task of its own.
    let bad =
        format!("reconnect: {QUICKLY}, config: {{ fault: deliver_lost, times: 9, count: 5000 }}");
    let rest = "  other: { type: hostile, config: { count: 1 } }
pipelines: { p: { operators: [{ type: mischief, config: { } }] } }
links: [bad -> p, other -> p, p -> bad]";
    let run = flow(&bad, rest).run();
    run.expect(0, &["connection lost", "0 dead-lettered"]);
    let [received, delivered] = run.events();
    assert_eq!(received, delivered, "{}", run.stderr);
}

#[test]
fn sink_failing_inside_its_feeder_restarts_without_loss() {
    // The task of the source encodes and delivers the events, because they have only one sink.
    for fault in ["deliver_lost", "deliver_error", "deliver_panic"] {
        let bad = format!(
            "codec: json, reconnect: {QUICKLY}, config: {{ fault: {fault}, times: 2, after: 100 }}"
        );
        let rest = "  good: { type: hostile, codec: json, pull: { max_events: 10 }, \
                    config: { count: 500 } }\nlinks: [good -> bad]";
        flow(&bad, rest).run().expect(0, &["500 events in, 500 out, 0 dead-lettered"]);
    }
}

#[test]
fn peer_that_is_full_for_a_while_gets_every_event() {
    for fault in ["deliver_full", "deliver_timeout"] {
        let bad = format!("retry: {QUICKLY}, config: {{ fault: {fault}, times: 50 }}");
        let run = flow(&bad, "links: [bad -> bad]").run();
        run.expect(0, &["10 events in, 10 out", "0 dead-lettered", "deliveries wait"]);
        // The log has one line when the deliveries begin to wait, and one line when they succeed again.
        assert_eq!(run.lines("component=bad"), 2, "{}", run.stderr);
    }
}

#[test]
fn peer_that_accepts_parts_of_batches_gets_every_event() {
    let retry = "retry: { attempts: 0, backoff: 1ms }, pull: { max_events: 250 }";
    let bad = format!("{retry}, config: {{ fault: deliver_part, count: 250 }}");
    let run = flow(&bad, "links: [bad -> bad]").run();
    run.expect(0, &["250 events in, 250 out", "0 dead-lettered"]);
}

#[test]
fn events_rejected_by_full_peer_in_all_attempts_go_to_err() {
    let retry = "retry: { attempts: 2, backoff: 1ms }";
    let bad = format!("{retry}, config: {{ fault: deliver_full, times: 3, count: 3 }}");
    let dead = "
  dead: { type: file, codec: json, postprocessors: [lines], config: { path: dead, mode: write } }
links: [bad -> bad, bad/err -> dead]";
    let scene = flow(&bad, dead);
    scene.run().expect(0, &["3 dead-lettered"]);
    let letters = scene.read("dead");
    let letters: Vec<Value> = letters.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(letters.len(), 3);
    for (letter, original) in letters.iter().zip(["0", "1", "2"]) {
        assert_eq!(
            (&letter["component"], &letter["error"]["kind"]),
            (&"bad".into(), &"full".into())
        );
        let message = "not delivered after 3 attempts: hostile: DeliverFull";
        assert_eq!(
            (&letter["error"]["message"], &letter["original"]),
            (&message.into(), &original.into())
        );
    }
}
