//! The connector `exec`: processes of the system as sources, sinks and filters.

use std::{fs, path::Path};

use crate::{running::Running, support::workspace, tremor::Scene};

/// Whether a process runs.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn the_example_of_exec_brings_every_event_after_the_filter_has_had_all_of_them() {
    let folder = workspace().join("examples");
    let text = fs::read_to_string(folder.join("exec.yaml")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("plugins:"));
    let flow: String = lines.flat_map(|it| [it, "\n"]).collect();
    let logs = fs::read_to_string(folder.join("logs.json")).unwrap();
    let run = Scene::new(&flow).write("logs.json", logs.as_bytes()).run();
    run.expect(0, &[]);
    let mut expected: Vec<_> = logs.lines().collect();
    expected.sort_unstable();
    expected.reverse();
    assert!(run.stdout.lines().eq(expected));
}

/// A flow of a process and the terminal.
fn flow(keys: &str, script: &str) -> String {
    format!(
        "connectors:
  process:
    type: exec
    preprocessors: [lines]
    codec: string
    reconnect: {{ backoff: 1ms, max_backoff: 10ms }}
    config: {{ command: sh, args: [-c, '{script}'] {keys} }}
  terminal: {{ type: stdio, codec: string, postprocessors: [lines] }}
links: [process -> terminal]"
    )
}

#[test]
fn a_process_that_ends_is_started_again_until_the_flow_ends() {
    let script = "echo $$; echo said to people >&2; exit 3";
    let mut running = Running::of(Scene::new(&flow("", script)), &["flow.yaml"], |it| it);
    let pids: Vec<_> = (0..100).map(|_| running.event()).collect();
    running.until("ended with exit status 3");
    running.until("stderr: said to people");
    // Neither zombies nor descriptors are left of a hundred of them.
    let descriptors = fs::read_dir(format!("/proc/{}/fd", running.pid())).unwrap().count();
    assert!(descriptors < 60, "{descriptors}");
    assert!(pids[..98].iter().all(|pid| !Path::new("/proc").join(pid).exists()));
    running.signal(&["TERM"]);
    running.end().expect(0, &[]);
}

#[test]
fn a_program_that_is_not_there_fails_the_flow_with_what_to_do() {
    let scene = Scene::new(
        "connectors:
  process: { type: exec, codec: string, config: { command: no-such-program } }
  terminal: { type: stdio, codec: string }
links: [process -> terminal]",
    );
    scene.tremor(&["check", "flow.yaml"]).expect(0, &[]);
    scene.run().expect(
        1,
        &["cannot start `no-such-program`: no folder of `PATH` has a program of this name"],
    );
}

#[test]
fn a_process_and_what_it_has_started_end_with_the_flow_though_they_ignore_sigterm() {
    let script = "trap \"\" TERM; sleep 1000 & echo $!; echo $$; while :; do sleep 1000; done";
    let running = Running::of(Scene::new(&flow("", script)), &["flow.yaml"], |it| it);
    let pids = [running.event(), running.event()];
    assert!(pids.iter().all(|pid| runs(pid)));
    running.signal(&["TERM"]);
    running.end().expect(0, &["has not ended after SIGTERM, and is killed"]);
    while pids.iter().any(|pid| runs(pid)) {
        std::thread::yield_now();
    }
}

#[test]
fn a_sink_waits_for_the_end_of_its_process_and_a_failure_at_the_end_fails_the_flow() {
    let scene = |script: &str| {
        Scene::new(&format!(
            "connectors:
  input: {{ type: file, preprocessors: [lines], codec: string, config: {{ path: in, mode: read }} }}
  process:
    type: exec
    codec: string
    postprocessors: [lines]
    config: {{ command: sh, args: [-c, '{script}'], stop_timeout: 1m }}
links: [input -> process]"
        ))
        .write("in", b"one\ntwo\n")
    };
    let well = scene("cat > out; echo done");
    well.run().expect(0, &[]);
    assert_eq!(well.read("out"), "one\ntwo\n");
    scene("cat > out; exit 7").run().expect(
        1,
        &["ended with exit status 7 after it had all events: what it did with them is not known"],
    );
}
