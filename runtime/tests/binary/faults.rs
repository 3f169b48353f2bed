//! Tests of every fault of the connector `hostile`. Each fault has a flow of its own, and many flows run in one
//! process. The process survives, and another flow in the process delivers every event.

use serde_json::Value;

use crate::{api::start, running::Running, tremor::Scene};

/// Faults that block a thread permanently, or keep all threads busy. The list has at most six faults,
/// because a process with two threads starts at most six further threads.
const BLOCKING: [&str; 6] = [
    "constructor_block",
    "pull_block",
    "pull_spin",
    "deliver_block",
    "pull_wake_storm",
    "deliver_wake_storm",
];
/// Faults in calls that the runtime makes only on request of a user, and the request.
const REQUESTED: [(&str, &str); 2] = [("pause_panic", "pause"), ("resume_panic", "resume")];

/// A flow that emits an event every millisecond until it is stopped.
const OTHER: &str = "connectors:
  input: { type: hostile, config: { count: 1000000000, pace_ms: 1 } }
  output: { type: stdio, codec: string, postprocessors: [lines] }
links: [input -> output]";

/// Returns the faults that can happen while a flow runs, from the list of the fixture.
fn faults() -> Vec<String> {
    let run = Scene::new("").tremor(&["plugin", "inspect", "hostile", "--json"]);
    run.expect(0, &[]);
    let described: Value = serde_json::from_str(&run.stdout).unwrap();
    let faults = &described["components"][0]["config"]["$defs"]["Fault"]["oneOf"];
    let names = faults.as_array().unwrap().iter().map(|it| it["const"].as_str().unwrap());
    let elsewhere =
        |it: &&str| ["none", "check_", "verify_"].iter().any(|begin| it.starts_with(begin));
    names.filter(|it| !elsewhere(it)).map(str::to_owned).collect()
}

/// Returns the line that the fixture logs when a fault happens.
fn says(fault: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    let name: String = fault.split('_').map(capital).collect();
    format!("hostile: {name} component=\"{fault}\"")
}

/// Returns a flow with a connector that has this fault. The connector is source and sink, so that all calls are made.
fn flow(fault: &str, times: u32) -> String {
    let to = match fault {
        "fail_panic" => "hostile, config: { fault: deliver_reject }",
        "breaker_panic" => "hostile, config: { fault: deliver_lost }",
        _ => "'null'",
    };
    // Emit events slowly for this fault: a source is notified of an open circuit breaker only while it has more events.
    let pace = if fault == "breaker_panic" { 10 } else { 0 };
    let limit = if BLOCKING.contains(&fault) { "500ms" } else { "1m" };
    format!(
        "connectors:
  slow: {{ type: hostile, config: {{ count: 300, pace_ms: 1 }} }}
  fast: {{ type: hostile, pull: {{ max_events: 10 }}, config: {{ count: 100 }} }}
  {fault}:
    type: hostile
    reconnect: {{ backoff: 1ms, max_backoff: 1ms }}
    restart: {{ attempts: 1000 }}
    retry: {{ backoff: 1ms, max_backoff: 1ms }}
    hang_limit: {limit}
    pull: {{ max_events: 10 }}
    config: {{ fault: {fault}, times: {times}, after: 5, count: 100, pace_ms: {pace}, hold_ms: 300 }}
  to: {{ type: {to} }}
links: [slow -> {fault}, fast -> {fault}, {fault} -> to]"
    )
}

/// Runs flows with these faults until each fault has happened, together with another flow in the same process.
fn run(faults: &[&str]) {
    let mut scene = Scene::new("links: []").write("other.yaml", OTHER.as_bytes());
    let mut arguments: Vec<_> = ["--drain-timeout", "1", "other.yaml"].map(str::to_owned).into();
    let mut awaited = Vec::new();
    for fault in faults {
        let is_each = fault.ends_with("_every_error");
        awaited.extend(
            is_each.then(|| format!("hostile: there was every error component=\"{fault}\"")),
        );
        awaited.push(says(fault));
        let file = format!("{fault}.yaml");
        scene = scene.write(&file, flow(fault, if is_each { 55 } else { 3 }).as_bytes());
        arguments.push(file);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // Log the faults and few other lines.
    let log = "warn,tremor::plugin=debug";
    let mut running = Running::of(scene, &arguments, |command| {
        command.env("TREMOR_THREADS", "2").env("TREMOR_LOG", log)
    });
    running.until_all(awaited);
    expect_all(running);
}

/// Checks that the other flow has delivered every event, in order, and that some flows have failed.
#[track_caller]
fn expect_all(running: Running) {
    (0..100).for_each(|_| _ = running.event());
    running.signal(&["TERM"]);
    let run = running.end();
    let events = run.stdout.lines().count() + 100;
    let is_next = |(number, line): (usize, &str)| line == number.to_string();
    assert!(
        (100..).zip(run.stdout.lines()).all(is_next),
        "these are not the events that were sent"
    );
    run.expect(1, &[&format!("flow `other`: {events} events in, {events} out, 0 dead-lettered, ")]);
    assert!(!run.stderr.contains("flow `other` failed"), "{}", run.stderr);
}

#[test]
fn faults_that_block_no_thread_leave_other_flow_without_loss() {
    let faults = faults();
    let is_requested = |fault: &str| REQUESTED.iter().any(|(name, _)| *name == fault);
    let is_here = |fault: &&str| !BLOCKING.contains(fault) && !is_requested(fault);
    let here: Vec<&str> = faults.iter().map(String::as_str).filter(is_here).collect();
    assert_eq!(here.len(), faults.len() - BLOCKING.len() - REQUESTED.len());
    run(&here);
}

#[test]
fn blocked_or_busy_threads_leave_other_flow_without_loss() {
    run(&BLOCKING);
}

#[test]
fn connector_panicking_on_pause_or_resume_is_restarted() {
    for (fault, call) in REQUESTED {
        let ticks = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }";
        let bad = format!("{{ type: hostile, config: {{ fault: {fault}, times: 1 }} }}");
        let scene = Scene::new(&format!("{ticks}\n  bad: {bad}\nlinks: [ticks -> bad]"));
        let asked = start(scene, &["flow.yaml"]);
        let path = "/v1/flows/flow/connectors/bad";
        asked.until(path, |it| it["state"] == "running");
        asked.json("POST", &format!("{path}/pause"));
        // Wait for the effect of each request: a connector that is resumed before it has paused gets neither call.
        asked.until(path, |it| match call {
            "pause" => it["restarts"] == 1,
            _ => it["state"] == "paused",
        });
        asked.json("POST", &format!("{path}/resume"));
        asked.until(path, |it| it["state"] == "running" && it["restarts"] == 1);
        assert!(asked.end().contains("panicked"), "{fault}");
    }
}
