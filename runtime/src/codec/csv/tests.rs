use proptest::prelude::*;
use serde_json::{Value, json};

use tremor_abi::value as tree;

use crate::{
    codec::{
        Bytes, Nodes, Span,
        tests::{decode_with, encode_json_with},
    },
    components,
};

fn decode(config: &Value, record: &str) -> Result<Value, String> {
    let text = decode_with("csv", config, record.as_bytes())?;
    Ok(serde_json::from_str(&text).unwrap())
}

fn encode(config: &Value, value: &Value) -> Result<String, String> {
    encode_json_with("csv", config, value)
}

#[test]
fn record_and_fields_convert_in_both_directions() {
    let headers = json!({ "headers": ["a", "b"] });
    let numbers = json!({ "numbers": true });
    let other = json!({ "delimiter": "\t", "quote": "'" });
    for (config, record, expected) in [
        (&json!(null), "a,b,c", json!(["a", "b", "c"])),
        (&json!(null), ",,", json!(["", "", ""])),
        (&json!(null), "\"a,b\",\"say \"\"hi\"\"\",\"\"\"\"", json!(["a,b", "say \"hi\"", "\""])),
        (&json!(null), "\"two\nlines\",é", json!(["two\nlines", "é"])),
        (&json!(null), "1,true", json!(["1", "true"])),
        (&headers, "1,x", json!({ "a": "1", "b": "x" })),
        (&numbers, "1,-2.5,1e3,18446744073709551615", json!([1, -2.5, 1000.0, u64::MAX])),
        (&numbers, "\"1\",007,+1,1.,.5,0x1", json!(["1", "007", "+1", "1.", ".5", "0x1"])),
        (&other, "a,b\t'c\td'\t\"", json!(["a,b", "c\td", "\""])),
        (&json!({ "quote": null }), "\"a\",b", json!(["\"a\"", "b"])),
    ] {
        assert_eq!(decode(config, record), Ok(expected.clone()), "{config}");
        let record = record.replace("1e3", "1000.0");
        assert_eq!(encode(config, &expected), Ok(record), "{config}");
    }
}

#[test]
fn end_of_line_is_not_part_of_a_record() {
    for end in ["", "\n", "\r\n"] {
        assert_eq!(decode(&json!(null), &format!("a,\"b\"{end}")), Ok(json!(["a", "b"])));
    }
}

#[test]
fn numbers_that_no_float_equals_keep_their_text() {
    for text in
        ["18446744073709551616", "-9223372036854775809", "1e999", "3.14159265358979323846", "-0.0"]
    {
        let decoded = decode_with("csv", &json!({ "numbers": true }), text.as_bytes());
        assert_eq!(decoded, Ok(format!("[{text}]")));
    }
}

#[test]
fn single_empty_field_is_not_an_empty_line() {
    for line in ["", "\n", "\r\n"] {
        let error = "expected a record, found an empty line at byte 0";
        assert_eq!(decode(&json!(null), line), Err(error.to_owned()));
        assert!(super::is_blank(line.as_bytes()));
    }
    assert_eq!(decode(&json!(null), "\"\""), Ok(json!([""])));
    assert_eq!(decode(&json!(null), " "), Ok(json!([" "])));
    assert_eq!(encode(&json!(null), &json!([""])).as_deref(), Ok("\"\""));
    assert_eq!(encode(&json!({ "headers": ["a"] }), &json!({})).as_deref(), Ok("\"\""));
    let bare = json!({ "quote": null });
    let error = "\"\" cannot be written without quotes, and `quote` is null";
    for value in [json!([""]), json!([null])] {
        assert_eq!(encode(&bare, &value), Err(error.to_owned()));
    }
    assert_eq!(encode(&bare, &json!(["", ""])).as_deref(), Ok(","));
}

#[test]
fn byte_order_mark_of_a_field_is_kept() {
    for fields in [json!(["\u{feff}"]), json!(["\u{feff}a", "\u{feff}"]), json!(["a\u{feff}"])] {
        let record = encode(&json!(null), &fields).unwrap();
        assert_eq!(decode(&json!(null), &record), Ok(fields), "{record:?}");
    }
    let error = encode(&json!({ "quote": null }), &json!(["\u{feff}"])).unwrap_err();
    assert!(error.ends_with("cannot be written without quotes, and `quote` is null"), "{error}");
}

#[test]
fn invalid_record_is_an_error_with_its_position() {
    let headers = json!({ "headers": ["a", "b"] });
    for (config, record, expected) in [
        (&json!(null), "a,\"b", "unterminated quoted field at byte 2"),
        (
            &json!(null),
            "\"a\"b",
            "expected a delimiter or the end after a field in quotes at byte 3",
        ),
        (&json!(null), "a\nb", "expected one record, found a second line at byte 1"),
        (&headers, "a", "expected 2 fields, found 1 at byte 1"),
        (&headers, "a,b,c", "expected 2 fields, found 3 at byte 5"),
    ] {
        assert_eq!(decode(config, record), Err(expected.to_owned()));
    }
}

