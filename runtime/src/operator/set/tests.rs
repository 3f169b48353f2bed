use serde_json::{Value as Json, json};
use tremor_abi::batch::HostBatch;
use tremor_pdk::{Batch, Output, Value, literal};

use crate::operator::testing::{Bench, creation_error, timed};

/// Applies edits to events, and returns the payloads and the metadata.
fn set(edits: &Json, events: &[Json], metadata: Option<&Value<'static>>) -> Vec<String> {
    let times: Vec<_> = events.iter().map(|event| (1_700_000_000_123_456_789, event)).collect();
    let mut batch = timed(&times);
    if let Some(metadata) = metadata {
        (0..batch.len()).for_each(|position| batch.set_metadata(position, metadata.clone()));
    }
    let mut operator = Bench::new("set", json!({ "edits": edits }));
    let mut output = Output::new();
    operator.operator.process(&mut batch, &mut output).unwrap();
    batch.validate().unwrap();
    let mut texts: Vec<_> = batch
        .iter()
        .map(|event| {
            let metadata = event.metadata().map(|it| format!(" {it}")).unwrap_or_default();
            format!("{}{metadata}", event.value().unwrap())
        })
        .collect();
    texts.extend(output.rejected().iter().map(|it| it.error.to_string()));
    texts
}

#[test]
fn constants_copies_templates_and_times_are_set() {
    let edits = json!([
        { "field": "env", "value": { "name": "prod", "ports": [80, null] } },
        { "field": "%target.file", "template": "{host}-{%file.name}.log" },
        { "field": "service.name", "copy": "app" },
        { "field": "app", "value": null },
        { "field": "at", "now": "rfc3339" },
        { "field": "ns", "now": "ns" },
        { "remove": ["secret", "%file"] },
    ]);
    let event = json!({ "host": "h", "app": "shop", "secret": 1, "service": { "id": 2 } });
    let metadata = literal!({ "file": { "name": "x" } });
    let found = set(&edits, &[event], Some(&metadata));
    assert_eq!(
        found,
        [
            r#"{"app":null,"host":"h","service":{"id":2,"name":"shop"},"env":{"name":"prod","ports":[80,null]},"at":"2023-11-14T22:13:20.123456789Z","ns":1700000000123456789} {"target":{"file":"h-x.log"}}"#
        ]
    );
}

