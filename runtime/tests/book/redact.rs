//! Tests of the operator `redact` with the whole program: the examples of its page, what dead letters contain, and the
//! mistakes that `tremor check` finds.

use std::fs;

use serde_json::Value;

use crate::{
    support::workspace,
    tremor::{Run, Scene},
};

/// A secret for pseudonyms.
pub(crate) const KEY: &str = "0123456789abcdef0123456789abcdef";

/// Returns the scene of a flow, with a secret in place of the one that the pages name.
pub(crate) fn with_key(flow: &str) -> Scene {
    let scene = Scene::new(&flow.replace("/etc/tremor/redact.key", "redact.key"));
    scene.write("redact.key", format!("{KEY}\n").as_bytes())
}

/// Replaces the hashes in a value by `{HASH}`, as pages do.
pub(crate) fn without_hashes(value: &mut Value) {
    match value {
        Value::String(text) if text.len() == 64 => {
            assert!(text.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
            "{HASH}".clone_into(text);
        }
        Value::Array(array) => array.iter_mut().for_each(without_hashes),
        Value::Object(object) => object.values_mut().for_each(without_hashes),
        _ => {}
    }
}

/// Returns a flow that passes events of stdin through these operators.
fn flow(operators: &str) -> Scene {
    let operators: String = operators.lines().flat_map(|line| ["    ", line, "\n"]).collect();
    with_key(&format!(
        "connectors:
  input: {{ type: stdio, preprocessors: [lines], postprocessors: [lines], codec: json }}
  dead: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: dead, mode: write }} }}
pipelines:
  main:
{operators}links: [input -> main -> input, main/err -> dead, input/err -> dead]"
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
fn examples_of_the_redact_page_have_the_shown_results() {
    let page = fs::read_to_string(workspace().join("docs/guide/redact.md")).unwrap();
    let blocks: Vec<_> = page
        .split("\n```")
        .skip(1)
        .step_by(2)
        .map(|block| block.split_once('\n').unwrap())
        .collect();
    let mut examples = 0;
    for example in blocks.windows(3) {
        let [("yaml", operators), ("json", event), ("json", expected)] = example else { continue };
        let (_, run) = run(flow(operators), &format!("{event}\n"));
        run.expect(0, &["1 events in, 1 out, 0 dead-lettered"]);
        let [mut found, expected] = [run.stdout.as_str(), *expected]
            .map(|text| serde_json::from_str::<Value>(text).unwrap());
        without_hashes(&mut found);
        assert_eq!(found, expected, "{operators}");
        examples += 1;
    }
    assert_eq!(examples, 2);
}

#[test]
fn unchanged_events_stay_unedited() {
    let operators = "operators:
  - type: redact
    config: { rules: [{ fields: ['.'], patterns: [email, ipv4, ipv6, credit_card, iban, bearer_token, jwt] }] }";
    let unchanged = "{ \"host\" : \"web-9\", \"n\": 1.10, \"t\": \"\\u0061\" }\n";
    let (_, run) = run(flow(operators), unchanged);
    run.expect(0, &["1 events in, 1 out, 0 dead-lettered"]);
    assert_eq!(run.stdout, unchanged);
}

/// The second operator rejects all events. What `redact` has removed must not be in their dead letters, which otherwise
/// contain the bytes that the source received.
#[test]
fn dead_letters_of_redacted_events_contain_the_result() {
    let operators = "operators:
  - type: redact
    config: { rules: [{ fields: [mail], missing: err }, { fields: ['.'], patterns: [email] }] }
  - type: set
    config: { edits: [{ field: x, copy: none, missing: err }] }";
    let events = "{\"mail\":\"bob@example.com\",\"n\":1.10}
{\"mail\":null,\"n\":1.10}
{\"mail\":\"bob@example.com\",\"mail\":null}
{\"note\":\"bob@example.com\"}
";
    let (scene, run) = run(flow(operators), events);
    run.expect(0, &["4 events in, 0 out, 4 dead-lettered"]);
    let dead = scene.read("dead");
    assert!(!dead.contains("bob"), "{dead}");
    assert!(!run.stderr.contains("bob"), "{}", run.stderr);
    let mut originals: Vec<_> = dead
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["original"].to_string())
        .collect();
    originals.sort();
    assert_eq!(
        originals,
        [
            r#""{\"mail\":null,\"n\":1.10}""#,
            r#"{"mail":"[redacted]","n":1.1}"#,
            r#"{"mail":null}"#,
            r#"{"note":"[redacted]"}"#,
        ]
    );
}

#[test]
fn check_reports_mistakes_of_rules_without_the_secret() {
    for (config, expected) in [
        ("rules: [{ fields: [a], hash: hmac_sha256 }]", "needs a secret: set `key`"),
        (
            "key: 'shortsecret', rules: [{ fields: [a], hash: hmac_sha256 }]",
            "at least 16 bytes, found 11",
        ),
        ("rules: [{ fields: [a], hash: md5 }]", "md5"),
        ("rules: [{ fields: [a], patterns: [mail] }]", "mail"),
        ("rules: [{ fields: [a], regex: ['a*'] }]", "matches the empty text"),
        ("rules: [{ fields: [a], regex: ['(a'] }]", "unclosed group"),
        ("rules: [{ fields: [a], mask: {}, replace: x }]", "at most one of `replace`"),
        ("rules: [{ field: a }]", "field"),
    ] {
        let operators = format!("operators: [{{ type: redact, config: {{ {config} }} }}]");
        let run = flow(&operators).tremor(&["check", "flow.yaml"]);
        assert_eq!(run.status, Some(2), "{config}\n{}", run.stderr);
        assert!(run.stderr.contains(expected), "{config}\n{}", run.stderr);
        // The message does not contain the secret. The line of the flow file below it does, as for all mistakes.
        let messages = run.stderr.lines().filter(|line| line.contains("error: "));
        assert!(messages.clone().count() > 0, "{config}\n{}", run.stderr);
        messages.for_each(|line| assert!(!line.contains("shortsecret"), "{config}\n{line}"));
    }
}
