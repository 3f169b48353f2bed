use super::{Bytes, Codec, Nodes, Span};
use crate::components;
use proptest::prelude::*;
use serde_json::json;
use tremor_abi::literal;
use tremor_abi::value::Value;
use tremor_abi::{
    batch::HostBatch,
    document::{Document, Exact, Writer},
};
use tremor_pdk::Batch;

fn codec(name: &str) -> Codec {
    components::codec(name, &json!(null)).expect("a codec")
}

/// Decodes a message with a codec, and returns the value as JSON.
pub(super) fn decode(name: &str, message: &[u8]) -> Result<String, String> {
    decode_with(name, &json!(null), message)
}

/// Decodes as [`decode`] does, with options.
pub(super) fn decode_with(
    name: &str,
    config: &serde_json::Value,
    message: &[u8],
) -> Result<String, String> {
    let mut bytes = Bytes::from_slice(b"..");
    bytes.extend_from_copy_slice(message);
    let span = Span { start: 2, len: u32::try_from(message.len()).expect("a short message") };
    let mut nodes = Nodes::new();
    let codec = components::codec(name, config).expect("a codec");
    let root = codec.decoder().decode(&mut bytes, span, &mut nodes);
    let root = root.map_err(|error| error.to_string())?;
    Ok(Document::new(&bytes, &nodes).root(root).to_string())
}

/// Encodes a value with a codec, both from a tree and from a document, and checks that the results are the same.
fn encode(name: &str, value: &Value<'_>) -> Result<Vec<u8>, String> {
    encode_with(&codec(name), value)
}

fn encode_with(codec: &Codec, value: &Value<'_>) -> Result<Vec<u8>, String> {
    let mut encoder = codec.encoder();
    let (mut tree, mut flat) = (Bytes::new(), Bytes::new());
    let written = encoder.value(value.into(), &mut tree);
    let (mut bytes, mut nodes) = (Bytes::new(), Nodes::new());
    let mut writer = Writer::new(&mut bytes, &mut nodes);
    writer.write_value(value.into());
    let root = writer.finish().expect("a value");
    assert_eq!(encoder.document(&bytes, &nodes, root, &mut flat), written);
    assert_eq!(flat, tree);
    written.map(|()| tree.into()).map_err(|error| error.to_string())
}

/// Encodes a JSON value as [`encode`] does, to text.
pub(super) fn encode_json(name: &str, value: &serde_json::Value) -> Result<String, String> {
    encode_json_with(name, &json!(null), value)
}

/// Encodes as [`encode_json`] does, with options.
pub(super) fn encode_json_with(
    name: &str,
    config: &serde_json::Value,
    value: &serde_json::Value,
) -> Result<String, String> {
    let value: Value<'_> = serde_json::from_value(value.clone()).expect("a value");
    let codec = components::codec(name, config).expect("a codec");
    encode_with(&codec, &value).map(|message| String::from_utf8(message).expect("text"))
}

/// Returns the text of a number in JSON.
fn exact_text(number: &Exact<'_>) -> String {
    let (mut bytes, mut nodes) = (Bytes::new(), Nodes::new());
    let mut writer = Writer::new(&mut bytes, &mut nodes);
    writer.exact(number);
    let root = writer.finish().expect("a value");
    Document::new(&bytes, &nodes).root(root).to_string()
}

/// Returns the value of a JSON text.
fn value_of(text: &str) -> Value<'static> {
    let (mut bytes, mut nodes) = (Bytes::from_slice(text.as_bytes()), Nodes::new());
    let span = Span { start: 0, len: u32::try_from(text.len()).expect("a short text") };
    let root = codec("json").decoder().decode(&mut bytes, span, &mut nodes).expect("JSON");
    Document::new(&bytes, &nodes).root(root).to_value()
}

/// Generates the texts of numbers: with few and with many digits, at the limits of integers and floats, and beyond.
fn number() -> impl Strategy<Value = String> {
    let limits = [
        "-0",
        "-0.0",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775809",
        "9007199254740993.0",
        "1.7976931348623157e308",
        "5e-324",
        "4.9e-325",
        "1e400",
    ];
    prop_oneof![
        prop::sample::select(limits.to_vec()).prop_map(str::to_owned),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?",
    ]
}

