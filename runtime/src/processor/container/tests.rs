use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};
use tremor_abi::batch::{Event, HostBatch};
use tremor_pdk::{Batch, Preprocessor, literal, testing::TestHost};

use super::{Cri, Docker, MAX_PARTS};
use crate::processor::testing::{messages, pre, process, run};

const TIME: &str = "2026-01-02T03:04:05.678901234Z";

/// Returns the messages of a batch with their metadata.
fn seen(batch: &Batch) -> Vec<(String, Value)> {
    batch.validate().unwrap();
    let one = |event: &Event| {
        let metadata = batch.metadata(event).unwrap().to_string();
        let text = String::from_utf8(batch.raw(event).unwrap().to_vec()).unwrap();
        (text, serde_json::from_str(&metadata).unwrap())
    };
    batch.events().iter().map(one).collect()
}

fn cri(host: &TestHost) -> Cri {
    host.component("{}").unwrap()
}

fn fragment(text: &str) -> Batch {
    let mut batch = Batch::new();
    batch.stream(1).push_fragment(text.as_bytes());
    batch
}

fn of_cri(stream: &str, flag: &str) -> Value {
    json!({ "cri": { "time": TIME, "stream": stream, "flag": flag } })
}

#[test]
fn cri_lines_become_text_and_metadata() {
    let mut cri = cri(&TestHost::new());
    let mut batch = fragment(&format!(
        "{TIME} stdout F one\n{TIME} stderr F two words \r\n{TIME} stdout F \n{TIME} stdout F\n\
         {TIME} stdout F:tag:more three\n2016-10-06T00:17:09+00:00 stdout F four\n"
    ));
    let length = batch.bytes().len();
    assert!(process(&mut cri, &mut batch).is_empty());
    let found = seen(&batch);
    let texts: Vec<_> = found.iter().map(|(text, _)| &text[..]).collect();
    assert_eq!(texts, ["one", "two words ", "", "", "three", "four"]);
    assert_eq!((&found[0].1, &found[1].1), (&of_cri("stdout", "F"), &of_cri("stderr", "F")));
    assert_eq!(found[5].1["cri"]["time"], "2016-10-06T00:17:09+00:00");
    let times = 5 * TIME.len() + "2016-10-06T00:17:09+00:00".len();
    assert_eq!(batch.bytes().len(), length + times + 37, "the texts are not copied");
}

#[test]
fn parts_of_a_cri_line_are_joined_for_each_stream() {
    let host = TestHost::new();
    let mut cri = cri(&host);
    let mut batch = fragment(&format!("{TIME} stdout P one, \n{TIME} stderr P x\n"));
    assert!(process(&mut cri, &mut batch).is_empty());
    assert!(batch.is_empty() && cri.buffers(1));
    let later = TIME.replace("03:04:05", "03:04:06");
    let mut batch =
        fragment(&format!("{later} stdout P two, \n{TIME} stderr F y\n{later} stdout F three\n"));
    assert!(process(&mut cri, &mut batch).is_empty());
    let expected = [
        ("xy".to_owned(), of_cri("stderr", "F")),
        ("one, two, three".to_owned(), of_cri("stdout", "F")),
    ];
    assert_eq!(seen(&batch), expected);
    assert!(!cri.buffers(1) && cri.due().is_none());
    // A part without its end is passed on after the timeout, and at the end of its stream.
    process(&mut cri, &mut fragment(&format!("{TIME} stdout P late\n")));
    let batch = host.pass_time(&mut cri).unwrap();
    assert_eq!(seen(&batch), [("late".to_owned(), of_cri("stdout", "P"))]);
    let mut batch = fragment(&format!("{TIME} stdout P last"));
    batch.stream(1).end();
    process(&mut cri, &mut batch);
    let end = batch.events().len() - 1;
    assert!(batch.events()[end].is_stream_end());
    batch.retain(|event| !event.is_stream_end());
    assert_eq!(seen(&batch), [("last".to_owned(), of_cri("stdout", "P"))]);
}

