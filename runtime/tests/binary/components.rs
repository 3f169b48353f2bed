//! Tests of operators, codecs and processors of plugins in flows, without and with faults.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::tremor::{Run, Scene, finish};

/// Returns a flow through the operator of the fixture, with further `links` from the operator's ports.
fn through_operator(config: &str, links: &str) -> String {
    format!(
        "connectors:
  input: {{ type: file, preprocessors: [lines], codec: string, config: {{ path: in, mode: read }} }}
  output: {{ type: stdio, codec: json, postprocessors: [lines] }}
  other: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: other, mode: write }} }}
pipelines: {{ p: {{ operators: [{{ type: mischief, config: {config} }}] }} }}
links: [input -> p -> output, {links}]"
    )
}

fn run(flow: &str, input: &str) -> (Run, Scene) {
    let scene = Scene::new(flow).write("in", input.as_bytes());
    (scene.run(), scene)
}

#[test]
fn large_codec_output_is_split_into_batches_in_order() {
    let flow = "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: keyvalue
    config: { path: in, mode: read, chunk_bytes: 2000000 }
  output: { type: file, codec: keyvalue, postprocessors: [lines], config: { path: out, mode: write } }
links: [input -> output]";
    let pairs = (0..30).map(|n| format!("k{n}=v ")).collect::<Vec<_>>().concat();
    let input = (0..5_000).map(|n| format!("{pairs}n={n}\n")).collect::<Vec<_>>().concat();
    let (run, scene) = run(flow, &input);
    // Each decoded event has more than 1 kB, and all events are in one input.
    run.expect(0, &["5000 events in, 5000 out"]);
    assert!(scene.read("out") == input);
}

