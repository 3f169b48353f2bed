//! Tests of the operator `parse` with the whole program: the examples of its page, the result of a flow with events
//! that cannot be parsed, and the mistakes that `tremor check` finds.

use std::fs;

use serde_json::Value;

use crate::{
    support::workspace,
    tremor::{Run, Scene},
};

/// Returns the fenced blocks of the page, each with its language.
fn blocks() -> Vec<(String, String)> {
    let page = fs::read_to_string(workspace().join("docs/guide/parse.md")).unwrap();
    let mut blocks = Vec::new();
    let mut parts = page.split("\n```");
    parts.next();
    while let (Some(block), _) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        blocks.push((language.to_owned(), format!("{text}\n")));
    }
    blocks
}

/// Returns a flow that reads the lines of stdin with `codec`, and passes them through these operators.
fn flow(codec: &str, operators: &str) -> Scene {
    let operators: String = operators.lines().flat_map(|line| ["    ", line, "\n"]).collect();
    Scene::new(&format!(
        "connectors:
  input: {{ type: stdio, preprocessors: [lines], codec: {codec} }}
  output: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: out, mode: write }} }}
  dead: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: dead, mode: write }} }}
pipelines:
  main:
{operators}links: [input -> main -> output, main/err -> dead]"
    ))
}

fn run(scene: Scene, input: &str) -> (Scene, Run) {
    let scene = scene.write("in", input.as_bytes());
    let file = fs::File::open(scene.path().join("in")).unwrap();
    let mut command = scene.command(&["run", "flow.yaml"]);
    let run = Run::of(&command.stdin(file).output().unwrap());
    (scene, run)
}

#[test]
fn examples_of_the_page_have_the_shown_results() {
    let blocks = blocks();
    let mut formats = Vec::new();
    for example in blocks.windows(3) {
        let [(yaml, operators), (text, line), (json, expected)] = example else { continue };
        if [&**yaml, text, json] != ["yaml", "text", "json"] {
            continue;
        }
        let codec = if line.starts_with('{') { "json" } else { "string" };
        let (scene, run) = run(flow(codec, operators), line);
        run.expect(0, &["1 events in, 1 out, 0 dead-lettered"]);
        let [found, expected] =
            [&scene.read("out"), expected].map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(found, expected, "{operators}");
        let format = operators.split("format: ").nth(1).unwrap();
        formats.push(format.split([',', ' ', '\n', '}']).next().unwrap().to_owned());
    }
    assert_eq!(
        formats,
        [
            "nginx_combined",
            "key_value",
            "nginx_error",
            "apache_combined",
            "key_value",
            "csv",
            "json",
            "timestamp",
            "url",
            "query",
            "regex",
            "grok",
        ]
    );
}

#[test]
fn line_of_another_format_is_a_dead_letter_with_its_position() {
    let operators = "operators: [{ type: parse, config: { format: apache_common } }]";
    let line = "::1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 7";
    let (scene, run) = run(flow("string", operators), &format!("{line}\nno log\n{line}\n"));
    run.expect(0, &["3 events in, 2 out, 1 dead-lettered"]);
    let dead = scene.read("dead");
    let expected = "expected a space after the identity at byte 6, found the end of the text";
    assert!(dead.contains(expected), "{dead}");
    assert_eq!(scene.read("out").lines().count(), 2);
}

#[test]
fn check_reports_mistakes_of_the_configuration() {
    for (config, expected) in [
        ("{ format: regex, pattern: '(?<a>.)(b)' }", "the group at byte 7 has no name"),
        ("{ format: regex, pattern: 'a(' }", "unclosed group at byte 1"),
        ("{ format: grok, pattern: '%{NOPE:x}' }", "unknown pattern `NOPE` at byte 0"),
        (
            "{ format: timestamp, timezone: Europe/Atlantis }",
            "invalid `timezone` `Europe/Atlantis`",
        ),
        (
            "{ format: json, columns: [a] }",
            "`columns` does not apply to `format: json`, but to `csv`",
        ),
        ("{ format: xml }", "nginx_combined"),
        ("{ format: json, fild: a }", "fild"),
        ("{}", "format"),
    ] {
        let operators = format!("operators: [{{ type: parse, config: {config} }}]");
        let run = flow("string", &operators).tremor(&["check", "flow.yaml"]);
        assert_eq!(run.status, Some(2), "{config}\n{}", run.stderr);
        assert!(run.stderr.contains(expected), "{config}\n{}", run.stderr);
    }
}
