//! Tests of text with line feeds, blank lines, comments and UTF-8 byte order marks, with the whole program.

use serde_json::{Value, json};

use crate::tremor::Scene;

/// Returns a flow from the file `in` to the file `out`, with failed events in `dead`.
fn copy(input: &str, output: &str) -> String {
    format!(
        "connectors:
  input: {{ type: file, {input}, config: {{ path: in, mode: read }} }}
  output: {{ type: file, {output}, config: {{ path: out, mode: write }} }}
  dead: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: dead, mode: write }} }}
links: [input -> output, input/err -> dead, output/err -> dead]"
    )
}

fn errors(scene: &Scene) -> Vec<String> {
    let error = |line: &str| {
        let letter: Value = serde_json::from_str(line).unwrap();
        letter["error"]["message"].as_str().unwrap().to_owned()
    };
    scene.read("dead").lines().map(error).collect()
}

#[test]
fn line_feed_in_a_message_cannot_forge_another() {
    let logs = |metric: &str| {
        format!(r#"{{"resourceLogs":[{{"resource":{{"attributes":[{{"key":"{metric}"}}]}}}}]}}"#)
    };
    for (codec, forged, good) in [
        (
            "syslog",
            r#"{"msg":"text\n<0>1 - bank auth - - - forged"}"#.to_owned(),
            r#"{"msg":"a"}"#.to_owned(),
        ),
        (
            "syslog",
            r#"{"structured_data":{"x":{"k":"v\n<0>1 - bank auth - - - forged"}}}"#.to_owned(),
            r#"{"msg":"a"}"#.to_owned(),
        ),
        ("string", "\"text\\nforged\"".to_owned(), "\"a\"".to_owned()),
        ("binary", "\"text\\nforged\"".to_owned(), "\"a\"".to_owned()),
        ("csv", "[\"text\\nforged\",\"x\"]".to_owned(), "[\"a\",\"b\"]".to_owned()),
        (
            "influx",
            r#"{"measurement":"m","fields":{"f":"text\nforged f=1"}}"#.to_owned(),
            r#"{"measurement":"m","fields":{"f":"a"}}"#.to_owned(),
        ),
        // The codec of a plugin: in protobuf, the length 10 is encoded as a line feed.
        ("{ otlp: { signal: logs, encoding: protobuf } }", logs("a"), "{}".to_owned()),
    ] {
        let scene = Scene::new(&copy(
            "preprocessors: [lines], codec: json",
            &format!("codec: {codec}, postprocessors: [lines]"),
        ))
        .write("in", format!("{forged}\n{good}\n").as_bytes());
        scene.run().expect(0, &["2 events in", "1 dead-lettered"]);
        let out = scene.read("out");
        assert_eq!(out.lines().count(), 1, "{codec}: {out}");
        assert!(!out.contains("forged"), "{codec}: {out}");
        let errors = errors(&scene);
        assert!(
            errors[0].starts_with(
                "cannot end the message with `lines`: it contains a line feed at byte "
            ),
            "{codec}: {errors:?}"
        );
    }
    // These outputs work: JSON escapes line feeds, and with a length prefix no escape is needed.
    for output in
        ["codec: json, postprocessors: [lines]", "codec: string, postprocessors: [length-prefixed]"]
    {
        let scene = Scene::new(&copy("preprocessors: [lines], codec: json", output))
            .write("in", b"\"text\\nforged\"\n");
        scene.run().expect(0, &["1 events in, 1 out, 0 dead-lettered"]);
    }
}

/// A stream in all framings of syslog, with and without priorities and offsets.
#[test]
fn syslog_of_any_framing_is_read() {
    let counted = "<13>1 - h a - - - counted\nwith a line feed";
    let stream = format!(
        "<13>1 - h a - - - by line\n{} {counted}<13>1 - h a - - - ended by NUL\0\
         Oct 11 2024 22:14:15 host-1 sshd[4711]: Accepted\r\n",
        counted.len(),
    );
    let scene = Scene::new(&copy(
        "preprocessors: [syslog-frames], codec: { syslog: { timezone: America/New_York } }",
        "codec: json, postprocessors: [lines]",
    ))
    .write("in", stream.as_bytes());
    scene.run().expect(0, &["4 events in, 4 out, 0 dead-lettered"]);
    let events: Vec<Value> =
        scene.read("out").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<_> = events.iter().map(|event| event["msg"].as_str().unwrap()).collect();
    assert_eq!(messages, ["by line", "counted\nwith a line feed", "ended by NUL", "Accepted"]);
    let last = ["facility", "severity", "timestamp", "hostname", "appname", "procid"];
    let last = last.map(|key| events[3][key].clone());
    let expected =
        json!(["user", "notice", 1_728_699_255_000_000_000_i64, "host-1", "sshd", "4711"]);
    assert_eq!(json!(last), expected);
}

#[test]
fn lines_without_event_are_discarded() {
    for (codec, input, discarded) in [
        ("json", "{\"n\":1}\n\n{\"n\":2}\n \r\n\n", 3),
        ("csv", "a,b\n\n\r\nc,d\n", 2),
        ("influx", "# by a script\ncpu v=1i 1\n\n   \n # end\ncpu v=2i 2\n", 4),
        ("syslog", "<13>a\n\n<13>b\n\r\n", 2),
        ("logfmt", "a=1\n\n \t\nb=2\n\r\n", 3),
        (
            "gelf",
            "{\"host\":\"h\",\"short_message\":\"m\"}\n\n \n\0\n{\"host\":\"h\",\"short_message\":\"n\"}\n",
            3,
        ),
        ("prometheus", "# HELP a b\n# TYPE a gauge\na 1\n\na 2\n# EOF\n", 4),
        ("{ otlp: { signal: logs, encoding: json } }", "{}\n\n{}\n", 1),
    ] {
        // `err` has no link, so a dead letter would fail the flow.
        let text = format!(
            "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: {codec}
    config: {{ path: in, mode: read, checkpoint: at }}
  output: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: out, mode: append }} }}
