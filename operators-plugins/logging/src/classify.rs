//! Classification rules of Tremor's throughput benchmark for log events.

use tremor_pdk::{Key, ValueRef};

const APPLICATION: Key<'_> = Key::new("application");
const INDEX_TYPE: Key<'_> = Key::new("index_type");
const LOGGER_NAME: Key<'_> = Key::new("logger_name");
const SYSLOG_HOSTNAME: Key<'_> = Key::new("syslog_hostname");
const TAGS: Key<'_> = Key::new("tags");

/// Class of an event, with the limit of its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classification<'a> {
    /// Class that the event belongs to.
    pub class: &'static str,
    /// Maximum number of events per second with the same class and dimensions.
    pub rate: i64,
    /// Text by which the events of the class are counted separately; `None` if the event has no such text.
    pub dimensions: Option<&'a str>,
}

/// Classifies an event by the first rule that matches. The rules check `application`, then `index_type`, then tags, and
/// then other values of `index_type`. Binary data that is UTF-8 counts as text, as in VRL.
pub fn classify(event: ValueRef<'_>) -> Classification<'_> {
    let bytes = |key| event.get_key(key).and_then(bytes);
    let by = |class, rate, key| {
        let dimensions = event.get_key(key).and_then(text);
        Classification { class, rate, dimensions }
    };

    let rate = match bytes(APPLICATION) {
        Some(b"app1") => 1250,
        Some(b"app2") => 2500,
        Some(b"app3" | b"app5") => 18750,
        Some(b"app4") => 750,
        _ => 0,
    };
    if rate > 0 {
        return by("applog_app1", rate, APPLICATION);
    }
    let index_type = bytes(INDEX_TYPE);
    match index_type {
        Some(b"applog_app6") => return by("applog_app6", 4500, LOGGER_NAME),
        Some(b"syslog_app1") => return by("syslog_app1", 2500, SYSLOG_HOSTNAME),
        _ => {}
    }
    let tags = event.get_key(TAGS).and_then(ValueRef::as_array);
    if tags.is_some_and(|tags| tags.iter().any(|tag| self::bytes(tag) == Some(b"tag1"))) {
        return by("syslog_app2", 125, SYSLOG_HOSTNAME);
    }
    match index_type {
        Some(b"syslog_app3") => by("syslog_app3", 1750, SYSLOG_HOSTNAME),
        Some(b"syslog_app4") => by("syslog_app4", 7500, SYSLOG_HOSTNAME),
        Some(b"syslog_app5") => by("syslog_app5", 125, SYSLOG_HOSTNAME),
        Some(b"syslog_app6") => by("syslog_app6", 3750, SYSLOG_HOSTNAME),
        _ => Classification { class: "default", rate: 250, dimensions: None },
    }
}

/// Returns the bytes of text or binary data without a check for UTF-8, which suffices for a comparison.
fn bytes(value: ValueRef<'_>) -> Option<&[u8]> {
    value.text_bytes().or_else(|| value.as_bytes())
}

fn text(value: ValueRef<'_>) -> Option<&str> {
    value.as_str().or_else(|| std::str::from_utf8(value.as_bytes()?).ok())
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{Value, literal};

    use super::{Classification, classify};

    #[test]
    fn every_rule_gives_its_class_rate_and_dimensions() {
        let host = |index_type: &'static str, tags: &[&'static str]| {
            let tags: Vec<_> = tags.iter().map(|&tag| literal!(tag)).collect();
            literal!({ "index_type": index_type, "tags": tags, "syslog_hostname": "host" })
        };
        let cases = [
            (literal!({ "application": "app1" }), "applog_app1", 1250, Some("app1")),
            (literal!({ "application": "app2" }), "applog_app1", 2500, Some("app2")),
            (literal!({ "application": "app3" }), "applog_app1", 18750, Some("app3")),
            (literal!({ "application": "app4" }), "applog_app1", 750, Some("app4")),
            (literal!({ "application": "app5" }), "applog_app1", 18750, Some("app5")),
            (
                literal!({ "application": "app6", "index_type": "applog_app6", "logger_name": "l" }),
                "applog_app6",
                4500,
                Some("l"),
            ),
            (host("syslog_app1", &["tag1"]), "syslog_app1", 2500, Some("host")),
            (host("syslog_app3", &["tag2", "tag1"]), "syslog_app2", 125, Some("host")),
            (host("other", &["tag1"]), "syslog_app2", 125, Some("host")),
            (host("syslog_app3", &["tag2"]), "syslog_app3", 1750, Some("host")),
            (host("syslog_app4", &[]), "syslog_app4", 7500, Some("host")),
            (host("syslog_app5", &["tag11"]), "syslog_app5", 125, Some("host")),
            (host("syslog_app6", &[]), "syslog_app6", 3750, Some("host")),
            (host("syslog_app2", &[]), "default", 250, None),
            (
                literal!({ "application": "app1", "index_type": "syslog_app1" }),
                "applog_app1",
                1250,
                Some("app1"),
            ),
        ];
        for (event, class, rate, dimensions) in cases {
            let expected = Classification { class, rate, dimensions };
            assert_eq!(classify(event.view()), expected, "{event}");
        }
    }

    #[test]
    fn field_of_another_type_counts_as_missing() {
        let default = Classification { class: "default", rate: 250, dimensions: None };
        for event in [
            literal!({ "application": 1, "index_type": ["syslog_app1"], "tags": "tag1" }),
            literal!({ "application": null, "tags": { "tag1": "tag1" } }),
            literal!(["app1"]),
            literal!("app1"),
        ] {
            assert_eq!(classify(event.view()), default, "{event}");
        }
        let event = literal!({ "index_type": "applog_app6", "logger_name": 7 });
        assert_eq!(classify(event.view()).dimensions, None);
    }

    #[test]
    fn binary_data_counts_as_text_where_it_is_utf8() {
        let data = |data: &[u8]| Value::from(data.to_vec());
        let event = literal!({ "tags": [data(b"tag1")], "syslog_hostname": data(b"host") });
        let expected = Classification { class: "syslog_app2", rate: 125, dimensions: Some("host") };
        assert_eq!(classify(event.view()), expected);
        let event = literal!({ "tags": ["tag1"], "syslog_hostname": data(b"\xff") });
        assert_eq!(classify(event.view()).dimensions, None);
    }
}
