//! Tests of the four flows that classify and limit log events. A short independent program (`reference`) computes the
//! class, the rate, the dimensions and the port of every event, and the results of the flows have to be equal. The
//! flows run in `tremor test`, which sets the clock to the time of each event, so that rates are exact.

mod reference;

use std::{env, fs};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value as Json, json};

use self::reference::{DEFAULT, Event, PortEvents, RULES, reference};
use crate::{support::workspace, tremor::Scene};

/// Defines two tests for each function: one for the flows with an operator in Rust, and one for the flows in VRL.
macro_rules! tests {
    ($($name:ident,)*) => {
        mod native {
            $(#[test]
            fn $name() {
                super::$name("");
            })*
        }

        mod vrl {
            $(#[test]
            #[ignore = "builds the plugin `vrl` with its 400 packages, which takes minutes: \
                        `cargo xtask ci` does"]
            fn $name() {
                super::$name("-vrl");
            })*
        }
    };
}

tests! {
    generated_log_events_match_the_reference,
    log_events_of_the_user_match_the_reference,
    every_class_passes_its_rate_in_each_second,
    missing_and_mistyped_fields_are_treated_alike,
    format_specific_values_are_treated_alike,
    binary_data_in_utf8_is_treated_as_text,
    sink_gets_passing_and_excess_events_in_source_order,
}

/// Returns the text of a flow in `bench/flows`, without its plugin folder.
pub(crate) fn flow_of_the_project(name: &str) -> String {
    let path = workspace().join("bench/flows").join(format!("{name}.yaml"));
    without(&fs::read_to_string(path).unwrap(), "plugins: [../../target/release]\n")
}

/// Returns the program of the flows with VRL.
pub(crate) fn logging_vrl() -> String {
    fs::read_to_string(workspace().join("bench/flows/logging.vrl")).unwrap()
}

fn without(text: &str, part: &str) -> String {
    assert_eq!(text.matches(part).count(), 1, "`{part}` in:\n{text}");
    text.replace(part, "")
}

/// Runs a flow on these events. Returns the events that reach the sink, and the events at the port `overflow` if that
/// port is not linked.
fn run(flow: &str, events: &[Event]) -> (PortEvents, PortEvents) {
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
    // Use `--update` to record all events that leave the flow. The test compares them itself.
    let tremor = if flow.contains("logging.vrl") { Scene::tremor_with_vrl } else { Scene::tremor };
    tremor(&scene, &["test", ".", "--update"]).expect(0, &["updated"]);
    let outlets = fs::read_dir(scene.path().join("expected")).unwrap().count();
    assert_eq!(outlets, if is_linked { 1 } else { 2 }, "nothing leaves by an `err`");
    let left = |name| {
        let lines = scene.read(name);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    (left(names[0]), if is_linked { PortEvents::new() } else { left(names[1]) })
}

/// Link through which the flows send events above the rate to the sink.
const OVERFLOW_LINK: &str = "  - main/overflow -> bench\n";

/// Checks that the flow for a format has the same results as the reference. Returns the events of both ports.
fn check(format: &str, variant: &str, events: &[Event]) -> (PortEvents, PortEvents) {
    let expected = reference(events);
    let name = format!("throughput-logging-{format}{variant}");
    let found = run(&without(&flow_of_the_project(&name), OVERFLOW_LINK), events);
    compare(&format!("{name}, out"), &found.0, &expected.0);
    compare(&format!("{name}, overflow"), &found.1, &expected.1);
    expected
}

/// Compares the events, and reports only the first difference, because there may be thousands.
#[track_caller]
fn compare(what: &str, found: &PortEvents, expected: &PortEvents) {
    for (position, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "{what}: event {position} of the port");
    }
    assert_eq!(found.len(), expected.len(), "{what}: number of events");
}