#[test]
fn invalid_cri_lines_are_rejected_and_change_nothing() {
    for (line, expected) in [
        ("", "it does not begin with a time"),
        ("text", "it does not begin with a time"),
        ("x stdout F text", "it does not begin with a time"),
        (" stdout F text", "it does not begin with a time"),
        (&format!("{} stdout F text", "1".repeat(41)), "it does not begin with a time"),
        ("2026 stdin F text", "the stream is neither"),
        ("2026 stdout", "the stream is neither"),
        ("2026 stdout ", "the flag is neither"),
        ("2026 stdout X text", "the flag is neither"),
        ("2026 stdout FULL text", "the flag is neither"),
    ] {
        let text = format!("{TIME} stdout P a\n{line}\n{TIME} stdout F b\n");
        let (found, rejected) = run(&mut *pre("cri", &json!({})), text.as_bytes(), 9);
        assert_eq!((found.len(), rejected.len()), (1, 1), "{line}");
        assert_eq!(found[0], b"ab");
        let start = format!("invalid line of a container log: {expected}");
        assert!(rejected[0].starts_with(&start), "{line}: {}", rejected[0]);
    }
}

#[test]
fn metadata_of_the_source_are_kept() {
    for time in [true, false] {
        let host = TestHost::new();
        let mut cri: Cri = host.component(&json!({ "time": time }).to_string()).unwrap();
        let mut batch = Batch::new();
        for number in 0..5 {
            let flag = if number == 2 { "P" } else { "F" };
            batch.stream(1).push_message(format!("{TIME} stderr {flag} x").as_bytes());
        }
        let file = |writer: &mut tremor_pdk::Writer<'_>| {
            writer.begin_object();
            writer.key("file");
            writer.begin_object();
            writer.key("name");
            writer.str("0.log");
            writer.end_object();
            writer.end_object();
        };
        (1..4).for_each(|position| batch.write_metadata(position, file).unwrap());
        batch.set_metadata(4, literal!({ "file": { "name": "0.log" }, "cri": 1 }));
        assert!(process(&mut cri, &mut batch).is_empty());
        let mut own = of_cri("stderr", "F");
        if !time {
            own["cri"].as_object_mut().unwrap().remove("time");
        }
        let mut both = own.clone();
        both["file"] = json!({ "name": "0.log" });
        let x = |text: &str, metadata: &Value| (text.to_owned(), metadata.clone());
        assert_eq!(seen(&batch), [x("x", &own), x("x", &both), x("xx", &both), x("x", &both)]);
    }
}

