use proptest::prelude::*;
use serde_json::{Value, json};

use crate::codec::tests::{decode, decode_with, encode_json, encode_json_with};

fn decoded(line: &str) -> Result<Value, String> {
    decode("logfmt", line.as_bytes()).map(|text| serde_json::from_str(&text).unwrap())
}

fn typed(line: &str) -> Result<Value, String> {
    let text = decode_with("logfmt", &json!({ "typed": true }), line.as_bytes());
    text.map(|text| serde_json::from_str(&text).unwrap())
}

fn encode_typed(value: &Value) -> Result<String, String> {
    encode_json_with("logfmt", &json!({ "typed": true }), value)
}

#[test]
fn pairs_are_read() {
    for (line, expected) in [
        (
            "level=info msg=\"started\" port=8080",
            json!({ "level": "info", "msg": "started", "port": "8080" }),
        ),
        ("  a=1\t b=2 \r\n", json!({ "a": "1", "b": "2" })),
        ("fatal a= b=\"\" c", json!({ "fatal": true, "a": "", "b": "", "c": true })),
        (
            r#"a="x \"y\" \\ \n\t\/ \u00e9\ud83d\ude00" b=1"#,
            json!({ "a": "x \"y\" \\ \n\t/ é😀", "b": "1" }),
        ),
        (r#"a="\x \ud83d \u12" b=\n"#, json!({ "a": "\\x \\ud83d \\u12", "b": "\\n" })),
        ("url=http://h/?q=1&r=\"2\" é.ü=ß", json!({ "url": "http://h/?q=1&r=\"2\"", "é.ü": "ß" })),
        ("a=1 b=2 a=3", json!({ "a": "3", "b": "2" })),
        ("\u{feff}a=1", json!({ "a": "1" })),
    ] {
        assert_eq!(decoded(line), Ok(expected), "{line}");
    }
}

#[test]
fn bare_values_have_types_if_configured() {
    let line = "a=1 b=-2.5e3 c=true d=false e=null f=\"1\" g=01 h=18446744073709551615 k";
    let expected = json!({
        "a": 1, "b": -2500.0, "c": true, "d": false, "e": null, "f": "1", "g": "01", "h": u64::MAX,
        "k": true,
    });
    assert_eq!(typed(line), Ok(expected));
    let line = b"i=1e400 j=99999999999999999999 l=3.14159265358979323846 m=-0";
    let exact = decode_with("logfmt", &json!({ "typed": true }), line);
    let expected = r#"{"i":1e400,"j":99999999999999999999,"l":3.14159265358979323846,"m":-0.0}"#;
    assert_eq!(exact.as_deref(), Ok(expected));
}

#[test]
fn invalid_line_is_an_error_with_its_position() {
    for (line, expected) in [
        ("", "expected a key at byte 0"),
        ("  ", "expected a key at byte 2"),
        ("=1", "expected a key at byte 0"),
        ("a=1 \"b\"", "expected a key at byte 4"),
        ("a\"b", "expected `=` or a space after the key at byte 1"),
        ("a=\"b", "unterminated quoted value at byte 2"),
        ("a=\"b\\", "unterminated quoted value at byte 2"),
        ("a=\"b\\\"", "unterminated quoted value at byte 2"),
        ("a=\"b\"c", "expected a space after the quoted value at byte 5"),
        ("a\u{1}=1", "expected `=` or a space after the key at byte 1"),
    ] {
        assert_eq!(decoded(line), Err(expected.to_owned()), "{line}");
    }
    assert_eq!(decode("logfmt", b"a=\xff"), Err("invalid UTF-8 at byte 2".to_owned()));
}

#[test]
fn values_are_written_in_one_line() {
    let value = json!({
        "level": "info", "text": "two words", "empty": "", "n": -1.5, "yes": true, "none": null,
        "lines": "a\nb\r\t\u{1}\u{7f}", "quote": "a\"b", "back": "a\\b", "equals": "a=b", "é": "ß",
        "http": { "status": 200, "headers": { "a": "b" }, "none": {} }, "tags": ["x", [1]],
    });
    let expected = "level=info text=\"two words\" empty= n=-1.5 yes=true none=null \
        lines=\"a\\nb\\r\\t\\u0001\\u007f\" quote=\"a\\\"b\" back=\"a\\\\b\" equals=\"a=b\" é=ß \
        http.status=200 http.headers.a=b tags.0=x tags.1.0=1";
    let written = encode_json("logfmt", &value).unwrap();
    let mut parts: Vec<_> = written.split(' ').collect();
    let mut expected: Vec<_> = expected.split(' ').collect();
    // The order of the keys depends on features of `serde_json`.
    parts.sort_unstable();
    expected.sort_unstable();
    assert_eq!(parts, expected);
    assert_eq!(encode_typed(&json!({ "a": "1", "b": 1 })).as_deref(), Ok("a=\"1\" b=1"));
    assert_eq!(encode_json("logfmt", &json!({})).as_deref(), Ok(""));
}

#[test]
fn unrepresentable_value_is_an_error() {
    for (value, expected) in [
        (json!([1]), "expected an object, found an array"),
        (json!({ "": 1 }), "logfmt cannot write the key \"\""),
        (json!({ "a b": 1 }), "logfmt cannot write the key \"a b\""),
        (json!({ "a": { "b=": 1 } }), "logfmt cannot write the key \"a.b=\""),
        (json!({ "a\"": { "b": 1 } }), "logfmt cannot write the key"),
        (json!({ "a\n": 1 }), "logfmt cannot write the key"),
        (json!({ "\u{feff}a": 1 }), "logfmt cannot begin a line with the key"),
        (
            json!({ "a.b": 1, "a": { "b": 1 } }),
            "expected different keys, found two fields whose key is `a.b`; rename or drop one",
        ),
        (json!({ "a": { "b.c": 1, "b": { "c": 2 } } }), "expected different keys"),
        (json!({ "a": [1], "a.0": 1 }), "expected different keys"),
    ] {
        let error = encode_json("logfmt", &value).unwrap_err();
        assert!(error.starts_with(expected), "{value}: {error}");
    }
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "(true|false|null|-?[0-9]{1,3}(\\.[0-9])?)".prop_map(Value::from),
    ]
}

proptest! {
    #[test]
    fn written_scalars_are_read_unchanged(
        fields in prop::collection::btree_map("[^\\s\\x00-\\x20\\x7f=\"\\u{feff}]{1,8}", scalar(), 1..6),
    ) {
        let value = json!(fields);
        let line = encode_typed(&value).unwrap();
        prop_assert!(!line.contains('\n'));
        prop_assert_eq!(typed(&line), Ok(value), "{}", line);
    }

    #[test]
    fn written_text_is_read_unchanged(
        fields in prop::collection::btree_map("[a-z.]{1,8}", any::<String>(), 1..6),
    ) {
        let value = json!(fields);
        let line = encode_json("logfmt", &value).unwrap();
        prop_assert_eq!(decoded(&line), Ok(value), "{}", line);
    }

    #[test]
    fn no_message_panics(message in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = decode("logfmt", &message);
    }

    #[test]
    fn decoded_line_is_valid(line in "[ab= \"\\\\nu0d8\n\té]{0,30}") {
        if let Ok(value) = typed(&line) {
            let written = encode_typed(&value).unwrap();
            prop_assert_eq!(typed(&written).unwrap_or(json!({})), value);
        }
    }
}
