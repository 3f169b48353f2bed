use proptest::prelude::*;
use serde_json::{Value, json};

use crate::codec::tests::{decode, encode_json};

fn decoded(message: &str) -> Result<Value, String> {
    decode("gelf", message.as_bytes()).map(|text| serde_json::from_str(&text).unwrap())
}

fn encoded(value: &Value) -> Result<Value, String> {
    encode_json("gelf", value).map(|text| serde_json::from_str(&text).unwrap())
}

#[test]
fn message_keeps_its_fields_and_time_is_in_ns() {
    for (seconds, ns) in [
        ("1385053862.3072", 1_385_053_862_307_200_000_i64),
        ("1385053862", 1_385_053_862_000_000_000),
        ("0", 0),
        ("-1.5", -1_500_000_000),
        ("1.5e3", 1_500_000_000_000),
        ("15e-1", 1_500_000_000),
        ("\"1385053862.307\"", 1_385_053_862_307_000_000),
        ("0.0000000019", 1),
    ] {
        let message = format!(
            "{{\"version\":\"1.1\",\"_a\":[{{}}],\"host\":\"h\",\"timestamp\":{seconds},\
             \"short_message\":\"m\",\"level\":1,\"_user_id\":9001}}"
        );
        let expected = json!({
            "version": "1.1", "_a": [{}], "host": "h", "timestamp": ns, "short_message": "m",
            "level": 1, "_user_id": 9001,
        });
        assert_eq!(decoded(&message), Ok(expected), "{seconds}");
    }
    let bare = decoded("{\"host\":\"h\",\"short_message\":\"m\",\"timestamp\":null}\0\0");
    assert_eq!(bare, Ok(json!({ "host": "h", "short_message": "m", "timestamp": null })));
}

#[test]
fn invalid_message_is_an_error() {
    for (message, expected) in [
        ("[]", "expected an object, found an array"),
        ("{\"host\":\"h\"}", "expected text as `short_message`, found null"),
        ("{\"short_message\":\"m\"}", "expected text as `host`, found null"),
        ("{\"short_message\":\"m\",\"host\":1}", "expected text as `host`, found a number"),
        (
            "{\"short_message\":\"m\",\"host\":\"h\",\"timestamp\":\"now\"}",
            "expected seconds since the Unix epoch as `timestamp`, found text",
        ),
        (
            "{\"short_message\":\"m\",\"host\":\"h\",\"timestamp\":1e300}",
            "expected seconds since the Unix epoch as `timestamp`, found a number",
        ),
    ] {
        assert_eq!(decoded(message), Err(expected.to_owned()), "{message}");
    }
    assert!(decoded("{\"host\":").is_err());
    assert!(decoded("").is_err());
}

#[test]
fn event_is_written_with_additional_fields() {
    let value = json!({
        "version": "2", "host": "h", "short_message": "m \"q\"", "full_message": 7, "level": 3,
        "timestamp": 1_385_053_862_307_200_000_i64, "_kept": 1.5, "user": "u", "ok": true,
        "none": null, "http": { "status": 200, "headers": { "a-b": "c" } }, "tags": ["x", 1],
    });
    let expected = json!({
        "version": "1.1", "host": "h", "short_message": "m \"q\"", "full_message": "7", "level": 3,
        "timestamp": 1_385_053_862.307_2, "_kept": 1.5, "_user": "u", "_ok": "true",
        "_http_status": 200, "_http_headers_a-b": "c", "_tags": "[\"x\",1]",
    });
    assert_eq!(encoded(&value), Ok(expected));
    let text = encode_json("gelf", &json!({ "host": "h", "short_message": "m" }));
    assert!(text.unwrap().starts_with("{\"version\":\"1.1\",\""));
}

#[test]
fn unrepresentable_value_is_an_error() {
    let with = |key: &str, value: Value| {
        let mut event = json!({ "host": "h", "short_message": "m" });
        event[key] = value;
        event
    };
    for (value, expected) in [
        (json!(1), "expected an object, found a number"),
        (json!({ "host": "h" }), "expected text as `short_message`, found no such field; set it"),
        (with("host", json!(null)), "expected text as `host`, found no such field; set it"),
        (with("host", json!([])), "expected text as `host`, found an array"),
        (with("level", json!(8)), "expected a number from 0 to 7 as `level`"),
        (with("timestamp", json!(1.5)), "expected ns since the Unix epoch"),
        (with("id", json!(1)), "invalid name \"_id\" of an additional field"),
        (with("a b", json!(1)), "invalid name \"_a b\" of an additional field"),
        (with("_", json!(1)), "invalid name \"_\" of an additional field"),
        (with("x", json!({ "é": 1 })), "invalid name \"_x_é\" of an additional field"),
        (
            json!({ "host": "h", "short_message": "m", "user": 1, "_user": 1 }),
            "expected different keys, found two fields whose key is `_user`; rename or drop one",
        ),
        (json!({ "host": "h", "short_message": "m", "a_b": 1, "a": { "b": null, "c": {} } }), ""),
        (
            json!({ "host": "h", "short_message": "m", "x": { "a_b": 1, "a": { "b": 2 } } }),
            "expected different keys, found two fields whose key is `_x_a_b`",
        ),
    ] {
        let error = encode_json("gelf", &value).err().unwrap_or_default();
        assert!(error.starts_with(expected), "{value}: {error}");
        assert_eq!(error.is_empty(), expected.is_empty(), "{value}: {error}");
    }
}

proptest! {
    #[test]
    fn written_message_is_read_unchanged(
        host in any::<String>(),
        text in any::<String>(),
        microseconds in -2_000_000_000_000_000..2_000_000_000_000_000_i64,
        level in 0..8,
        fields in prop::collection::btree_map("_[a-z._-]{2,8}", prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ], 0..4),
    ) {
        let mut value = json!({
            "version": "1.1", "host": host, "short_message": text, "timestamp": microseconds * 1_000, "level": level,
        });
        value.as_object_mut().unwrap().extend(fields.into_iter().filter(|(key, _)| key != "_id"));
        let message = encode_json("gelf", &value).unwrap();
        prop_assert_eq!(decoded(&message), Ok(value), "{}", message);
    }

    #[test]
    fn no_message_panics(message in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = decode("gelf", &message);
    }

    #[test]
    fn no_timestamp_panics(seconds in "\"?-?[0-9]{0,30}(\\.[0-9]{0,30})?([eE]-?[0-9]{0,12})?\"?") {
        let _ = decoded(&format!("{{\"host\":\"h\",\"short_message\":\"m\",\"timestamp\":{seconds}}}"));
    }
}
