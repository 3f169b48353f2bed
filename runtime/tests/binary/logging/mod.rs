//! The four flows that classify and limit log events, against an independent program of a few lines:
//! class, rate, dimensions and port of every event, through codec, plugin and `bucket`, on a clock
//! that is exact.

mod reference;

use std::{env, fs};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value as Json, json};

use self::reference::{DEFAULT, Event, Left, RULES, reference};
use crate::{support::workspace, tremor::Scene};

/// The text of a flow in `bench/flows`, without its plugin folder.
pub(crate) fn flow_of_the_project(name: &str) -> String {
    let path = workspace().join("bench/flows").join(format!("{name}.yaml"));
    without(&fs::read_to_string(path).unwrap(), "plugins: [../../target/release]\n")
}

/// The program of those that are in VRL.
pub(crate) fn logging_vrl() -> String {
    fs::read_to_string(workspace().join("bench/flows/logging.vrl")).unwrap()
}

fn without(text: &str, part: &str) -> String {
    assert_eq!(text.matches(part).count(), 1, "`{part}` in:\n{text}");
    text.replace(part, "")
}

/// What a flow makes of events: what reaches the sink, and what leaves by `overflow` where that is
/// not linked.
fn run(flow: &str, events: &[Event]) -> (Left, Left) {
    let scene = Scene::new(flow).write("logging.vrl", logging_vrl().as_bytes());
    for folder in ["input", "expected"] {
        fs::create_dir(scene.path().join(folder)).unwrap();
    }
    let line = |event: &Event| {
        json!({ "at_ms": event.at_ms, "base64": STANDARD.encode(&event.message) }).to_string()
    };
    let input: Vec<_> = events.iter().map(line).collect();
    let names = ["expected/bench.events.jsonl", "expected/main.overflow.events.jsonl"];
    let is_linked = flow.contains(OVERFLOW_LINK);
    let scene = scene.write("input/bench.events.jsonl", input.join("\n").as_bytes());
    let scene = scene.write(names[0], b"");
    let scene = if is_linked { scene } else { scene.write(names[1], b"") };
    // All that comes out is taken down: it is compared here, event by event.
    scene.tremor_with_vrl(&["test", ".", "--update"]).expect(0, &["updated"]);
    let outlets = fs::read_dir(scene.path().join("expected")).unwrap().count();
    assert_eq!(outlets, if is_linked { 1 } else { 2 }, "nothing leaves by an `err`");
    let left = |name| {
        let lines = scene.read(name);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    (left(names[0]), if is_linked { Left::new() } else { left(names[1]) })
}

/// How the flows bring what is over the rate to the sink.
const OVERFLOW_LINK: &str = "  - main/overflow -> bench\n";

/// Both flows of a format do to the events what the reference does.
fn check(format: &str, events: &[Event]) -> (Left, Left) {
    let expected = reference(events);
    for variant in ["", "-vrl"] {
        let name = format!("throughput-logging-{format}{variant}");
        let found = run(&without(&flow_of_the_project(&name), OVERFLOW_LINK), events);
        compare(&format!("{name}, out"), &found.0, &expected.0);
        compare(&format!("{name}, overflow"), &found.1, &expected.1);
    }
    expected
}

/// The first difference and no more: there may be thousands.
#[track_caller]
fn compare(what: &str, found: &Left, expected: &Left) {
    for (position, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "{what}: event {position} of the port");
    }
    assert_eq!(found.len(), expected.len(), "{what}: how many");
}

/// Events in both formats, and what becomes of them in each.
fn check_both(values: &[(u64, Json)]) -> (Left, Left) {
    let json = |value: &Json| value.to_string().into_bytes();
    let events = |message: &dyn Fn(&Json) -> Vec<u8>| {
        let event = |(at_ms, value): &(u64, Json)| Event {
            at_ms: *at_ms,
            message: message(value),
            value: value.clone(),
        };
        values.iter().map(event).collect::<Vec<_>>()
    };
    check("msgpack", &events(&msgpack));
    check("json", &events(&json))
}

fn msgpack(value: &Json) -> Vec<u8> {
    let value: rmpv::Value = serde_json::from_value(value.clone()).unwrap();
    packed(&value)
}

