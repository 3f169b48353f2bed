//! Tests of the operator on batches.

use serde_json::json;
use tremor_pdk::{Batch, Operator, Output, Value, literal, testing::TestHost};

use super::Parse;

#[allow(clippy::needless_pass_by_value)] // callers create the value in the call
fn operator(config: serde_json::Value) -> Result<Parse, String> {
    TestHost::new().component(&config.to_string()).map_err(|error| error.to_string())
}

/// Returns the event and its metadata after the operator, or the message with which the event was rejected.
fn processed(operator: &mut Parse, event: &Value<'static>) -> Result<(String, String), String> {
    let mut batch = Batch::new();
    batch.push(event).unwrap();
    let mut output = Output::new();
    operator.process(&mut batch, &mut output).unwrap();
    if let Some(rejected) = output.rejected().first() {
        return Err(rejected.error.to_string());
    }
    let event = batch.first().unwrap();
    let metadata = event.metadata().map(|metadata| metadata.to_string());
    Ok((event.value().unwrap().to_string(), metadata.unwrap_or_default()))
}

fn value(config: serde_json::Value, event: &Value<'static>) -> Result<String, String> {
    processed(&mut operator(config).unwrap(), event).map(|(value, _)| value)
}

#[test]
fn result_is_written_to_the_target() {
    let event = literal!({ "message": "a=1 host=h", "host": "old", "n": 2 });
    for (config, expected) in [
        (json!({ "field": "message" }), r#"{"host":"h","n":2,"a":"1"}"#),
        (json!({ "field": ".message", "target": "." }), r#"{"host":"h","n":2,"a":"1"}"#),
        (
            json!({ "field": "message", "keep_field": true }),
            r#"{"message":"a=1 host=h","host":"h","n":2,"a":"1"}"#,
        ),
        (
            json!({ "field": "message", "target": ".log.fields" }),
            r#"{"host":"old","n":2,"log":{"fields":{"a":"1","host":"h"}}}"#,
        ),
        (
            json!({ "field": "message", "target": "message" }),
            r#"{"host":"old","n":2,"message":{"a":"1","host":"h"}}"#,
        ),
    ] {
        let mut config = config;
        config["format"] = "key_value".into();
        assert_eq!(value(config, &event).as_deref(), Ok(expected));
    }
}

#[test]
fn whole_payload_is_replaced() {
    let event = literal!("a=1");
    assert_eq!(value(json!({ "format": "key_value" }), &event).as_deref(), Ok(r#"{"a":"1"}"#));
    let config = json!({ "format": "key_value", "target": "b" });
    assert_eq!(value(config, &event).as_deref(), Ok(r#"{"b":{"a":"1"}}"#));
    assert_eq!(value(json!({ "format": "json" }), &literal!("[1]")).as_deref(), Ok("[1]"));
    let data = Value::from(b"a=1".to_vec());
    assert_eq!(value(json!({ "format": "key_value" }), &data).as_deref(), Ok(r#"{"a":"1"}"#));
}

#[test]
fn result_that_is_not_an_object_replaces_its_field() {
    let event = literal!({ "row": "1,2", "n": 1 });
    let config = json!({ "format": "csv", "field": "row" });
    assert_eq!(value(config, &event).as_deref(), Ok(r#"{"n":1,"row":["1","2"]}"#));
    let config = json!({ "format": "timestamp", "time_format": "unix", "field": "row" });
    let text = value(config, &literal!({ "row": 7, "n": 1 }));
    assert_eq!(text.as_deref(), Ok(r#"{"n":1,"row":"1970-01-01T00:00:07Z"}"#));
    let config = json!({ "format": "timestamp", "time_format": "unix_ns", "field": "row" });
    let text = value(config, &literal!({ "row": 1.49e18 }));
    assert_eq!(text.as_deref(), Ok(r#"{"row":"2017-03-20T08:53:20Z"}"#));
    let config = json!({ "format": "json", "field": "row" });
    let error = value(config, &literal!({ "row": "7" })).unwrap_err();
    assert!(error.contains("expected an object"), "{error}");
}

#[test]
fn event_without_a_text_is_rejected_with_a_reason() {
    let config = json!({ "format": "key_value", "field": "message" });
    let mut operator = operator(config).unwrap();
    for (event, expected) in [
        (literal!({ "other": 1 }), "the event has no field `message`"),
        (literal!({ "message": 1 }), "`message` is not text: found"),
        (literal!("text"), "the event has no field `message`"),
        (
            literal!({ "message": Value::from(b"a\xff".to_vec()) }),
            "`message` is binary data that is not UTF-8 at byte 1",
        ),
        (
            literal!({ "message": "a=\"" }),
            "cannot parse `message` as `key_value`: expected `\"` at the end of a quoted text at byte 3",
        ),
    ] {
        let error = processed(&mut operator, &event).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let mut batch = Batch::new();
    batch.push_message(b"a=1");
    let mut output = Output::new();
    operator.process(&mut batch, &mut output).unwrap();
    assert!(output.rejected()[0].error.to_string().contains("`codec`"));
}

#[test]
fn event_passes_unchanged_with_its_error_in_the_metadata() {
    let config = json!({ "format": "json", "field": "message", "on_error": "pass" });
    let mut operator = operator(config).unwrap();
    let event = literal!({ "message": "{" });
    let (value, metadata) = processed(&mut operator, &event).unwrap();
    assert_eq!(value, r#"{"message":"{"}"#);
    let expected = "cannot parse `message` as `json`: expected a key in double quotes at byte 1";
    assert!(
        metadata.starts_with("{\"parse\":{\"error\":\"") && metadata.contains(expected),
        "{metadata}"
    );
}

#[test]
fn text_may_be_in_the_metadata() {
    let mut operator = operator(json!({ "format": "json", "field": "%raw" })).unwrap();
    let mut batch = Batch::new();
    batch.push(&literal!({ "a": 1 })).unwrap();
    batch.last_mut().unwrap().set_metadata(literal!({ "raw": "{\"b\":2}" }));
    let mut output = Output::new();
    operator.process(&mut batch, &mut output).unwrap();
    let event = batch.first().unwrap();
    assert_eq!(event.value().unwrap().to_string(), r#"{"a":1,"b":2}"#);
    assert_eq!(event.metadata().unwrap().to_string(), r#"{"raw":"{\"b\":2}"}"#);
}

#[test]
fn wrong_configurations_are_rejected() {
    for (config, expected) in [
        (
            json!({ "format": "json", "delimiter": ";" }),
            "`delimiter` does not apply to `format: json`, but to `csv`: remove it, or change `format`",
        ),
        (json!({ "format": "json", "types": {} }), "`types` does not apply to `format: json`"),
        (
            json!({ "format": "json", "target": "%a" }),
            "invalid `target` `%a`: expected a field of the payload",
        ),
        (json!({ "format": "json", "field": "a[0]" }), "invalid `field` or `target`"),
        (json!({ "format": "json", "field": "a..b" }), "invalid `field` `a..b`: invalid path"),
        (json!({ "format": "json", "keep_field": true }), "`keep_field` applies only to a `field`"),
        (json!({ "format": "csv", "field": "a", "target": "." }), "or set `columns`"),
        (json!({ "format": "timestamp", "field": "a", "target": "." }), "set `target` to a field"),
        (json!({ "format": "csv", "columns": ["a", "a"] }), "`a` appears twice"),
        (json!({ "format": "csv", "columns": [] }), "`columns` is empty"),
        (json!({ "format": "csv", "delimiter": ",," }), "invalid `delimiter`"),
        (json!({ "format": "key_value", "field_delimiter": "=" }), "are both `=`"),
        (json!({ "format": "key_value", "field_delimiter": "" }), "invalid `field_delimiter`"),
        (json!({ "format": "nginx_error", "timezone": "Mars" }), "invalid `timezone` `Mars`"),
        (json!({ "format": "xml" }), "unknown variant"),
    ] {
        let error = operator(config).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
