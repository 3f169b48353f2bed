//! Tests of valid flows and their results.

use serde_json::Value;

use crate::tremor::{Run, Scene};

const READ: &str = "
  input: { type: file, preprocessors: [lines], codec: json, config: { path: in, mode: read } }";
const SHOW: &str = "
  output: { type: stdio, codec: json, postprocessors: [lines] }";

fn flow(connectors: &[&str], rest: &str) -> String {
    format!("connectors:{}\n{rest}\n", connectors.concat())
}

#[test]
fn filter_passes_matching_events() {
    let events = b"{\"level\":\"error\",\"n\":1}\n{\"level\":\"info\",\"n\":2}\n{\"n\":3}\n";
    for (config, expected) in [
        ("field: level, equals: error", [1].as_slice()),
        ("field: level, exists: true", &[1, 2]),
        ("field: level, matches: '^in'", &[2]),
        ("field: level, matches: '^in', not: true", &[1, 3]),
    ] {
        let pipeline = format!(
            "pipelines: {{ p: {{ operators: [{{ type: filter, config: {{ {config} }} }}] }} }}
links: [input -> p -> output]"
        );
        let run = Scene::new(&flow(&[READ, SHOW], &pipeline)).write("in", events).run();
        run.expect(0, &["3 events in", "0 dead-lettered"]);
        let events = run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let kept: Vec<_> = events.map(|event| event["n"].as_i64().unwrap()).collect();
        assert_eq!(kept, expected, "{config}");
    }
}

#[test]
fn connector_may_be_linked_directly_to_several_others() {
    let outputs = ["a", "b"].map(|name| {
        format!("\n  {name}: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: {name}.out, mode: write }} }}")
    });
    let text = flow(&[READ, &outputs[0], &outputs[1]], "links: [input -> a, input -> b]");
    let scene = Scene::new(&text).write("in", b"{\"a\":[1,2.5,null,\"\\u00e9\"]}\n[]\n");
    scene.run().expect(0, &["2 events in, 4 out"]);
    let expected = "{\"a\":[1,2.5,null,\"\\u00e9\"]}\n[]\n";
    assert_eq!((scene.read("a.out"), scene.read("b.out")), (expected.into(), expected.into()));
}

#[test]
fn several_sources_feed_one_pipeline() {
    let other = READ.replace("input", "other").replace("path: in", "path: in2");
    let text = flow(
        &[READ, &other, SHOW],
        "pipelines: { p: { operators: [{ type: passthrough }] } }
links: [input -> p, other -> p, p -> output]",
    );
    let run = Scene::new(&text).write("in", b"1\n2\n").write("in2", b"3\n").run();
    run.expect(0, &["3 events in, 3 out"]);
    let mut lines: Vec<_> = run.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1", "2", "3"]);
}

#[test]
fn file_without_preprocessor_is_one_message() {
    let text = "
connectors:
  input: { type: file, codec: string, config: { path: in, mode: read, chunk_bytes: 3 } }
  output: { type: file, codec: string, config: { path: out, mode: truncate } }
links: [input -> output]";
    let scene = Scene::new(text).write("in", b"two\nlines").write("out", b"old");
    scene.run().expect(0, &["1 events in, 1 out"]);
    assert_eq!(scene.read("out"), "two\nlines");
}

#[test]
fn several_flows_in_one_process_have_own_instances() {
    let second = flow(&[&READ.replace("path: in", "path: in2"), SHOW], "links: [input -> output]");
    let scene = Scene::new(&flow(&[READ, SHOW], "links: [input -> output]"))
        .write("second.yaml", second.as_bytes())
        .write("in", b"1\n")
        .write("in2", b"2\n");
    let run = scene.tremor(&["run", "flow.yaml", "second.yaml"]);
    run.expect(0, &["flow `flow`: 1 events in, 1 out", "flow `second`: 1 events in, 1 out"]);
    let mut lines: Vec<_> = run.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1", "2"]);
}

#[test]
fn bad_messages_go_to_err_with_their_bytes() {
    let dead = "
  dead: { type: file, codec: json, postprocessors: [lines], config: { path: dead, mode: write } }";
    let text = flow(&[READ, SHOW, dead], "links: [input -> output, input/err -> dead]");
    let scene = Scene::new(&text).write("in", b"{\"n\":1}\n{\"n\":\\x}\n\xff\xfe\n{\"n\":2}\n");
    let run = scene.run();
    run.expect(0, &["4 events in", "2 dead-lettered"]);
    assert_eq!(run.stdout, "{\"n\":1}\n{\"n\":2}\n");
    let dead = scene.read("dead");
    let dead: Vec<Value> = dead.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(dead[0]["original"], "{\"n\":\\x}");
    assert_eq!(dead[0]["component"], "input");
    assert_eq!(dead[0]["error"]["kind"], "bad data");
    assert_eq!(dead[1]["original"], "//4=", "bytes that are not text are base64");
}

