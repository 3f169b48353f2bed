use super::*;
use crate::codec::{Bytes, Error, Nodes, Span, json};
use tremor_abi::document::{Document, MAX_DEPTH, Node, Writer, validate};
use tremor_abi::literal;
use tremor_abi::value::{Array, Number, Value};

fn decode_with(options: DecodeOptions, message: &[u8]) -> Result<Value<'static>, Error> {
    let mut bytes = Bytes::from_slice(b"before");
    bytes.extend_from_copy_slice(message);
    let mut nodes = Nodes::from_slice(&[Node::null()]);
    let span = Span { start: 6, len: u32::try_from(message.len()).expect("a short message") };
    let decoded = Decoder::new(options).decode(&mut bytes, span, &mut nodes);
    assert_eq!(&bytes[6..6 + message.len()], message, "the message is unchanged");
    match decoded {
        Ok(root) => {
            assert_eq!(validate(&bytes, &nodes, root), Ok(()));
            let value = Document::new(&bytes, &nodes).root(root);
            // The document and the tree must be encoded to the same bytes.
            let (mut flat, mut tree) = (Bytes::new(), Bytes::new());
            Encoder::default().document(&bytes, &nodes, root, &mut flat)?;
            Encoder::default().value(value, &mut tree)?;
            assert_eq!(flat, tree);
            Ok(value.to_value())
        }
        Err(error) => {
            assert_eq!(
                (nodes.len(), bytes.len()),
                (1, 6 + message.len()),
                "an error leaves the buffers unchanged"
            );
            Err(error)
        }
    }
}

fn decode(message: &[u8]) -> Result<Value<'static>, String> {
    decode_with(DecodeOptions::default(), message).map_err(|error| error.to_string())
}

fn encode(value: &Value<'_>) -> Vec<u8> {
    let mut out = Bytes::new();
    Encoder::default().value(value.into(), &mut out).expect("a value that can be written");
    out.into()
}

/// Returns a message with `len` copies of `byte` after its head.
fn long(head: &[u8], byte: u8, len: usize) -> Vec<u8> {
    [head, &vec![byte; len]].concat()
}

fn text(len: usize) -> Value<'static> {
    Value::from("x".repeat(len))
}

fn data(len: usize) -> Value<'static> {
    Value::Bytes(vec![7; len].into())
}

fn nulls(len: usize) -> Value<'static> {
    Value::Array(Array::from(vec![Value::Null; len]))
}

fn extension(kind: i64, len: usize) -> Value<'static> {
    literal!({ "$ext": { "type": kind, "data": data(len) } })
}

fn timestamp(seconds: i64, nanoseconds: u64) -> Value<'static> {
    literal!({ "$timestamp": { "seconds": seconds, "nanoseconds": nanoseconds } })
}

/// Returns a map of `len` pairs, and its pairs in MessagePack.
fn map(len: u16) -> (Value<'static>, Vec<u8>) {
    let keys = || (0..len).map(|key| format!("{key:05}"));
    let pairs = keys().flat_map(|key| [&[0xa5], key.as_bytes(), &[0xc0]].concat()).collect();
    (keys().map(|key| (key, Value::Null)).collect(), pairs)
}

#[test]
fn text_number_becomes_nearest_float_or_text() {
    let number = |text| Value::Number(Number::new(text).expect("a JSON number"));
    let value = Value::from(Array::from(vec![number("-0.50"), number("1e400")]));
    let expected = b"\x92\xcb\xbf\xe0\0\0\0\0\0\0\xa51e400";
    assert_eq!(encode(&value), expected);
    let (mut bytes, mut nodes) = (Bytes::new(), Nodes::new());
    let mut writer = Writer::new(&mut bytes, &mut nodes);
    writer.write_value(value.view());
    let root = writer.finish().expect("a value");
    let mut out = Bytes::new();
    Encoder::default()
        .document(&bytes, &nodes, root, &mut out)
        .expect("a value that can be written");
    assert_eq!(out.as_slice(), expected);
}

