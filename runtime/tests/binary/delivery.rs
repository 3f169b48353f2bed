//! What becomes of events under faults: none is lost, none is made up, and a source hears the truth.

use crate::tremor::{Run, Scene};

/// A flow from a scripted source to a file, with dead letters to another one.
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

/// What the source has heard, in order: `1: acknowledged 2` for the second pull of the first
/// connection.
fn heard(run: &Run) -> Vec<String> {
    let heard = |line: &str| {
        let (_, heard) = line.split_once("connection ")?;
        let is_heard = [": acknowledged ", ": failed "].iter().any(|it| heard.contains(it));
        is_heard.then(|| heard.split(" component=").next().unwrap_or_default().trim().to_owned())
    };
    run.stderr.lines().filter_map(heard).collect()
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
fn what_broke_a_stream_of_one_connection_does_not_reach_the_next() {
    // A length whose message never comes, and one that cannot be.
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
fn a_pull_whose_message_was_cut_off_fails_and_comes_again() {
    let connections = r#"[
      [{ pull: [[0, "one\nhalf"]] }, lose],
      [{ pull: [[0, "half a line\n"]] }, { acknowledged: 1 }]]"#;
    let (scene, run) = run(connections, "lines", true);
    run.expect(0, &["0 dead-lettered"]);
    assert_eq!(scene.read("out"), "one\nhalf a line\n");
    assert_eq!(heard(&run), ["1: failed 1, events [0..1]", "2: acknowledged 1"], "{}", run.stderr);
}

#[test]
fn a_stream_that_its_source_aborts_is_no_message() {
    let connections = r#"[[{ pull: [[7, "half"]] }, { abort: 7 }, { pull: [[7, "whole\n"]] }]]"#;
    let (scene, run) = run(connections, "lines", false);
    run.expect(0, &["2 events in, 1 out, 1 dead-lettered"]);
    assert_eq!(scene.read("out"), "whole\n");
}

#[test]
fn a_half_line_that_a_drain_cuts_off_is_accounted_for() {
    let (scene, run) = run(r#"[[{ pull: [[0, "one\ntw"]] }, drain]]"#, "lines", false);
    run.expect(0, &["2 events in, 1 out, 1 dead-lettered"]);
    assert!(scene.read("dead").contains(r#""original":"tw""#));
}

#[test]
fn a_pull_is_not_acknowledged_while_a_part_of_it_is_in_memory() {
    let connections = r#"[[
      { pull: [[1, "one\ntw"]] },
      { pull: [[2, "of another stream\n"]] }, { acknowledged: 1 },
      { pull: [[1, "o\n"]] }, { acknowledged: 3 }]]"#;
    let (scene, run) = run(connections, "lines", true);
    run.expect(0, &[]);
    assert_eq!(scene.read("out"), "one\nof another stream\ntwo\n");
    let heard = heard(&run);
    assert_eq!(heard[0], "1: acknowledged 2", "an idle half line holds up no other stream");
    assert_eq!(heard.len(), 3, "{heard:?}");
}

#[test]
fn the_end_of_a_stream_is_acknowledged_with_what_it_completes() {
    let connections = r#"[[
      { pull: [[1, "last"]] }, { end: 1 }, { acknowledged: 2 },
      { end: 1 }, { acknowledged: 3 }]]"#;
    let (scene, run) = run(connections, "lines", true);
    run.expect(0, &[]);
    assert_eq!(scene.read("out"), "last\n");
}

#[test]
fn a_source_that_always_has_more_hears_of_its_acknowledgements() {
    let (_, run) = run("[[{ pull_until_acknowledged: 1000 }]]", "", true);
    run.expect(0, &["0 dead-lettered"]);
    assert_eq!(heard(&run).len(), 100, "it logs no more");
}

/// A scripted source of messages of JSON that wants to know, and a pipeline.
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
    let heard = heard(&run);
    let sorted = |heard: &[String]| {
        let mut heard = heard.to_vec();
        heard.sort();
        heard
    };
    assert_eq!(sorted(&heard[..2]), ["1: acknowledged 2", "1: acknowledged 3"]);
    assert_eq!(sorted(&heard[2..]), ["1: acknowledged 1", "1: acknowledged 4"]);
}