fn packed(value: &rmpv::Value) -> Vec<u8> {
    let mut message = Vec::new();
    rmpv::encode::write_value(&mut message, value).unwrap();
    message
}

/// How many of a class left by a port.
fn count(left: &Left, class: &str) -> usize {
    left.iter().filter(|event| event["metadata"]["class"] == class).count()
}

/// Events of a file of JSON lines, nine a millisecond; those of a short file again and again.
fn lines(text: &str) -> Vec<(u64, Json)> {
    let count = text.lines().count().max(10_000);
    let line = |(position, line)| (position as u64 / 9, serde_json::from_str(line).unwrap());
    text.lines().cycle().take(count).enumerate().map(line).collect()
}

#[test]
fn generated_log_events_leave_as_the_reference_says() {
    let mut text = Vec::new();
    sample_logs::write_lines(10_000, 42, &mut text).unwrap();
    let (out, overflow) = check_both(&lines(&String::from_utf8(text).unwrap()));
    assert!(out.len() > 1_000);
    for class in ["applog_app1", "syslog_app2"] {
        assert!(count(&overflow, class) > 0, "none of {class} is over its rate");
    }
}

/// `TREMOR_SAMPLE_LOGS` names a file of log events, one a line as JSON; without it there is nothing
/// to see.
#[test]
fn log_events_of_the_environment_leave_as_the_reference_says() {
    if let Some(path) = env::var_os("TREMOR_SAMPLE_LOGS") {
        check_both(&lines(&fs::read_to_string(path).unwrap()));
    }
}

#[test]
fn every_class_passes_its_rate_in_a_second_and_again_in_the_next() {
    let mut events = Vec::new();
    let default = ("none", "none", DEFAULT.0, DEFAULT.1, "none");
    for (field, text, _, rate, _) in RULES.into_iter().chain([default]) {
        let value = if field == "tags" { json!([text]) } else { json!(text) };
        let event = json!({ field: value });
        events.push((0, event.clone()));
        events.extend((0..rate).map(|_| (999, event.clone())));
        events.push((1000, event));
    }
    // In the order of time, and otherwise as they are.
    events.sort_by_key(|(at_ms, _)| *at_ms);
    let (out, overflow) = check_both(&events);
    assert_eq!(overflow.len(), RULES.len() + 1, "one of each");
    assert_eq!(out.len(), events.len() - overflow.len());
}

#[test]
fn fields_that_are_missing_or_of_a_wrong_type_are_the_same_to_all() {
    let none = Json::Null;
    let applications = [
        json!("app4"),
        json!("app6"),
        json!("APP1"),
        json!("app1 "),
        json!(""),
        json!(1),
        json!(true),
        json!(["app1"]),
        json!({ "app1": "app1" }),
        none.clone(),
    ];
    let index_types = [
        json!("applog_app6"),
        json!("syslog_app1"),
        json!("syslog_app3"),
        json!("syslog_app2"),
        json!(["syslog_app1"]),
        json!(0.5),
        none.clone(),
    ];
    let tags = [
        json!([]),
        json!(["tag2", "tag1"]),
        json!(["tag11", "TAG1", ""]),
        json!([null, 1, ["tag1"], { "tag1": "tag1" }]),
        json!([null, 1, "tag1"]),
        json!("tag1"),
        json!({ "tag1": "tag1" }),
        none.clone(),
    ];
    let names =
        [json!("ho\"st\u{1f600}"), json!(""), json!(7), json!([]), json!(["host"]), none.clone()];
    let mut events = Vec::new();
    for (application, index_type, tags, name) in product(&applications, &index_types, &tags, &names)
    {
        let whole = json!({
            "application": application,
            "index_type": index_type,
            "tags": tags,
            "logger_name": name,
            "syslog_hostname": name,
        });
        let mut sparse = whole.clone();
        sparse.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let differs = sparse != whole;
        events.push(whole);
        events.extend(differs.then_some(sparse));
    }
    let nested = json!({ "event": { "application": "app1" }, "application.name": "app1" });
    let others = json!([null, true, 1, -1.5, "", "app1", [], ["app1"], [[{}]], {}, nested]);
    events.extend(others.as_array().unwrap().iter().cloned());
    let timed = events.into_iter().enumerate().map(|(at, event)| (at as u64 / 3, event));
    let (out, overflow) = check_both(&timed.collect::<Vec<_>>());
    assert!(count(&overflow, "default") > 0 && count(&overflow, "syslog_app2") > 0);
    assert!(count(&out, "applog_app6") > 0 && count(&out, "syslog_app3") > 0);
}

