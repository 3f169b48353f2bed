use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tremor_pdk::{
    Value,
    testing::{TestHost, conformance, decode, encode},
};

use crate::Otlp;

/// Pairs of the same request in protobuf and in JSON, by signal.
macro_rules! fixtures {
    ($($signal:literal: $name:literal),*) => {
        [$((
            $signal,
            include_bytes!(concat!("../fixtures/", $name, ".pb")).as_slice(),
            include_str!(concat!("../fixtures/", $name, ".json")),
        )),*]
    };
}

const REQUESTS: [(&str, &[u8], &str); 6] = fixtures!(
    "logs": "logs", "metrics": "metrics", "traces": "traces",
    "logs": "every-field-logs", "metrics": "every-field-metrics", "traces": "every-field-traces"
);

/// Bodies sent by an exporter that uses JSON.
const JSON: [(&str, &str); 3] = [
    ("logs", include_str!("../fixtures/logs.exporter.json")),
    ("metrics", include_str!("../fixtures/metrics.exporter.json")),
    ("traces", include_str!("../fixtures/traces.exporter.json")),
];

fn codec(signal: &str, encoding: &str) -> Otlp {
    let config = json!({ "signal": signal, "encoding": encoding });
    TestHost::new().component(&config.to_string()).unwrap()
}

fn parsed(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

fn of_json(json: &Json) -> Value<'static> {
    serde_json::from_value(json.clone()).unwrap()
}

fn decoded(codec: &mut Otlp, message: &[u8]) -> Result<Json, String> {
    let value = decode(codec, message).map_err(|error| error.to_string())?;
    Ok(serde_json::to_value(&value).unwrap())
}

fn encoded(codec: &mut Otlp, value: &Json) -> Result<Vec<u8>, String> {
    encode(codec, &of_json(value)).map_err(|error| error.to_string())
}

#[test]
fn codec_keeps_the_contract() {
    for config in [
        r#"{ "signal": "logs" }"#,
        r#"{ "signal": "metrics", "encoding": "json" }"#,
        r#"{ "signal": "traces", "integers": "number" }"#,
        r#"{ "signal": "any" }"#,
    ] {
        conformance::codec::<Otlp>(config).expect_no_faults();
    }
}

#[test]
fn request_decodes_as_with_the_protobuf_library() {
    for (signal, bytes, text) in REQUESTS {
        let expected = parsed(text);
        assert_eq!(decoded(&mut codec(signal, "protobuf"), bytes), Ok(expected.clone()));
        assert_eq!(decoded(&mut codec(signal, "json"), text.as_bytes()), Ok(expected));
    }
}

#[test]
fn any_signal_is_read_from_mark_or_json_key() {
    let mut any = codec("any", "any");
    for (signal, bytes, text) in REQUESTS {
        let number = 1 + ["logs", "metrics", "traces"].iter().position(|it| *it == signal).unwrap();
        let mark = [0xc0, 0x3e, u8::try_from(number).unwrap()];
        let (message, expected) = ([&mark[..], bytes].concat(), parsed(text));
        assert_eq!(decoded(&mut any, &message), Ok(expected.clone()));
        assert_eq!(decoded(&mut any, text.as_bytes()), Ok(expected.clone()));
        assert_eq!(encoded(&mut any, &expected), Ok(message.clone()));
        let json = encoded(&mut codec("any", "json"), &expected).unwrap();
        assert_eq!(serde_json::from_slice::<Json>(&json).unwrap(), expected);
        // A codec of the same signal accepts the message; codecs of other signals reject it.
        for other in ["logs", "metrics", "traces"] {
            let found = decoded(&mut codec(other, "protobuf"), &message);
            if other == signal {
                assert_eq!(found, Ok(expected.clone()));
            } else {
                let expected =
                    format!("the message contains {signal}, but the codec has `signal: {other}`");
                assert!(found.unwrap_err().contains(&expected));
            }
        }
        // Without a mark, the message may have any signal.
        let error = decoded(&mut any, bytes).unwrap_err();
        assert!(error.contains("does not name its signal"), "{error}");
    }
}