#[test]
fn an_operator_that_loses_or_makes_up_events_fails_its_batch_by_name() {
    for (word, accounts) in
        [("vanish", "had 2 events and accounts for 1"), ("copy", "had 2 events and accounts for 3")]
    {
        let messages = format!(r#"{{ messages: ['"{word}"', '"good"'] }}, {{ failed: 1 }}"#);
        let (scene, run) = through(&messages, "mischief", "");
        run.expect(1, &["flow `flow` failed", "`main`", accounts]);
        assert_eq!(scene.read("out"), "");
        assert_eq!(heard(&run), ["1: failed 1, events [0..2]"], "{}", run.stderr);
    }
    let (_, run) = through(r#"{ messages: ['"forget"'] }"#, "mischief", "");
    run.expect(1, &["`main`", "operator 1 (`mischief`)", "still buffers 1 events", "`flush`"]);
}

#[test]
fn what_an_operator_held_fails_with_the_operator() {
    // It panics in a later call, and what it puts out of what it held is more than that.
    for (messages, heard_of, why) in [
        ("{ messages: ['\"keep\"'] }, { messages: ['\"panic\"'] }, { failed: 2 }", 2, "told to"),
        ("{ messages: ['\"double\"'] }, { failed: 1 }", 1, "had 1 events and accounts for 2"),
    ] {
        let (scene, run) = through(messages, "mischief", "");
        run.expect(1, &["flow `flow` failed", "`main`", why]);
        assert_eq!(scene.read("out"), "");
        let mut heard = heard(&run);
        heard.sort();
        assert_eq!(
            heard,
            ["1: failed 1, events [0..1]", "1: failed 2, events [0..1]"][..heard_of],
            "{}",
            run.stderr
        );
    }
}

#[test]
fn an_event_that_can_never_be_delivered_fails_the_flow_of_a_source_that_would_bring_it_again() {
    let messages = r#"{ messages: ['{"good":1}', 'bad'] }, { failed: 1 }"#;
    let (_, run) = through(messages, "", "");
    run.expect(1, &["flow `flow` failed", "`input`", "link `input/err`", "err: discard"]);
    assert_eq!(heard(&run), ["1: failed 1, events [1..2]"], "only the one that is bad");
}

#[test]
fn dead_letter_within_its_bound_has_all_of_the_original() {
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
fn where_failed_events_are_to_be_discarded_they_are_counted_and_the_others_go_on() {
    let messages = r#"{ messages: ['{"good":1}', 'bad'] }, { acknowledged: 1 }"#;
    let (scene, run) = through(messages, "", "err: discard");
    run.expect(0, &["2 events in, 1 out", "1 discarded"]);
    assert_eq!(scene.read("out"), "{\"good\":1}\n");
}

#[test]
fn an_event_whose_dead_letter_cannot_be_delivered_has_failed() {
    let dead = |heard: &str, err: &str| {
        Scene::new(&format!(
            "connectors:
  input:
    type: script
    codec: json
    config:
      transactional: true
      connections: [[{{ messages: ['{{\"good\":1}}', 'bad'] }}, {{ {heard}: 1 }}]]
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
    assert_eq!(heard(&run), ["1: failed 1, events [1..2]"], "and no other event of its pull");
    // Whether it is to be lost is for the flow file to say.
    let run = dead("acknowledged", "err: discard").run();
    run.expect(0, &["2 events in, 1 out, 1 dead-lettered, 1 discarded"]);
}

#[test]
fn dead_letters_that_arrive_are_not_events_that_came_out() {
    let connections = r#"[[{ messages: ["Z29vZA==", "no base64"] }]]"#;
    let (_, run) = run(connections, "base64", false);
    run.expect(0, &["2 events in, 1 out, 1 dead-lettered"]);
}

#[test]
fn a_sink_gets_large_deliveries_where_small_batches_came() {
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
    // A member for each delivery.
    let compressed = std::fs::read(scene.path().join("out.gz")).unwrap();
    let members = compressed.windows(3).filter(|bytes| *bytes == [0x1f, 0x8b, 8]);
    assert_eq!(members.count(), 10);
}
