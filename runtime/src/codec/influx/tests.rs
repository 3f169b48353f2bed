use proptest::prelude::*;
use serde_json::{Value, json};

use tremor_abi::{
    literal,
    value::{self as tree, Number},
};

use crate::codec::{
    Bytes,
    tests::{decode, encode_json},
};

fn decoded(line: &str) -> Result<Value, String> {
    decode("influx", line.as_bytes()).map(|text| serde_json::from_str(&text).unwrap())
}

#[test]
fn line_and_parts_convert_in_both_directions() {
    for (line, expected) in [
        (
            "weather,place=us n=3i,temperature=82.0,wet=true 1465839830100400200",
            json!({
                "measurement": "weather",
                "tags": { "place": "us" },
                "fields": { "n": 3, "temperature": 82.0, "wet": true },
                "timestamp": 1_465_839_830_100_400_200_i64,
            }),
        ),
        ("m f=-1.5", json!({ "measurement": "m", "tags": {}, "fields": { "f": -1.5 } })),
        (
            r#"a\,b\ c=d,k\=1\,\ =v\=2\,\  f\ 1="x \"y\" \\ z, =",g=18446744073709551615u -1"#,
            json!({
                "measurement": "a,b c=d",
                "tags": { "k=1, ": "v=2, " },
                "fields": { "f 1": "x \"y\" \\ z, =", "g": u64::MAX },
                "timestamp": -1,
            }),
        ),
        (
            r"back\slash,a\b=c\\\,d f=-9223372036854775808i",
            json!({
                "measurement": r"back\slash",
                "tags": { r"a\b": r"c\\,d" },
                "fields": { "f": i64::MIN },
            }),
        ),
        (
            "m f=\"two\nlines\"",
            json!({ "measurement": "m", "tags": {}, "fields": { "f": "two\nlines" } }),
        ),
    ] {
        assert_eq!(decoded(line), Ok(expected.clone()));
        assert_eq!(encode_json("influx", &expected).as_deref(), Ok(line));
    }
}

#[test]
fn all_forms_of_a_value_are_read() {
    let line = "m  a=t,b=T,c=True,d=TRUE,e=f,g=F,h=False,i=FALSE,j=1u,k=1e3,l=+.5,n=\"\\x\"   7  ";
    let value = decoded(line).unwrap();
    for (key, expected) in [
        ("a", json!(true)),
        ("d", json!(true)),
        ("e", json!(false)),
        ("i", json!(false)),
        ("j", json!(1)),
        ("k", json!(1000.0)),
        ("l", json!(0.5)),
        ("n", json!("\\x")),
    ] {
        assert_eq!(value["fields"][key], expected, "{key}");
    }
    assert_eq!(value["timestamp"], 7);
}

#[test]
fn invalid_line_is_an_error_with_its_position() {
    for (line, expected) in [
        ("", "expected a measurement at byte 0"),
        ("# comment", "expected a measurement, found a comment at byte 0"),
        (",a=b f=1", "expected a measurement at byte 0"),
        ("m", "expected a space at byte 1"),
        ("m ", "expected the name of a field at byte 2"),
        ("m,a f=1", "expected `=` at byte 3"),
        ("m,=b f=1", "expected the name of a tag at byte 2"),
        ("m,a= f=1", "expected the value of a tag at byte 4"),
        ("m,a=b=c f=1", "expected a space at byte 5"),
        (
            "m f=",
            "expected a number, an integer with `i` or `u`, a truth value or text in quotes at byte 4",
        ),
        ("m f=1,", "expected the name of a field at byte 6"),
        ("m f=1 x", "expected a timestamp in ns of at most 64 bits at byte 6"),
        ("m f=1 9223372036854775808", "expected a timestamp in ns of at most 64 bits at byte 6"),
        ("m f=1\nm f=2", "expected the end of the line at byte 5"),
        ("m f=\"a", "unterminated text at byte 4"),
        ("m f=\"a\\", "unterminated text at byte 4"),
        ("m f=\"a\"b", "expected the end of the line at byte 7"),
    ] {
        assert_eq!(decoded(line), Err(expected.to_owned()), "{line}");
    }
    for value in ["nan", "inf", "1e999", "+1i", "i", "-1u", "9223372036854775808i", "1x", "-"] {
        assert!(decoded(&format!("m f={value}")).is_err(), "{value}");
    }
    assert_eq!(decode("influx", b"m f=\"\xff\""), Err("invalid UTF-8 at byte 5".to_owned()));
}

