//! Tests of codecs and processors that panic or write too much. This costs the messages that are the cause, and is
//! never the end of the component unless nothing else succeeds.

use std::{fs::OpenOptions, io::Write, process::Command};

use serde_json::Value;

use crate::{api, tremor::Scene};

const LINES: usize = 1_000;
/// Length of a line with its end, in bytes.
const LINE: usize = 10;

fn is_poison(line: usize) -> bool {
    line % 100 == 42
}

/// Returns lines of which some make the components of the fixture panic.
fn input() -> String {
    let line =
        |number| format!("{}{number:04}\n", if is_poison(number) { "panic" } else { "good " });
    (0..LINES).map(line).collect()
}

fn good(lines: impl Iterator<Item = usize>) -> Vec<String> {
    lines.filter(|line| !is_poison(*line)).map(|number| format!("good {number:04}")).collect()
}

/// Runs a flow from a file to a file with these keys of the source and of the sink. Returns the lines that were
/// delivered, and the dead letters.
fn run(source: &str, sink: &str, count: usize) -> (Vec<String>, Vec<Value>) {
    let flow = format!(
        "connectors:
  input: {{ type: file, {source}, config: {{ path: in, mode: read, chunk_bytes: {} }} }}
  output: {{ type: file, {sink}, config: {{ path: out, mode: write }} }}
  dead: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: dead, mode: write }} }}
links: [input -> output, input/err -> dead, output/err -> dead]",
        20 * LINE
    );
    let scene = Scene::new(&flow).write("in", input().as_bytes());
    let run = scene.run();
    run.expect(0, &[&format!("{count} events in"), "` restarts component="]);
    assert!(!run.stderr.contains("is not called again"), "{}", run.stderr);
    let letters = scene.read("dead").lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    (scene.read("out").lines().map(str::to_owned).collect(), letters)
}

const HOSTILE_CODEC: &str = "codec: { type: hostile_codec, config: { fault: word_panics } }";

#[test]
fn panic_of_a_codec_or_postprocessor_costs_one_message() {
    let lines = "preprocessors: [lines], codec: string";
    let hostile = "hostile_postprocessor, config: { fault: word_panics }";
    for (source, sink) in [
        (
            &*format!("preprocessors: [lines], {HOSTILE_CODEC}"),
            "codec: string, postprocessors: [lines]",
        ),
        (lines, &*format!("{HOSTILE_CODEC}, postprocessors: [lines]")),
        (lines, &*format!("codec: string, postprocessors: [{{ type: {hostile} }}]")),
    ] {
        let (delivered, letters) = run(source, sink, LINES);
        assert_eq!(delivered, good(0..LINES), "{source}, {sink}");
        let originals: Vec<_> = letters.iter().map(|it| it["original"].as_str().unwrap()).collect();
        let poison = (0..LINES).filter(|it| is_poison(*it)).map(|it| format!("panic{it:04}"));
        assert_eq!(originals, poison.collect::<Vec<_>>(), "{source}, {sink}");
        assert!(letters.iter().all(|it| it["error"]["kind"] == "panicked"), "{letters:?}");
    }
}

/// Each pull has 20 lines. An operator that has edited events before it panics may have done so in place, so its whole
/// batch leaves by `err`.
#[test]
fn panic_of_a_stateless_operator_costs_one_unedited_event() {
    let is_poisoned = |line: &usize| (40..60).contains(&(line % 100));
    for (fault, lost) in [
        ("word_panics", (0..LINES).filter(|line| is_poison(*line)).collect::<Vec<_>>()),
        ("edited_word_panics", (0..LINES).filter(is_poisoned).collect()),
    ] {
        let operator = format!("{{ type: hostile_stateless, config: {{ fault: {fault} }} }}");
        let flow = format!(
            "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: string
    config: {{ path: in, mode: read, chunk_bytes: {} }}
  output:
    type: file
    codec: string
    postprocessors: [lines]
    config: {{ path: out, mode: write }}
  dead: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: dead, mode: write }} }}