#[test]
fn edits_are_applied_in_order() {
    for (edits, expected) in [
        (json!([{ "field": "a", "value": 1 }, { "field": "b", "copy": "a" }]), r#"{"a":1,"b":1}"#),
        (json!([{ "field": "b", "copy": "a" }, { "field": "a", "value": 1 }]), r#"{"a":1,"b":0}"#),
        (json!([{ "field": "a", "value": 1 }, { "field": "a", "value": 2 }]), r#"{"a":2}"#),
        (
            json!([{ "field": "a.b", "value": 1 }, { "field": "c", "template": "{a.b}" }]),
            r#"{"a":{"b":1},"c":"1"}"#,
        ),
        (json!([{ "remove": ["a"] }, { "field": "c", "copy": "a" }]), "{}"),
        (
            json!([{ "field": "%x", "copy": "a" }, { "field": "a", "value": 1 }, { "field": "b", "copy": "%x" }]),
            r#"{"a":1,"b":0} {"x":0}"#,
        ),
        (json!([{ "field": "a", "value": 1 }, { "field": "", "copy": "a" }]), "1"),
        (json!([{ "field": "%", "copy": "" }]), r#"{"a":0} {"a":0}"#),
        (json!([{ "field": "%a", "value": 1 }, { "remove": ["%"] }]), r#"{"a":0}"#),
    ] {
        let found = set(&edits, &[json!({ "a": 0 })], None);
        assert_eq!(found, [expected], "{edits}");
    }
}

/// Each edit doubles the event, or the text that it contains.
#[test]
fn event_that_grows_too_much_is_rejected() {
    let edit = |number: usize| {
        let copy = json!({ "field": format!("f{number}"), "copy": "" });
        let metadata = json!({ "field": format!("%f{number}"), "copy": "%" });
        let template = json!({ "field": "t", "template": "{t}{t}" });
        [copy, metadata, template]
    };
    for kind in 0..3 {
        let edits: Vec<_> = (0..24).map(|number| edit(number)[kind].clone()).collect();
        let events = [json!({ "t": "text" }), json!({ "t": "more" })];
        let found = set(&json!(edits), &events, Some(&literal!({ "m": 1 })));
        let errors =
            found.iter().filter(|it| it.contains("cannot set fields: the event would grow"));
        assert_eq!((found.len(), errors.count()), (2, 2), "{kind}");
        let found = set(&json!(edits[..5]), &events, Some(&literal!({ "m": 1 })));
        assert!(found.iter().all(|it| it.starts_with('{')), "{found:?}");
    }
}

/// A batch of 1,500 events would grow by 30 MB.
#[test]
fn constants_and_texts_count_towards_the_limit_of_a_batch() {
    let text = "x".repeat(20_000);
    let events = vec![json!({ "a": 1 }); 1_500];
    for edits in [
        json!([{ "field": "b", "value": text }]),
        json!([{ "field": "%b", "value": { "c": [text] } }]),
        json!([{ "field": "b", "template": format!("{{a}}{text}") }]),
        json!([{ "field": "b", "template": format!("{{x:-{text}}}") }]),
        json!([{ "field": "b", "value": text[..10_000] }, { "field": "c", "copy": "b" }]),
    ] {
        let found = set(&edits, &events, None);
        let errors =
            found.iter().filter(|it| it.contains("cannot set fields: the event would grow"));
        let errors = errors.count();
        assert!(found.len() == 1_500 && (500..800).contains(&errors), "{errors}");
        // A smaller batch has all events.
        let found = set(&edits, &events[..500], None);
        assert!(found.iter().all(|it| it.starts_with('{')));
    }
}

#[test]
fn missing_fields_skip_the_edit_or_reject_the_event() {
    let events = [json!({ "a": 1 }), json!({ "a": [], "c": 2 })];
    for (edits, expected) in [
        (json!([{ "field": "c", "copy": "b" }]), [r#"{"a":1}"#, r#"{"a":[],"c":2}"#]),
        (json!([{ "field": "c", "template": "{a}" }]), [r#"{"a":1,"c":"1"}"#, r#"{"a":[],"c":2}"#]),
        (
            json!([{ "field": "c", "template": "{a}", "missing": "err" }]),
            [
                r#"{"a":1,"c":"1"}"#,
                "cannot set `c`: expected text, a number or a truth value as `a`, found an array",
            ],
        ),
        (
            json!([{ "field": "b", "copy": "c", "missing": "err" }]),
            [
                r#"{"a":[],"c":2,"b":2}"#,
                "cannot set `b`: expected the field `c`, found no such field",
            ],
        ),
        (
            json!([{ "field": "c", "value": 0, "keep_existing": true }]),
            [r#"{"a":1,"c":0}"#, r#"{"a":[],"c":2}"#],
        ),
    ] {
        assert_eq!(set(&edits, &events, None), expected, "{edits}");
    }
}

#[test]
fn edits_are_applied_to_events_that_meet_their_condition() {
    let events = [json!({ "status": 503, "a": { "b": 1 } }), json!({ "status": 200, "a": 1 })];
    let server = json!({ "field": "status", "greater_or_equal": 500 });
    for (edits, expected) in [
        (
            json!([{ "field": "level", "value": "info" }, { "field": "level", "value": "error", "when": server }]),
            [
                r#"{"a":{"b":1},"status":503,"level":"error"}"#,
                r#"{"a":1,"status":200,"level":"info"}"#,
            ],
        ),
        // A condition sees the results of the edits before it.
        (
            json!([
                { "field": "status", "value": 200, "when": server },
                { "field": "ok", "copy": "status", "when": { "field": "status", "equals": 200 } },
            ]),
            [r#"{"a":{"b":1},"status":200,"ok":200}"#, r#"{"a":1,"status":200,"ok":200}"#],
        ),
        // A condition is evaluated once for all fields of an edit, also if the edit removes what the condition reads.
        (
            json!([{ "remove": ["status", "a", "%m"], "when": { "not": { "field": "status", "equals": 200 } } }]),
            ["{} {}", r#"{"a":1,"status":200} {"m":0}"#],
        ),
        (
            json!([{ "remove": ["a", "a.b"], "when": { "field": "a.b", "exists": true } }, { "remove": ["%m"] }]),
            [r#"{"status":503} {}"#, r#"{"a":1,"status":200} {}"#],
        ),
        // An unmet condition skips an edit that would reject the event.
        (
            json!([{ "field": "c", "copy": "a.b", "missing": "err", "when": { "field": "a.b", "exists": true } }]),
            [r#"{"a":{"b":1},"status":503,"c":1} {"m":0}"#, r#"{"a":1,"status":200} {"m":0}"#],
        ),
    ] {
        let has_metadata = expected[1].contains("\"m\"") || edits.to_string().contains("%m");
        let metadata = has_metadata.then(|| literal!({ "m": 0 }));
        assert_eq!(set(&edits, &events, metadata.as_ref()), expected, "{edits}");
    }
}

#[test]
fn times_of_templates_are_those_of_each_event() {
    let edits = json!([{ "field": "day", "template": "{t:+%F %H}" }]);
    let events = [0, 1, 3_600_000_000_000_i64, 86_400_000_000_000, 0].map(|t| json!({ "t": t }));
    let found: Vec<_> = set(&edits, &events, None)
        .iter()
        .map(|it| serde_json::from_str::<Json>(it).unwrap()["day"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        found,
        ["1970-01-01 00", "1970-01-01 00", "1970-01-01 01", "1970-01-02 00", "1970-01-01 00"]
    );
}

#[test]
fn value_without_fields_is_rejected_or_replaced() {
    let edits = json!([{ "field": "a", "value": 1 }]);
    let found = set(&edits, &[json!("text"), json!({})], None);
    assert_eq!(found, [r#"{"a":1}"#, "expected an object to edit fields of, found text"]);
    let edits = json!([
        { "field": "%line", "copy": "" },
        { "field": "", "value": {} },
        { "field": "message", "copy": "%line" },
    ]);
    let found = set(&edits, &[json!("text")], None);
    assert_eq!(found, [r#"{"message":"text"} {"line":"text"}"#]);
}

#[test]
fn name_of_the_host_is_set() {
    let found = set(&json!([{ "field": "host", "hostname": true }]), &[json!({})], None);
    let found: Json = serde_json::from_str(&found[0]).unwrap();
    let expected = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(found["host"], expected.trim_end());
}

#[test]
fn batches_of_shared_buffers_are_edited_apart() {
    let mut batch = Batch::new();
    batch.push(&json!({ "a": 1 })).unwrap();
    let other = batch.clone();
    let mut bench = Bench::new("set", json!({ "edits": [{ "field": "a", "value": 2 }] }));
    assert_eq!(bench.process(batch).out, [r#"{"a":2}"#]);
    assert_eq!(other.get(0).unwrap().value().unwrap().to_string(), r#"{"a":1}"#);
}

#[test]
fn invalid_edits_are_reported_with_their_position() {
    for (config, expected) in [
        (json!({}), "`edits`"),
        (json!({ "edits": [] }), "`edits`: expected at least one edit, found none"),
        (json!({ "edits": [{}] }), "`edits[0]`: expected `field` or `remove`"),
        (
            json!({ "edits": [{ "field": "a" }] }),
            "`edits[0]`: expected `value`, `copy`, `template`, `now` or",
        ),
        (json!({ "edits": [{ "field": "a", "value": 1, "copy": "b" }] }), "expected only one of"),
        (
            json!({ "edits": [{ "remove": ["a"] }, { "remove": ["a"], "field": "b" }] }),
            "`edits[1]`: `remove`",
        ),
        (json!({ "edits": [{ "remove": [""] }] }), "the whole payload cannot be removed"),
        (
            json!({ "edits": [{ "field": "a[0]", "value": 1 }] }),
            "`edits[0]`: `a[0]`: expected the keys",
        ),
        (json!({ "edits": [{ "field": "a..b", "value": 1 }] }), "`a..b`: invalid path"),
        (
            json!({ "edits": [{ "field": "a", "template": "{b" }] }),
            "`{b`: invalid template: expected `}`",
        ),
        (json!({ "edits": [{ "field": "a", "now": "today" }] }), "`today`"),
        (
            json!({ "edits": [{ "remove": ["a"] }, { "remove": ["a"], "when": { "field": "a" } }] }),
            "`edits[1]`: `when`: `field`: expected exactly one comparison",
        ),
        (json!({ "edits": [{ "field": "a", "hostname": false }] }), "`hostname`: expected `true`"),
        (
            json!({ "edits": [{ "field": "a", "value": 1, "missing": "err" }] }),
            "`missing`: expected `copy` or",
        ),
    ] {
        let error = creation_error("set", &config);
        assert!(error.contains(expected), "{config}: {error}");
    }
}
