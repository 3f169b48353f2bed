//! Tests of plugins that end the process, keep a processor busy or register too many metrics, and of child processes in
//! which such plugins run.

use std::{
    fs,
    process::{Command, Stdio},
    thread::yield_now,
    time::{Duration, Instant},
};

use crate::{running::Running, tremor::Scene};

/// Maximum time to wait for a condition. Longer than these tests take.
const LONG: Duration = Duration::from_mins(2);

fn hostile(fault: &str) -> Scene {
    Scene::new(&format!(
        "connectors:
  input: {{ type: hostile, config: {{ fault: {fault} }} }}
  output: {{ type: 'null' }}
links: [input -> output]"
    ))
}

#[test]
fn plugin_that_exits_with_status_0_fails_the_process() {
    let says = "error: a plugin has ended the process with a function such as `exit`";
    hostile("verify_pull_exit")
        .run()
        .expect(1, &[says, "in progress: `input` of flow `flow`: pull"]);
    let checked = hostile("check_exit").tremor(&["check", "flow.yaml"]);
    checked.expect(2, &["ended the process that asked about its configuration", says]);
}

#[test]
fn future_that_wakes_itself_without_end_is_reported() {
    let flow = "connectors:
  pulls: { type: hostile, config: { fault: pull_wake_storm } }
  ticks: { type: metronome, config: { interval_ms: 1 } }
  delivers: { type: hostile, config: { fault: deliver_wake_storm } }
  nowhere: { type: 'null' }
links: [pulls -> nowhere, ticks -> delivers]";
    let mut running = Running::of(Scene::new(flow), &["flow.yaml"], |command| command);
    let lines = [(); 2].map(|()| running.until("wakes itself without end"));
    for (component, call) in [("pulls", "pull"), ("delivers", "deliver")] {
        let named = format!("component={component} call={call} ");
        assert!(lines.iter().any(|line| line.contains(&named)), "{named}: {lines:?}");
    }
}

#[test]
fn blocking_functions_that_never_return_are_reported() {
    let scene = hostile("pull_blocks_threads");
    let mut running = Running::of(scene, &["flow.yaml"], |command| command);
    let line = running.until("blocking functions of the plugin have not returned");
    assert!(line.contains("component=input") && line.contains("waiting=13"), "{line}");
}

#[test]
fn metrics_above_the_limit_are_refused_once_and_fast() {
    let run = hostile("pull_metrics, times: 1").run();
    run.expect(0, &["10 events in, 10 out", "the plugin registered more than 1000 metrics"]);
    assert_eq!(run.stderr.matches("more than 1000 metrics").count(), 1, "{}", run.stderr);
}

/// Returns the processes that the process `pid` has started and that have this argument.
fn children(pid: u32, argument: &str) -> Vec<String> {
    let of_task =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let has_argument = |child: &&str| {
        let line = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|part| part == argument.as_bytes())
    };
    of_task.split_whitespace().filter(has_argument).map(str::to_owned).collect()
}

/// Returns whether a process exists that is not a zombie.
fn runs(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn child_in_which_a_plugin_hangs_ends_with_its_parent() {
    let scene = hostile("check_hang");
    let mut check = scene.command(&["check", "flow.yaml"]).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let child = loop {
        if let Some(child) = children(check.id(), "--check").pop() {
            break child;
        }
        assert!(start.elapsed() < LONG && check.try_wait().unwrap().is_none(), "no child");
        yield_now();
    };
    let signal = Command::new("kill").arg(check.id().to_string()).status().unwrap();
    assert!(signal.success() && !check.wait().unwrap().success());
    while runs(&child) {
        assert!(start.elapsed() < LONG, "the child {child} still runs");
        yield_now();
    }
}
