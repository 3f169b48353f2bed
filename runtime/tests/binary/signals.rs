//! Signals end runs in order.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
    time::Duration,
};

use crate::{running::Running, tremor::Scene};

#[test]
fn a_signal_drains_while_events_flow() {
    for signal in ["-INT", "-TERM"] {
        let text = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [ticks -> output]";
        let scene = Scene::new(text);
        let mut child = scene.command(&["run", "flow.yaml"]).spawn().unwrap();
        let mut events = BufReader::new(child.stdout.take().unwrap());
        events.read_line(&mut String::new()).unwrap();
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        let mut rest = String::new();
        events.read_to_string(&mut rest).unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        let shown = 1 + rest.lines().count();
        let summary = format!("{shown} events in, {shown} out");
        assert!(stderr.contains(&summary), "`{summary}` is not in:\n{stderr}");
    }
}

#[test]
fn a_signal_interrupts_a_read_of_an_idle_stdin() {
    let text = "connectors:
  input: { type: stdio, preprocessors: [lines], codec: string }
  output: { type: stdio, codec: string, postprocessors: [lines] }
links: [input -> output]";
    let scene = Scene::new(text);
    let mut child = scene.command(&["run", "flow.yaml"]).stdin(Stdio::piped()).spawn().unwrap();
    // Stdin stays open and silent after one line, which says that the flow is running.
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"ready\n").unwrap();
    let mut events = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    events.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("1 events in, 1 out"), "{stderr}");
}

/// A flow with this sink, which metronomes feed.
fn sink(config: &str) -> Scene {
    let text = format!(
        "connectors:
  ticks: {{ type: metronome, config: {{ interval_ms: 1 }} }}
  bad: {{ type: hostile, config: {{ {config} }} }}
links: [ticks -> bad]"
    );
    Scene::new(&text)
}

/// A flow with this source.
fn source(config: &str) -> Scene {
    let text = format!(
        "connectors:
  bad: {{ type: hostile, config: {{ {config} }} }}
  nowhere: {{ type: 'null' }}
links: [bad -> nowhere]"
    );
    Scene::new(&text)
}

/// Runs the flow with all the time in the world to drain.
fn run(scene: Scene) -> Running {
    Running::of(scene, &["flow.yaml", "--drain-timeout", "1000"])
}

/// The numbers of events in the summary: those that came in, those that went out, and so on.
fn counts(summary: &str) -> Vec<u64> {
    let words = summary.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    words.map(|word| word.parse().unwrap()).collect()
}

#[test]
fn a_second_signal_ends_the_process_whatever_hangs() {
    let sinks = [
        ("DeliverHang", "fault: deliver_hang"),
        ("DeliverBlock", "fault: deliver_block"),
        ("SignalHang", "fault: signal_hang"),
        ("ConnectHang", "fault: connect_hang, lost: first"),
        ("EstablishedHang", "fault: established_hang, lost: first"),
        ("SinkHang", "fault: sink_hang, lost: first"),
        ("LostHang", "fault: lost_hang, lost: first"),
        ("ConstructorBlock", "fault: constructor_block"),
    ];
    let sources =
        [("PullBlock", "fault: pull_block"), ("ConstructorBlock", "fault: constructor_block")];
    let scenes = sinks.map(|(fault, config)| (fault, sink(config)));
    let scenes = scenes.into_iter().chain(sources.map(|(fault, config)| (fault, source(config))));
    let hanging = scenes.map(|(fault, scene)| {
        let mut running = run(scene);
        // Before that, there may be nothing that does not drain.
        running.until(if fault == "DeliverHang" { "a delivery hangs" } else { fault });
        running.signal(&["INT"]);
        running.until("everything under way drains");
        (fault, running)
    });
    let hanging: Vec<_> = hanging.collect();
    // A signal that comes sooner is the same request.
    std::thread::sleep(Duration::from_millis(251));
    for (fault, mut running) in hanging {
        running.signal(&["TERM"]);
        let summary = running.until("events in");
        if let [came_in, 0, 0, failed, ..] = counts(&summary)[..]
            && came_in > 0
        {
            assert_eq!(failed, came_in, "{fault}: all are accounted for: {summary}");
        }
        let run = running.end();
        let error = "was stopped before everything had been delivered\n  `bad`: ";
        run.expect(1, &[error]);
    }
}