#[test]
fn value_that_is_not_a_record_is_an_error() {
    let headers = json!({ "headers": ["a", "b"] });
    let bare = json!({ "quote": null });
    for (config, value, expected) in [
        (&json!(null), json!("a"), "expected an array, found text"),
        (&json!(null), json!({ "a": 1 }), "expected an array, found an object"),
        (&json!(null), json!([]), "expected an array of at least one field, found an empty array"),
        (&json!(null), json!(["a", [1]]), "expected a scalar as field 1, found an array"),
        (&headers, json!({ "a": 1, "c": 2 }), "the key `c` is not among the headers"),
        (&headers, json!(1), "expected an object, found a number"),
        (&headers, json!([1]), "expected 2 fields, found 1"),
        (&bare, json!(["a,b"]), "\"a,b\" cannot be written without quotes, and `quote` is null"),
    ] {
        assert_eq!(encode(config, &value), Err(expected.to_owned()));
    }
}

#[test]
fn missing_and_null_fields_are_empty() {
    let headers = json!({ "headers": ["a", "b", "c"] });
    assert_eq!(encode(&headers, &json!({ "c": true, "a": null })).as_deref(), Ok(",,true"));
    assert_eq!(encode(&headers, &json!([1, 2, 3])).as_deref(), Ok("1,2,3"));
}

#[test]
fn invalid_options_are_rejected() {
    for (config, expected) in [
        (
            json!({ "delimiter": "" }),
            "`delimiter`: invalid value: string \"\", expected a character",
        ),
        (json!({ "delimiter": null }), "`delimiter`: expected one ASCII character"),
        (json!({ "delimiter": "é" }), "`delimiter`: expected one ASCII character, found 'é'"),
        (json!({ "quote": "ab" }), "`quote`: invalid value: string \"ab\", expected a character"),
        (
            json!({ "delimiter": "\n" }),
            "`delimiter`: expected a character that does not end a line, found '\\n'",
        ),
        (
            json!({ "delimiter": "\"" }),
            "`quote`: expected a character other than `delimiter`, found '\"'",
        ),
        (
            json!({ "headers": [] }),
            "`headers`: expected at least one name, found none; omit `headers` for arrays",
        ),
        (
            json!({ "headers": ["a", "a"] }),
            "`headers`: expected different names, found \"a\" twice",
        ),
        (
            json!({ "header": ["a"] }),
            "`header`: unknown field `header`, expected one of `delimiter`, `quote`, `headers`, \
             `numbers`",
        ),
    ] {
        assert_eq!(components::codec("csv", &config).unwrap_err().to_string(), expected);
    }
}

#[test]
fn invalid_record_leaves_the_batch_unchanged() {
    let mut bytes = Bytes::from_slice(b"a,\"b");
    let mut nodes = Nodes::new();
    let mut decoder = components::codec("csv", &json!(null)).unwrap().decoder();
    assert!(decoder.decode(&mut bytes, Span { start: 0, len: 4 }, &mut nodes).is_err());
    assert_eq!((bytes.as_slice(), nodes.len()), (&b"a,\"b"[..], 0));
}

#[test]
fn only_numbers_in_json_syntax_become_numbers() {
    let numbers = json!({ "numbers": true });
    for text in ["0", "-0", "10", "1.5", "1e5", "1E+5", "1.25e-07", "1e10"] {
        assert!(decode(&numbers, text).unwrap()[0].is_number(), "{text}");
    }
    for text in ["-", "01", "1.", ".1", "1e", "1e+", "+1", "1a", "0x1", "1 ", "NaN"] {
        assert_eq!(decode(&numbers, text), Ok(json!([text])));
    }
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[0-9.,\"'\r\n;e-]{0,6}".prop_map(Value::from),
    ]
}

proptest! {
    #[test]
    fn text_is_unchanged_by_a_round_trip(fields in prop::collection::vec(any::<String>(), 1..6)) {
        let record = encode(&json!(null), &json!(fields)).unwrap();
        prop_assert_eq!(decode(&json!(null), &record), Ok(json!(fields)), "{}", record);
    }

    #[test]
    fn numbers_are_unchanged_by_a_round_trip(fields in prop::collection::vec(scalar(), 1..6)) {
        let config = json!({ "numbers": true, "delimiter": ";", "quote": "'" });
        let record = encode(&config, &json!(fields)).unwrap();
        prop_assert_eq!(decode(&config, &record), Ok(json!(fields)), "{}", record);
    }

    #[test]
    fn no_record_panics(record in "[a,\"\r\n1é]{0,20}", numbers in any::<bool>()) {
        let _ = decode(&json!({ "numbers": numbers }), &record);
    }
}

#[test]
fn text_number_is_written_unchanged() {
    let number = |text| tree::Number::new(text).map(tree::Value::Number).expect("a JSON number");
    let record = tree::Value::from(vec![number("1.10"), number("1e400")]);
    let mut out = Bytes::new();
    super::encode(&super::Options::default(), record.view(), &mut out).unwrap();
    assert_eq!(out.as_slice(), b"1.10,1e400");
}