pipelines: {{ main: {{ operators: [{operator}] }} }}
links: [input -> main -> output, main/err -> dead]",
            20 * LINE
        );
        let scene = Scene::new(&flow).write("in", input().as_bytes());
        let run = scene.run();
        run.expect(0, &["operator 1 (`hostile_stateless`) restarts"]);
        assert!(!run.stderr.contains("is not called again"), "{}", run.stderr);
        let delivered: Vec<_> =
            scene.read("out").lines().map(|it| it[5..].parse::<usize>().unwrap()).collect();
        let all: Vec<_> = (0..LINES).filter(|line| !lost.contains(line)).collect();
        assert_eq!(delivered, all, "{fault}");
        let letters = scene.read("dead");
        assert_eq!(letters.lines().count(), lost.len(), "{fault}");
        assert!(letters.lines().all(|it| it.contains(r#""kind":"panicked""#)), "{letters}");
    }
}

/// A preprocessor gets bytes and not messages, so its panic costs the bytes of the call.
#[test]
fn panic_of_a_preprocessor_costs_its_input() {
    let hostile = "hostile_preprocessor, config: { fault: word_panics }";
    let source = format!("preprocessors: [{{ type: {hostile} }}], codec: string");
    // Each pull has 20 lines, and 10 of the pulls contain a line that panics.
    let (delivered, letters) =
        run(&source, "codec: string, postprocessors: [lines]", LINES - 10 * 20 + 10);
    let is_lost = |line: &usize| (40..60).contains(&(line % 100));
    assert_eq!(delivered, good((0..LINES).filter(|line| !is_lost(line))));
    let originals: String = letters.iter().map(|it| it["original"].as_str().unwrap()).collect();
    let lost = (0..LINES).filter(is_lost).map(|line| line * LINE);
    let lost: String = lost.map(|start| input()[start..start + LINE].to_owned()).collect();
    assert_eq!(originals, lost);
}

/// The process may have half a gibibyte, and the output for one event would have at least five.
#[test]
fn endless_output_of_a_component_costs_its_event_and_no_memory() {
    let floods = "{ type: hostile_KIND, config: { fault: word_floods } }";
    for (kind, keys) in [
        ("preprocessor", ["preprocessors: [lines, FLOODS], codec: string", "codec: string"]),
        ("codec", ["preprocessors: [lines], codec: string", "codec: FLOODS"]),
        ("postprocessor", ["preprocessors: [lines], codec: string", "codec: string"]),
    ] {
        let floods = floods.replace("KIND", kind);
        let [source, sink] = keys.map(|keys| keys.replace("FLOODS", &floods));
        // The postprocessor appends the line feed itself.
        let lines = if kind == "postprocessor" { &*floods } else { "lines" };
        let flow = format!(
            "connectors:
  input: {{ type: file, {source}, config: {{ path: in, mode: read }} }}
  output: {{ type: file, {sink}, postprocessors: [{lines}], config: {{ path: out, mode: write }} }}
  dead: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: dead, mode: write }} }}
links: [input -> output, input/err -> dead, output/err -> dead]"
        );
        let scene = Scene::new(&flow).write("in", b"one\nflood\ntwo\n");
        let tremor = scene.command(&["run", "flow.yaml"]);
        let mut limited = Command::new("prlimit");
        limited.arg("--data=536870912").arg(tremor.get_program()).args(tremor.get_args());
        limited.envs(tremor.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = limited.current_dir(scene.path()).output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && log.contains("1 dead-lettered"), "{kind}: {log}");
        assert_eq!(scene.read("out"), "one\ntwo\n", "{kind}");
        let dead = scene.read("dead");
        assert!(dead.contains("more than 67108864 bytes") && dead.contains("flood"), "{dead}");
    }
}

