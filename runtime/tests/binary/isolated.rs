//! Tests of connectors with `isolation: process`: a fault of their plugin ends its process, and nothing else.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    api::start,
    running::Running,
    tremor::{Run, Scene},
};

/// Maximum time to wait for a condition.
const LIMIT: Duration = Duration::from_mins(2);

/// Keys of a connector that runs in a process, and whose instance may be replaced often.
const ISOLATED: &str = "isolation: process, memory: 128MiB, restart: { attempts: 1000 }, reconnect: { backoff: 1ms, max_backoff: 1ms }";

/// A process, from its file `stat`.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    /// `true` if the process has ended and was not reaped.
    is_zombie: bool,
    pub(crate) command: String,
}

pub(crate) fn processes() -> Vec<Process> {
    let folders = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    folders.filter_map(|folder| process(&folder.path())).collect()
}

/// Returns the process of a folder of `/proc`, unless it has ended meanwhile.
fn process(folder: &Path) -> Option<Process> {
    let pid = folder.file_name()?.to_str()?.parse().ok()?;
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_zombie = fields.next()? == "Z";
    let parent = fields.next()?.parse().ok()?;
    let command = fs::read_to_string(folder.join("cmdline")).ok()?.replace('\0', " ");
    Some(Process { pid, parent, is_zombie, command })
}

/// Waits until `condition` returns a value.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < end, "no {what}");
        std::thread::yield_now();
    }
}

/// Returns the process of a component, which is a child of the process `parent`.
fn child_of(parent: u32, component: &str) -> Option<u32> {
    let command = format!("tremor plugin-process {component} ");
    let all = processes();
    let found = all.iter().find(|it| it.parent == parent && it.command == command);
    found.map(|it| it.pid)
}