#[test]
fn two_signals_at_once_are_one_request() {
    let mut running = run(sink("fault: deliver_wait"));
    running.until("hostile: DeliverWait");
    // As `timeout` does, to the process and to its group; but two of one kind may become one.
    running.signal(&["TERM", "INT"]);
    running.until("the same request as the last signal");
    std::fs::write(running.scene.path().join("release"), "").unwrap();
    let run = running.end();
    run.expect(0, &["0 dead-lettered, "]);
    let summary = run.stderr.lines().find(|line| line.contains("events in")).unwrap();
    let [came_in, went_out, ..] = counts(summary)[..] else { panic!("{summary}") };
    assert!(came_in > 0 && came_in == went_out, "{summary}");
}

#[test]
fn a_signal_ends_at_once_what_has_nothing_under_way() {
    let sinks = [
        ("not connected", "fault: connect_refused"),
        ("hostile: ConnectHang", "fault: connect_hang"),
        ("hostile: EstablishedHang", "fault: established_hang"),
        ("hostile: SinkHang", "fault: sink_hang"),
        ("hostile: StartHang", "fault: start_hang"),
    ];
    let sources = [
        ("not connected", "fault: connect_refused"),
        ("hostile: ConnectHang", "fault: connect_hang"),
        ("hostile: EstablishedHang", "fault: established_hang"),
        ("hostile: SourceHang", "fault: source_hang"),
        ("hostile: StartHang", "fault: start_hang"),
        ("hostile: PullHang", "fault: pull_hang"),
    ];
    let scenes = sinks.map(|(line, config)| (line, sink(config)));
    let scenes = scenes.into_iter().chain(sources.map(|(line, config)| (line, source(config))));
    for (line, scene) in scenes {
        let mut running = run(scene);
        running.until(line);
        running.signal(&["TERM"]);
        running.end().expect(0, &["0 events in, 0 out"]);
    }
}

#[test]
fn a_signal_ends_at_once_a_sink_that_is_lost_and_has_delivered_everything() {
    for fault in ["connect_refused", "connect_hang", "sink_hang"] {
        let text = format!(
            "connectors:
  ticks: {{ type: metronome, config: {{ interval_ms: 3600000 }} }}
  bad: {{ type: hostile, config: {{ fault: {fault}, lost: later }} }}
links: [ticks -> bad]"
        );
        let mut running = run(Scene::new(&text));
        running.until("connection lost");
        running.signal(&["TERM"]);
        running.end().expect(0, &["1 events in, 1 out"]);
    }
}

#[test]
fn a_signal_ends_at_once_a_connector_of_two_sides_that_is_not_connected() {
    let text = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  both: { type: hostile, config: { fault: connect_refused } }
  nowhere: { type: 'null' }
pipelines:
  back: { operators: [passthrough] }
links: [ticks -> both, both -> back, back -> nowhere]";
    let mut running = run(Scene::new(text));
    running.until("not connected");
    running.signal(&["TERM"]);
    running.end().expect(0, &["0 events in, 0 out"]);
}

#[test]
fn what_is_cut_off_names_the_connectors_that_held_it_up() {
    let expected = [
        ("a delivery hangs", "fault: deliver_hang", "`bad`: delivering "),
        ("not connected", "fault: connect_refused, lost: first", "`bad`: connecting for "),
        ("hostile: SinkHang", "fault: sink_hang, lost: first", "`bad`: `create_sink` has not been"),
        ("hostile: DeliverBlock", "fault: deliver_block", "`bad`: "),
    ];
    for (line, config, named) in expected {
        let mut running = Running::of(sink(config), &["flow.yaml", "--drain-timeout", "0"]);
        running.until(line);
        running.signal(&["TERM"]);
        let run = running.end();
        run.expect(1, &["was stopped before everything had been delivered\n", named]);
        run.expect(1, &["held up the end of its flow flow=flow component=bad doing="]);
    }
}
