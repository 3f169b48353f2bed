//! Tests of the connector `exec`, with processes as sources, sinks and filters.

use std::{fs, path::Path};

use crate::{running::Running, support::workspace, tremor::Scene};

/// Returns whether a process is running.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn exec_example_delivers_every_event_through_filter() {
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

/// Returns a flow from a process to the terminal.
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
fn ended_process_is_restarted_until_flow_ends() {
    let script = "echo $$; echo said to people >&2; exit 3";
    let mut running = Running::of(Scene::new(&flow("", script)), &["flow.yaml"], |it| it);
    let pids: Vec<_> = (0..100).map(|_| running.event()).collect();
    running.until("ended with exit status 3");
    running.until("stderr: said to people");
    // Many processes have ended. They have left neither zombies nor descriptors behind.
    let descriptors = fs::read_dir(format!("/proc/{}/fd", running.pid())).unwrap().count();
    assert!(descriptors < 60, "{descriptors}");
    assert!(pids[..98].iter().all(|pid| !Path::new("/proc").join(pid).exists()));
    running.signal(&["TERM"]);
    running.end().expect(0, &[]);
}

#[test]
fn missing_program_fails_flow_with_remedy() {
    let scene = Scene::new(
        "connectors:
  process: { type: exec, codec: string, config: { command: no-such-program } }
  terminal: { type: stdio, codec: string }
links: [process -> terminal]",
    );
    scene.tremor(&["check", "flow.yaml"]).expect(0, &[]);
    scene
        .run()
        .expect(1, &["cannot start `no-such-program`: no folder of `PATH` contains this program"]);
}

#[test]
fn processes_ignoring_sigterm_end_with_the_flow() {
    let script = "trap \"\" TERM; sleep 1000 & echo $!; echo $$; while :; do sleep 1000; done";
    let running = Running::of(Scene::new(&flow("", script)), &["flow.yaml"], |it| it);
    let pids = [running.event(), running.event()];
    assert!(pids.iter().all(|pid| runs(pid)));
    running.signal(&["TERM"]);
    running.end().expect(0, &["did not end within 2s after SIGTERM"]);
    while pids.iter().any(|pid| runs(pid)) {
        std::thread::yield_now();
    }
}

#[test]
fn failure_at_end_of_sink_process_fails_flow() {
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
        &["ended with exit status 7 after it had received all events: it may not have processed them"],
    );
}