fn product<'v>(
    applications: &'v [Json],
    index_types: &'v [Json],
    tags: &'v [Json],
    names: &'v [Json],
) -> impl Iterator<Item = (&'v Json, &'v Json, &'v Json, &'v Json)> {
    applications.iter().flat_map(move |application| {
        index_types.iter().flat_map(move |index_type| {
            tags.iter().flat_map(move |tags| {
                names.iter().map(move |name| (application, index_type, tags, name))
            })
        })
    })
}

#[test]
fn what_a_format_alone_can_say_is_the_same_to_all() {
    let json = [
        (r#"{"application":"app2","application":"app1"}"#, json!({ "application": "app1" })),
        (r#"{"application":"app1","application":null}"#, json!({ "application": null })),
        (r#"{"appl\u0069cation":"app\u0031"}"#, json!({ "application": "app1" })),
        (" {\"tags\" : [ \"t\\u0061g1\" ] }\n", json!({ "tags": ["tag1"] })),
        (r#"{"tags":[18446744073709551615]}"#, json!({ "tags": [u64::MAX] })),
    ];
    let json = json.map(|(text, value)| Event { at_ms: 0, message: text.into(), value });
    check("json", &json);
}

/// VRL tells one from the other no more than the rules do.
#[test]
fn binary_data_in_utf8_is_text_to_all() {
    let data = |text: &str| rmpv::Value::Binary(text.into());
    let of = |entries: &[(&str, &str)]| {
        let entry = |(key, text): &(&str, &str)| {
            let value = data(text);
            ((*key).into(), if *key == "tags" { vec![value].into() } else { value })
        };
        let meant = |(key, text): &(&str, &str)| {
            ((*key).to_owned(), if *key == "tags" { json!([text]) } else { json!(text) })
        };
        Event {
            at_ms: 0,
            message: packed(&rmpv::Value::Map(entries.iter().map(entry).collect())),
            value: Json::Object(entries.iter().map(meant).collect()),
        }
    };
    let events = [
        of(&[("application", "app1")]),
        of(&[("index_type", "syslog_app1"), ("syslog_hostname", "host")]),
        of(&[("index_type", "applog_app6"), ("logger_name", "")]),
        of(&[("tags", "tag1"), ("syslog_hostname", "h\u{f6}st")]),
        of(&[("tags", "tag2")]),
    ];
    let metadata = |left: &Left| left.iter().map(|event| event["metadata"].clone()).collect();
    let expected: Left = metadata(&reference(&events).0);
    for variant in ["", "-vrl"] {
        let name = format!("throughput-logging-msgpack{variant}");
        let found = metadata(&run(&flow_of_the_project(&name), &events).0);
        compare(&name, &found, &expected);
    }
}

#[test]
fn the_sink_gets_what_passes_and_what_is_over_in_the_order_of_the_source() {
    let count = 2 * DEFAULT.1;
    let json = (0..count).map(|number| {
        let value = json!({ "number": number });
        Event { at_ms: number, message: value.to_string().into_bytes(), value }
    });
    let msgpack = (0..count).map(|number| {
        let value = json!({ "number": number });
        Event { at_ms: number, message: msgpack(&value), value }
    });
    for (format, events) in [("json", json.collect::<Vec<_>>()), ("msgpack", msgpack.collect())] {
        for variant in ["", "-vrl"] {
            let flow = flow_of_the_project(&format!("throughput-logging-{format}{variant}"));
            let (found, _) = run(&flow, &events);
            let numbers = found.iter().map(|event| event["value"]["number"].as_u64().unwrap());
            assert!(numbers.eq(0..count), "{format}{variant}");
        }
    }
}