/// Runs [`check`] for both formats. Returns the events of both ports.
fn check_both(variant: &str, values: &[(u64, Json)]) -> (PortEvents, PortEvents) {
    let json = |value: &Json| value.to_string().into_bytes();
    let events = |message: &dyn Fn(&Json) -> Vec<u8>| {
        let event = |(at_ms, value): &(u64, Json)| Event {
            at_ms: *at_ms,
            message: message(value),
            value: value.clone(),
        };
        values.iter().map(event).collect::<Vec<_>>()
    };
    check("msgpack", variant, &events(&msgpack));
    check("json", variant, &events(&json))
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

/// Returns the number of events of a class.
fn count(left: &PortEvents, class: &str) -> usize {
    left.iter().filter(|event| event["metadata"]["class"] == class).count()
}

/// Returns the events of a text with JSON lines, nine events per millisecond. A short text is repeated.
fn lines(text: &str) -> Vec<(u64, Json)> {
    let count = text.lines().count().max(10_000);
    let line = |(position, line)| (position as u64 / 9, serde_json::from_str(line).unwrap());
    text.lines().cycle().take(count).enumerate().map(line).collect()
}

fn generated_log_events_match_the_reference(variant: &str) {
    let mut text = Vec::new();
    sample_logs::write_lines(10_000, 42, &mut text).unwrap();
    let (out, overflow) = check_both(variant, &lines(&String::from_utf8(text).unwrap()));
    assert!(out.len() > 1_000);
    for class in ["applog_app1", "syslog_app2"] {
        assert!(count(&overflow, class) > 0, "none of {class} is over its rate");
    }
}

/// Checks log events of the user: `TREMOR_SAMPLE_LOGS` is the path of a file with one JSON event per line. Does nothing
/// if the variable is not set.
fn log_events_of_the_user_match_the_reference(variant: &str) {
    if let Some(path) = env::var_os("TREMOR_SAMPLE_LOGS") {
        check_both(variant, &lines(&fs::read_to_string(path).unwrap()));
    }
}

fn every_class_passes_its_rate_in_each_second(variant: &str) {
    let mut events = Vec::new();
    let default = ("none", "none", DEFAULT.0, DEFAULT.1, "none");
    for (field, text, _, rate, _) in RULES.into_iter().chain([default]) {
        let value = if field == "tags" { json!([text]) } else { json!(text) };
        let event = json!({ field: value });
        events.push((0, event.clone()));
        events.extend((0..rate).map(|_| (999, event.clone())));
        events.push((1000, event));
    }
    // Sort by time. The sort is stable, so events with the same time keep their order.
    events.sort_by_key(|(at_ms, _)| *at_ms);
    let (out, overflow) = check_both(variant, &events);
    assert_eq!(overflow.len(), RULES.len() + 1, "one of each class");
    assert_eq!(out.len(), events.len() - overflow.len());
}

fn missing_and_mistyped_fields_are_treated_alike(variant: &str) {
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
    let (out, overflow) = check_both(variant, &timed.collect::<Vec<_>>());
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

fn format_specific_values_are_treated_alike(variant: &str) {
    let json = [
        (r#"{"application":"app2","application":"app1"}"#, json!({ "application": "app1" })),
        (r#"{"application":"app1","application":null}"#, json!({ "application": null })),
        (r#"{"appl\u0069cation":"app\u0031"}"#, json!({ "application": "app1" })),
        (" {\"tags\" : [ \"t\\u0061g1\" ] }\n", json!({ "tags": ["tag1"] })),
        (r#"{"tags":[18446744073709551615]}"#, json!({ "tags": [u64::MAX] })),
    ];
    let json = json.map(|(text, value)| Event { at_ms: 0, message: text.into(), value });
    check("json", variant, &json);
}

/// Neither VRL nor the rules distinguish text from binary data that is UTF-8.
fn binary_data_in_utf8_is_treated_as_text(variant: &str) {
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
    let metadata = |left: &PortEvents| left.iter().map(|event| event["metadata"].clone()).collect();
    let expected: PortEvents = metadata(&reference(&events).0);
    let name = format!("throughput-logging-msgpack{variant}");
    let found = metadata(&run(&flow_of_the_project(&name), &events).0);
    compare(&name, &found, &expected);
}

fn sink_gets_passing_and_excess_events_in_source_order(variant: &str) {
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
        let flow = flow_of_the_project(&format!("throughput-logging-{format}{variant}"));
        let (found, _) = run(&flow, &events);
        let numbers = found.iter().map(|event| event["value"]["number"].as_u64().unwrap());
        assert!(numbers.eq(0..count), "{format}{variant}");
    }
}
