//! Tests of signals to the process.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use crate::{
    peer::wait_until,
    running::Running,
    tremor::{Run, Scene, finish},
};

#[test]
fn signal_drains_flow_under_load() {
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
fn signal_interrupts_read_of_idle_stdin() {
    let text = "connectors:
  input: { type: stdio, preprocessors: [lines], codec: string }
  output: { type: stdio, codec: string, postprocessors: [lines] }
links: [input -> output]";
    let scene = Scene::new(text);
    let mut child = scene.command(&["run", "flow.yaml"]).stdin(Stdio::piped()).spawn().unwrap();
    // Send one line and keep stdin open. The event of the line shows that the flow is running.
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

/// A connector with a fault, and the other parts of its flow.
struct Bad {
    config: &'static str,
    /// The other parts of the flow file. `BAD` stands for the name of the connector.
    around: &'static str,
}

/// Returns a sink that a metronome feeds.
fn sink(config: &'static str) -> Bad {
    let around = "
  ticks: { type: metronome, config: { interval_ms: 1 } }
links: [ticks -> BAD]";
    Bad { config, around }
}

/// Returns a sink that gets one event.
fn sink_of_one(config: &'static str) -> Bad {
    let around = "
  ticks: { type: metronome, config: { interval_ms: 3600000 } }
links: [ticks -> BAD]";
    Bad { config, around }
}

fn source(config: &'static str) -> Bad {
    Bad { config, around: "\n  nowhere: { type: 'null' }\nlinks: [BAD -> nowhere]" }
}

/// Returns a connector that is both source and sink.
fn both(config: &'static str) -> Bad {
    let around = "
  ticks: { type: metronome, config: { interval_ms: 1 } }
  nowhere: { type: 'null' }
links: [ticks -> BAD, BAD -> nowhere]";
    Bad { config, around }
}

/// Returns a connector that is both source and sink and feeds itself.
fn itself(config: &'static str) -> Bad {
    Bad { config, around: "\nlinks: [BAD -> BAD]" }
}

/// Returns a source whose events an operator buffers.
fn source_of_few(config: &'static str) -> Bad {
    let around = "
  nowhere: { type: 'null' }
pipelines:
  main: { operators: [{ type: window, config: { events: 100, aggregates: { n: { function: count } } } }] }
links: [BAD -> main, main -> nowhere]";
    Bad { config, around }
}

impl Bad {
    fn flow(&self, name: &str) -> String {
        let Self { config, around } = self;
        let config = format!("{{ type: hostile, config: {{ {config} }} }}");
        format!("connectors:\n  {name}: {config}{}", around.replace("BAD", name))
    }

    /// Returns the line that the connector logs when its fault happens.
    fn says(&self, name: &str) -> String {
        let fault = self.config.split([',', ' ']).nth(1).unwrap();
        let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
        let fault: String = fault.split('_').map(capital).collect();
        format!("hostile: {fault} component=\"{name}\"")
    }
}

/// Runs these flows in one process until each fault has happened. The first flow is `flow_0` with the connector
/// `bad_0`.
fn run(flows: &[Bad], drain_timeout: &str) -> Running {
    let mut scene = Scene::new("links: []");
    let mut arguments = vec!["--drain-timeout".to_owned(), drain_timeout.to_owned()];
    let mut says = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let (file, name) = (format!("flow_{number}.yaml"), format!("bad_{number}"));
        scene = scene.write(&file, flow.flow(&name).as_bytes());
        says.push(flow.says(&name));
        arguments.push(file);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // Use four threads, so that enough threads remain on every machine if some are blocked.
    let mut running = Running::of(scene, &arguments, |command| command.env("TREMOR_THREADS", "4"));
    // Wait until all faults have happened.
    running.until_all(says);
    running
}

/// Sends signals until one of them does not belong to the same request as the first signal. That one has to stop the
/// flows immediately.
fn signal_again(running: &mut Running) {
    wait_until(|| {
        running.signal(&["TERM"]);
        // Wait for the effect of the signal, because the system may merge two signals of one kind.
        let line = running.until(" signal=15");
        let is_same = line.contains("signal belongs to the same request");
        assert!(is_same || line.contains("the flows are stopping immediately"), "{line}");
        !is_same
    });
}

/// Returns the number before `word` in the summary of a flow, or 0 if the summary does not contain the word.
fn count(summary: &str, word: &str) -> u64 {
    let words: Vec<&str> = summary.split([' ', ',']).filter(|word| *word != "events").collect();
    let at = words.iter().position(|known| *known == word);
    at.map_or(0, |at| words[at - 1].parse().unwrap())
}

#[test]
fn second_signal_ends_hanging_process() {
    let flows = [
        sink("fault: deliver_hang"),
        sink("fault: deliver_block"),
        sink("fault: signal_hang"),
        sink("fault: connect_hang, lost: first"),
        sink("fault: constructor_block"),
        source("fault: constructor_block"),
        source("fault: pull_block"),
    ];
    let mut running = run(&flows, "1000");
    running.signal(&["INT"]);
    running.until("the flows drain");
    signal_again(&mut running);
    let run = running.end();
    run.expect(4, &[]);
    for number in 0..flows.len() {
        let name = format!("flow `flow_{number}`");
        let error = format!(
            "error: {name} was stopped before everything had been delivered\n  \
             `bad_{number}`: "
        );
        run.expect(4, &[&error]);
        let summary = run.stderr.lines().find(|line| line.starts_with(&name)).unwrap();
        let [received, out, failed] = ["in", "out", "failed"].map(|word| count(summary, word));
        assert_eq!(out + failed, received, "all are accounted for: {summary}");
    }
}

#[test]
fn second_signal_ends_process_that_hangs_at_start() {
    let text = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  nowhere: { type: 'null' }
pipelines:
  main: { operators: [{ type: mischief, config: { fault: constructor_block } }] }
links: [ticks -> main, main -> nowhere]";
    let mut running = Running::of(Scene::new(text), &["flow.yaml"], |command| command);
    running.until("call=operator `mischief`: new ");
    running.signal(&["TERM"]);
    running.until("the flows drain");
    signal_again(&mut running);
    running.end().expect(4, &["the flows are stopping immediately"]);
}

#[test]
fn two_signals_at_once_are_one_request() {
    let mut running = run(&[sink("fault: deliver_wait")], "1000");
    // The program `timeout` sends its signal to the process and to its group, so the process gets it twice. The system
    // may merge two signals of one kind, so this test sends two kinds.
    running.signal(&["TERM", "INT"]);
    running.until("signal belongs to the same request");
    std::fs::write(running.scene.path().join("release"), "").unwrap();
    let run = running.end();
    run.expect(0, &["0 dead-lettered, "]);
    let summary = run.stderr.lines().find(|line| line.contains("events in")).unwrap();
    let [received, out] = ["in", "out"].map(|word| count(summary, word));
    assert!(received > 0 && received == out, "{summary}");
}

#[test]
fn signal_ends_idle_flow_at_once() {
    let flows = [
        sink("fault: connect_refused"),
        sink("fault: connect_hang"),
        sink("fault: start_hang"),
        both("fault: connect_refused"),
        both("fault: connect_hang"),
        itself("fault: connect_refused"),
        source("fault: connect_refused"),
        source("fault: connect_hang"),
        source("fault: start_hang"),
        source("fault: pull_hang"),
    ];
    let running = run(&flows, "1000");
    running.signal(&["TERM"]);
    let run = running.end();
    run.expect(0, &[]);
    assert_eq!(run.stderr.matches("0 events in, 0 out").count(), flows.len(), "{}", run.stderr);
}

#[test]
fn signal_ends_lost_sink_without_pending_events_at_once() {
    let flows = [
        sink_of_one("fault: connect_refused, lost: later"),
        sink_of_one("fault: connect_hang, lost: later"),
    ];
    let running = run(&flows, "1000");
    running.signal(&["TERM"]);
    let run = running.end();
    run.expect(0, &[]);
    assert_eq!(run.stderr.matches("1 events in, 1 out").count(), flows.len(), "{}", run.stderr);
}

#[test]
fn events_buffered_by_operators_leave_after_source_is_lost() {
    let running = run(&[source_of_few("fault: connect_refused, lost: later")], "1000");
    running.signal(&["TERM"]);
    let run = running.end();
    run.expect(0, &["10 events in, 1 out, 0 dead-lettered, "]);
    assert!(!run.stderr.contains(" failed"), "{}", run.stderr);
}

#[test]
fn drain_timeout_names_blocking_connectors() {
    let (flows, doing): (Vec<_>, Vec<_>) = [
        (sink("fault: deliver_hang"), "delivering "),
        (sink("fault: deliver_block"), "`deliver` has blocked its thread for "),
        (sink("fault: connect_refused, lost: first"), "connecting for "),
        (sink("fault: connect_hang, lost: first"), "`connect` has not been answered for "),
        (sink("fault: deliver_full"), "waiting to deliver for "),
        (source("fault: pull_block"), "`pull` has blocked its thread for "),
        (sink("fault: constructor_block"), "`new` has blocked its thread for "),
    ]
    .into_iter()
    .unzip();
    let mut running = run(&flows, "0");
    // Wait until all three blocked calls are reported.
    (0..3).for_each(|_| _ = running.until("a call into the plugin blocks its thread"));
    running.signal(&["TERM"]);
    let run = running.end();
    for (number, doing) in doing.iter().enumerate() {
        let error = format!(
            "error: flow `flow_{number}` was stopped before everything had been delivered\n"
        );
        let log = format!(
            "the component delayed the end of its flow component=bad_{number} doing=\"{doing}"
        );
        run.expect(4, &[&error, &log]);
        // The report also names calls that were in progress when the time was over, such as a `drop` of the source.
        let components =
            run.stderr.split(&error).nth(1).and_then(|all| all.split("  help: ").next());
        let line = format!("  `bad_{number}`: {doing}");
        assert!(components.is_some_and(|all| all.contains(&line)), "{line}: {}", run.stderr);
    }
    run.expect(4, &["the last attempt failed: not connected yet"]);
    run.expect(4, &["events are not delivered; the last attempt failed: hostile: DeliverFull"]);
}

#[test]
fn hup_usr1_and_usr2_do_not_end_the_process() {
    let text = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [ticks -> output]";
    let mut running = Running::of(Scene::new(text), &["flow.yaml"], |command| command);
    running.event();
    running.signal(&["USR1", "USR2", "HUP"]);
    running.until("reload: unchanged");
    // Read more events than can have been in flight when the signals arrived.
    (0..1_000).for_each(|_| _ = running.event());
    running.signal(&["TERM"]);
    running.end().expect(0, &[" events in, "]);
}

#[test]
fn file_size_limit_fails_the_write_with_a_remedy() {
    let text = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: file, codec: json, postprocessors: [lines], config: { path: out, mode: append } }
links: [ticks -> output]";
    let scene = Scene::new(text);
    let limited = scene.command(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 1; exec \"$0\" run flow.yaml"]).arg(limited.get_program());
    let variables = limited.get_envs().filter_map(|(key, value)| Some((key, value?)));
    command.envs(variables).current_dir(scene.path());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = Run::of(&finish(command.spawn().unwrap()));
    run.expect(1, &["cannot write `", "out`: ", "`ulimit -f`", "events in, "]);
}

/// Child processes inherit ignored signals, so the program has to reset the signals that it ignores.
#[test]
fn processes_of_exec_start_with_default_signals() {
    let text = "connectors:
  process:
    type: exec
    preprocessors: [lines]
    codec: string
    config: { command: grep, args: [SigIgn, /proc/self/status] }
  terminal: { type: stdio, codec: string, postprocessors: [lines] }
links: [process -> terminal]";
    let running = Running::of(Scene::new(text), &["flow.yaml"], |command| command);
    let line = running.event();
    let mask = u64::from_str_radix(line.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    // The bits of HUP, USR1, USR2, PIPE and XFSZ.
    let ours = [1, 10, 12, 13, 25].iter().fold(0, |mask, signal| mask | 1 << (signal - 1));
    assert_eq!(mask & ours, 0, "{line}");
}
