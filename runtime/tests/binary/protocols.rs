//! Tests of formats that peers send as they are: arrays and sequences of JSON values, CSV with line feeds in quotes, and
//! text in UTF-16.

use std::fmt::Write as _;

use crate::{http::post, running::Running, tremor::Scene};

/// Returns a flow from the file `in` to the file `out`, with dead letters in `dead`.
fn copy(source: &str, sink: &str) -> String {
    format!(
        "connectors:
  input: {{ type: file, {source}, config: {{ path: in, mode: read, chunk_bytes: 1000 }} }}
  output: {{ type: file, {sink}, config: {{ path: out, mode: truncate }} }}
  dead: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: dead, mode: truncate }} }}
links: [input -> output, input/err -> dead, output/err -> dead]"
    )
}

const LINES: &str = "codec: json, postprocessors: [lines]";

#[test]
fn json_array_and_values_become_events() {
    let text = copy("preprocessors: [json-values], codec: json", LINES);
    let mut array = "[".to_owned();
    let mut lines = String::new();
    for number in 0..5_000 {
        let comma = if number == 0 { "" } else { ",\n" };
        let _ = write!(array, "{comma}{{\"n\":{number}}}");
        let _ = writeln!(lines, "{{\"n\":{number}}}");
    }
    array.push(']');
    for (input, expected) in [
        (r#"[{"n":1},{"n":2}]{"n":3}{"n":4}"#, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n"),
        (&array, &lines),
    ] {
        let scene = Scene::new(&text).write("in", input.as_bytes());
        scene.run().expect(0, &[]);
        assert_eq!((&*scene.read("out"), &*scene.read("dead")), (expected, ""));
    }
    let scene = Scene::new(&text).write("in", b"{\"n\":1}\nnonsense {\n{\"n\":2}");
    scene.run().expect(0, &["1 dead-lettered"]);
    assert_eq!(scene.read("out"), "{\"n\":1}\n{\"n\":2}\n");
    assert!(
        scene.read("dead").contains("expected a JSON value, found `n`"),
        "{}",
        scene.read("dead")
    );
}

#[test]
fn bodies_with_arrays_and_values_become_events() {
    let flow = "connectors:
  input:
    type: http_server
    preprocessors: [json-values]
    codec: json
    config: { listen: '127.0.0.1:0', respond: delivered }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [input -> output]";
    let mut server = Running::of(Scene::new(flow), &["flow.yaml"], |command| command);
    let (address, _) = server.listens();
    for (body, events) in [
        (r#"[{"n":1},{"n":2}]"#, &[r#"{"n":1}"#, r#"{"n":2}"#][..]),
        (r#"{"n":3}{"n":4}"#, &[r#"{"n":3}"#, r#"{"n":4}"#]),
        ("[]", &[]),
        ("{\"n\":5}\n[6]\n", &[r#"{"n":5}"#, "6"]),
    ] {
        let (status, answer) = post(&address, body).expect("an answer");
        assert_eq!(status, 200, "{body}: {answer}");
        for event in events {
            assert_eq!(server.event(), *event, "{body}");
        }
    }
    server.signal(&["TERM"]);
    server.end().expect(0, &[]);
}

#[test]
fn csv_with_line_feeds_is_read_and_written() {
    let input = b"id,text\r\n1,\"two\r\nlines\"\r\n2,plain\r\n3,\"stray\n4,last\n";
    let text = copy("preprocessors: [csv-records], codec: csv", LINES);
    let scene = Scene::new(&text).write("in", input);
    scene.run().expect(0, &["1 dead-lettered"]);
    let expected =
        "[\"id\",\"text\"]\n[\"1\",\"two\\r\\nlines\"]\n[\"2\",\"plain\"]\n[\"4\",\"last\"]\n";
    assert_eq!(scene.read("out"), expected);
    assert!(scene.read("dead").contains("3,\\\"stray"), "{}", scene.read("dead"));
    let again = copy(
        "preprocessors: [csv-records], codec: csv",
        "codec: csv, postprocessors: [csv-records]",
    );
    let scene = Scene::new(&again).write("in", input);
    scene.run().expect(0, &["1 dead-lettered"]);
    assert_eq!(scene.read("out"), "id,text\n1,\"two\r\nlines\"\n2,plain\n4,last\n");
}

#[test]
fn utf16_is_read_in_both_byte_orders() {
    let text = copy(
        "preprocessors: [{ decode-text: { encoding: utf-16 } }, lines], codec: string",
        "codec: string, postprocessors: [lines]",
    );
    let input = format!("\u{feff}one é\r\n{}\u{1f600}\u{a0a}\n", "ਊ".repeat(2_000));
    for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
        let encoded: Vec<u8> = input.encode_utf16().flat_map(bytes).collect();
        let scene = Scene::new(&text).write("in", &encoded);
        scene.run().expect(0, &["2 events in, 2 out"]);
        assert_eq!(scene.read("out"), input.replace(['\u{feff}', '\r'], ""));
    }
}

#[test]
fn check_finds_mistakes_of_formats() {
    for (source, status, parts) in [
        (
            "preprocessors: [lines, { decode-text: { encoding: utf-16le } }], codec: string",
            0,
            &["splits text in UTF-16 before `decode-text`", "move `decode-text` before `lines`"][..],
        ),
        (
            "preprocessors: [{ decode-text: { encoding: utf-61 } }], codec: string",
            2,
            &["flow.yaml:2:", "`encoding`: expected the name of an encoding", "utf-61"],
        ),
        ("preprocessors: [decode-text], codec: string", 2, &["flow.yaml:2:", "encoding"]),
        (
            "preprocessors: [{ csv-records: { quote: ',' } }], codec: csv",
            2,
            &["`quote`: expected a character other than `delimiter`"],
        ),
        (
            "preprocessors: [{ json-values: { arrays: divided } }], codec: json",
            2,
            &["arrays", "divided"],
        ),
    ] {
        let scene = Scene::new(&copy(source, LINES)).write("in", b"");
        scene.tremor(&["check", "flow.yaml"]).expect(status, parts);
    }
}

#[test]
fn check_warns_of_unverified_server() {
    let flow = |keys: &str| {
        format!(
            "connectors:
  input: {{ type: metronome, config: {{ interval_ms: 5 }} }}
  output: {{ type: tcp_client, codec: json, config: {{ address: 'localhost:9', tls: {{ {keys} }} }} }}
links: [input -> output]"
        )
    };
    for (keys, status, part) in [
        ("insecure_skip_verify: true", 0, "connector `output` does not verify its server"),
        ("insecure_skip_verify: true, ca_file: a.pem", 2, "accepts every certificate"),
        ("fingerprints: [ab]", 2, "64 hexadecimal digits"),
    ] {
        Scene::new(&flow(keys)).tremor(&["check", "flow.yaml"]).expect(status, &[part]);
    }
}
