//! Every fault of the fixture `hostile`, each in a flow of its own and many in one process: the process
//! lives, and another flow in it delivers every event.

use serde_json::Value;

use crate::{api::start, running::Running, tremor::Scene};

/// Those that hold a thread for good, of which there can be as many as threads can stand in for in a process of
/// two, and those that keep all threads busy.
const HOLD: [&str; 6] = [
    "constructor_block",
    "pull_block",
    "pull_spin",
    "deliver_block",
    "pull_wake_storm",
    "deliver_wake_storm",
];
/// Those of calls that somebody asks for.
const ASKED_FOR: [(&str, &str); 2] = [("pause_panic", "pause"), ("resume_panic", "resume")];

/// A flow of many events at an even pace, which ends when it is asked to.
const OTHER: &str = "connectors:
  input: { type: hostile, config: { count: 1000000000, pace_ms: 1 } }
  output: { type: stdio, codec: string, postprocessors: [lines] }
links: [input -> output]";

/// The faults that can happen while a flow runs, as the fixture lists them.
fn faults() -> Vec<String> {
    let run = Scene::new("").tremor(&["plugin", "inspect", "hostile", "--json"]);
    run.expect(0, &[]);
    let described: Value = serde_json::from_str(&run.stdout).unwrap();
    let faults = &described["components"][0]["config"]["$defs"]["Fault"]["oneOf"];
    let names = faults.as_array().unwrap().iter().map(|it| it["const"].as_str().unwrap());
    names.filter(|it| *it != "none" && !it.starts_with("check_")).map(str::to_owned).collect()
}

/// What the fixture logs when a fault happens.
fn says(fault: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    let name: String = fault.split('_').map(capital).collect();
    format!("hostile: {name} component=\"{fault}\"")
}

/// A flow in which all calls to a connector with this fault happen. It brings events, and takes some.
fn flow(fault: &str, times: u32) -> String {
    let to = match fault {
        "fail_panic" => "hostile, config: { fault: deliver_reject }",
        "breaker_panic" => "hostile, config: { fault: deliver_lost }",
        _ => "'null'",
    };
    // It is told of a sink that is down only while it has more to bring.
    let pace = if fault == "breaker_panic" { 10 } else { 0 };
    format!(
        "connectors:
  slow: {{ type: hostile, config: {{ count: 300, pace_ms: 1 }} }}
  fast: {{ type: hostile, pull: {{ max_events: 10 }}, config: {{ count: 100 }} }}
  {fault}:
    type: hostile
    reconnect: {{ backoff: 1ms, max_backoff: 1ms }}
    restart: {{ attempts: 1000 }}
    retry: {{ backoff: 1ms, max_backoff: 1ms }}
    hang_limit: 500ms
    pull: {{ max_events: 10 }}
    config: {{ fault: {fault}, times: {times}, after: 5, count: 100, pace_ms: {pace}, hold_ms: 300 }}
  to: {{ type: {to} }}
links: [slow -> {fault}, fast -> {fault}, {fault} -> to]"
    )
}

/// Runs flows with these faults until each has happened, and another one in the same process.
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
    // What faults are logged as, and little else: the process has no other reader.
    let log = "warn,tremor::plugin=debug";
    let mut running = Running::of(scene, &arguments, |command| {
        command.env("TREMOR_THREADS", "2").env("TREMOR_LOG", log)
    });
    running.until_all(awaited);
    expect_all(running);
}

/// Another flow of the same process has delivered every event that came in, in order; some flows have failed.
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
fn a_process_with_every_fault_that_leaves_the_threads_alone_goes_on_and_its_other_flow_loses_nothing()
 {
    let faults = faults();
    let is_asked_for = |fault: &str| ASKED_FOR.iter().any(|(name, _)| *name == fault);
    let is_here = |fault: &&str| !HOLD.contains(fault) && !is_asked_for(fault);
    let here: Vec<&str> = faults.iter().map(String::as_str).filter(is_here).collect();
    assert_eq!(here.len(), faults.len() - HOLD.len() - ASKED_FOR.len());
    run(&here);
}

#[test]
fn a_process_whose_threads_are_held_or_kept_busy_goes_on_and_its_other_flow_loses_nothing() {
    run(&HOLD);
}

#[test]
fn a_connector_that_panics_when_it_is_paused_or_resumed_is_made_again() {
    for (fault, call) in ASKED_FOR {
        let ticks = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }";
        let bad = format!("{{ type: hostile, config: {{ fault: {fault}, times: 1 }} }}");
        let scene = Scene::new(&format!("{ticks}\n  bad: {bad}\nlinks: [ticks -> bad]"));
        let asked = start(scene, &["flow.yaml"]);
        let path = "/v1/flows/flow/connectors/bad";
        asked.until(path, |it| it["state"] == "running");
        asked.json("POST", &format!("{path}/pause"));
        // One that is resumed before it knows that it is paused is not told of either.
        asked.until(path, |it| match call {
            "pause" => it["restarts"] == 1,
            _ => it["state"] == "paused",
        });
        asked.json("POST", &format!("{path}/resume"));
        asked.until(path, |it| it["state"] == "running" && it["restarts"] == 1);
        assert!(asked.end().contains("panicked"), "{fault}");
    }
}
