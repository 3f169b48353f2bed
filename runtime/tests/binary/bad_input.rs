//! Tests of mistakes of users. The program exits with status 2, or the flow fails, with a message that names the file,
//! the position and the remedy.

use std::process::{Command, Stdio};

use crate::tremor::{Run, Scene, finish};

fn file_to_file(input: &str, output: &str) -> Scene {
    Scene::new(&format!(
        "connectors:
  input: {{ type: file, preprocessors: [lines], codec: string, config: {{ path: {input}, mode: read }} }}
  output: {{ type: file, codec: string, config: {{ path: {output}, mode: append }} }}
links: [input -> output]"
    ))
    .write("in", b"a line\n")
}

#[test]
fn unreadable_or_unwritable_file_fails_the_flow() {
    let missing = file_to_file("nowhere", "out").run();
    missing.expect(1, &["connector `input`", "nowhere", "no such file"]);
    file_to_file(".", "out").run().expect(1, &["connector `input`"]);
    file_to_file("in", "no/such/folder/out").run().expect(1, &["connector `output`"]);
    file_to_file("in", "/proc/version").run().expect(1, &["connector `output`"]);
}

#[test]
fn full_output_is_retried_as_configured() {
    let text = "connectors:
  input: { type: file, preprocessors: [lines], codec: string, config: { path: in, mode: read } }
  output:
    type: file
    codec: string
    retry: { attempts: 2, backoff: 1ms }
    config: { path: /dev/full, mode: append }
links: [input -> output]";
    let run = Scene::new(text).write("in", b"a line\n").run();
    run.expect(3, &["not delivered after 3 attempts", "1 events in, 0 out", "1 failed"]);
}

const CLOSED: &str = "cannot write standard output: it is closed, or its reader has closed it";

#[test]
fn closed_standard_output_fails_the_flow() {
    let text = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [ticks -> output]";
    let scene = Scene::new(text);
    let mut child = scene.command(&["run", "flow.yaml"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    Run::of(&finish(child)).expect(1, &[CLOSED, " 0 out"]);
    // The shell closes standard output before it executes the program.
    let command = scene.command(&["run", "flow.yaml"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" >&-"]).arg(command.get_program());
    shell.args(command.get_args()).current_dir(scene.path()).stderr(Stdio::piped());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Run::of(&finish(shell.spawn().unwrap())).expect(1, &[CLOSED, " 0 out"]);
}

#[test]
fn invalid_variable_is_an_error_that_names_it() {
    let scene = file_to_file("in", "out");
    for (name, value, part) in [
        ("TREMOR_LOG", "wran", "`wran` of the variable `TREMOR_LOG`: it is not a level"),
        ("TREMOR_LOG", "info,tremor=wran", "`tremor=wran` of the variable `TREMOR_LOG`"),
        ("TREMOR_THREADS", "two", "invalid variable `TREMOR_THREADS` `two`: expected a number"),
        ("TREMOR_THREADS", "0", "invalid variable `TREMOR_THREADS` `0`: expected a number"),
    ] {
        let mut command = scene.command(&["run", "flow.yaml"]);
        command.env(name, value);
        Run::of(&finish(command.spawn().unwrap())).expect(2, &["error: ", part]);
        assert!(!scene.has("out"), "{name}={value}");
    }
}

#[test]
fn invalid_flow_is_rejected_before_it_runs() {
    for (flow, parts) in [
        ("connectors: [", vec!["flow.yaml:1:"]),
        (
            "connectors:\n  a: { type: fil }\nlinks: [a -> a]",
            vec!["flow.yaml:2:", "`file`", "searched"],
        ),
        (
            "connectors:\n  a: { type: file, codec: json, config: { path: 1, mode: read } }\n  b: { type: 'null' }\nlinks: [a -> b]",
            vec!["flow.yaml:2:49", "`path`", "expected a text"],
        ),
        (
            "connectors:\n  a: { type: file, config: { path: x, mode: read } }\n  b: { type: 'null' }\nlinks: [a -> b]",
            vec!["flow.yaml:2:", "needs one"],
        ),
        (
            "connectors:\n  a: { type: metronome, codec: json, config: { interval_ms: 1 } }\n  b: { type: 'null' }\nlinks: [a -> b]",
            vec!["flow.yaml:2:", "accepts none"],
        ),
        (
            "connectors:\n  a: { type: file, codec: { json: { max_depth: 0 } }, config: { path: x, mode: read } }\n  b: { type: 'null' }\nlinks: [a -> b]",
            vec!["flow.yaml:2:48", "`max_depth` of codec type `json`: expected 1 or more"],
        ),
        (
            "connectors:\n  a: { type: file, codec: { csv: { quote: ',' } }, config: { path: x, mode: read } }\n  b: { type: 'null' }\nlinks: [a -> b]",
            vec!["flow.yaml:2:43", "codec type `csv`: `quote`: expected a character other"],
        ),
    ] {
        for command in ["check", "run"] {
            Scene::new(flow).tremor(&[command, "flow.yaml"]).expect(2, &parts);
        }
    }
}

#[test]
fn missing_plugin_path_is_named() {
    let scene = Scene::new(
        "plugins: [no/such/folder]\nconnectors:\n  a: { type: absent }\n  b: { type: 'null' }\nlinks: [a -> b]",
    );
    scene.run().expect(2, &["flow.yaml:1:11", "no/such/folder", "flow.yaml:3:"]);
}

#[test]
fn source_only_connector_cannot_be_linked_as_sink() {
    let text = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  other: { type: metronome, config: { interval_ms: 1 } }
links: [ticks -> other]";
    Scene::new(text)
        .run()
        .expect(2, &["connector `other` has no sink", "`metronome` writes no events"]);
}

#[test]
fn all_errors_of_a_flow_are_reported_once_in_order() {
    let flow = "plugins: [no/such/folder]
connectors:
  typo: { type: fil, codec: json }
  input: { type: file, codec: jsno, preprocessors: [line], config: { path: x, mode: read } }
  schema: { type: file, config: { path: 1, mode: read } }
  asked: { type: hostile, codec: json, config: { fault: check_error } }
  needs: { type: file, config: { path: x, mode: read } }
  output: { type: 'null' }
pipelines:
  p: { operators: [{ type: filter, config: { field: a, matches: '(' } }, fliter] }
  q: { operators: [{ type: route, config: { rules: [] } }] }
links:
  - input -> p -> output
  - schema -> q -> output
  - q/slow -> output
  - p/slow -> output
  - asked -> nowhere
  - needs -> output";
    let run = Scene::new(flow).tremor(&["check", "flow.yaml"]);
    run.expect(2, &[]);
    let expected = [
        "1:11: error: no/such/folder: there is no such file",
        "3:17: error: unknown connector type `fil`",
        "4:31: error: unknown codec type `jsno`",
        "4:53: error: unknown preprocessor type `line`",
        "5:3: error: connector `schema` has no codec",
        "5:41: error: `path` of connector type `file`: expected a text",
        "6:40: error: ",
        "7:3: error: connector `needs` has no codec",
        "10:65: error: operator type `filter`: `matches`: ",
        "10:74: error: unknown operator type `fliter`",
        "15:5: error: pipeline `q` has no output port `slow`",
        "17:14: error: no connector or pipeline is named `nowhere`",
    ];
    let lines = run.stderr.lines().filter_map(|line| line.strip_prefix("flow.yaml:"));
    let found: Vec<_> = lines.filter(|line| line.contains(": error: ")).collect();
    assert_eq!(found.len(), expected.len(), "{}", run.stderr);
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{expected}\n{}", run.stderr);
    }
}