#[test]
fn messages_without_time_share_their_metadata() {
    let host = TestHost::new();
    let mut cri: Cri = host.component(r#"{ "time": false }"#).unwrap();
    let line = |stream| format!("{TIME} {stream} F x\n");
    let mut batch = fragment(&(line("stdout") + &line("stderr")).repeat(100));
    assert!(process(&mut cri, &mut batch).is_empty());
    assert_eq!((batch.len(), batch.nodes().len()), (200, 14));
}

#[test]
fn docker_lines_become_text_and_metadata() {
    let line = |log: &str, stream: &str| {
        format!(r#"{{"log":"{log}","stream":"{stream}","time":"{TIME}"}}"#)
    };
    let texts = [
        (line(r"one\n", "stdout"), "one"),
        (line(r"\n", "stderr"), ""),
        (
            line(r#"\"\\\/\b\f\r\t\u00e9\u20AC\ud83d\ude00\\n\n"#, "stdout"),
            "\"\\/\u{8}\u{c}\r\té€😀\\n",
        ),
        (line(r"a\u003cb\n\n", "stdout"), "a<b\n"),
        (line(r"10%\r20%\r\n", "stdout"), "10%\r20%"),
        (line(r"\r\r\n", "stdout"), "\r"),
        (format!(r#"{{"stream":"stdout","log":"x\r\n","time":"{TIME}"}}"#), "x"),
        (line(r"two, ", "stdout"), ""),
        (line(r"x\\", "stderr"), ""),
        (line(r"three\n", "stdout"), "two, three"),
        (line(r"n\n", "stderr"), "x\\n"),
        (format!(r#" {{ "time": "{TIME}", "attrs": {{"a": "b"}}, "log": "four\n" }}"#), "four"),
    ];
    let host = TestHost::new();
    let mut docker: Docker = host.component("{}").unwrap();
    let mut found = Vec::new();
    for (line, expected) in texts {
        let mut batch = fragment(&(line + "\n"));
        assert!(process(&mut docker, &mut batch).is_empty());
        for (text, metadata) in seen(&batch) {
            assert_eq!(text, expected);
            assert_eq!(metadata["docker"]["time"], TIME);
            found.push(metadata["docker"]["stream"].as_str().unwrap().to_owned());
        }
    }
    let streams = found.iter().map(|stream| &stream[3..]).collect::<Vec<_>>().join(" ");
    assert_eq!(streams, "out err out out out out out out err out");
}

/// The program in a container with a terminal ends its lines with a carriage return and a line feed.
#[test]
fn return_is_removed_only_at_the_end_of_a_whole_line() {
    for (parts, expected) in [
        (&["P a\r", "F b\r"][..], &["a\rb"][..]),
        (&["P a\r", "F b"], &["a\rb"]),
        (&["P a\r", "F "], &["a"]),
        (&["P a\r", "F \r"], &["a\r"]),
        (&["P a\r", "P \r", "F \r\r"], &["a\r\r\r"]),
        (&["F a\r", "F \r", "F b\r\r"], &["a", "", "b\r"]),
        (&["F a", "P b\r"], &["a", "b\r"]),
    ] {
        let expected: Vec<_> = expected.iter().map(|text| text.as_bytes().to_vec()).collect();
        let text: String = parts.iter().flat_map(|part| [TIME, " stdout ", part, "\n"]).collect();
        for size in 1..text.len() {
            let (found, rejected) = run(&mut *pre("cri", &json!({})), text.as_bytes(), size);
            assert_eq!(
                (&found[..], rejected.len()),
                (&expected[..], 0),
                "{parts:?} by {size} bytes"
            );
        }
        let line = |part: &&str| {
            let log = part[2..].to_owned() + if part.starts_with('F') { "\n" } else { "" };
            format!("{}\r\n", json!({ "log": log, "stream": "stdout", "time": TIME }))
        };
        let text: String = parts.iter().map(line).collect();
        let (found, rejected) = run(&mut *pre("docker", &json!({})), text.as_bytes(), 7);
        assert_eq!((&found[..], rejected.len()), (&expected[..], 0), "{parts:?}");
    }
    let config = json!({ "max_length": 4 });
    let text = format!("{TIME} stdout P aa\r\n{TIME} stdout F bb\r\n{TIME} stdout F\r\n");
    let (found, _) = run(&mut *pre("cri", &config), text.as_bytes(), 50);
    assert_eq!(found, [&b"aa\r"[..], b"bb", b""]);
}

#[test]
fn invalid_docker_lines_are_rejected() {
    for line in [
        "",
        "text",
        r#"{"log":"a\n","stream":"stdout","time":"2026"#,
        r#"{"log":"a\x\n","stream":"stdout","time":"2026"}"#,
        r#"{"log":"\ud83d\n","stream":"stdout","time":"2026"}"#,
        r#"{"log":"\ud83dx\n","stream":"stdout","time":"2026"}"#,
        r#"{"log":"\u12"#,
        r#"{"log":"a\"#,
        r#"{"log":"a\n","stream":"stdin","time":"2026"}"#,
        r#"{"log":1,"stream":"stdout","time":"2026"}"#,
        r#"{"stream":"stdout","time":"2026"}"#,
    ] {
        let (found, rejected) = run(&mut *pre("docker", &json!({})), line.as_bytes(), 100);
        let expected = usize::from(!line.is_empty());
        assert_eq!((found.len(), rejected.len()), (0, expected), "{line}");
        let start = "invalid line of a log file of Docker: ";
        assert!(rejected.iter().all(|it| it.starts_with(start)), "{line}: {rejected:?}");
    }
}

#[test]
fn long_lines_are_divided_between_their_parts() {
    let text = format!("{TIME} stdout P aaaa\n").repeat(5) + &format!("{TIME} stdout F b\n");
    let config = json!({ "max_length": 10 });
    let (found, _) = run(&mut *pre("cri", &config), text.as_bytes(), 50);
    assert_eq!(found, [&b"aaaaaaaa"[..], b"aaaaaaaa", b"aaaab"]);
}

#[test]
fn empty_parts_do_not_join_without_limit() {
    for (name, part) in [
        ("cri", "2026 stdout P \n"),
        ("docker", "{\"log\":\"\",\"stream\":\"stdout\",\"time\":\"2026\"}\n"),
    ] {
        let stream = part.repeat(MAX_PARTS + 1);
        let (found, rejected) = run(&mut *pre(name, &json!({})), stream.as_bytes(), 100_000);
        assert_eq!((found.len(), rejected.len()), (2, 0), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn messages_do_not_depend_on_cuts(
        lines in vec("(2026 std(out|err) [PF] [a-z ]{0,9}|wrong|\
            \\{\"log\":\"(a|\\\\t|\\\\u00e9|\\\\\\\\){0,4}(\\\\n)?\",\"stream\":\"std(out|err)\",\"time\":\"2026\"\\})\n", 0..20),
        cuts in vec(1..60_usize, 1..20),
        is_docker: bool,
    ) {
        let name = if is_docker { "docker" } else { "cri" };
        let text = lines.concat().into_bytes();
        let (expected, wrong) = run(&mut *pre(name, &json!({})), &text, text.len().max(1));
        let mut joins = pre(name, &json!({}));
        let (mut found, mut rejected, mut at) = (Vec::new(), Vec::new(), 0);
        for cut in cuts.iter().cycle() {
            if at == text.len() {
                break;
            }
            let end = text.len().min(at + cut);
            let mut batch = Batch::new();
            batch.stream(0).push_fragment(&text[at..end]);
            rejected.extend(process(&mut *joins, &mut batch));
            batch.validate().unwrap();
            found.extend(messages(&batch));
            at = end;
        }
        let mut end = Batch::new();
        end.stream(0).end();
        prop_assert!(process(&mut *joins, &mut end).is_empty());
        found.extend(messages(&end));
        prop_assert_eq!((found, rejected), (expected, wrong));
    }

    #[test]
    fn docker_text_is_that_of_a_json_parser(text in "\\PC{0,40}\r{0,2}(\n|)") {
        let line = json!({ "log": text, "stream": "stdout", "time": "2026" });
        // Docker writes the keys in this order.
        let line = format!(r#"{{"log":{},"stream":"stdout","time":"2026"}}"#, line["log"]);
        let (found, rejected) = run(&mut *pre("docker", &json!({})), line.as_bytes(), 1_000);
        prop_assert!(rejected.is_empty());
        let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        let expected = line.unwrap_or(&text).as_bytes();
        prop_assert_eq!(&found, &[expected]);
    }

    #[test]
    fn hostile_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..200), size in 1..50_usize) {
        for (name, start) in [("cri", "2026 stdout "), ("docker", r#"{"log":""#), ("docker", "")] {
            let bytes = [start.as_bytes(), &bytes].concat();
            run(&mut *pre(name, &json!({})), &bytes, size);
        }
    }
}
