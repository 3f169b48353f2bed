//! Tests of the page "Ten routes by content".

use std::fs;

use serde_json::{Value, json};

use super::{Kitchen, flows, values};
use crate::peer::wait_until;

#[test]
fn events_reach_the_sink_of_the_first_rule_they_meet() {
    let expected = [
        ("security", json!({ "tags": ["security"], "level": "error" })),
        ("security", json!({ "message": "Failed password for root" })),
        ("audit", json!({ "audit": { "user": "alice" }, "level": "error" })),
        ("payments", json!({ "service": "payments", "level": "error" })),
        ("errors", json!({ "service": "shop", "level": "fatal" })),
        ("failures", json!({ "status": 503, "took_ms": 2000 })),
        ("slow", json!({ "took_ms": 1000.5 })),
        ("databases", json!({ "service": "redis" })),
        ("mobile", json!({ "agent": "Mozilla/5.0 (iPhone)" })),
        ("debug", json!({ "level": "trace" })),
        ("other", json!({ "status": "500" })),
        ("other", json!({ "took_ms": 1000, "path": "/orders" })),
    ];
    let kitchen = Kitchen::new();
    fs::create_dir(kitchen.log("apps")).unwrap();
    let mut lines = "{\"path\":\"/health/live\",\"level\":\"error\"}\nnot JSON\n".to_owned();
    for (_, event) in &expected {
        lines.push_str(&event.to_string());
        lines.push('\n');
    }
    fs::write(kitchen.log("apps/a.json"), lines).unwrap();

    let running = kitchen.start(&flows("routes.md")[0], &[], &[]);
    let read = |sink: &str| values(&kitchen.state(&format!("{sink}.json")));
    let of = |sink: &str| -> Vec<Value> {
        let events = expected.iter().filter(|(expected, _)| *expected == sink);
        events.map(|(_, event)| event.clone()).collect()
    };
    let is_complete = |sink: &str| read(sink).len() >= of(sink).len();
    wait_until(|| read("dead").len() == 1 && expected.iter().all(|(sink, _)| is_complete(sink)));
    running.signal(&["TERM"]);
    running.end().expect(0, &["14 events in, 12 out, 1 dead-lettered, 1 discarded"]);
    for (sink, _) in &expected {
        assert_eq!(read(sink), of(sink), "{sink}");
    }
    assert_eq!(read("dead")[0]["original"], "not JSON");
}