#[test]
fn plugin_may_provide_codec_and_processors() {
    let flow = "connectors:
  input:
    type: file
    preprocessors: [{ type: separated, config: { separator: ';' } }]
    codec: keyvalue
    config: { path: in, mode: read }
  output: { type: stdio, codec: json, postprocessors: [lines] }
  again:
    type: file
    codec: keyvalue
    postprocessors: [{ type: separated, config: { separator: '|' } }]
    config: { path: again, mode: write }
links: [input -> output, input -> again, input/err -> bad, again/err -> bad]";
    let bad = "
  bad: { type: file, codec: json, postprocessors: [lines], config: { path: bad, mode: write } }";
    let flow = flow.replace("\nlinks", &format!("{bad}\nlinks"));
    let input = r#"level=warn msg="disk \"a\" full" fatal;=2;n=3"#;
    let (run, scene) = run(&flow, input);
    run.expect(0, &["3 events in"]);
    let expected =
        "{\"level\":\"warn\",\"msg\":\"disk \\\"a\\\" full\",\"fatal\":true}\n{\"n\":\"3\"}\n";
    assert_eq!(run.stdout, expected);
    let bad = scene.read("bad");
    let again = scene.read("again");
    assert_eq!(again, r#"level=warn msg="disk \"a\" full" fatal|n=3|"#, "{bad}");
    assert!(bad.contains("expected a key at byte 0") && bad.contains("\"=2\""), "{bad}");
}

#[test]
fn events_leave_an_operator_by_its_own_ports() {
    let links = "p/a -> other, p/err -> other";
    let (run, scene) = run(&through_operator("{ ports: [a, b] }", links), "x\na\nb\nreject\n");
    run.expect(0, &["4 events in, 2 out, 1 dead-lettered"]);
    assert_eq!(run.stdout, "\"x\"\n");
    let other = scene.read("other");
    assert!(other.contains("\"a\"\n") && other.contains("\"original\":\"reject\""), "{other}");
}

#[test]
fn unknown_operator_port_is_an_error_of_the_flow_file() {
    let (run, _) = run(&through_operator("{ ports: [a, b] }", "p/c -> other"), "");
    run.expect(2, &["flow.yaml:6:", "pipeline `p` has no output port `c`", "`a`"]);
    let (run, _) = self::run(&through_operator("{ ports: [panic] }", "p/err -> other"), "");
    run.expect(2, &["flow.yaml:5:", "panicked in ports"]);
}

#[test]
fn panicking_operator_is_recreated_and_its_events_go_to_err() {
    // The input has far more events than a batch.
    let before = "x\n".repeat(10);
    let behind = "y\n".repeat(400_000);
    let input = format!("{before}panic\n{behind}last\n");
    let (run, scene) = run(&through_operator("{ }", "p/err -> other"), &input);
    run.expect(0, &["400012 events in", "operator 1 (`mischief`) restarts", "panicked in process"]);
    assert!(run.stdout.ends_with("\"last\"\n"));
    let letters = scene.read("other");
    let count = letters.lines().count();
    assert_eq!(run.stdout.lines().count() + count, 400_012);
    assert!(
        letters.starts_with("{\"component\":\"p\",\"error\":{\"kind\":\"panicked\""),
        "{letters}"
    );
}

#[test]
fn order_of_keys_that_a_plugin_changed_reaches_the_sink() {
    let (run, _) = run(&through_operator("{ }", "p/err -> other"), "first\nreorder\n");
    run.expect(0, &["2 events in, 2 out"]);
    assert_eq!(run.stdout, "{\"b\":2,\"a\":1}\n\"first\"\n", "new events leave first");
}

#[test]
fn error_of_an_operator_sends_its_batch_to_err() {
    let (run, scene) = run(&through_operator("{ }", "p/err -> other"), "x\nerror\n");
    run.expect(0, &["2 events in", "2 dead-lettered"]);
    assert!(scene.read("other").contains("told to"));
}

#[test]
fn batch_forged_by_operator_fails_unread() {
    let (run, _) = run(&through_operator("{ }", "p/err -> other"), "x\nforge\n");
    run.expect(3, &["event 0 of a batch refers to bytes outside", "2 events in, 0 out"]);
    assert_eq!(run.stdout, "");
}

/// The lines have no positions in their pulls, because they were cut from a stream.
#[test]
fn event_that_is_returned_twice_fails_its_batch() {
    let input = "vanish\nx\ny\ntwice\n";
    let (run, _) = run(&through_operator("{ }", "p/err -> other"), input);
    run.expect(3, &["operator 1 (`mischief`) returned 1 events in place of others", "4 failed"]);
    assert_eq!(run.stdout, "");
}

/// The events are not acknowledged. They count as failed, and the error names the fault of the operator.
#[test]
fn port_that_does_not_exist_fails_its_events() {
    let config = "{ ports: [side, other] }";
    let (run, _) = run(&through_operator(config, "p/side -> other"), "nowhere\nkeep-this\n");
    run.expect(3, &["2 failed", "port 7", "names 2 of its own", "[side, other]"]);
    assert_eq!(run.stdout, "", "no result of the call is used");
}

#[test]
fn buffered_events_leave_on_timer_or_at_end_of_flow() {
    let (run, _) = run(&through_operator("{ }", "p/err -> other"), "hold\n");
    run.expect(0, &["1 events in, 1 out"]);
    assert_eq!(run.stdout, "\"held\"\n");

    let flow = "connectors:
  io: { type: stdio, preprocessors: [lines], codec: string, postprocessors: [lines] }
pipelines: { p: { operators: [{ type: mischief, config: { } }] } }
links: [io -> p -> io]";
    let scene = Scene::new(flow);
    let mut child = scene.command(&["run", "flow.yaml"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"hold\n").unwrap();
    let mut line = String::new();
    // Stdin is open and has no more data, so only the timer can have emitted the event.
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    drop(stdin);
    Run::of(&finish(child)).expect(0, &["1 events in, 1 out"]);
}

/// Stdin is open and has no more data, so only the timer can have emitted the last stack trace.
#[test]
fn last_stack_trace_is_emitted_after_a_timeout() {
    let flow = "connectors:
  input: { type: stdio, preprocessors: [lines, { type: stack-traces, config: { timeout: 50ms } }], codec: string }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [input -> output]";
    let scene = Scene::new(flow);
    let mut child = scene.command(&["run", "flow.yaml"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for text in ["error\n  at f\n  at g\n", "  at h\n"] {
        stdin.write_all(text.as_bytes()).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{:?}\n", text.strip_suffix('\n').unwrap()));
    }
    drop(stdin);
    Run::of(&finish(child)).expect(0, &["2 out"]);
}

/// Returns a flow through the codec and the processors of the fixture.
fn through_codec(side: &str) -> String {
    format!(
        "connectors:
  input: {{ type: file, preprocessors: [lines, {pre}], codec: {decode}, config: {{ path: in, mode: read }} }}
  output: {{ type: stdio, codec: {encode}, postprocessors: [{post}lines] }}
  other: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: other, mode: write }} }}
links: [input -> output, input/err -> other, output/err -> other]",
        pre = if side == "pre" { "mischief" } else { "lines" },
        decode = if side == "decode" { "mischief" } else { "string" },
        encode = if side == "encode" { "mischief" } else { "string" },
        post = if side == "post" { "mischief, " } else { "" },
    )
}

#[test]
fn failing_codec_or_processor_sends_its_input_to_err() {
    for side in ["pre", "decode", "encode", "post"] {
        for (fault, cause) in [("error", "told to"), ("panic", "panicked in"), ("forge", "")] {
            let word = if side == "encode" { format!(">{fault}") } else { fault.to_owned() };
            let (run, scene) = run(&through_codec(side), &format!("good\n{word}\n"));
            let letters = scene.read("other");
            let context = format!("{side} {fault}: {}\n{letters}", run.stderr);
            // The status depends on the case: input that a preprocessor consumed before it failed cannot go to `err`.
            assert!(matches!(run.status, Some(0 | 3)), "{context}");
            assert!(letters.contains(cause), "{context}");
            let arrived = run.stdout.lines().count() + letters.lines().count();
            match (side, fault) {
                // No event exists that could go to `err`, so the error is only logged.
                ("pre", "forge") => assert!(run.stderr.contains("of a batch"), "{context}"),
                // An encoder has no events that it could forge, so it delivers both.
                ("encode", "forge") => assert_eq!(run.stdout.lines().count(), 2, "{context}"),
                _ => assert_eq!(arrived, 2, "{context}"),
            }
        }
    }
}

#[test]
fn plugins_list_their_components_of_all_kinds() {
    let run = Scene::new("").tremor(&["plugin", "list"]);
    run.expect(0, &[]);
    for row in [
        "codec          keyvalue",
        "preprocessor   separated",
        "postprocessor  separated",
        "operator       mischief",
    ] {
        assert!(run.stdout.contains(row), "`{row}` is not in:\n{}", run.stdout);
    }
}