#[test]
fn codec_that_always_panics_is_given_up_and_shown() {
    let flow = format!(
        "connectors:
  input:
    type: file
    preprocessors: [lines]
    {HOSTILE_CODEC}
    # A batch has ten lines, and uses one restart.
    config: {{ path: in, mode: read, follow: true, chunk_bytes: 60 }}
  output: {{ type: 'null' }}
  dead: {{ type: 'null' }}
links: [input -> output, input/err -> dead]"
    );
    let scene = Scene::new(&flow).write("in", "panic\n".repeat(100).as_bytes());
    let mut asked = api::start(scene, &["flow.yaml"]);
    let flow = asked.until("/v1/flows/flow", |flow| flow["given_up"] != Value::Array(Vec::new()));
    let given_up = &flow["given_up"][0];
    assert_eq!(given_up["component"], "input");
    assert_eq!(given_up["part"], "codec `hostile_codec`");
    assert!(given_up["error"].as_str().unwrap().contains("panicked in decode"), "{given_up}");
    let (status, body) = asked.request("GET", "/readyz");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("codec `hostile_codec` of `input` of `flow` is not called"), "{body}");
    asked.until_log("codec `hostile_codec` has panicked too often");
    asked.end();
}

/// No event follows a flush, so the source does not read the failed events again in this run.
#[test]
fn flush_that_panics_or_fails_fails_the_flow() {
    for (fault, says) in [
        ("flush_panics", "1 events were lost in a call that failed: panicked in flush"),
        ("flush_fails", "still buffers 1 events after its `flush`"),
    ] {
        let flow = format!(
            "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: string
    config: {{ path: in, mode: read, checkpoint: at }}
  output: {{ type: 'null' }}
pipelines: {{ main: {{ operators: [{{ type: hostile_operator, config: {{ fault: {fault} }} }}] }} }}
links: [input -> main -> output]"
        );
        let run = Scene::new(&flow).write("in", b"one\n").run();
        run.expect(1, &["error: flow `flow` failed: pipeline `main`: ", says, "1 failed"]);
    }
}

