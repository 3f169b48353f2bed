//! Tests of the delivery of events under faults. No event is lost or invented, and the source gets correct
//! acknowledgements.

use crate::tremor::{Run, Scene};

/// Runs a flow from a scripted source to a file, with dead letters in another file.
fn run(connections: &str, preprocessors: &str, transactional: bool) -> (Scene, Run) {
    let text = format!(
        "connectors:
  input:
    type: script
    codec: string
    preprocessors: [{preprocessors}]
    reconnect: {{ backoff: 1ms }}
    config: {{ transactional: {transactional}, connections: {connections} }}
  output:
    type: file
    codec: string
    postprocessors: [lines]
    config: {{ path: out, mode: truncate }}
  dead:
    type: file
    codec: json
    postprocessors: [lines]
    config: {{ path: dead, mode: truncate }}
links: [input -> output, input/err -> dead]"
    );
    let scene = Scene::new(&text);
    let run = scene.run();
    (scene, run)
}

/// Returns the acknowledgements that the source received, in order, such as `1: acknowledged 2` for the second
/// pull of the first connection.
fn acknowledgements(run: &Run) -> Vec<String> {
    let acknowledgement = |line: &str| {
        let (_, text) = line.split_once("connection ")?;
        let is_acknowledgement =
            [": acknowledged ", ": failed "].iter().any(|it| text.contains(it));
        is_acknowledgement
            .then(|| text.split(" component=").next().unwrap_or_default().trim().to_owned())
    };
    run.stderr.lines().filter_map(acknowledgement).collect()
}

#[test]
fn bytes_of_two_connections_are_never_one_message() {
    let connections = r#"[
      [{ pull: [[0, '{"from":"connection one","half":']] }, lose],
      [{ pull: [[0, "\"a whole new line of connection two\"}\n"]] }]]"#;
    let (scene, run) = run(connections, "lines", false);
    run.expect(0, &["2 events in, 1 out, 1 dead-lettered"]);
    assert_eq!(scene.read("out"), "\"a whole new line of connection two\"}\n");
    let dead = scene.read("dead");
    assert!(dead.contains(r#""original":"{\"from\":\"connection one\",\"half\":""#), "{dead}");
    assert!(dead.contains("the stream was cut off"), "{dead}");
}

#[test]
fn broken_stream_does_not_affect_the_next_connection() {
    // The first connection sends a length whose message never arrives, or an invalid length.
    for first in [r"\0\0\0\x09lost", r"\x7f\x7f\x7f\x7f lost"] {
        let connections = format!(
            r#"[[{{ pull: [[0, "{first}"]] }}, lose], [{{ pull: [[0, "\0\0\0\x02hi"]] }}]]"#
        );
        let (scene, run) = run(&connections, "length-prefixed", false);
        run.expect(0, &[]);
        assert_eq!(scene.read("out"), "hi\n", "{}", run.stderr);
    }
    let connections = r#"[[{ pull: [[0, "not gzip"]] }, lose], [{ pull: [[0, "plain\n"]] }]]"#;
    let (scene, run) = run(connections, "decompress, lines", false);
    run.expect(0, &[]);
    assert!(scene.read("out").ends_with("plain\n"), "{}", run.stderr);
}

#[test]
fn pull_with_truncated_message_fails_and_is_redelivered() {
    let connections = r#"[
      [{ pull: [[0, "one\nhalf"]] }, lose],
      [{ pull: [[0, "half a line\n"]] }, { acknowledged: 1 }]]"#;
    let (scene, run) = run(connections, "lines", true);
    run.expect(0, &["0 dead-lettered"]);
    assert_eq!(scene.read("out"), "one\nhalf a line\n");
    assert_eq!(
        acknowledgements(&run),
        ["1: failed 1, events [0..1]", "2: acknowledged 1"],
        "{}",
        run.stderr
    );
}

