//! Tests of compression, framing and formats with the whole program.

use std::process::Command;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::Value;

use crate::tremor::Scene;

/// Returns a flow from a file to a file, with these keys of source and sink.
fn copy(input: &str, output: &str) -> String {
    format!(
        "
connectors:
  input: {{ type: file, {input} }}
  output: {{ type: file, {output} }}
  dead: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: dead, mode: write }} }}
links: [input -> output, input/err -> dead, output/err -> dead]"
    )
}

/// Returns the dead letters of a run.
fn dead(scene: &Scene) -> Vec<Value> {
    scene.read("dead").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn lines(count: usize) -> String {
    (0..count).flat_map(|n| ["{\"n\":".into(), n.to_string(), "}\n".into()]).collect()
}

#[test]
fn file_name_extension_selects_compression() {
    let text = lines(10_000);
    for (ending, tool) in [("gz", "gzip"), ("zst", "zstd"), ("xz", "xz")] {
        let there = copy(
            "preprocessors: [lines], codec: json, config: { path: in, mode: read }",
            &format!(
                "postprocessors: [lines], codec: json, \
                 config: {{ path: out.{ending}, mode: write }}"
            ),
        );
        let back = copy(
            &format!(
                "preprocessors: [lines], codec: json, \
                 config: {{ path: out.{ending}, mode: read, chunk_bytes: 1000 }}"
            ),
            "postprocessors: [lines], codec: json, config: { path: again, mode: write }",
        );
        let scene = Scene::new(&there)
            .write("in", text.as_bytes())
            .write("back.yaml", back.replace("path: dead", "path: dead2").as_bytes());
        scene.run().expect(0, &["10000 events in, 10000 out"]);
        scene.tremor(&["run", "back.yaml"]).expect(0, &["10000 events in, 10000 out"]);
        assert!(scene.read("again") == text, "{ending}");
        // If the program of the format is installed, it has to decompress the output to the same text.
        let file = format!("out.{ending}");
        let other = Command::new(tool).args(["-d", "-c", &file]).current_dir(scene.path()).output();
        if let Ok(other) = other {
            assert!(other.stdout == text.as_bytes(), "{tool}: {other:?}");
        }
    }
}

#[test]
fn numbers_of_each_format_keep_their_value() {
    let lines = [
        (
            "csv: { numbers: true }",
            "-0,3.14159265358979323846,18446744073709551616,1e400",
            "-0.0,3.14159265358979323846,18446744073709551616,1e400",
        ),
        (
            "logfmt: { typed: true }",
            "a=-0 b=3.14159265358979323846 c=1e400 d=1.0",
            "a=-0.0 b=3.14159265358979323846 c=1e400 d=1.0",
        ),
        (
            "influx: {}",
            "m a=-0,b=3.14159265358979323846,c=1.,d=18446744073709551615u,e=9007199254740993 1",
            "m a=-0.0,b=3.14159265358979323846,c=1.0,d=18446744073709551615u,e=9007199254740993 1",
        ),
    ];
    for (codec, line, expected) in lines {
        let flow = copy(
            &format!(
                "preprocessors: [lines], codec: {{ {codec} }}, config: {{ path: in, mode: read }}"
            ),
            &format!(
                "postprocessors: [lines], codec: {{ {codec} }}, config: {{ path: out, mode: write }}"
            ),
        );
        let scene = Scene::new(&flow).write("in", format!("{line}\n").as_bytes());
        scene.run().expect(0, &["1 events in, 1 out, 0 dead-lettered"]);
        assert_eq!(scene.read("out"), format!("{expected}\n"));
    }
}

/// A receiver would use one of the two fields, and the other one would be lost.
#[test]
fn event_with_two_fields_of_one_key_goes_to_err() {
    let events = r#"{"host":"h","short_message":"m","user":1,"_user":2}
{"host":"h","short_message":"m","a.b":1,"a":{"b":2}}
{"host":"h","short_message":"m","a_b":1,"a":{"b":2}}
{"host":"h","short_message":"m","a":{"b":2,"c":3}}
"#;
    for (codec, keys) in [("gelf", ["_user", "_a_b"].as_slice()), ("logfmt", &["a.b"])] {
        let flow = copy(
            "preprocessors: [lines], codec: json, config: { path: in, mode: read }",
            &format!(
                "postprocessors: [lines], codec: {codec}, config: {{ path: out, mode: write }}"
            ),
        );
        let scene = Scene::new(&flow).write("in", events.as_bytes());
        let count = 4 - keys.len();
        scene
            .run()
            .expect(0, &[&format!("4 events in, {count} out, {} dead-lettered", keys.len())]);
        for (letter, key) in dead(&scene).iter().zip(keys) {
            let expected =
                format!("expected different keys, found two fields whose key is `{key}`");
            assert!(letter["error"].to_string().contains(&expected), "{letter}");
        }
    }
}

#[test]
fn csv_fields_that_look_like_nothing_are_kept() {
    let flow = |input: &str, output: &str, from: &str, to: &str| {
        copy(
            &format!(
                "preprocessors: [lines], codec: {input}, config: {{ path: {from}, mode: read }}"
            ),
            &format!(
                "postprocessors: [lines], codec: {output}, config: {{ path: {to}, mode: write }}"
            ),
        )
    };
    let events = "[\"\u{feff}\"]\n[\"\"]\n[\"\u{feff}a\",\"\"]\n";
    let back = flow("csv", "json", "csv", "again").replace("path: dead", "path: dead2");
    let scene = Scene::new(&flow("json", "csv", "in", "csv"))
        .write("in", events.as_bytes())
        .write("back.yaml", back.as_bytes());
    scene.run().expect(0, &["3 events in, 3 out"]);
    scene.tremor(&["run", "back.yaml"]).expect(0, &["3 events in, 3 out"]);
    assert_eq!(scene.read("again"), events);
}

#[test]
fn truncated_compressed_file_fails_flow_after_its_events() {
    let write = copy(
        "preprocessors: [lines], codec: json, config: { path: in, mode: read }",
        "postprocessors: [lines], codec: json, config: { path: whole.gz, mode: write }",
    );
    let read = copy(
        "preprocessors: [lines], codec: json, config: { path: cut.gz, mode: read }",
        "postprocessors: [lines], codec: json, config: { path: out, mode: write }",
    );
    let scene = Scene::new(&write)
        .write("in", lines(10_000).as_bytes())
        .write("read.yaml", read.replace("path: dead", "path: dead2").as_bytes());
    scene.run().expect(0, &[]);
    let bytes = std::fs::read(scene.path().join("whole.gz")).unwrap();
    let scene = scene.write("cut.gz", &bytes[..bytes.len() - 20]);
    let run = scene.tremor(&["run", "read.yaml"]);
    run.expect(1, &["cut.gz", "truncated gzip data", "the file was cut"]);
    assert!(lines(10_000).starts_with(&scene.read("out")));
}

#[test]
fn preprocessors_reverse_their_postprocessors() {
    for (chain, reversed) in [
        ("gzip, length-prefixed", "length-prefixed, gzip"),
        ("zstd, base64, lines", "lines, base64, zstd"),
        (
            "{ snappy: { format: raw } }, { length-prefixed: { prefix: varint } }",
            "{ length-prefixed: { prefix: varint } }, { snappy: { format: raw } }",
        ),
        (
            "lz4, xz, { length-prefixed: { prefix: u16, endianness: little } }",
            "{ length-prefixed: { prefix: u16, endianness: little } }, xz, decompress",
        ),
        ("lines, zstd", "zstd, lines"),
        ("lines, snappy", "decompress, lines"),
    ] {
        let there = copy(
            "preprocessors: [lines], codec: json, config: { path: in, mode: read }",
            &format!(
                "postprocessors: [{chain}], codec: json, config: {{ path: out, mode: write }}"
            ),
        );
        let back = copy(
            &format!(
                "preprocessors: [{reversed}], codec: json, \
                 config: {{ path: out, mode: read, chunk_bytes: 1000 }}"
            ),
            "postprocessors: [lines], codec: json, config: { path: again, mode: write }",
        );
        let scene = Scene::new(&there)
            .write("in", lines(500).as_bytes())
            .write("back.yaml", back.replace("path: dead", "path: dead2").as_bytes());
        scene.run().expect(0, &["500 events in, 500 out"]);
        scene.tremor(&["run", "back.yaml"]).expect(0, &["500 events in, 500 out"]);
        assert_eq!(scene.read("again"), lines(500), "{chain}");
    }
}

#[test]
fn input_invalid_for_processor_goes_to_err() {
    let text = copy(
        "preprocessors: [lines, remove-empty, base64], codec: json, \
         config: { path: in, mode: read }",
        "postprocessors: [{ length-prefixed: { prefix: u8 } }], codec: string, \
         config: { path: out, mode: write }",
    );
    // The lines are 1, an empty line, invalid base64, a text of 300 letters, and 2.
    let long = BASE64_STANDARD.encode(format!("\"{}\"", "a".repeat(300)));
    let input = format!("MQ==\n\n!\n{long}\nMg==\n");
    let scene = Scene::new(&text).write("in", input.as_bytes());
    scene.run().expect(0, &["5 events in", "2 out", "2 dead-lettered", "1 discarded"]);
    assert_eq!(scene.read("out"), "\u{1}1\u{1}2");
    let dead = dead(&scene);
    let find = |component: &str| dead.iter().find(|letter| letter["component"] == component);
    let no_base64 = find("input").unwrap();
    assert_eq!(no_base64["original"], "!");
    assert!(no_base64["error"]["message"].as_str().unwrap().starts_with("invalid base64: "));
    let too_long = find("output").unwrap();
    let message = too_long["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("a message of 300 bytes is too long"), "{message}");
}

#[test]
fn events_are_converted_between_formats() {
    let input = "weather,place=sea temperature=1.5,by=\"me\" 1000000000\n# no line\nm f=2i 7\n";
    let text = copy(
        "preprocessors: [lines], codec: influx, config: { path: in, mode: read }",
        "postprocessors: [lines], codec: json, config: { path: out, mode: write }",
    );
    let scene = Scene::new(&text).write("in", input.as_bytes());
    scene.run().expect(0, &["3 events in, 2 out, 0 dead-lettered", "1 discarded"]);
    assert_eq!(
        scene.read("out"),
        "{\"measurement\":\"weather\",\"tags\":{\"place\":\"sea\"},\
         \"fields\":{\"temperature\":1.5,\"by\":\"me\"},\"timestamp\":1000000000}\n\
         {\"measurement\":\"m\",\"tags\":{},\"fields\":{\"f\":2},\"timestamp\":7}\n"
    );

    let text = copy(
        "preprocessors: [lines], codec: syslog, config: { path: in, mode: read }",
        "postprocessors: [lines], codec: syslog, config: { path: out, mode: write }",
    );
    let input = "<34>1 2003-10-11T22:14:15Z host su - - [a b=\"c\"] text\n<13>Use it!\n";
    let scene = Scene::new(&text).write("in", input.as_bytes());
    scene.run().expect(0, &["2 events in, 2 out"]);
    assert_eq!(scene.read("out"), input);

    let headers = "headers: [a, b], numbers: true";
    let text = copy(
        &format!(
            "preprocessors: [lines], codec: {{ csv: {{ {headers} }} }}, \
             config: {{ path: in, mode: read }}"
        ),
        "postprocessors: [lines], codec: json, config: { path: out, mode: write }",
    );
    let scene = Scene::new(&text).write("in", b"1,\"x,y\"\n2\n\"3\",z\n");
    scene.run().expect(0, &["3 events in", "1 dead-lettered"]);
    assert_eq!(scene.read("out"), "{\"a\":1,\"b\":\"x,y\"}\n{\"a\":\"3\",\"b\":\"z\"}\n");
}

#[test]
fn invalid_options_are_rejected_before_the_flow_runs() {
    for (settings, expected) in [
        ("preprocessors: [{ gzip: { max_bytes: 0 } }], codec: json", "max_bytes"),
        ("preprocessors: [{ length-prefixed: { prefix: u7 } }], codec: json", "u7"),
        ("preprocessors: [gzipp], codec: json", "gzip"),
        ("postprocessors: [{ zstd: { level: 99 } }], codec: json", "level"),
        ("postprocessors: [remove-empty], codec: json", "remove-empty"),
        (
            "codec: { csv: { delimiter: ab } }",
            "`delimiter` of codec type `csv`: expected a text of one character",
        ),
    ] {
        let input = format!("{settings}, config: {{ path: in, mode: read }}");
        let text = copy(&input, "codec: json, config: { path: out, mode: write }");
        let scene = Scene::new(&text);
        scene.tremor(&["check", "flow.yaml"]).expect(2, &[expected]);
    }
}

#[test]
fn logfmt_is_converted_to_gelf_with_nul_at_the_end() {
    let there = "
connectors:
  input: { type: file, preprocessors: [lines], codec: { logfmt: { typed: true } }, config: { path: in, mode: read } }
  output:
    type: file
    codec: gelf
    postprocessors: [{ lines: { separator: \"\\0\" } }]
    config: { path: gelf, mode: write }
  dead: { type: file, codec: json, postprocessors: [lines], config: { path: dead, mode: write } }
pipelines:
  p:
    operators:
      - type: set
        config: { edits: [{ field: host, value: shop-1 }, { field: short_message, copy: msg }, { remove: [msg] }] }
links: [input -> p -> output, input/err -> dead, output/err -> dead]";
    let back = copy(
        "preprocessors: [{ lines: { separator: \"\\0\" } }], codec: gelf, config: { path: gelf, mode: read }",
        "codec: logfmt, postprocessors: [lines], config: { path: out, mode: write }",
    );
    let input =
        "msg=\"two\\nlines\" level=4 user=u1 timestamp=1500000000500000000\n\nno=message\n=\n";
    let scene = Scene::new(there)
        .write("in", input.as_bytes())
        .write("back.yaml", back.replace("path: dead", "path: dead2").as_bytes());
    scene.run().expect(0, &["4 events in, 1 out, 2 dead-lettered", "1 discarded"]);
    let expected = "{\"version\":\"1.1\",\"level\":4,\"_user\":\"u1\",\"timestamp\":1500000000.5,\
        \"host\":\"shop-1\",\"short_message\":\"two\\nlines\"}\0";
    assert_eq!(scene.read("gelf"), expected);
    let dead = scene.read("dead");
    assert!(dead.contains("expected text as `short_message`") && dead.contains("expected a key"));
    scene.tremor(&["run", "back.yaml"]).expect(0, &["1 events in, 1 out"]);
    let line = "version=1.1 level=4 _user=u1 timestamp=1500000000500000000 host=shop-1 \
        short_message=\"two\\nlines\"\n";
    assert_eq!(scene.read("out"), line);
}

/// Runs a flow with these keys of its source on `input`. Returns its events, which are texts.
fn texts(source: &str, input: &str) -> Vec<String> {
    let text = copy(
        &format!("{source}, config: {{ path: in, mode: read }}"),
        "postprocessors: [lines], codec: json, config: { path: out, mode: write }",
    );
    let scene = Scene::new(&text).write("in", input.as_bytes());
    scene.run().expect(0, &["0 dead-lettered"]);
    scene.read("out").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The terminal of a container (`docker run -t`) writes a carriage return before each line feed.
#[test]
fn trace_of_container_with_terminal_is_one_event() {
    let trace = [
        "Traceback (most recent call last):",
        "  File \"/app/a.py\", line 7, in <module>",
        "DB: cannot connect",
        "[SQL: SELECT 1]",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "  + Exception Group Traceback (most recent call last):",
        "  | ExceptionGroup: two (1 sub-exception)",
        "  +-+---------------- 1 ----------------",
        "    | ValueError: x",
        "    +------------------------------------",
    ];
    let lines = [&["INFO ready"][..], &trace, &["INFO after"]].concat();
    let expected = ["INFO ready", &trace.join("\n"), "INFO after"];
    let docker = |line: &&str| {
        let line =
            serde_json::json!({ "log": format!("{line}\r\n"), "stream": "stdout", "time": "2026" });
        format!("{line}\n")
    };
    let cri = |line: &&str| format!("2026-01-02T03:04:05.1Z stdout F {line}\r\n");
    for (processor, input) in [
        ("docker", lines.iter().map(docker).collect::<String>()),
        ("cri", lines.iter().map(cri).collect()),
    ] {
        let source = format!(
            "preprocessors: [{processor}, {{ multiline: {{ preset: all }} }}], codec: string"
        );
        assert_eq!(texts(&source, &input), expected, "{processor}");
    }
}

#[test]
fn octet_counting_reads_an_empty_message() {
    let source = "preprocessors: [{ length-prefixed: { prefix: decimal } }], codec: string";
    assert_eq!(texts(source, "3 one0 3 two"), ["one", "", "two"]);
}