proptest! {
    /// A number that is read, written and read again is the same number in each format, with its sign.
    #[test]
    fn numbers_are_read_as_they_were_written(text in number()) {
        let exact = Exact::new(&text).expect("a number");
        let number = exact_text(&exact);
        let is_finite = text.parse().is_ok_and(f64::is_finite);
        for (name, config, before, after) in [
            ("json", json!(null), "[", "]"),
            ("csv", json!({ "numbers": true }), "[", "]"),
            ("logfmt", json!({ "typed": true }), r#"{"n":"#, "}"),
            ("gelf", json!(null), r#"{"version":"1.1","host":"h","short_message":"m","_n":"#, "}"),
            ("influx", json!(null), r#"{"measurement":"m","tags":{},"fields":{"n":"#, "}}"),
        ] {
            if name == "influx" && !is_finite {
                continue;
            }
            let expected = format!("{before}{number}{after}");
            let value = value_of(&expected);
            let written = encode_with(&components::codec(name, &config).expect("a codec"), &value);
            let written = written.expect("a message");
            let read = decode_with(name, &config, &written);
            prop_assert_eq!(read, Ok(expected), "{} {:?}", name, String::from_utf8_lossy(&written));
        }
    }
}

#[test]
fn text_is_a_whole_message() {
    assert_eq!(decode("string", "a \"é\"".as_bytes()).as_deref(), Ok(r#""a \"é\"""#));
    assert_eq!(decode("string", b"").as_deref(), Ok("\"\""));
    assert_eq!(decode("string", b"ab\xff"), Err("invalid UTF-8 at byte 2".to_owned()));
    for (value, text) in [
        (literal!("a \"é\""), "a \"é\""),
        (Value::Bytes(b"raw".to_vec().into()), "raw"),
        (literal!(null), "null"),
        (literal!({ "a": [1, true] }), r#"{"a":[1,true]}"#),
    ] {
        assert_eq!(encode("string", &value), Ok(text.as_bytes().to_vec()));
    }
    let binary = Value::Bytes(b"\xff".to_vec().into());
    assert_eq!(
        encode("string", &binary),
        Err("cannot write binary data as text: invalid UTF-8".to_owned())
    );
}

#[test]
fn binary_data_is_a_whole_message() {
    let mut bytes = Bytes::from_slice(b"..\xff\0");
    let mut nodes = Nodes::new();
    let span = Span { start: 2, len: 2 };
    let root = codec("binary").decoder().decode(&mut bytes, span, &mut nodes).expect("any bytes");
    assert_eq!(Document::new(&bytes, &nodes).root(root).as_bytes(), Some(&b"\xff\0"[..]));
    let value = Value::Bytes(b"\xff\0".to_vec().into());
    assert_eq!(encode("binary", &value), Ok(b"\xff\0".to_vec()));
    assert_eq!(encode("binary", &literal!("é")), Ok("é".as_bytes().to_vec()));
    for (value, what) in [
        (literal!(null), "null"),
        (literal!(true), "a truth value"),
        (literal!(1.5), "a number"),
        (literal!([]), "an array"),
        (literal!({}), "an object"),
    ] {
        let expected = format!("expected text or binary data, found {what}");
        assert_eq!(encode("binary", &value), Err(expected));
    }
}

#[test]
fn signature_is_removed_from_text_and_kept_in_binary_data() {
    assert_eq!(decode("string", "\u{feff}a".as_bytes()).as_deref(), Ok("\"a\""));
    assert_eq!(decode("string", "\u{feff}".as_bytes()).as_deref(), Ok("\"\""));
    assert_eq!(decode("string", "a\u{feff}".as_bytes()).as_deref(), Ok("\"a\u{feff}\""));
    assert_eq!(decode("string", b"\xef\xbb\xbfa\xff"), Err("invalid UTF-8 at byte 4".to_owned()));
    let csv = decode("csv", "\u{feff}\"a\",b".as_bytes());
    assert_eq!(csv.as_deref(), Ok(r#"["a","b"]"#));
    let influx = decode("influx", "\u{feff}m f=1".as_bytes()).unwrap();
    assert!(influx.contains(r#""measurement":"m""#), "{influx}");
    let mut bytes = Bytes::from_slice("\u{feff}a".as_bytes());
    let (mut nodes, span) = (Nodes::new(), Span { start: 0, len: 4 });
    let root = codec("binary").decoder().decode(&mut bytes, span, &mut nodes).expect("any bytes");
    let kept = Document::new(&bytes, &nodes).root(root).as_bytes();
    assert_eq!(kept, Some("\u{feff}a".as_bytes()));
}

#[test]
fn null_decodes_to_null_and_writes_nothing() {
    assert_eq!(decode("null", b"whatever").as_deref(), Ok("null"));
    assert_eq!(encode("null", &literal!({ "a": 1 })), Ok(Vec::new()));
}

#[test]
fn record_that_deletes_its_key_is_not_a_blank_line() {
    let mut batch = Batch::new();
    for message in [&b"1"[..], b"", b"", b" "] {
        batch.push_message(message);
    }
    let tombstone = |writer: &mut Writer<'_>| {
        writer.begin_object();
        writer.key("kafka");
        writer.begin_object();
        writer.key("tombstone");
        writer.bool(true);
        writer.end_object();
        writer.end_object();
    };
    batch.write_metadata(2, tombstone).expect("metadata");
    let decoded = codec("json").decoder().decode_batch(&mut batch);
    assert_eq!((batch.len(), decoded.rejected.len(), decoded.discarded), (1, 1, 2));
}