#[test]
fn any_signal_requires_a_value_of_one_signal() {
    for encoding in ["any", "json"] {
        let mut any = codec("any", encoding);
        for (value, expected) in [
            (json!({ "resourceLogs": [], "resourceSpans": [] }), "both `resourceLogs` and"),
            (json!({ "resource_logs": [] }), "found none of them"),
            (json!([]), "expected an object"),
        ] {
            for error in [
                encoded(&mut any, &value),
                decoded(&mut any, value.to_string().as_bytes()).map(|_| Vec::new()),
            ] {
                let error = error.unwrap_err();
                assert!(
                    value.is_array() && encoding == "any" || error.contains(expected),
                    "{error}"
                );
            }
        }
        // A request without content.
        let nothing = encoded(&mut any, &json!({})).unwrap();
        assert_eq!(decoded(&mut any, &nothing), Ok(json!({})));
    }
    assert_eq!(decoded(&mut codec("any", "any"), &[0xc0, 0x3e, 2]), Ok(json!({})));
}

#[test]
fn event_is_encoded_to_the_bytes_of_the_exporter() {
    for (signal, bytes, text) in REQUESTS {
        let value = of_json(&parsed(text));
        let written = encode(&mut codec(signal, "protobuf"), &value).unwrap();
        assert!(written == bytes, "{signal}: {written:?}");
        let written = encode(&mut codec(signal, "json"), &value).unwrap();
        assert_eq!(serde_json::from_slice::<Json>(&written).unwrap(), parsed(text));
    }
}

#[test]
fn json_of_an_exporter_is_unchanged() {
    for (signal, text) in JSON {
        // The exporter writes this float as an integer.
        let text = &text.replace("\"max\": 80000}", "\"max\": 80000.0}");
        let mut codec = codec(signal, "json");
        let value = decode(&mut codec, text.as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(&value).unwrap(), parsed(text));
        let written = encode(&mut codec, &value).unwrap();
        assert_eq!(serde_json::from_slice::<Json>(&written).unwrap(), parsed(text));
    }
}

/// Returns a request of logs with one attribute.
fn attribute(value: &Json) -> Json {
    json!({ "resourceLogs": [{ "resource": { "attributes": [{ "key": "k", "value": value }] } }] })
}

#[test]
fn every_form_of_json_is_read() {
    for (value, expected) in [
        (json!({ "intValue": 42 }), json!({ "intValue": "42" })),
        (json!({ "intValue": "-42" }), json!({ "intValue": "-42" })),
        (json!({ "intValue": 0 }), json!({ "intValue": "0" })),
        (json!({ "doubleValue": 3 }), json!({ "doubleValue": 3.0 })),
        (json!({ "doubleValue": "1e3" }), json!({ "doubleValue": 1000.0 })),
        (json!({ "doubleValue": "NaN" }), json!({ "doubleValue": "NaN" })),
        (json!({ "bytesValue": "-_8" }), json!({ "bytesValue": "+/8=" })),
        (json!({ "stringValue": null }), json!({})),
        (json!({ "boolValue": false, "unknown": [1, { "a": 2 }] }), json!({ "boolValue": false })),
        (json!({ "kvlistValue": { "values": [] } }), json!({ "kvlistValue": {} })),
    ] {
        let text = attribute(&value).to_string();
        let found = decoded(&mut codec("logs", "json"), text.as_bytes());
        assert_eq!(found, Ok(attribute(&expected)));
    }
    let span = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [
        { "traceId": "5B8EFFF798038103D269B633813FC60C", "kind": 0, "name": "" },
    ] }] }] });
    let found = decoded(&mut codec("traces", "json"), span.to_string().as_bytes()).unwrap();
    let span = &found["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(*span, json!({ "traceId": "5b8efff798038103d269b633813fc60c" }));
}