/// These methods return no error. The error of a panic is that of the next call, and not of another fault.
#[test]
fn panic_of_a_method_without_error_reaches_the_log() {
    let source = "preprocessors: [lines], codec: string";
    let preprocessor = |fault| {
        let hostile = format!("{{ type: hostile_preprocessor, config: {{ fault: {fault} }} }}");
        (format!("preprocessors: [{hostile}], codec: string"), "[]".to_owned(), "'null'".to_owned())
    };
    let operator = "[{ type: hostile_operator, config: { fault: due_panics } }]".to_owned();
    let sink = |fault| format!("hostile, codec: string, config: {{ fault: {fault}, times: 1 }}");
    let framed = "file, codec: string, postprocessors: [{ type: hostile_postprocessor, config: { fault: suffix_panics } }], \
                  config: { path: out, mode: write }";
    for (method, (source, operators, sink)) in [
        ("due", (source.to_owned(), operator, "'null'".to_owned())),
        ("demand", (source.to_owned(), "[]".to_owned(), sink("demand_panic"))),
        ("on_grant", (source.to_owned(), "[]".to_owned(), sink("grant_panic"))),
        ("suffix", (source.to_owned(), "[]".to_owned(), framed.to_owned())),
        ("has_more", preprocessor("has_more_panics")),
        ("buffers", preprocessor("buffers_panics")),
        ("streams", preprocessor("streams_panics")),
        ("due", preprocessor("due_panics")),
    ] {
        let flow = format!(
            "connectors:
  input: {{ type: file, {source}, config: {{ path: in, mode: read, checkpoint: at, message_end: \"\\n\" }} }}
  output: {{ type: {sink} }}
  dead: {{ type: 'null' }}
pipelines: {{ main: {{ operators: {operators} }} }}
links: [input -> main, main -> output, input/err -> dead, main/err -> dead, output/err -> dead]"
        );
        let run = Scene::new(&flow).write("in", b"one\ntwo\nthree").run();
        let said = format!("panicked in {method} at ");
        let line = run.stderr.lines().find(|line| line.contains(&said));
        let Some(line) = line else { panic!("{method}: {flow}\n{}", run.stderr) };
        assert!(line.contains("component="), "{line}");
        assert!(!run.stderr.contains("has panicked before"), "{method}: {}", run.stderr);
    }
}

#[test]
fn parts_that_were_given_up_work_again_after_a_request() {
    let flow = format!(
        "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: string
    pull: {{ max_events: 1 }}
    config: {{ path: in, mode: read, follow: true, poll_interval: 10ms, chunk_bytes: 6 }}
  encoded: {{ type: file, {HOSTILE_CODEC}, postprocessors: [lines], config: {{ path: encoded, mode: append }} }}
  operated: {{ type: file, codec: string, postprocessors: [lines], config: {{ path: operated, mode: append }} }}
pipelines: {{ main: {{ operators: [mischief] }} }}
links: [input -> encoded, input -> main, main -> operated]"
    );
    let scene = Scene::new(&flow).write("in", "panic\n".repeat(20).as_bytes());
    let asked = api::start(scene, &["flow.yaml"]);
    let count = |flow: &Value| flow["given_up"].as_array().unwrap().len();
    let failed = |flow: &Value, name: &str, role: &str| {
        let components = flow["components"].as_array().unwrap();
        components.iter().find(|it| it["name"] == name && it["role"] == role).unwrap()["events"]["failed"]
            == 20
    };
    asked.until("/v1/flows/flow", |flow| {
        failed(flow, "encoded", "sink") && failed(flow, "main", "pipeline") && count(flow) == 2
    });
    asked.json("POST", "/v1/flows/flow/connectors/encoded/restart");
    let flow = asked.json("POST", "/v1/flows/flow/pipelines/main/restart");
    assert_eq!(count(&flow), 0, "{flow}");
    let (status, body) = asked.request("POST", "/v1/flows/flow/pipelines/no/restart");
    assert!(
        status == 404 && body.contains("there is no pipeline `no`; available: `main`"),
        "{body}"
    );
    let mut input = OpenOptions::new().append(true).open(asked.path().join("in")).unwrap();
    input.write_all(b"good1\ngood2\n").unwrap();
    let delivered = |flow: &Value, name: &str| {
        let components = flow["components"].as_array().unwrap();
        let sink = components.iter().find(|it| it["name"] == name && it["role"] == "sink").unwrap();
        sink["events"]["delivered"] == 2
    };
    for sink in ["encoded", "operated"] {
        asked.until("/v1/flows/flow", |flow| delivered(flow, sink));
        let lines = std::fs::read_to_string(asked.path().join(sink)).unwrap();
        assert_eq!(lines, "good1\ngood2\n", "{sink}");
    }
    assert_eq!(asked.request("GET", "/readyz").0, 200);
}

/// The source reads failed events again, and each `process` succeeds, so the budget has to end that.
#[test]
fn part_whose_queries_always_panic_is_given_up() {
    let hostile = |kind: &str, fault: &str| {
        format!("{{ type: hostile_{kind}, config: {{ fault: {fault} }} }}")
    };
    for (preprocessor, operators, part) in [
        (
            "lines".to_owned(),
            hostile("operator", "due_always_panics"),
            "operator 1 (`hostile_operator`)",
        ),
        (
            hostile("preprocessor", "buffers_always_panics"),
            "passthrough".to_owned(),
            "preprocessor `hostile_preprocessor`",
        ),
    ] {
        let flow = format!(
            "connectors:
  input:
    type: file
    preprocessors: [{preprocessor}]
    codec: string
    config: {{ path: in, mode: read, follow: true, checkpoint: at, message_end: \"\\n\" }}
  output: {{ type: 'null' }}
pipelines: {{ main: {{ operators: [{operators}] }} }}
links: [input -> main, main -> output]"
        );
        let run = Scene::new(&flow).write("in", b"one\ntwo\nthree\n").run();
        run.expect(1, &[&format!("{part} has panicked too often, and is not called again")]);
    }
}