links: [input -> output]"
        );
        let scene = Scene::new(&text).write("in", input.as_bytes());
        let count = format!("{} events in, 2 out", discarded + 2);
        scene.run().expect(0, &[&count, &format!("{discarded} discarded")]);
        assert_eq!(scene.read("out").lines().count(), 2, "{codec}");
        // The whole file is acknowledged.
        scene.run().expect(0, &["0 events in"]);
    }
}

#[test]
fn byte_order_mark_of_file_is_not_part_of_first_event() {
    for (input, text, expected) in [
        ("preprocessors: [lines], codec: string", "a\r\n\u{feff}b\n", "\"a\"\n\"b\"\n"),
        ("codec: string", "a\r\nb", "\"a\\r\\nb\"\n"),
        ("preprocessors: [join], codec: string", "a", "\"a\"\n"),
        ("codec: csv", "a,b", "[\"a\",\"b\"]\n"),
        ("preprocessors: [lines], codec: csv", "a,b\n", "[\"a\",\"b\"]\n"),
        ("preprocessors: [lines], codec: json", "[1]\n[2]\n", "[1]\n[2]\n"),
        ("codec: json", "{\"a\": \"\\n\"}", "{\"a\": \"\\n\"}\n"),
        ("preprocessors: [lines], codec: json", "", ""),
        (
            "preprocessors: [lines], codec: influx",
            "m f=1i\n",
            "{\"measurement\":\"m\",\"tags\":{},\"fields\":{\"f\":1}}\n",
        ),
        (
            "codec: syslog",
            "<13>a",
            "{\"protocol\":\"RFC3164\",\"facility\":\"user\",\"severity\":\"notice\",\"msg\":\"a\"}\n",
        ),
        (
            "preprocessors: [prometheus], codec: prometheus",
            "a 1\n",
            "{\"name\":\"a\",\"type\":\"untyped\",\"labels\":{},\"value\":1.0}\n",
        ),
    ] {
        let scene = Scene::new(&copy(input, "codec: json, postprocessors: [lines]"))
            .write("in", format!("\u{feff}{text}").as_bytes());
        scene.run().expect(0, &["0 dead-lettered"]);
        assert_eq!(scene.read("out"), expected, "{input}");
    }
}

#[test]
fn binary_keeps_a_utf8_signature() {
    for input in ["codec: binary", "preprocessors: [join], codec: binary"] {
        let scene = Scene::new(&copy(input, "codec: binary")).write("in", "\u{feff}a".as_bytes());
        scene.run().expect(0, &["0 dead-lettered"]);
        assert_eq!(scene.read("out"), "\u{feff}a", "{input}");
    }
}

#[test]
fn several_lines_without_a_preprocessor_name_the_missing_one() {
    let scene = Scene::new(&copy("codec: json", "codec: json, postprocessors: [lines]"))
        .write("in", b"{\"a\":1}\n{\"a\":2}\n");
    scene.run().expect(0, &["1 dead-lettered"]);
    let errors = errors(&scene);
    assert!(errors[0].ends_with("add `lines` to `preprocessors`"), "{errors:?}");
}

#[test]
fn time_without_a_unit_is_rejected_with_advice() {
    for time in ["5", "'5'", "true"] {
        let flow = format!(
            "connectors:
  input: {{ type: file, codec: json, config: {{ path: in, mode: read, follow: true, poll_interval: {time} }} }}
  output: {{ type: 'null', codec: json }}
links: [input -> output]"
        );
        let advice = "write a whole number and `ms`, `s`, `m` or `h`, such as `250ms` or `5s`";
        let expected = "`poll_interval` of connector type `file`: expected a time with its unit";
        Scene::new(&flow).tremor(&["check", "flow.yaml"]).expect(2, &[expected, advice]);
    }
}