#[test]
fn aborted_stream_yields_no_message() {
    let connections = r#"[[{ pull: [[7, "half"]] }, { abort: 7 }, { pull: [[7, "whole\n"]] }]]"#;
    let (scene, run) = run(connections, "lines", false);
    run.expect(0, &["2 events in, 1 out, 1 dead-lettered"]);
    assert_eq!(scene.read("out"), "whole\n");
}

#[test]
fn partial_line_cut_off_by_drain_is_accounted_for() {
    let (scene, run) = run(r#"[[{ pull: [[0, "one\ntw"]] }, drain]]"#, "lines", false);
    run.expect(0, &["2 events in, 1 out, 1 dead-lettered"]);
    assert!(scene.read("dead").contains(r#""original":"tw""#));
}

#[test]
fn pull_is_not_acknowledged_while_partly_in_memory() {
    let connections = r#"[[
      { pull: [[1, "one\ntw"]] },
      { pull: [[2, "of another stream\n"]] }, { acknowledged: 1 },
      { pull: [[1, "o\n"]] }, { acknowledged: 3 }]]"#;
    let (scene, run) = run(connections, "lines", true);
    run.expect(0, &[]);
    assert_eq!(scene.read("out"), "one\nof another stream\ntwo\n");
    let acknowledgements = acknowledgements(&run);
    assert_eq!(
        acknowledgements[0], "1: acknowledged 2",
        "a partial line does not delay other streams"
    );
    assert_eq!(acknowledgements.len(), 3, "{acknowledgements:?}");
}

#[test]
fn end_of_stream_is_acknowledged_with_its_last_message() {
    let connections = r#"[[
      { pull: [[1, "last"]] }, { end: 1 }, { acknowledged: 2 },
      { end: 1 }, { acknowledged: 3 }]]"#;
    let (scene, run) = run(connections, "lines", true);
    run.expect(0, &[]);
    assert_eq!(scene.read("out"), "last\n");
}

#[test]
fn busy_source_receives_its_acknowledgements() {
    let (_, run) = run("[[{ pull_until_acknowledged: 1000 }]]", "", true);
    run.expect(0, &["0 dead-lettered"]);
    assert_eq!(acknowledgements(&run).len(), 100, "the fixture logs at most 100");
}

/// Returns a flow with a scripted source of JSON messages that requests acknowledgements, and a pipeline.
fn through(messages: &str, operators: &str, more: &str) -> (Scene, Run) {
    let text = format!(
        "connectors:
  input:
    type: script
    codec: json
    config: {{ transactional: true, connections: [[{messages}]] }}
    {more}
  output:
    type: file
    codec: json
    postprocessors: [lines]
    config: {{ path: out, mode: truncate }}
pipelines:
  main: {{ operators: [{operators}] }}
links: [input -> main -> output]"
    );
    let scene = Scene::new(&text);
    let run = scene.run();
    (scene, run)
}

#[test]
fn events_of_a_window_are_acknowledged_with_its_row() {
    let messages = r#"
      { messages: ['{"by":"idle"}'] },
      { messages: ['{"by":"busy"}'] },
      { messages: ['{"by":"busy"}'] }, { acknowledged: 2 },
      { messages: ['{"by":"idle"}'] }, { acknowledged: 4 }"#;
    let window = "{ type: window, config: { events: 2, by: [by], \
                  aggregates: { n: { function: count } } } }";
    let (scene, run) = through(messages, window, "");
    run.expect(0, &["4 events in, 2 out"]);
    assert_eq!(scene.read("out").lines().count(), 2);
    let acknowledgements = acknowledgements(&run);
    let sorted = |acknowledgements: &[String]| {
        let mut acknowledgements = acknowledgements.to_vec();
        acknowledgements.sort();
        acknowledgements
    };
    assert_eq!(sorted(&acknowledgements[..2]), ["1: acknowledged 2", "1: acknowledged 3"]);
    assert_eq!(sorted(&acknowledgements[2..]), ["1: acknowledged 1", "1: acknowledged 4"]);
}