#[test]
fn line_of_100_mib_goes_to_err_with_beginning_and_length() {
    let dead = "
  dead: { type: file, codec: json, postprocessors: [lines], config: { path: dead, mode: write } }";
    let text = flow(&[READ, SHOW, dead], "links: [input -> output, input/err -> dead]");
    let length = 100 << 20;
    let mut input = b"1\n".to_vec();
    input.resize(2 + length, b'x');
    input.extend_from_slice(b"\n2\n");
    let scene = Scene::new(&text).write("in", &input);
    let run = scene.run();
    run.expect(0, &["3 events in", "1 dead-lettered"]);
    assert_eq!(run.stdout, "1\n2\n");
    let letter: Value = serde_json::from_str(&scene.read("dead")).unwrap();
    assert_eq!(letter["original"].as_str().unwrap().len(), 4 << 10);
    assert!(letter["error"]["message"].as_str().unwrap().contains("104857600 bytes"));
}

#[test]
fn run_ends_after_its_number_of_events() {
    let text = "
connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: stdio, codec: json, postprocessors: [lines] }
  enough: { type: exit, config: { after_events: 3 } }
links: [ticks -> output, ticks -> enough]";
    let run = Scene::new(text).run();
    run.expect(0, &[]);
    let ticks: Vec<Value> = run.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(ticks.len() >= 3, "{}", run.stdout);
    assert!(ticks.iter().enumerate().all(|(n, tick)| tick["sequence"] == n), "{}", run.stdout);
}

/// Returns the output of `check` for a flow between two files. `input` and `output` are keys of the source and
/// the sink.
fn check_of(input: &str, output: &str) -> Run {
    let text = format!(
        "connectors:
  input: {{ type: file, {input}, config: {{ path: in, mode: read }} }}
  output: {{ type: file, {output}, config: {{ path: out, mode: append }} }}
links: [input -> output]"
    );
    Scene::new(&text).tremor(&["check", "flow.yaml"])
}

#[test]
fn check_warns_of_binary_messages_between_line_feeds() {
    let good = [
        ("codec: json, preprocessors: [lines]", "codec: json, postprocessors: [lines]"),
        ("codec: msgpack, preprocessors: [length-prefixed]", "codec: msgpack"),
        (
            "codec: msgpack, preprocessors: [lines, remove-empty, base64]",
            "codec: msgpack, postprocessors: [base64, lines]",
        ),
        ("codec: json, preprocessors: [gzip, lines]", "codec: json, postprocessors: [lines, gzip]"),
    ];
    for (input, output) in good {
        let run = check_of(input, output);
        run.expect(0, &[]);
        assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    }
    let bad = [
        ("codec: msgpack", "preprocessors: [lines]", "postprocessors: [lines]", "codec `msgpack`"),
        (
            "codec: json",
            "preprocessors: [lines, remove-empty, decompress]",
            "postprocessors: [gzip, lines]",
            "`gzip`",
        ),
    ];
    for (codec, pre, post, what) in bad {
        let run = check_of(&format!("{codec}, {pre}"), &format!("{codec}, {post}"));
        let sink = format!("`lines` of sink `output` rejects messages of {what}");
        run.expect(0, &["`lines` of source `input` splits messages of", &sink, "`base64` before"]);
    }
}

#[test]
fn check_warns_of_binary_messages_joined_as_lines() {
    let multiline = "{ multiline: { preset: all } }";
    for (codec, after, binary) in [
        ("string", "", None),
        ("json", "", None),
        ("msgpack", ", base64", None),
        ("msgpack", "", Some("codec `msgpack`")),
        ("msgpack", ", remove-empty", Some("codec `msgpack`")),
        ("string", ", decompress", Some("`decompress`")),
    ] {
        let input = format!("codec: {codec}, preprocessors: [{multiline}{after}]");
        let run = check_of(&input, "codec: json, postprocessors: [lines]");
        run.expect(0, &[]);
        let expected =
            binary.map(|it| format!("joins lines of text, but {it} reads binary messages"));
        assert_eq!(run.stderr.contains("warning"), expected.is_some(), "{}", run.stderr);
        if let Some(expected) = expected {
            run.expect(0, &[&expected, "remove `multiline`"]);
        }
    }
}

#[test]
fn check_warns_of_deliveries_that_cannot_fill() {
    let check = |batch: &str| {
        let output = format!("codec: json, postprocessors: [lines], batch: {batch}");
        check_of("codec: json, preprocessors: [lines]", &output)
    };
    for batch in [
        "{ max_events: 5000, max_bytes: 4MiB, linger: 100ms }",
        "{ max_bytes: 64MiB, linger: 1s }",
        "{ max_bytes: 64MiB, linger: 0ms }",
        "{ max_events: 100000 }",
    ] {
        let run = check(batch);
        run.expect(0, &[]);
        assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    }
    let linger = "can hardly reach `batch.max_bytes: 64MiB`: they leave after `batch.linger: 50ms`";
    check("{ max_bytes: 64MiB }").expect(0, &[linger, "set `batch.linger`"]);
    let bytes = "never reach `batch.max_events: 2000000`: `batch.max_bytes: 1MiB`, its default,";
    check("{ max_events: 2000000 }").expect(0, &[bytes, "set `batch.max_bytes` to more"]);
}
