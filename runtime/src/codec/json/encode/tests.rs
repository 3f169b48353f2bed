use super::*;
use tremor_abi::document::{Writer, fingerprint};
use tremor_abi::value::{Array, Number, Object, Value};

use crate::codec::Nodes;

/// Encodes a value from a tree and from a document, and returns the text, which must be the same.
fn encode_with(options: EncodeOptions, value: &Value<'_>) -> Result<String, Error> {
    let mut encoder = Encoder::new(options);
    let mut out = Bytes::from_slice(b"before,");
    let from_tree = encoder.value(value.into(), &mut out);
    if from_tree.is_err() {
        assert_eq!(out.as_slice(), b"before,", "an error leaves the output unchanged");
    }
    let (mut bytes, mut nodes) = (Bytes::from_slice(b"other"), Nodes::new());
    let mut writer = Writer::new(&mut bytes, &mut nodes);
    writer.write_value(value.into());
    let root = writer.finish().expect("a value");
    let mut flat = Bytes::from_slice(b"before,");
    let from_document = encoder.document(&bytes, &nodes, root, &mut flat);
    assert_eq!(from_document, from_tree);
    assert_eq!(flat, out);
    from_tree.map(|()| String::from_utf8(out[7..].to_vec()).expect("JSON is UTF-8"))
}

fn encode<'v>(value: impl Into<Value<'v>>) -> Result<String, String> {
    encode_with(EncodeOptions::default(), &value.into()).map_err(|error| error.to_string())
}

fn number(text: &'static str) -> Value<'static> {
    Value::Number(Number::new(text).expect("a JSON number"))
}

#[test]
fn scalars_are_written_as_json_text() {
    for (value, text) in [
        (Value::Null, "null"),
        (Value::Bool(true), "true"),
        (Value::Bool(false), "false"),
        (Value::I64(0), "0"),
        (Value::I64(9), "9"),
        (Value::I64(10), "10"),
        (Value::I64(-7), "-7"),
        (Value::I64(i64::MIN), "-9223372036854775808"),
        (Value::U64(u64::MAX), "18446744073709551615"),
        (Value::F64(0.0), "0.0"),
        (Value::F64(-0.0), "-0.0"),
        (Value::F64(1.5), "1.5"),
        (Value::F64(f64::MAX), "1.7976931348623157e+308"),
        (Value::F64(5e-324), "5e-324"),
        (number("1.10"), "1.10"),
        (number("-0"), "-0"),
        (number("1E+400"), "1E+400"),
        (Array::from(vec![number("0.10"), number("1e2")]).into(), "[0.10,1e2]"),
    ] {
        assert_eq!(encode(value).as_deref(), Ok(text));
    }
}

#[test]
fn float_that_is_not_finite_is_bad_data() {
    for (value, name) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf"), (f64::NEG_INFINITY, "-inf")] {
        let nested = Array::from(vec![Value::I64(1), Value::F64(value)]);
        assert_eq!(encode(Value::Array(nested)), Err(format!("JSON has no number for {name}")));
    }
}

#[test]
fn forged_number_is_bad_data() {
    let nodes = [Node::number(0, 3)];
    let mut out = Bytes::new();
    let result = Encoder::new(EncodeOptions::default()).document(b"1,2", &nodes, 0, &mut out);
    assert!(result.is_err() && out.is_empty());
}

#[test]
fn binary_data_is_base64() {
    for (data, text) in [
        (&b""[..], "\"\""),
        (b"f", "\"Zg==\""),
        (b"fo", "\"Zm8=\""),
        (b"foo", "\"Zm9v\""),
        (b"\xff\xfe\xfd", "\"//79\""),
    ] {
        assert_eq!(encode(Value::Bytes(data.to_vec().into())).as_deref(), Ok(text));
    }
    let data = vec![7; 2000];
    let expected = serde_json::Value::from(base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        &data,
    ));
    assert_eq!(encode(Value::Bytes(data.into())), Ok(expected.to_string()));
}

#[test]
fn containers_are_written_compactly_in_order() {
    let empty = Value::Object(Object::new());
    let array =
        Value::Array(Array::from(vec![empty, Value::Array(Array::new()), Value::from(",")]));
    let object: Object<'_> =
        [("b", array), ("a", Value::Null), ("", Value::from("x"))].into_iter().collect();
    let value = Value::Object(object);
    assert_eq!(encode(value.clone()).as_deref(), Ok(r#"{"b":[{},[],","],"a":null,"":"x"}"#));
    let sorted =
        encode_with(EncodeOptions { sorted_keys: true, ..EncodeOptions::default() }, &value);
    assert_eq!(sorted.as_deref(), Ok(r#"{"":"x","a":null,"b":[{},[],","]}"#));
}

#[test]
fn every_character_is_escaped_at_every_block_position() {
    // serde_json is the independent reference for the characters that need an escape.
    let characters = ('\0'..='\u{ff}').chain(['\u{2028}', '€', '😀']);
    for character in characters {
        for before in [0, 1, 15, 16, 30, 31, 32, 33, 63, 64] {
            for behind in [0, 1, 31, 40] {
                let text = format!("{}{character}{}", "a".repeat(before), "b".repeat(behind));
                let expected = serde_json::Value::from(text.as_str()).to_string();
                assert_eq!(encode(text.as_str()), Ok(expected));
            }
        }
    }
    let dirty = "\0\"\\\n\u{1f}".repeat(100);
    assert_eq!(encode(dirty.as_str()), Ok(serde_json::Value::from(dirty.as_str()).to_string()));
}

#[test]
fn forged_document_is_an_error_and_writes_nothing() {
    let key = Node::key(0, 1, fingerprint(b"x"));
    for nodes in [
        &[][..],
        &[Node::string(0, 9)],
        &[Node::string(9, 1)],
        &[Node::string(u64::MAX, u32::MAX)],
        &[Node::bytes(8, 1)],
        &[Node::bytes(u64::MAX, 1)],
        &[Node::array(1, 1)],
        &[Node::array(u32::MAX, u64::MAX), Node::null()],
        &[Node::object(1, 2), key],
        &[Node::object(1, 3), Node::null(), Node::null()],
        &[Node::object(2, 3), key, Node::null()],
    ] {
        let mut out = Bytes::from_slice(b"before");
        let written = Encoder::default().document(b"xxxxxxxx", nodes, 0, &mut out);
        assert_eq!(written, Err(forged()), "{nodes:?}");
        assert_eq!(out.as_slice(), b"before");
    }
    let mut out = Bytes::new();
    assert_eq!(Encoder::default().document(b"", &[Node::null()], 7, &mut out), Err(forged()));
}

#[test]
fn depth_of_a_tree_is_limited() {
    let nested =
        |depth| (0..depth).fold(Value::Null, |value, _| Value::Array(Array::from(vec![value])));
    let mut out = Bytes::new();
    let mut encoder = Encoder::default();
    assert_eq!(encoder.value((&nested(MAX_DEPTH)).into(), &mut out), Ok(()));
    let error = encoder.value((&nested(MAX_DEPTH + 1)).into(), &mut out).expect_err("too deep");
    assert_eq!(error.to_string(), "nested deeper than 512 levels");
}