#[test]
fn unrepresentable_value_is_an_error() {
    for (value, expected) in [
        (json!(1), "expected an object, found a number"),
        (json!({}), "expected a `measurement` that is neither empty nor starts with `#`"),
        (json!({ "measurement": "#m" }), "expected a `measurement` that is neither"),
        (json!({ "measurement": "\t#m", "fields": { "f": 1 } }), "neither empty nor starts with"),
        (json!({ "measurement": "\u{feff}m", "fields": { "f": 1 } }), "or a byte order mark"),
        (json!({ "measurement": 1 }), "expected text as `measurement`, found a number"),
        (json!({ "measurement": "m" }), "expected an object `fields` with at least one"),
        (json!({ "measurement": "m", "fields": { "f": null } }), "expected an object `fields`"),
        (json!({ "measurement": "m", "fields": { "f": [] } }), "expected a number, a truth value"),
        (json!({ "measurement": "m", "fields": { "": 1 } }), "cannot write the name of a field"),
        (json!({ "measurement": "a\nb", "fields": { "f": 1 } }), "cannot write the measurement"),
        (json!({ "measurement": "m\\", "fields": { "f": 1 } }), "cannot write the measurement"),
        (json!({ "measurement": "m", "tags": { "t": "" } }), "the protocol cannot write the tag"),
        (json!({ "measurement": "m", "tags": { "t": {} } }), "expected text as the tag `t`"),
        (json!({ "measurement": "m", "more": 1 }), "unknown key `more`"),
        (
            json!({ "measurement": "m", "fields": { "f": 1 }, "timestamp": "now" }),
            "expected an integer below 2^63 as `timestamp`",
        ),
    ] {
        let error = encode_json("influx", &value).unwrap_err();
        assert!(error.contains(expected), "{value}: {error}");
    }
}

#[test]
fn scalar_tags_become_text_and_null_is_omitted() {
    let value = json!({
        "measurement": "m",
        "tags": { "a": 1, "b": true, "c": null, "d": 1.5 },
        "fields": { "f": 1, "g": null },
        "timestamp": null,
    });
    assert_eq!(encode_json("influx", &value).as_deref(), Ok("m,a=1,b=true,d=1.5 f=1i"));
}

fn name() -> impl Strategy<Value = String> {
    "[a-z ,=\\\\\"é#]{0,8}[a-z ,=\"é]".prop_filter("a comment", |text| !text.starts_with('#'))
}

fn field() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        (i64::MAX as u64 + 1..).prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ]
}

proptest! {
    #[test]
    fn written_value_is_read_unchanged(
        measurement in name(),
        tags in prop::collection::btree_map(name(), name(), 0..4),
        fields in prop::collection::btree_map(name(), field(), 1..4),
        timestamp in any::<i64>(),
    ) {
        let value = json!({
            "measurement": measurement, "tags": tags, "fields": fields, "timestamp": timestamp,
        });
        let line = encode_json("influx", &value).unwrap();
        prop_assert_eq!(decoded(&line), Ok(value), "{}", line);
    }

    #[test]
    fn no_line_panics(line in "[m,= \\\\\"#fiu0-9.\n]{0,40}") {
        let _ = decoded(&line);
    }
}

#[test]
fn text_number_is_a_field_within_the_float_range() {
    let line = |text: &'static str| {
        let number = tree::Value::Number(Number::new(text).expect("a JSON number"));
        let value = literal!({ "measurement": "m", "fields": { "f": number } });
        let mut out = Bytes::new();
        super::encode(value.view(), &mut out).map(|()| out.to_vec())
    };
    assert_eq!(line("1.10"), Ok(b"m f=1.10".to_vec()));
    let error = line("1e400").unwrap_err().to_string();
    assert_eq!(error, "expected a finite number as the field `f`, found 1e400");
}