pub(crate) fn signal(pid: u32, name: &str) {
    let pid = pid.to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

/// Returns a flow from a source that emits numbers to a file.
fn numbers(source: &str, sink: &str, count: u32) -> String {
    format!(
        "connectors:
  input: {{ type: dice, codec: string, {source} config: {{ seed: 1, count: {count} }} }}
  output:
    {{ type: file, codec: string, postprocessors: [lines], {sink} config: {{ path: out, mode: append }} }}
links: [input -> output]"
    )
}

/// Returns the numbers of the events in the output.
fn delivered(text: &str) -> BTreeSet<u32> {
    text.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

/// Returns the flow with one connector that has a fault and no restarts.
fn with_fault(fault: &str, keys: &str) -> Run {
    let text = format!(
        "connectors:
  bad: {{ type: hostile, isolation: process, {keys} restart: {{ attempts: 0 }}, config: {{ fault: {fault} }} }}
  output: {{ type: 'null' }}
links: [bad -> output]"
    );
    Scene::new(&text).run()
}

#[test]
fn isolated_source_and_sink_deliver_all_events_in_order() {
    for keys in
        [["isolation: process,", ""], ["", "isolation: process,"], ["isolation: process,"; 2]]
    {
        let scene = Scene::new(&numbers(keys[0], keys[1], 1_000));
        scene.run().expect(0, &["1000 events in, 1000 out"]);
        let lines: Vec<_> = scene.read("out").lines().map(str::to_owned).collect();
        let expected: Vec<_> = (0..1_000).map(|number| format!("input 0 {number}")).collect();
        assert_eq!(lines, expected, "{keys:?}");
    }
}

#[test]
fn structured_events_keep_values_metadata_and_rejections() {
    let text = "connectors:
  ticks: { type: metronome, isolation: process, config: { interval_ms: 1, count: 5 } }
  bad: { type: hostile, isolation: process, err: dead_letter, config: { fault: deliver_reject } }
  letters: { type: file, codec: json, postprocessors: [lines], config: { path: letters, mode: write } }
links: [ticks -> bad, bad/err -> letters]";
    let scene = Scene::new(text);
    scene.run().expect(0, &["5 events in", "5 dead-lettered"]);
    let letters = scene.read("letters");
    assert_eq!(letters.matches("hostile: DeliverReject").count(), 5, "{letters}");
}

#[test]
fn killed_source_loses_no_event() {
    expect_no_loss(
        "input",
        &numbers(&format!("{ISOLATED}, pull: {{ max_events: 10 }},"), "", 40_000),
    );
}

#[test]
fn killed_sink_loses_no_event() {
    expect_no_loss("output", &numbers("", &format!("{ISOLATED},"), 40_000));
}

/// Kills the process of a component each time that further events were delivered, and checks that all events arrive.
#[track_caller]
fn expect_no_loss(component: &str, text: &str) {
    const KILLS: usize = 8;
    let mut running = Running::of(Scene::new(text), &["flow.yaml"], |command| command);
    let parent = running.pid();
    for kill in 1..=KILLS {
        let out = running.scene.path().join("out");
        // At every kill there is more output than at the one before.
        let size = fs::metadata(&out).map_or(0, |out| out.len());
        wait_for("output", || {
            let now = fs::metadata(&out).map_or(0, |out| out.len());
            (now > size + 97 * kill as u64).then_some(())
        });
        let child = wait_for("process", || child_of(parent, component));
        signal(child, "KILL");
        wait_for("another process", || child_of(parent, component).filter(|it| *it != child));
    }
    // The flow ends by itself once every event is acknowledged.
    let out = running.scene.path().join("out");
    running.until("the flow has ended");
    assert_eq!(delivered(&fs::read_to_string(out).unwrap()), (0..40_000).collect());
    running.end().expect(0, &[" 0 dead-lettered"]);
}

#[test]
fn crash_loop_exhausts_restarts_and_fails_flow() {
    let text = "connectors:
  bad:
    type: hostile
    isolation: process
    restart: { attempts: 2 }
    reconnect: { backoff: 1ms, max_backoff: 1ms }
    config: { fault: verify_connect_abort }
  output: { type: 'null' }
links: [bad -> output]";
    let run = Scene::new(text).run();
    run.expect(1, &["connector `bad`", "its process ended: SIGABRT"]);
    assert!(run.stderr.contains("connector restarts"), "{}", run.stderr);
}

#[test]
fn exit_of_plugin_ends_only_its_process() {
    let run = with_fault("verify_pull_exit", "");
    run.expect(1, &["connector `bad`", "its process ended with exit status 1", "`exit`"]);
}

#[test]
fn process_above_its_memory_limit_is_named() {
    let run = with_fault("pull_allocates", "memory: 64MiB,");
    run.expect(1, &["its process ended: SIGABRT", "memory allocation of 1073741824 bytes failed"]);
}

#[test]
fn call_that_blocks_its_thread_ends_its_process() {
    for fault in ["pull_block", "constructor_block", "pull_spin"] {
        // Beside busy programs, a process of which no call blocks may be silent for half a second.
        let run = with_fault(fault, "call_limit: 100ms, hang_limit: 3s,");
        run.expect(1, &["a call had not returned within the `hang_limit` of 3s"]);
    }
}

#[test]
fn stopped_process_is_killed_after_hang_limit() {
    let text = "connectors:
  input: { type: metronome, isolation: process, call_limit: 100ms, hang_limit: 500ms, config: { interval_ms: 1 } }
  output: { type: 'null' }
links: [input -> output]";
    let mut running = Running::of(Scene::new(text), &["flow.yaml"], |command| command);
    let child = wait_for("process", || child_of(running.pid(), "input"));
    signal(child, "STOP");
    running.until("it did not answer within the `hang_limit` of 500ms");
    wait_for("another process", || child_of(running.pid(), "input").filter(|it| *it != child));
}

#[test]
fn segmentation_fault_is_named_and_connector_restarts() {
    let text = "connectors:
  input: { type: metronome, isolation: process, config: { interval_ms: 1 } }
  output: { type: 'null' }
links: [input -> output]";
    let asked = start(Scene::new(text), &["flow.yaml"]);
    let path = "/v1/flows/flow/connectors/input";
    asked.until(path, |it| it["state"] == "running");
    let child = wait_for("process", || child_of(asked.pid(), "input"));
    // The handler that reports stack overflows returns from the first signal, which another process has sent.
    signal(child, "SEGV");
    signal(child, "SEGV");
    asked.until(path, |it| it["state"] == "running" && it["restarts"] == 1);
    let log = asked.end();
    assert!(log.contains("its process ended: SIGSEGV"), "{log}");
}

#[test]
fn log_lines_of_the_process_have_level_and_component() {
    let text = "connectors:
  bad: { type: hostile, isolation: process, config: { fault: pull_error, times: 1 }, restart: { attempts: 1 } }
  output: { type: 'null' }
links: [bad -> output]";
    let mut running = Running::of(Scene::new(text), &["flow.yaml"], |command| command);
    let line = running.until("hostile: PullError");
    assert!(line.contains("component=\"bad\""), "{line}");
}

#[test]
fn process_is_gone_after_the_end_of_the_flow_or_of_tremor() {
    let text = "connectors:
  input: { type: metronome, isolation: process, config: { interval_ms: 1 } }
  output: { type: 'null', isolation: process }
links: [input -> output]";
    for name in ["TERM", "KILL"] {
        let running = Running::of(Scene::new(text), &["flow.yaml"], |command| command);
        let children = ["input", "output"]
            .map(|component| wait_for("process", || child_of(running.pid(), component)));
        running.signal(&[name]);
        running.end();
        wait_for("end of the processes", || {
            let all = processes();
            let is_left = |it: &&Process| children.contains(&it.pid) && !it.is_zombie;
            all.iter().find(is_left).is_none().then_some(())
        });
    }
}

/// The number of descriptors is compared between instances that run, because it grows while an instance starts. Each
/// instance has fewer than it has restarts, so that a leak exceeds what the previous instance has not closed yet.
#[test]
fn restarts_leave_no_process_and_no_descriptor() {
    let text = format!(
        "connectors:
  input: {{ type: metronome, {ISOLATED}, config: {{ interval_ms: 1 }} }}
  output: {{ type: 'null' }}
links: [input -> output]"
    );
    let asked = start(Scene::new(&text), &["flow.yaml"]);
    let parent = asked.pid();
    let descriptors =
        || fs::read_dir(format!("/proc/{parent}/fd")).unwrap().filter_map(Result::ok).count();
    let runs_again = |restarts: u32| {
        let path = "/v1/flows/flow/connectors/input";
        asked.until(path, |it| it["state"] == "running" && it["restarts"] == restarts);
    };
    runs_again(0);
    let first = descriptors();
    for restart in 1..=20 {
        let child = wait_for("process", || child_of(parent, "input"));
        signal(child, "KILL");
        runs_again(restart);
    }
    wait_for("end of the leak", || (descriptors() <= first).then_some(()));
    let left: Vec<_> = processes().into_iter().filter(|it| it.parent == parent).collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn connector_of_standard_input_and_output_is_refused() {
    let text = "connectors:
  input: { type: metronome, config: { interval_ms: 1, count: 1 } }
  output: { type: stdio, codec: json, postprocessors: [lines], isolation: process }
links: [input -> output]";
    let run = Scene::new(text).tremor(&["check", "flow.yaml"]);
    run.expect(
        2,
        &["flow.yaml:3:", "`stdio` uses the standard input and output", "remove `isolation`"],
    );
}
