//! Tests of `tremor test`, with the flow tests of the project and with flow tests that fail.

use std::fs;

use crate::{support::workspace, tremor::Scene};

#[test]
fn flow_tests_of_the_project_pass() {
    let folder = workspace().join("tests/fixtures/flow_tests");
    let tests = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let tests: Vec<String> = tests.map(|path| path.display().to_string()).collect();
    assert!(tests.len() >= 4, "{tests:?}");
    let arguments: Vec<&str> =
        ["test"].into_iter().chain(tests.iter().map(String::as_str)).collect();
    let run = Scene::new("").tremor(&arguments);
    run.expect(0, &[]);
    assert_eq!(run.stderr.matches(": ok").count(), tests.len(), "{}", run.stderr);
}

/// Returns a flow test that passes `a` on, with these expected events.
fn scene(expected: &str) -> Scene {
    let scene = Scene::new(
        "connectors: { in: { type: nowhere }, out: { type: nowhere } }
pipelines: { p: { operators: [{ type: filter, config: { field: a, exists: true } }] } }
links: [in -> p -> out]",
    );
    for folder in ["input", "expected"] {
        fs::create_dir(scene.path().join(folder)).unwrap();
    }
    scene
        .write("input/in.jsonl", b"{\"a\":1}\n{\"b\":2}\n{\"a\":3}\n")
        .write("expected/out.jsonl", expected.as_bytes())
}

#[test]
fn flow_test_needs_no_connectors_and_compares_json_values() {
    scene("{ \"a\": 1 }\n\n{\"a\":3}\n").tremor(&["test", "."]).expect(0, &[".: ok"]);
}

#[test]
fn difference_is_shown_line_by_line_and_fails_the_test() {
    let scene = scene("{\"a\":1}\n{\"a\":2}\n");
    let run = scene.tremor(&["test", "."]);
    run.expect(
        1,
        &[".: FAILED", "expected/out.jsonl", " {\"a\":1}\n-{\"a\":2}\n+{\"a\":3}\n", "--update"],
    );
    scene.tremor(&["test", ".", "--update"]).expect(0, &["updated", "expected/out.jsonl"]);
    assert_eq!(scene.read("expected/out.jsonl"), "{\"a\":1}\n{\"a\":3}\n");
    scene.tremor(&["test", "."]).expect(0, &[".: ok"]);
}

/// The third line would be a part of the stack trace if it had arrived within a second.
#[test]
fn preprocessors_have_the_time_of_the_test() {
    let flow = "connectors:
  in: { type: nowhere, preprocessors: [{ type: stack-traces, config: { timeout: 1s } }], codec: string }
  out: { type: nowhere }
links: [in -> out]";
    let scene = Scene::new(flow);
    for folder in ["input", "expected"] {
        fs::create_dir(scene.path().join(folder)).unwrap();
    }
    let input = r#"{"at_ms":0,"base64":"ZXJyb3I="}
{"at_ms":900,"base64":"ICBhdCBm"}
{"at_ms":5000,"base64":"ICBsYXRl"}
"#;
    let expected = b"\"error\\n  at f\"\n\"  late\"\n";
    let scene = scene
        .write("input/in.events.jsonl", input.as_bytes())
        .write("expected/out.jsonl", expected)
        .write("test.yaml", b"clock: { start_ms: 0, run_on_ms: 2000 }");
    scene.tremor(&["test", "."]).expect(0, &[".: ok"]);
}

#[test]
fn expectation_for_unknown_sink_is_a_difference() {
    let scene = scene("{\"a\":1}\n{\"a\":3}\n").write("expected/aut.jsonl", b"");
    scene.tremor(&["test", "."]).expect(1, &["aut.jsonl", "there is no such sink"]);
}

#[test]
fn error_before_a_flow_test_names_the_file() {
    let scene = scene("").write("input/elsewhere.jsonl", b"1\n");
    scene
        .tremor(&["test", "."])
        .expect(2, &["elsewhere.jsonl", "no source `elsewhere`; its sources are in"]);
    let scene = self::scene("").write("input/in.jsonl", b"{}\n{\n");
    scene.tremor(&["test", "."]).expect(2, &["in.jsonl: line 2: "]);
    for (line, expected) in [
        (r#"{"at_ms":0}"#, "line 1: expected either `value` or `base64`"),
        (r#"{"value":null,"base64":""}"#, "line 1: expected either `value` or `base64`"),
        (r#"{"base64":"?"}"#, "line 1: Invalid symbol"),
    ] {
        let scene = self::scene("").write("input/in.events.jsonl", line.as_bytes());
        scene.tremor(&["test", "."]).expect(2, &["in.events.jsonl", expected]);
    }
    let scene = self::scene("").write("test.yaml", b"clock: { begin: 1 }");
    scene.tremor(&["test", "."]).expect(2, &["test.yaml: unknown field `begin`"]);
    scene.tremor(&["test", "none"]).expect(2, &["none: there is no such folder"]);
}