/// Decodes and encodes values at the limits of each format code.
#[test]
fn every_format_is_decoded_and_encoded_at_its_limits() {
    let (fixmap, fixmap_pairs) = map(15);
    let (map16, map16_pairs) = map(16);
    for (value, message) in [
        (Value::Null, vec![0xc0]),
        (Value::Bool(false), vec![0xc2]),
        (Value::Bool(true), vec![0xc3]),
        (Value::I64(0), vec![0x00]),
        (Value::I64(127), vec![0x7f]),
        (Value::I64(128), vec![0xcc, 0x80]),
        (Value::I64(255), vec![0xcc, 0xff]),
        (Value::I64(256), vec![0xcd, 1, 0]),
        (Value::I64(65535), vec![0xcd, 0xff, 0xff]),
        (Value::I64(65536), vec![0xce, 0, 1, 0, 0]),
        (Value::I64(0xffff_ffff), vec![0xce, 0xff, 0xff, 0xff, 0xff]),
        (Value::I64(1 << 32), vec![0xcf, 0, 0, 0, 1, 0, 0, 0, 0]),
        (Value::U64(u64::MAX), long(&[0xcf], 0xff, 8)),
        (Value::I64(-1), vec![0xff]),
        (Value::I64(-32), vec![0xe0]),
        (Value::I64(-33), vec![0xd0, 0xdf]),
        (Value::I64(-128), vec![0xd0, 0x80]),
        (Value::I64(-129), vec![0xd1, 0xff, 0x7f]),
        (Value::I64(-32768), vec![0xd1, 0x80, 0]),
        (Value::I64(-32769), vec![0xd2, 0xff, 0xff, 0x7f, 0xff]),
        (Value::I64(i32::MIN.into()), vec![0xd2, 0x80, 0, 0, 0]),
        (
            Value::I64(i64::from(i32::MIN) - 1),
            vec![0xd3, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff],
        ),
        (Value::I64(i64::MIN), vec![0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        (Value::F64(-0.5), vec![0xcb, 0xbf, 0xe0, 0, 0, 0, 0, 0, 0]),
        (Value::F64(f64::INFINITY), vec![0xcb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0]),
        (text(0), vec![0xa0]),
        (text(31), long(&[0xbf], b'x', 31)),
        (text(32), long(&[0xd9, 32], b'x', 32)),
        (text(255), long(&[0xd9, 255], b'x', 255)),
        (text(256), long(&[0xda, 1, 0], b'x', 256)),
        (text(65535), long(&[0xda, 255, 255], b'x', 65535)),
        (text(65536), long(&[0xdb, 0, 1, 0, 0], b'x', 65536)),
        (data(0), vec![0xc4, 0]),
        (data(255), long(&[0xc4, 255], 7, 255)),
        (data(256), long(&[0xc5, 1, 0], 7, 256)),
        (data(65536), long(&[0xc6, 0, 1, 0, 0], 7, 65536)),
        (nulls(0), vec![0x90]),
        (nulls(15), long(&[0x9f], 0xc0, 15)),
        (nulls(16), long(&[0xdc, 0, 16], 0xc0, 16)),
        (nulls(65536), long(&[0xdd, 0, 1, 0, 0], 0xc0, 65536)),
        (literal!({}), vec![0x80]),
        (fixmap, [vec![0x8f], fixmap_pairs].concat()),
        (map16, [vec![0xde, 0, 16], map16_pairs].concat()),
        (extension(5, 1), vec![0xd4, 5, 7]),
        (extension(-128, 2), vec![0xd5, 0x80, 7, 7]),
        (extension(127, 4), long(&[0xd6, 127], 7, 4)),
        (extension(0, 8), long(&[0xd7, 0], 7, 8)),
        (extension(1, 16), long(&[0xd8, 1], 7, 16)),
        (extension(1, 0), vec![0xc7, 0, 1]),
        (extension(1, 3), vec![0xc7, 3, 1, 7, 7, 7]),
        (extension(1, 255), long(&[0xc7, 255, 1], 7, 255)),
        (extension(1, 256), long(&[0xc8, 1, 0, 1], 7, 256)),
        (extension(1, 65536), long(&[0xc9, 0, 1, 0, 0, 1], 7, 65536)),
        (timestamp(0, 0), long(&[0xd6, 0xff], 0, 4)),
        (timestamp(0xffff_ffff, 0), long(&[0xd6, 0xff], 0xff, 4)),
        (timestamp(1 << 32, 0), vec![0xd7, 0xff, 0, 0, 0, 1, 0, 0, 0, 0]),
        (timestamp(1, 999_999_999), vec![0xd7, 0xff, 0xee, 0x6b, 0x27, 0xfc, 0, 0, 0, 1]),
        (timestamp((1 << 34) - 1, 0), vec![0xd7, 0xff, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xff]),
        (timestamp(1 << 34, 1), vec![0xc7, 12, 0xff, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0]),
        (timestamp(-1, 0), [&[0xc7, 12, 0xff, 0, 0, 0, 0][..], &[0xff; 8]].concat()),
    ] {
        let short = &message[..message.len().min(16)];
        assert_eq!(decode(&message).as_ref(), Ok(&value), "{short:02x?}");
        assert_eq!(encode(&value), message, "{short:02x?}");
    }
}

/// Tests forms that an encoder never writes and a decoder must read.
#[test]
fn wide_forms_of_small_values_are_decoded() {
    for (message, value) in [
        (&[0xcc, 1][..], Value::I64(1)),
        (&[0xcd, 0, 1], Value::I64(1)),
        (&[0xce, 0, 0, 0, 1], Value::I64(1)),
        (&[0xcf, 0, 0, 0, 0, 0, 0, 0, 1], Value::I64(1)),
        (&[0xd0, 1], Value::I64(1)),
        (&[0xd1, 0xff, 0xff], Value::I64(-1)),
        (&[0xd2, 0xff, 0xff, 0xff, 0xff], Value::I64(-1)),
        (&[0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], Value::I64(-1)),
        (&[0xca, 0x3f, 0xc0, 0, 0], Value::F64(1.5)),
        (&[0xd9, 1, b'x'], text(1)),
        (&[0xda, 0, 1, b'x'], text(1)),
        (&[0xdb, 0, 0, 0, 1, b'x'], text(1)),
        (&[0xc5, 0, 1, 7], data(1)),
        (&[0xc6, 0, 0, 0, 1, 7], data(1)),
        (&[0xdc, 0, 1, 0xc0], nulls(1)),
        (&[0xdd, 0, 0, 0, 1, 0xc0], nulls(1)),
        (&[0xde, 0, 1, 0xa1, b'a', 1], literal!({ "a": 1 })),
        (&[0xdf, 0, 0, 0, 1, 0xd9, 1, b'a', 1], literal!({ "a": 1 })),
        (&[0xc8, 0, 1, 5, 7], extension(5, 1)),
        (&[0xc9, 0, 0, 0, 1, 5, 7], extension(5, 1)),
        (&[0xc7, 4, 0xff, 0, 0, 0, 1], timestamp(1, 0)),
    ] {
        assert_eq!(decode(message), Ok(value), "{message:02x?}");
    }
}

#[test]
fn invalid_timestamp_stays_an_extension() {
    for message in [
        vec![0xd4, 0xff, 7],
        long(&[0xd7, 0xff], 0xff, 8),
        long(&[0xc7, 12, 0xff], 0xff, 12),
        long(&[0xc7, 13, 0xff], 0, 13),
    ] {
        let value = decode(&message).expect("an extension");
        assert_eq!(value.view().get("$ext").and_then(|e| e.get("type")?.as_i64()), Some(-1));
        assert_eq!(encode(&value), message);
    }
}

#[test]
fn object_similar_to_an_extension_is_a_map() {
    for value in [
        literal!({ "$ext": 1 }),
        literal!({ "$ext": { "type": 200, "data": data(1) } }),
        literal!({ "$ext": { "type": 1, "data": "text" } }),
        literal!({ "$ext": { "type": 1, "data": data(1), "more": 1 } }),
        literal!({ "$ext": { "type": 1, "data": data(1) }, "more": 1 }),
        literal!({ "$timestamp": { "seconds": 1, "nanoseconds": 1_000_000_000 } }),
        literal!({ "$timestamp": { "seconds": 1.5, "nanoseconds": 0 } }),
        literal!({ "$timestamp": [] }),
    ] {
        let message = encode(&value);
        assert!((0x80..0x90).contains(&message[0]));
        assert_eq!(decode(&message), Ok(value));
    }
}

#[test]
fn extensions_nest_in_arrays_and_maps() {
    let value = literal!([
        { "at": timestamp(5, 6), "raw": [extension(3, 1), extension(4, 9)] },
        timestamp(-1, 1),
        "behind"
    ]);
    assert_eq!(decode(&encode(&value)), Ok(value));
}

#[test]
fn message_truncated_anywhere_is_an_error() {
    let value = literal!({
        "text": text(300), "data": data(40), "list": [1, 1000, 100_000, -1, -1000, 1.5, null, true],
        "ext": [extension(1, 1), extension(1, 20), timestamp(1, 1)],
    });
    let message = encode(&value);
    assert_eq!(decode(&message), Ok(value));
    for len in 0..message.len() {
        let expected = format!("the message ends within a value at byte {len}");
        assert_eq!(decode(&message[..len]), Err(expected));
    }
}

#[test]
fn forged_messages_are_errors() {
    for (message, expected) in [
        (&[0xc1][..], "invalid MessagePack format 0xc1 at byte 0"),
        (&[0x91, 0xc1], "invalid MessagePack format 0xc1 at byte 1"),
        (&[0xc0, 0xc0], "expected the end after the value at byte 1"),
        (&[0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0], "the message ends within a value at byte 6"),
        (&[0xdf, 0xff, 0xff, 0xff, 0xff, 0xa0], "the message ends within a value at byte 6"),
        (&[0xdb, 0xff, 0xff, 0xff, 0xff, b'x'], "the message ends within a value at byte 6"),
        (&[0xc6, 0xff, 0xff, 0xff, 0xff, 7], "the message ends within a value at byte 6"),
        (&[0xc9, 0xff, 0xff, 0xff, 0xff, 1, 7], "the message ends within a value at byte 7"),
        (&[0x81, 0x01, 0x02], "expected a string as key at byte 1"),
        (&[0x82, 0xa1, b'a', 1, 0xc0, 1], "expected a string as key at byte 4"),
        (&[0x81, 0xc4, 1, b'a', 1], "expected a string as key at byte 1"),
        (&[0xa2, b'a', 0xff], "invalid UTF-8 at byte 2"),
        (&[0x81, 0xa1, 0xff, 1], "invalid UTF-8 at byte 2"),
    ] {
        assert_eq!(decode(message), Err(expected.to_owned()), "{message:02x?}");
    }
}

#[test]
fn utf8_is_checked_at_every_length_and_position() {
    for len in 0..70 {
        assert_eq!(decode(&encode(&text(len))), Ok(text(len)));
        for bad in 0..len {
            let mut message = encode(&text(len));
            let start = message.len() - len;
            message[start + bad] = 0x80;
            message.extend([0xff; 40]);
            let array = [vec![0x92], message, vec![0xc0]].concat();
            let expected = format!("invalid UTF-8 at byte {}", 1 + start + bad);
            assert_eq!(decode(&array), Err(expected));
        }
    }
}

#[test]
fn nesting_is_limited_without_recursion() {
    let nested = |depth| [vec![0x91; depth], vec![0xc0]].concat();
    assert!(decode(&nested(MAX_DEPTH)).is_ok());
    let error = "nested deeper than 512 levels at byte 512".to_owned();
    assert_eq!(decode(&nested(MAX_DEPTH + 1)), Err(error.clone()));
    assert_eq!(decode(&vec![0x91; 100_000]), Err(error));
    let two = DecodeOptions { max_depth: 2 };
    assert!(decode_with(two, &[0x91, 0x91, 1]).is_ok());
    assert!(decode_with(two, &[0x91, 0x91, 0x90]).is_err());
    assert!(decode_with(two, &[0xd4, 5, 7]).is_ok());
    assert!(decode_with(two, &[0x91, 0xd4, 5, 7]).is_err());
}

#[test]
fn last_value_of_duplicate_keys_replaces_the_first() {
    let message = [0x83, 0xa1, b'a', 1, 0xa1, b'b', 2, 0xa1, b'a', 0x91, 3];
    assert_eq!(encode(&decode(&message).expect("a map")), encode(&literal!({ "a": [3], "b": 2 })));
    let (value, mut pairs) = map(40);
    pairs.extend([0xa5, b'0', b'0', b'0', b'0', b'7', 0xc0]);
    let doubled = [vec![0xde, 0, 41], pairs].concat();
    assert_eq!(encode(&decode(&doubled).expect("a map")), encode(&value));
}

#[test]
fn extension_after_a_failed_message_has_its_keys() {
    let mut bytes = Bytes::from_slice(&[0x92, 0xd4, 5, 7, 0xd4, 5, 7]);
    let mut nodes = Nodes::new();
    let mut decoder = Decoder::new(DecodeOptions::default());
    let cut = decoder.decode(&mut bytes, Span { start: 0, len: 4 }, &mut nodes);
    assert!(cut.is_err());
    let root = decoder.decode(&mut bytes, Span { start: 4, len: 3 }, &mut nodes).expect("whole");
    let mut out = Bytes::new();
    json::Encoder::default().document(&bytes, &nodes, root, &mut out).expect("JSON");
    assert_eq!(out.as_slice(), br#"{"$ext":{"type":5,"data":"Bw=="}}"#);
}

#[test]
fn forged_document_is_an_error_and_writes_nothing() {
    for nodes in [
        &[][..],
        &[Node::string(0, 9)],
        &[Node::bytes(u64::MAX, 1)],
        &[Node::array(2, 2), Node::null()],
        &[Node::object(1, 3), Node::string(0, 1)],
        &[Node::object(u32::MAX, u64::MAX)],
    ] {
        let mut out = Bytes::from_slice(b"before");
        assert!(Encoder::default().document(b"$xxxxxxx", nodes, 0, &mut out).is_err(), "{nodes:?}");
        assert_eq!(out.as_slice(), b"before");
    }
}