#[test]
fn integers_of_64_bits_are_numbers_if_configured() {
    let mut codec: Otlp =
        TestHost::new().component(r#"{ "signal": "logs", "integers": "number" }"#).unwrap();
    let message = encoded(&mut codec, &attribute(&json!({ "intValue": -7 }))).unwrap();
    assert_eq!(decoded(&mut codec, &message), Ok(attribute(&json!({ "intValue": -7 }))));
}

#[test]
fn invalid_json_request_is_an_error_with_its_path() {
    let at = "`resourceLogs[0].resource.attributes[0].value";
    for (value, expected) in [
        (
            json!({ "intValue": "x" }),
            format!(
                "expected a 64-bit integer, as text or as a number, found \"x\" at {at}.intValue`"
            ),
        ),
        (json!({ "intValue": 1.5 }), format!("found 1.5 at {at}.intValue`")),
        (
            json!({ "boolValue": 1 }),
            format!("expected `true` or `false`, found 1 at {at}.boolValue`"),
        ),
        (json!({ "bytesValue": "?" }), format!("expected base64, found \"?\" at {at}.bytesValue`")),
        (
            json!({ "stringValue": {} }),
            format!("expected text, found an object at {at}.stringValue`"),
        ),
        (
            json!({ "arrayValue": { "values": {} } }),
            format!("expected an array, found an object at {at}.arrayValue.values`"),
        ),
        (
            json!({ "stringValue": "a", "intValue": 1 }),
            format!("expected either `stringValue` or `intValue`, found both at {at}`"),
        ),
        (
            json!({ "string_value": "a" }),
            format!("expected the key `stringValue`, found `string_value` at {at}`"),
        ),
        (json!([]), format!("expected an object, found an array at {at}`")),
    ] {
        let text = attribute(&value).to_string();
        let error = decoded(&mut codec("logs", "json"), text.as_bytes()).unwrap_err();
        assert!(error.ends_with(&expected), "{error}");
    }
    for (text, expected) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{", "EOF while parsing an object at line 1 column 1"),
        ("[]", "expected an object, found an array at `ExportLogsServiceRequest`"),
        (
            r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"traceId":"xy"}]}]}]}"#,
            "expected an id in hexadecimal digits, found \"xy\" at `resourceLogs[0].scopeLogs[0].logRecords[0].traceId`",
        ),
        (
            r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":"ERROR"}]}]}]}"#,
            "expected a 32-bit integer, found \"ERROR\" at `resourceLogs[0].scopeLogs[0].logRecords[0].severityNumber`",
        ),
    ] {
        let error = decoded(&mut codec("logs", "json"), text.as_bytes()).unwrap_err();
        assert!(error.ends_with(expected), "{error}");
    }
}

#[test]
fn unrepresentable_data_is_an_error() {
    let unknown = attribute(&json!({ "stringValue": "a", "note": 1 }));
    for encoding in ["protobuf", "json"] {
        let error = encoded(&mut codec("logs", encoding), &unknown).unwrap_err();
        let expected = "unknown key `note` at `resourceLogs[0].resource.attributes[0].value`";
        assert!(error.ends_with(expected), "{error}");
        let error = encoded(&mut codec("metrics", encoding), &attribute(&json!({}))).unwrap_err();
        assert!(
            error.ends_with("unknown key `resourceLogs` at `ExportMetricsServiceRequest`"),
            "{error}"
        );
    }
}

#[test]
fn invalid_message_is_an_error_with_its_position() {
    for (message, expected) in [
        (&b"\x0a"[..], "the message ends within a number at byte 1"),
        (b"\x0a\x05abc", "expected 5 bytes, found 3 at byte 1"),
        (b"\x08\x01", "expected a message here, which is length-delimited bytes at byte 0"),
        (b"\x00\x01", "expected the number of a field at byte 0"),
        (b"\x0b", "expected a field of wire type 0, 1, 2 or 5, found 3 at byte 0"),
        (
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
            "expected a number of at most 64 bits at byte 0",
        ),
        (b"\x0a\x03\x1a\x01\xff", "expected UTF-8 at byte 4"),
        (b"\x0a\x02\x18\x01", "expected length-delimited bytes here at byte 2"),
        (b"\x0a\x06\x12\x04\x12\x02\x09\x01", "the message ends within a number at byte 7"),
    ] {
        let error = decoded(&mut codec("logs", "protobuf"), message).unwrap_err();
        assert!(error.ends_with(expected), "{message:?}: {error}");
    }
}

