//! Signals end runs in order.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use crate::tremor::Scene;

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

#[test]
fn a_second_signal_stops_at_once_what_does_not_drain() {
    let text = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  bad: { type: hostile, config: { fault: deliver_hang } }
links: [ticks -> bad]";
    let scene = Scene::new(text);
    let mut command = scene.command(&["run", "flow.yaml", "--drain-timeout", "1000"]);
    let mut child = command.env("TREMOR_LOG", "debug").spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut until = |part: &str| log.find(|line| line.as_ref().unwrap().contains(part)).unwrap();
    let signal = |child: &std::process::Child| {
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    };
    // Before that, there may be nothing that does not drain.
    until("a delivery hangs").unwrap();
    signal(&child);
    until("everything under way drains").unwrap();
    signal(&child);
    let summary = until("events in").unwrap();
    let mut counts = summary.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    let (came_in, went_out) = (counts.next().unwrap(), counts.next().unwrap());
    assert_eq!(went_out, "0", "{summary}");
    assert!(summary.contains(&format!(", {came_in} failed")), "all are accounted for: {summary}");
    until("was stopped before everything had been delivered").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
