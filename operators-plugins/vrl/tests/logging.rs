//! Tests that three implementations classify log events in the same way: a VRL program, the
//! operator in Rust, and a reference with `serde_json`'s values.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tremor_pdk::{Batch, Component, EventRef, Operator, Output, testing::TestHost};

/// Sources of the plugin in Rust, because two plugins cannot be linked into one program.
#[path = "../../logging/src"]
#[allow(unreachable_pub)] // the items are public in their own crate
mod native {
    pub mod classify;
    pub mod operator;
}

fn reference(event: &Json) -> Json {
    let text = |key: &str| event.get(key).and_then(Json::as_str);
    let tagged = event.get("tags").and_then(Json::as_array);
    let tagged = tagged.is_some_and(|tags| tags.contains(&json!("tag1")));
    let (class, rate, by) = match (text("application"), text("index_type")) {
        (Some("app1"), _) => ("applog_app1", 1250, "application"),
        (Some("app2"), _) => ("applog_app1", 2500, "application"),
        (Some("app3" | "app5"), _) => ("applog_app1", 18750, "application"),
        (Some("app4"), _) => ("applog_app1", 750, "application"),
        (_, Some("applog_app6")) => ("applog_app6", 4500, "logger_name"),
        (_, Some("syslog_app1")) => ("syslog_app1", 2500, "syslog_hostname"),
        _ if tagged => ("syslog_app2", 125, "syslog_hostname"),
        (_, Some("syslog_app3")) => ("syslog_app3", 1750, "syslog_hostname"),
        (_, Some("syslog_app4")) => ("syslog_app4", 7500, "syslog_hostname"),
        (_, Some("syslog_app5")) => ("syslog_app5", 125, "syslog_hostname"),
        (_, Some("syslog_app6")) => ("syslog_app6", 3750, "syslog_hostname"),
        _ => return json!({ "class": "default", "rate": 250, "dimensions": null }),
    };
    json!({ "class": class, "rate": rate, "dimensions": text(by) })
}

fn vrl() -> operator_vrl::Vrl {
    let source = include_str!("../../../bench/flows/logging.vrl").to_owned();
    let config = operator_vrl::Config { source: Some(source), ..Default::default() };
    operator_vrl::Vrl::new(config, TestHost::new().context()).expect("a good configuration")
}

fn metadata(operator: &mut impl Operator, events: &[Json]) -> Vec<Json> {
    let (mut batch, mut output) = (Batch::new(), Output::new());
    for event in events {
        batch.push(event).expect("the event can be copied to the batch");
    }
    operator.process(&mut batch, &mut output).expect("no batch is an error");
    assert!(output.rejected().is_empty(), "{:?}", output.rejected()[0].error);
    assert_eq!(batch.len(), events.len());
    let seen = |event: EventRef<'_>| {
        let metadata = event.metadata().expect("every event gets metadata");
        serde_json::to_value(metadata).expect("it fits JSON")
    };
    batch.iter().map(seen).collect()
}

fn check(events: &[Json]) {
    let expected: Vec<_> = events.iter().map(reference).collect();
    let mut native = native::operator::Logging::default();
    assert_eq!(metadata(&mut native, events), expected);
    assert_eq!(metadata(&mut vrl(), events), expected);
}

/// Generates a value of any type, usually a value that a rule of the classification checks.
fn field(known: &'static [&'static str]) -> impl Strategy<Value = Option<Json>> {
    let text = prop::sample::select(known).prop_map(Json::from);
    let other = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        Just(json!([])),
        Just(json!(["tag1", "app1"])),
        Just(json!({ "tag1": "tag1" })),
        "[a-z]{0,3}".prop_map(Json::from),
    ];
    prop_oneof![1 => Just(None), 5 => text.prop_map(Some), 1 => other.prop_map(Some)]
}

fn tags() -> impl Strategy<Value = Option<Json>> {
    let tag = field(&["tag1", "tag2", "tag3", "tag11"]).prop_map(|tag| tag.unwrap_or(Json::Null));
    let tags = prop::collection::vec(tag, 0..4).prop_map(Json::from).prop_map(Some);
    prop_oneof![4 => tags, 1 => field(&["tag1"])]
}

fn event() -> impl Strategy<Value = Json> {
    let application = field(&["app1", "app2", "app3", "app4", "app5", "app6", "app"]);
    let index_type = field(&[
        "applog_app3",
        "applog_app6",
        "syslog_app1",
        "syslog_app2",
        "syslog_app3",
        "syslog_app4",
        "syslog_app5",
        "syslog_app6",
        "default",
    ]);
    let fields = (
        prop_oneof![1 => application, 2 => Just(None)],
        index_type,
        tags(),
        field(&["logger1"]),
        field(&["host1", "größe\n"]),
    );
    let object = fields.prop_map(|(application, index_type, tags, logger_name, host)| {
        let fields = [
            ("application", application),
            ("index_type", index_type),
            ("tags", tags),
            ("logger_name", logger_name),
            ("syslog_hostname", host),
        ];
        let present = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Json::Object(present.collect())
    });
    prop_oneof![50 => object, 1 => Just(json!("app1")), 1 => Just(json!(["app1"])), 1 => Just(Json::Null)]
}

proptest! {
    #[test]
    fn vrl_rust_and_reference_agree_on_any_event(
        events in prop::collection::vec(event(), 1..60),
    ) {
        check(&events);
    }
}

#[test]
fn vrl_rust_and_reference_agree_on_every_rule() {
    let mut events = Vec::new();
    for application in 0..7 {
        for index_type in [
            "applog_app6",
            "syslog_app1",
            "syslog_app3",
            "syslog_app4",
            "syslog_app5",
            "syslog_app6",
            "other",
        ] {
            for tags in [json!(["tag1"]), json!([]), json!("tag1"), json!(null)] {
                events.push(json!({
                    "application": format!("app{application}"), "index_type": index_type, "tags": tags,
                    "logger_name": "logger", "syslog_hostname": "host",
                }));
            }
        }
    }
    check(&events);
}
