//! Tests of references in flow files to variables and files. Their values may be secrets, which no message may contain.

use std::process::Command;

use hostile_peers::http::{Server, response};

use crate::{
    running::Running,
    tremor::{Run, Scene, finish},
};

/// The secret that no message may contain.
const CANARY: &str = "canary-7f3a";

/// Runs `tremor` with the canary in the variable `CANARY` and in the file `secret`.
fn tremor(scene: &Scene, arguments: &[&str]) -> Run {
    let mut command: Command = scene.command(arguments);
    command.env("CANARY", CANARY).env("TREMOR_LOG", "trace");
    Run::of(&finish(command.spawn().unwrap()))
}

fn scene(flow: &str) -> Scene {
    Scene::new(flow)
        .write("secret", format!("{CANARY}\n").as_bytes())
        .write("in", b"{\"n\":1}\n{\"n\":\"two\"}\n")
}

const ENDS: &str = "
  in: { type: file, preprocessors: [lines], codec: json, config: { path: in, mode: read } }
  out: { type: stdio, codec: json, postprocessors: [lines] }";

#[test]
fn references_have_values_and_types_of_variables_and_files() {
    let flow = "connectors:
  ticks:
    type: metronome
    config:
      interval_ms: ${env:INTERVAL}
      count: ${file:folder/count}
  out:
    type: file
    codec: json
    postprocessors: [lines]
    queue:
      max_events: ${env:NOT_SET:-10}
    config: { path: '${env:NAME}.${env:NOT_SET:-json}', mode: \"${file:folder/mode}\" }
links: [ticks -> out]";
    let scene = Scene::new(flow);
    std::fs::create_dir(scene.path().join("folder")).unwrap();
    let scene = scene.write("folder/count", b"3\n").write("folder/mode", b"write\r\n");
    for command in ["check", "run"] {
        let mut command = scene.command(&[command, "flow.yaml"]);
        // Run the program in another folder: paths are relative to the folder of the flow file.
        command.env("INTERVAL", "1").env("NAME", "events");
        Run::of(&finish(command.spawn().unwrap())).expect(0, &[]);
    }
    assert_eq!(scene.read("events.json").lines().count(), 3);
}

#[test]
fn unresolved_reference_fails_run_and_warns_in_check() {
    let flow = "connectors:
  ticks: { type: metronome, config: { interval_ms: '${env:NOT_SET}', count: 1 } }
  out:
    type: file
    codec: json
    config: { path: \"a ${file:none}\", mode: write }
    postprocessors: [lines]
links: [ticks -> out]";
    let parts = [
        "flow.yaml:2:53: ",
        "the variable `NOT_SET` is not set",
        "help: set it, or write a default: `${env:NOT_SET:-…}`",
        "flow.yaml:6:24: ",
        "none: cannot read the file: there is no such file",
    ];
    let run = scene(flow).run();
    run.expect(2, &parts);
    assert_eq!(run.stderr.matches(": error: ").count(), 2, "{}", run.stderr);
    let check = scene(flow).tremor(&["check", "flow.yaml"]);
    check.expect(0, &parts).expect(0, &["flow `flow` is valid"]);
    assert_eq!(check.stderr.matches(": warning: ").count(), 2, "{}", check.stderr);
    let denied = scene(flow).tremor(&["check", "--deny-warnings", "flow.yaml"]);
    denied.expect(2, &["there are 2 warnings, and `--deny-warnings` is set"]);
}

/// Checks that the output of a run does not contain the canary.
#[track_caller]
fn keeps_quiet(run: &Run, what: &str) {
    assert!(!run.stderr.contains(CANARY), "{what}:\n{}", run.stderr);
    assert!(!run.stdout.contains(CANARY), "{what}:\n{}", run.stdout);
}

#[test]
fn messages_about_configuration_contain_no_value() {
    let value = "'${file:secret}'";
    let connectors = [
        "type: ${value}, codec: json",
        "type: file, codec: ${value}, config: { path: x, mode: write }",
        "type: file, codec: json, config: { path: x, mode: ${value} }",
        "type: file, codec: json, config: { path: [${value}], mode: write }",
        "type: file, codec: json, config: ${value}",
        "type: file, codec: json, err: ${value}, config: { path: x, mode: write }",
        "type: stdio, codec: json, queue: { max_bytes: ${value} }",
        "type: stdio, codec: json, in_flight: ${value}",
        "type: stdio, codec: json, ordered: ${value}",
        "type: stdio, codec: json, retry: { backoff: ${value} }",
        "type: stdio, codec: { csv: { headers: [${value}, ${value}] } }",
        "type: stdio, codec: { csv: { quote: ${value} } }",
        "type: exit, config: { when: { field: 'a[${file:secret}', equals: 1 } }",
        "type: exit, config: { when: { field: 'a[${file:secret}', equals: 1 } }",
        "type: exit, config: { after_events: ${value} }",
        "type: hostile, codec: json, config: { fault: ${value} }",
    ];
    let operators = [
        "{ type: filter, config: { field: a, matches: '(${file:secret}' } }",
        "{ type: dedupe, config: { by: [a], within: ${value} } }",
        "{ type: dedupe, config: { by: ['a[${file:secret}'], within: 1s } }",
        "{ type: window, config: { every: ${value}, aggregates: {} } }",
        "${value}",
    ];
    let written = |(number, keys): (usize, &&str)| format!("  c{number}: {{ {keys} }}\n");
    let connectors: Vec<_> = connectors.iter().enumerate().map(written).collect();
    let written = |(number, it): (usize, &&str)| format!("  p{number}: {{ operators: [{it}] }}\n");
    let operators: Vec<_> = operators.iter().enumerate().map(written).collect();
    let errors = connectors.len() + operators.len() + 3;
    let flow = format!(
        "name: {value}\nplugins: [{value}]\nconnectors:{ENDS}\n{}pipelines:\n{}links: [in -> out, {value}]",
        connectors.concat(),
        operators.concat()
    );
    let scene = scene(&flow.replace("${value}", value));
    for folder in ["input", "expected"] {
        std::fs::create_dir(scene.path().join(folder)).unwrap();
    }
    let scene = scene.write("input/in.jsonl", b"{\"n\":1}\n");
    for command in ["check", "run"] {
        let run = tremor(&scene, &[command, "flow.yaml"]);
        keeps_quiet(&run, command);
        run.expect(2, &[]);
        assert_eq!(run.stderr.matches(": error: ").count(), errors, "{}", run.stderr);
    }
    keeps_quiet(&tremor(&scene, &["test", "."]), "test");
}

#[test]
fn messages_of_running_flow_contain_no_value() {
    // The value is a path in an error of the operating system that fails the flow.
    let flow = format!(
        "connectors:{ENDS}\n  x: {{ type: file, codec: json, config: {{ path: '${{file:secret}}/x', mode: write }} }}\nlinks: [in -> out, in -> x]"
    );
    for format in ["text", "json"] {
        let run = tremor(&scene(&flow), &["run", "--log-format", format, "flow.yaml"]);
        run.expect(1, &["[redacted]", "connector `x`"]);
        keeps_quiet(&run, format);
    }
    // The value is in a line of the log.
    let flow = format!(
        "connectors:{ENDS}\n  x: {{ type: exit, config: {{ when: {{ field: n, equals: '${{file:secret}}' }} }} }}\nlinks: [in -> out, in -> x]"
    );
    let scene = scene(&flow).write("in", format!("{{\"n\":\"{CANARY}\"}}\n").as_bytes());
    let run = tremor(&scene, &["run", "flow.yaml"]);
    run.expect(0, &["a component ends the run", "[redacted]"]);
    assert!(!run.stderr.contains(CANARY), "{}", run.stderr);
}

/// Messages have to show addresses and paths, even if they come from variables. The keys of these values are not marked
/// as secret.
#[test]
fn variables_of_keys_that_are_not_secret_are_shown() {
    let flow = format!(
        "connectors:{ENDS}\n  x: {{ type: file, codec: json, config: {{ path: '${{env:CANARY}}/x', mode: write }} }}\nlinks: [in -> out, in -> x]"
    );
    let run = tremor(&scene(&flow), &["run", "flow.yaml"]);
    run.expect(1, &["cannot write `canary-7f3a/x`", "its folder does not exist"]);
    assert!(!run.stderr.contains("[redacted]"), "{}", run.stderr);
}

/// The key `says` is marked as secret in the schema of the plugin, whose panic quotes its value.
#[test]
fn variables_of_secret_keys_are_redacted() {
    let flow = format!(
        "connectors:{ENDS}
  bad:
    type: hostile
    restart: {{ attempts: 0 }}
    config: {{ fault: connect_panic, says: '${{env:CANARY}} and literal-secret' }}
links: [in -> out, bad -> out]"
    );
    let run = tremor(&scene(&flow), &["run", "flow.yaml"]);
    assert!(run.stderr.contains("[redacted]"), "{}", run.stderr);
    keeps_quiet(&run, "a variable");
    assert!(!run.stderr.contains("literal-secret"), "{}", run.stderr);
}

#[test]
fn benchmark_report_contains_no_value() {
    let flow = "connectors:
  bench:
    type: bench
    codec: json
    config: { file: '${file:secret}.json', iterations: 1, report: report }
links: [bench -> bench]";
    let scene = scene(flow).write(&format!("{CANARY}.json"), b"{\"n\":1}\n");
    let run = tremor(&scene, &["bench", "--json", "report.json", "flow.yaml"]);
    run.expect(0, &[]);
    assert!(run.stdout.contains("[redacted].json"), "{}", run.stdout);
    keeps_quiet(&run, flow);
    assert!(!scene.read("report.json").contains(CANARY));
    let missing = tremor(&self::scene(flow), &["bench", "flow.yaml"]);
    missing.expect(2, &["[redacted].json: there is no such file to replay"]);
    keeps_quiet(&missing, flow);
}

#[test]
fn benchmark_report_omits_rate_from_a_reference() {
    let flow = "connectors:
  bench:
    type: bench
    codec: json
    config:
      file: in
      iterations: 1
      rate: ${file:rate}
links: [bench -> bench]";
    let scene = Scene::new(flow).write("in", b"{\"n\":1}\n").write("rate", b"70707.50\n");
    let run = scene.tremor(&["bench", "--json", "report.json", "flow.yaml"]);
    run.expect(0, &[]);
    assert!(run.stdout.contains("offered     [redacted] events/s"), "{}", run.stdout);
    let report = scene.read("report.json");
    assert!(!run.stdout.contains("70707") && !report.contains("70707"), "{report}");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["rate"], "[redacted]");
}

#[test]
fn messages_of_plugin_panics_contain_no_value() {
    for fault in ["connect_panic", "pull_panic", "drop_panic"] {
        let flow = format!(
            "connectors:
  bad:
    type: hostile
    restart: {{ attempts: 0 }}
    config: {{ fault: {fault}, says: '${{env:CANARY}}' }}
  out: {{ type: 'null' }}
links: [bad -> out]"
        );
        for backtrace in ["0", "1"] {
            let scene = scene(&flow);
            let mut command = scene.command(&["run", "flow.yaml"]);
            command.env("CANARY", CANARY).env("RUST_BACKTRACE", backtrace);
            let run = Run::of(&finish(command.spawn().unwrap()));
            keeps_quiet(&run, fault);
            let hook = run.stderr.lines().filter(|line| line.contains(" panicked at "));
            assert!(
                hook.count() > 0,
                "{fault}: the location of the panic is reported:\n{}",
                run.stderr
            );
            let is_traced = run.stderr.contains("stack backtrace:");
            assert_eq!(is_traced, backtrace == "1", "{fault}:\n{}", run.stderr);
            // The error of a panic in `drop` is not reported, because no caller waits for it.
            if fault != "drop_panic" {
                assert!(run.stderr.contains("[redacted]"), "{fault}:\n{}", run.stderr);
            }
        }
    }
}

#[test]
fn values_of_one_tested_flow_are_not_redacted_in_the_next() {
    let test = |scene: Scene, flow: &str| {
        std::fs::create_dir_all(scene.path().join(format!("{flow}/input"))).unwrap();
        scene.write(&format!("{flow}/input/in.jsonl"), b"{\"a\":\"expected\"}\n")
    };
    let flow = "connectors: { in: { type: nowhere }, out: { type: nowhere } }\nlinks: [in -> out]";
    let secret = flow
        .replace("in: { type: nowhere }", "in: { type: nowhere, config: { a: '${env:WORD}' } }");
    let scene = test(test(Scene::new(""), "one"), "two");
    let scene =
        scene.write("one/flow.yaml", secret.as_bytes()).write("two/flow.yaml", flow.as_bytes());
    let mut command = scene.command(&["test", "one", "two"]);
    command.env("WORD", "expected");
    let run = Run::of(&finish(command.spawn().unwrap()));
    run.expect(1, &["one: FAILED", "two: FAILED"]);
    let (one, two) = run.stderr.split_once("two: FAILED").unwrap();
    assert!(one.contains("[redacted]") && !one.contains("expected"), "{one}");
    assert!(two.contains("expected") && !two.contains("[redacted]"), "{two}");
}

#[test]
fn dead_letters_contain_no_value() {
    let flow = format!(
        "connectors:{ENDS}
pipelines:
  p:
    operators:
      - type: window
        config: {{ events: 2, aggregates: {{ sum: {{ function: sum, field: '${{file:secret}}' }} }} }}
links: [in -> p -> out, p/err -> out]"
    );
    let input = format!("{{\"{CANARY}\":\"no number\"}}\n");
    let scene = scene(&flow).write("in", input.as_bytes());
    let run = tremor(&scene, &["run", "flow.yaml"]);
    run.expect(0, &["1 dead-lettered"]);
    let letter: serde_json::Value =
        serde_json::from_str(run.stdout.lines().next().unwrap()).unwrap();
    let message = letter["error"]["message"].as_str().unwrap();
    assert!(message.contains("at `[redacted]`"), "{letter}");
    assert!(!run.stderr.contains(CANARY), "{}", run.stderr);
}

/// A token in a file that another process renews is used without a restart of the process. The clients that the file
/// server answers with 401 wait, and their events are not lost.
#[test]
fn renewed_file_reaches_the_connector() {
    let server = Server::start(|request| {
        let is_valid = request.header("authorization") == Some("Bearer new");
        response(if is_valid { "200 OK" } else { "401 Unauthorized" }, "")
    });
    let flow = format!(
        "connectors:
  input: {{ type: metronome, config: {{ interval_ms: 1, count: 1 }} }}
  output:
    type: http_client
    codec: json
    retry: {{ backoff: 10ms, max_backoff: 10ms }}
    config: {{ url: 'http://{}/', auth: {{ bearer: '${{file:token}}' }} }}
links: [input -> output]",
        server.address()
    );
    let scene = Scene::new(&flow).write("token", b"old\n");
    let mut running = Running::of(scene, &["flow.yaml"], |command| command);
    running.until("401 Unauthorized");
    std::fs::write(running.scene.path().join("new"), "new\n").unwrap();
    std::fs::rename(running.scene.path().join("new"), running.scene.path().join("token")).unwrap();
    running.until("a file to which its configuration refers has changed");
    running.end().expect(0, &["1 events in, 1 out"]);
}