#[test]
fn reordered_repeated_and_unknown_fields_are_read() {
    let mut codec = codec("logs", "protobuf");
    for (message, expected) in [
        // The schema has no field 100, which occurs here in each wire type.
        (
            &b"\xa0\x06\x01\xa1\x06\0\0\0\0\0\0\0\0\xa2\x06\x01a\xa5\x06\0\0\0\0\x0a\x00"[..],
            json!({ "resourceLogs": [{}] }),
        ),
        // If a text field occurs several times, the last value counts.
        (b"\x0a\x06\x1a\x01a\x1a\x01b", json!({ "resourceLogs": [{ "schemaUrl": "b" }] })),
        // Messages are merged, here an attribute and a count.
        (
            b"\x0a\x0b\x0a\x05\x0a\x03\x0a\x01k\x0a\x02\x10\x07",
            json!({ "resourceLogs": [
                { "resource": { "attributes": [{ "key": "k" }], "droppedAttributesCount": 7 } },
            ] }),
        ),
        // If several fields of a `oneof` occur, here a text and then a number, the last field counts.
        (
            b"\x0a\x0d\x0a\x0b\x0a\x09\x12\x07\x0a\x01a\x18\x01\x18\x02",
            attribute_without_key(&json!({ "intValue": "2" })),
        ),
        (b"", json!({})),
    ] {
        assert_eq!(decoded(&mut codec, message), Ok(expected));
    }
    // Repeated numbers that are not packed, which decoders must also accept.
    let mut metrics = self::codec("metrics", "protobuf");
    let counts =
        b"\x0a\x1a\x12\x18\x12\x16\x4a\x14\x0a\x12\x31\x01\0\0\0\0\0\0\0\x31\x02\0\0\0\0\0\0\0";
    let value = decoded(&mut metrics, counts).unwrap();
    let metric = &value["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0];
    assert_eq!(metric["histogram"]["dataPoints"][0]["bucketCounts"], json!(["1", "2"]));
}

fn attribute_without_key(value: &Json) -> Json {
    json!({ "resourceLogs": [{ "resource": { "attributes": [{ "value": value }] } }] })
}

#[test]
fn nesting_is_limited_in_both_directions() {
    let nested = |levels| {
        let inner = (0..levels).fold(
            json!({ "stringValue": "x" }),
            |value, _| json!({ "arrayValue": { "values": [value] } }),
        );
        attribute(&inner)
    };
    let mut codec = codec("logs", "protobuf");
    let message = encoded(&mut codec, &nested(47)).unwrap();
    assert_eq!(decoded(&mut codec, &message), Ok(nested(47)));
    let error = encoded(&mut codec, &nested(48)).unwrap_err();
    assert!(error.contains("messages are nested deeper than 100 levels"), "{error}");
    let wrap = |message: Vec<u8>, number: u8| {
        let mut out = vec![number << 3 | 2];
        crate::wire::put_bytes(&mut out, |out| {
            out.extend_from_slice(&message);
            Ok::<_, ()>(())
        })
        .unwrap();
        out
    };
    let mut message = Vec::new();
    for _ in 0..2_000 {
        message = wrap(wrap(message, 1), 5);
    }
    let message = [2, 1, 1, 1].into_iter().fold(message, wrap);
    let error = decoded(&mut codec, &message).unwrap_err();
    assert!(error.contains("messages are nested deeper than 100 levels"), "{error}");
}

#[test]
fn too_large_message_is_rejected_while_decoding() {
    // Empty messages, two bytes each.
    let message = b"\x0a\x00".repeat(2 << 20);
    let error = decoded(&mut codec("logs", "protobuf"), &message).unwrap_err();
    assert!(error.contains("takes more than 16777216 bytes of memory"), "{error}");
}

proptest! {
    #[test]
    fn decoding_of_any_message_never_panics(message in prop::collection::vec(any::<u8>(), 0..60)) {
        for signal in ["logs", "metrics", "traces"] {
            let _ = decoded(&mut codec(signal, "protobuf"), &message);
        }
    }

    #[test]
    fn decoding_of_damaged_request_never_panics(
        request in 0..REQUESTS.len(), at in any::<prop::sample::Index>(), bits in 1..=255_u8,
    ) {
        let (signal, bytes, _) = REQUESTS[request];
        let mut bytes = bytes.to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        let mut codec = codec(signal, "protobuf");
        // A request that can be decoded can be encoded again, and then decodes to the same value.
        if let Ok(value) = decoded(&mut codec, &bytes) {
            let written = encoded(&mut codec, &value).unwrap();
            prop_assert_eq!(decoded(&mut codec, &written), Ok(value));
        }
    }
}
