//! The reference: computes the results of the flows in a few lines, on values of `serde_json`.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

/// The rules, of which the first matching rule applies. Each rule has a field and its text (for `tags`, a text in the
/// list), the class, the number of events that may pass per second, and the field by whose value events are counted.
pub(super) const RULES: [(&str, &str, &str, u64, &str); 12] = [
    ("application", "app1", "applog_app1", 1250, "application"),
    ("application", "app2", "applog_app1", 2500, "application"),
    ("application", "app3", "applog_app1", 18750, "application"),
    ("application", "app4", "applog_app1", 750, "application"),
    ("application", "app5", "applog_app1", 18750, "application"),
    ("index_type", "applog_app6", "applog_app6", 4500, "logger_name"),
    ("index_type", "syslog_app1", "syslog_app1", 2500, "syslog_hostname"),
    ("tags", "tag1", "syslog_app2", 125, "syslog_hostname"),
    ("index_type", "syslog_app3", "syslog_app3", 1750, "syslog_hostname"),
    ("index_type", "syslog_app4", "syslog_app4", 7500, "syslog_hostname"),
    ("index_type", "syslog_app5", "syslog_app5", 125, "syslog_hostname"),
    ("index_type", "syslog_app6", "syslog_app6", 3750, "syslog_hostname"),
];

/// Class and rate of events that match no rule.
pub(super) const DEFAULT: (&str, u64) = ("default", 250);

/// Returns the class, the rate and the dimensions of an event.
fn classify(event: &Json) -> (&'static str, u64, Json) {
    let meets = |field: &str, text: &str| match field {
        "tags" => event[field].as_array().is_some_and(|tags| tags.contains(&json!(text))),
        _ => event[field] == text,
    };
    match RULES.iter().find(|(field, text, ..)| meets(field, text)) {
        Some((.., class, rate, by)) => (class, *rate, json!(event[by].as_str())),
        None => (DEFAULT.0, DEFAULT.1, Json::Null),
    }
}

/// An event as the flow receives it, and its value.
pub(super) struct Event {
    pub(super) at_ms: u64,
    pub(super) message: Vec<u8>,
    pub(super) value: Json,
}

/// The events that leave the flow at one port, each with its value and its metadata.
pub(super) type PortEvents = Vec<Json>;

/// Returns the events within the rate and the events above it. For each class and dimensions, a window of one second
/// begins with the first event.
pub(super) fn reference(events: &[Event]) -> (PortEvents, PortEvents) {
    let (mut out, mut overflow) = (PortEvents::new(), PortEvents::new());
    let mut windows = HashMap::new();
    for Event { at_ms, value, .. } in events {
        let (class, rate, dimensions) = classify(value);
        let (start, count) = windows.entry((class, dimensions.to_string())).or_insert((*at_ms, 0));
        if at_ms - *start >= 1000 {
            (*start, *count) = (*at_ms, 0);
        }
        *count += 1;
        let port = if *count <= rate { &mut out } else { &mut overflow };
        let metadata = json!({ "class": class, "rate": rate, "dimensions": dimensions });
        port.push(json!({ "value": value, "metadata": metadata }));
    }
    (out, overflow)
}