#[test]
fn operator_that_loses_or_invents_events_fails_its_batch() {
    for (word, accounts) in [
        ("vanish", "received 2 events and accounts for 1"),
        ("copy", "received 2 events and accounts for 3"),
    ] {
        let messages = format!(r#"{{ messages: ['"{word}"', '"good"'] }}, {{ failed: 1 }}"#);
        let (scene, run) = through(&messages, "mischief", "");
        run.expect(1, &["flow `flow` failed", "`main`", accounts]);
        assert_eq!(scene.read("out"), "");
        assert_eq!(acknowledgements(&run), ["1: failed 1, events [0..2]"], "{}", run.stderr);
    }
    let (_, run) = through(r#"{ messages: ['"forget"'] }"#, "mischief", "");
    run.expect(1, &["`main`", "operator 1 (`mischief`)", "still buffers 1 events", "`flush`"]);
}

/// The numbers of events are right, so only the events themselves show the fault.
#[test]
fn operator_that_exchanges_events_fails_its_batch() {
    for (words, fault) in [
        (["vanish", "twice"], "1 that it had returned before, 0 that"),
        (["vanish", "copy"], "and 1 new events: return each event once"),
    ] {
        let messages =
            format!(r#"{{ messages: ['"{}"', '"{}"'] }}, {{ failed: 1 }}"#, words[0], words[1]);
        let (scene, run) = through(&messages, "mischief", "");
        let says = "`main`: operator 1 (`mischief`) returned 1 events in place of others: ";
        run.expect(1, &["flow `flow` failed", says, fault]);
        assert_eq!(scene.read("out"), "");
        assert_eq!(acknowledgements(&run), ["1: failed 1, events [0..2]"], "{}", run.stderr);
    }
    let messages = r#"{ messages: ['"old"'] }, { acknowledged: 1 }, { messages: ['"swap"'] },
      { failed: 2 }"#;
    let (scene, run) = through(messages, "mischief", "");
    run.expect(1, &["flow `flow` failed", "1 that it had not received in this call, and 0 new"]);
    assert_eq!(scene.read("out"), "\"old\"\n");
    assert_eq!(acknowledgements(&run), ["1: acknowledged 1", "1: failed 2, events [0..1]"]);
}

#[test]
fn events_buffered_by_failing_operator_fail() {
    // In the first case the operator panics in a later call. In the second case it emits more events than it had
    // buffered.
    for (messages, count, why) in [
        ("{ messages: ['\"keep\"'] }, { messages: ['\"panic\"'] }, { failed: 2 }", 2, "told to"),
        (
            "{ messages: ['\"double\"'] }, { failed: 1 }",
            1,
            "received 0 events, released 1 that it had buffered, created 0, and accounts for 2",
        ),
    ] {
        let (scene, run) = through(messages, "mischief", "");
        run.expect(1, &["flow `flow` failed", "`main`", why]);
        assert_eq!(scene.read("out"), "");
        let mut acknowledgements = acknowledgements(&run);
        acknowledgements.sort();
        assert_eq!(
            acknowledgements,
            ["1: failed 1, events [0..1]", "1: failed 2, events [0..1]"][..count],
            "{}",
            run.stderr
        );
    }
}

#[test]
fn undeliverable_event_of_replayable_source_fails_flow() {
    let messages = r#"{ messages: ['{"good":1}', 'bad'] }, { failed: 1 }"#;
    let (_, run) = through(messages, "", "");
    run.expect(1, &["flow `flow` failed", "`input`", "link `input/err`", "err: discard"]);
    assert_eq!(acknowledgements(&run), ["1: failed 1, events [1..2]"], "only the rejected event");
}

#[test]
fn dead_letter_within_its_limit_has_the_whole_original() {
    let flow = |dead_letters: &str| {
        let text = format!(
            "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: json
    {dead_letters}
    config: {{ path: in, mode: read }}
  output: {{ type: 'null' }}
  letters: {{ type: stdio, codec: json, postprocessors: [lines] }}
links: [input -> output, input/err -> letters]"
        );
        let line = format!("{{{}\n", "x".repeat(9_999));
        let run = Scene::new(&text).write("in", line.as_bytes()).run();
        run.expect(0, &["1 dead-lettered"]);
        let letter: serde_json::Value = serde_json::from_str(run.stdout.trim()).unwrap();
        let length = letter["original"].as_str().unwrap().len();
        (length, letter["original_bytes"].as_u64())
    };
    assert_eq!(flow(""), (4_096, Some(10_000)));
    assert_eq!(flow("dead_letters: { max_bytes: 16KiB }"), (10_000, None));
}

#[test]
fn discarded_failed_events_are_counted() {
    let messages = r#"{ messages: ['{"good":1}', 'bad'] }, { acknowledged: 1 }"#;
    let (scene, run) = through(messages, "", "err: discard");
    run.expect(0, &["2 events in, 1 out", "1 discarded"]);
    assert_eq!(scene.read("out"), "{\"good\":1}\n");
}

#[test]
fn event_fails_if_its_dead_letter_is_undeliverable() {
    let dead = |ending: &str, err: &str| {
        Scene::new(&format!(
            "connectors:
  input:
    type: script
    codec: json
    config:
      transactional: true
      connections: [[{{ messages: ['{{\"good\":1}}', 'bad'] }}, {{ {ending}: 1 }}]]
  output: {{ type: 'null' }}
  dead:
    type: file
    codec: json
    retry: {{ attempts: 1, backoff: 1ms }}
    {err}
    config: {{ path: /dev/full, mode: append }}
links: [input -> output, input/err -> dead]"
        ))
    };
    let run = dead("failed", "").run();
    run.expect(1, &["`dead`", "No space left on device", "link `dead/err`", "err: discard"]);
    assert_eq!(
        acknowledgements(&run),
        ["1: failed 1, events [1..2]"],
        "the other events of the pull do not fail"
    );
    // The same flow succeeds if the flow file discards the events (`err: discard`).
    let run = dead("acknowledged", "err: discard").run();
    run.expect(0, &["2 events in, 1 out, 1 dead-lettered, 1 discarded"]);
}

#[test]
fn delivered_dead_letters_are_not_counted_as_output() {
    let connections = r#"[[{ messages: ["Z29vZA==", "no base64"] }]]"#;
    let (_, run) = run(connections, "base64", false);
    run.expect(0, &["2 events in, 1 out, 1 dead-lettered"]);
}

#[test]
fn small_batches_are_joined_to_large_deliveries() {
    let scene = Scene::new(
        "connectors:
  input:
    type: file
    codec: string
    preprocessors: [lines]
    pull: { max_events: 3 }
    config: { path: in, mode: read, chunk_bytes: 64 }
  output:
    type: file
    codec: string
    postprocessors: [lines]
    batch: { max_events: 100, linger: 1h }
    config: { path: out.gz, mode: truncate }
  again:
    type: file
    codec: string
    postprocessors: [lines]
    batch: { max_bytes: 1KiB, linger: 1h }
    config: { path: out, mode: truncate }
links: [input -> output, input -> again]",
    );
    let lines: Vec<_> = (0..1_000).map(|number| format!("line {number}\n")).collect();
    let lines = lines.concat();
    let scene = scene.write("in", lines.as_bytes());
    scene.run().expect(0, &["1000 events in, 2000 out"]);
    assert_eq!(scene.read("out"), lines);
    // Count the gzip members: each delivery is compressed as one member.
    let compressed = std::fs::read(scene.path().join("out.gz")).unwrap();
    let members = compressed.windows(3).filter(|bytes| *bytes == [0x1f, 0x8b, 8]);
    assert_eq!(members.count(), 10);
}
