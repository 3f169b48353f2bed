//! Templates in the configuration of a sink that gets messages: fields of the events and of their metadata.

use crate::tremor::Scene;

/// Returns a flow from lines of JSON to the sink `rendered`. `keys` are keys of the sink, and `rest` the remainder of
/// the file.
fn flow(text: &str, config: &str, keys: &str, rest: &str) -> Scene {
    Scene::new(&format!(
        "connectors:
  input:
    type: file
    codec: json
    preprocessors: [lines]
    config: {{ path: in, mode: read }}
  output:
    type: rendered
    config: {{ path: out, text: '{text}'{config} }}
{keys}{rest}"
    ))
}

const LINES: &str = "    codec: json\n    postprocessors: [lines]\n";
const DIRECT: &str = "links: [input -> output]";
const EVENTS: &[u8] = br#"{"host": "a", "n": 1}
{"host":"b",  "at": "2026-03-29T01:30:00Z"}
{"host":"b","n":[1]}
"#;

#[test]
fn unedited_messages_have_their_fields() {
    let scene = flow("{host}/{n:-none}/{%file.name}", "", LINES, DIRECT).write("in", EVENTS);
    scene.run().expect(0, &["3 events in, 3 out, 0 dead-lettered"]);
    // The messages leave as they came.
    let expected = "a/1/in {\"host\": \"a\", \"n\": 1}
b/none/in {\"host\":\"b\",  \"at\": \"2026-03-29T01:30:00Z\"}
b/none/in {\"host\":\"b\",\"n\":[1]}
";
    assert_eq!(scene.read("out"), expected);
}

#[test]
fn event_without_a_field_is_a_dead_letter() {
    let rest = "  letters:
    type: file
    codec: json
    postprocessors: [lines]
    config: { path: letters, mode: truncate }
pipelines: { mark: { operators: [{ set: { edits: [{ field: seen, copy: '%template' }] } }] } }
links: [input -> output, output/err -> mark, mark -> letters]";
    let scene = flow("{n}", "", LINES, rest).write("in", EVENTS);
    scene.run().expect(0, &["3 events in, 1 out, 2 dead-lettered"]);
    assert_eq!(scene.read("out"), "1 {\"host\": \"a\", \"n\": 1}\n");
    let letters = scene.read("letters");
    for part in [
        "expected text, a number or a truth value as `n`, found no such field",
        "expected text, a number or a truth value as `n`, found an array",
    ] {
        assert!(letters.contains(part), "{letters}");
    }
    assert_eq!(letters.matches("`text` of the event, `{n}`: ").count(), 2, "{letters}");
    assert!(!letters.contains("seen") && !letters.contains("template\""), "{letters}");
}

#[test]
fn edited_events_and_times_are_rendered() {
    let rest = "pipelines: { edit: { operators: [{ set: { edits: [{ field: host, template: '<{host}>' }] } }] } }
links: [input -> edit, edit -> output]";
    let scene = flow("{host}@{at:+%F %H|Europe/Berlin:-}", "", LINES, rest).write("in", EVENTS);
    scene.run().expect(0, &["3 events in, 3 out, 0 dead-lettered"]);
    let found = scene.read("out");
    let targets: Vec<_> = found.lines().filter_map(|line| line.split_once(" {")).collect();
    assert_eq!(
        targets.iter().map(|(target, _)| *target).collect::<Vec<_>>(),
        ["<a>@", "<b>@2026-03-29 03", "<b>@",]
    );
}

/// A delivery that failed is encoded again, and joined deliveries are copied.
#[test]
fn retried_and_joined_deliveries_have_their_fields() {
    let lines: Vec<String> =
        (0..500).map(|n| format!("{{\"host\":\"h{}\",\"n\":{n}}}\n", n % 7)).collect();
    let lines = lines.concat();
    let retry = "    retry: { backoff: 1ms, max_backoff: 1ms }\n";
    let batch = "    batch: { max_events: 64, linger: 1s }\n";
    for (config, keys) in [
        (", failures: 2", retry.to_owned()),
        ("", batch.to_owned()),
        (", failures: 3", format!("{retry}{batch}")),
    ] {
        let keys = format!("{LINES}{keys}");
        let scene = flow("{host}:{n}", config, &keys, DIRECT).write("in", lines.as_bytes());
        scene.run().expect(0, &["500 events in, 500 out, 0 dead-lettered"]);
        let out = scene.read("out");
        let mut found: Vec<_> = out.lines().collect();
        found.sort_unstable();
        let mut expected: Vec<_> =
            (0..500).map(|n| format!("h{0}:{n} {{\"host\":\"h{0}\",\"n\":{n}}}", n % 7)).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{keys}");
    }
}

#[test]
fn messages_of_postprocessors_and_plugins_have_their_fields() {
    for keys in [
        "    codec: json\n    postprocessors: [base64, lines]\n",
        "    codec: keyvalue\n    postprocessors: [lines]\n",
        "    codec: json\n    postprocessors: [mischief, lines]\n",
    ] {
        let scene =
            flow("{host}", "", keys, DIRECT).write("in", b"{\"host\":\"a\"}\n{\"host\":\"b\"}\n");
        scene.run().expect(0, &["2 events in, 2 out, 0 dead-lettered"]);
        let out = scene.read("out");
        let targets: Vec<_> = out.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(targets, ["a", "b"], "{keys}{out}");
    }
}

#[test]
fn text_without_fields_can_only_be_rendered_as_a_whole() {
    let flow = |text: &str| {
        Scene::new(&format!(
            "connectors:
  input: {{ type: file, codec: string, preprocessors: [lines], config: {{ path: in, mode: read }} }}
  output:
    type: rendered
    codec: string
    postprocessors: [lines]
    config: {{ path: out, text: '{text}' }}
links: [input -> output]"
        ))
        .write("in", b"one\ntwo\n")
    };
    let scene = flow("{host:-x}/{.}");
    scene.run().expect(0, &["2 events in, 2 out, 0 dead-lettered"]);
    assert_eq!(scene.read("out"), "x/one one\nx/two two\n");
    let scene = flow("{host}");
    scene.run().expect(3, &["2 events in, 0 out", "as `host`, found no such field"]);
}

#[test]
fn check_reports_the_position_of_a_mistake_in_a_template() {
    let scene = flow("{host", "", LINES, DIRECT).write("in", b"");
    scene.tremor(&["check", "flow.yaml"]).expect(
        2,
        &[
            "flow.yaml:9:32: error: connector type `rendered`: `text`: `{host`: invalid template",
            "expected `}` after the field",
            "at offset 5",
        ],
    );
}
