use serde_json::{Value, json};
use tremor_pdk::{Batch, Output};

use crate::processor::testing::{messages, pre, preprocessor, process, process_all, run};

fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes).collect()
}

/// Decodes a stream in fragments of all sizes, and checks the text.
fn decodes(config: &Value, stream: &[u8], expected: &str) {
    for size in 1..=stream.len().max(1) {
        let (found, rejected) = run(&mut *pre("decode-text", config), stream, size);
        assert!(rejected.is_empty(), "{config} by {size}: {rejected:?}");
        assert_eq!(String::from_utf8(found.concat()).unwrap(), expected, "{config} by {size}");
    }
    let mut batch = Batch::new();
    batch.push_message(stream);
    assert!(process(&mut *pre("decode-text", config), &mut batch).is_empty());
    assert_eq!(messages(&batch), [expected.as_bytes()], "{config}");
}

#[test]
fn utf16_is_decoded_by_its_byte_order_mark() {
    let text = "one é\r\n\u{1f600}\u{10ffff} ਊ\n";
    let marked = format!("\u{feff}{text}");
    for (name, stream) in [
        ("utf-16", utf16(&marked, u16::to_le_bytes)),
        ("UTF-16", utf16(&marked, u16::to_be_bytes)),
        ("utf16", utf16(text, u16::to_le_bytes)),
        ("utf-16", utf16(text, u16::to_be_bytes)),
        ("utf-16le", utf16(&marked, u16::to_le_bytes)),
        ("utf-16le", utf16(text, u16::to_le_bytes)),
        ("UTF16BE", utf16(&marked, u16::to_be_bytes)),
        ("utf-8", marked.clone().into_bytes()),
    ] {
        decodes(&json!({ "encoding": name }), &stream, text);
        decodes(&json!({ "encoding": name, "invalid": "reject" }), &stream, text);
    }
    decodes(&json!({ "encoding": "utf-16" }), b"", "");
}

#[test]
fn other_encodings_are_decoded() {
    decodes(&json!({ "encoding": "latin1" }), b"caf\xe9 \x80", "café €");
    decodes(&json!({ "encoding": "windows-1252" }), b"caf\xe9 \x80", "café €");
    decodes(&json!({ "encoding": "iso-8859-15" }), b"\xa4", "€");
    decodes(&json!({ "encoding": "shift_jis" }), b"\x83e\x83X\x83g", "テスト");
    decodes(&json!({ "encoding": "gb18030" }), b"\x94\x39\xda\x33!", "\u{1f4a9}!");
}

#[test]
fn invalid_sequences_are_replaced() {
    let config = json!({ "encoding": "utf-16le" });
    decodes(&config, b"a\0\x00\xd8b\0c", "a\u{fffd}b\u{fffd}");
    decodes(&json!({ "encoding": "utf-8" }), b"a\xffb\xe2\x82", "a\u{fffd}b\u{fffd}");
    decodes(&json!({ "encoding": "utf-16" }), b"a", "\u{fffd}");
}

#[test]
fn invalid_sequence_is_rejected_by_choice() {
    let config = json!({ "encoding": "utf-8", "invalid": "reject" });
    for size in 1..9 {
        let stream = b"good \xff bad";
        let (found, rejected) = run(&mut *pre("decode-text", &config), stream, size);
        assert_eq!(found.concat(), b"good ", "by {size}");
        assert!(rejected[0].contains("invalid UTF-8 text"), "{rejected:?}");
        // The stream has 10 bytes, and the sixth one is invalid.
        let skipped = rejected.get(1).map(|it| it.ends_with("of the stream were not decoded"));
        assert_eq!(skipped, (size != 5).then_some(true), "by {size}: {rejected:?}");
    }
    let mut batch = Batch::new();
    batch.push_message(b"\xff");
    batch.push_message(b"fine");
    let rejected = process(&mut *pre("decode-text", &config), &mut batch);
    assert!(rejected[0].contains("invalid UTF-8 text"), "{rejected:?}");
    assert_eq!(messages(&batch), [b"fine"]);
}

#[test]
fn stream_waits_only_within_a_character() {
    for (name, stream, expected) in [
        ("utf-16", &b"\xff\xfea\0\x3d\xd8\0\xdeb\0"[..], "10101111010"),
        ("utf-8", b"a\xe2\x82\xacb", "01110"),
        ("latin1", b"a\xe9", "00"),
    ] {
        let mut decode = pre("decode-text", &json!({ "encoding": name }));
        let mut waits = String::new();
        for byte in stream.chunks(1) {
            let mut batch = Batch::new();
            batch.stream(3).push_fragment(byte);
            process(&mut *decode, &mut batch);
            waits.push(if decode.buffers(3) { '1' } else { '0' });
        }
        assert!(waits.starts_with(&expected[..1]), "{name}: {waits}");
        assert!(waits.ends_with('0') || name == "utf-8", "{name}: {waits}");
        assert_eq!(decode.streams(), [3]);
    }
}

#[test]
fn aborted_stream_begins_again() {
    let mut decode = pre("decode-text", &json!({ "encoding": "utf-16" }));
    for is_odd in [true, false] {
        let mut batch = Batch::new();
        batch.stream(0).push_fragment(&b"\xfe\xff\0a\0"[..if is_odd { 5 } else { 4 }]);
        assert!(process(&mut *decode, &mut batch).is_empty());
        assert_eq!(messages(&batch), [b"a"]);
        let mut end = Batch::new();
        end.stream(0).abort();
        assert_eq!(process(&mut *decode, &mut end).len(), usize::from(is_odd));
    }
}

#[test]
fn only_characters_that_are_cut_off_are_reported() {
    for (encoding, stream, is_cut) in [
        ("shift_jis", &b"\x83e\x83X\x83g"[..], false),
        ("shift_jis", b"\x83e\x83", true),
        ("gb18030", b"\x94\x39\xda\x33", false),
        ("gb18030", b"\x94\x39\xda", true),
        ("gb18030", b"ab9", false),
        ("euc-kr", b"\xb0\xa1", false),
        ("euc-kr", b"\xb0", true),
        ("big5", b"\xa4\xa4", false),
        ("utf-8", b"caf\xc3\xa9", false),
        ("utf-8", b"caf\xc3", true),
        ("utf-16le", b"a\0\x3d\xd8\0\xde", false),
        ("utf-16le", b"a\0\x3d\xd8", true),
        ("latin1", b"caf\xe9", false),
    ] {
        let mut decode = pre("decode-text", &json!({ "encoding": encoding }));
        let mut batch = Batch::new();
        batch.stream(0).push_fragment(stream);
        batch.stream(0).abort();
        let rejected = process(&mut *decode, &mut batch);
        assert_eq!(rejected.len(), usize::from(is_cut), "{encoding} {stream:?}: {rejected:?}");
        assert!(rejected.iter().all(|error| error.contains("cut off within a character")));
    }
}

#[test]
fn long_fragment_is_decoded_in_several_batches() {
    let stream = utf16(&"\u{feff}é\n".repeat(3 << 20), u16::to_be_bytes);
    let mut decode = pre("decode-text", &json!({ "encoding": "utf-16" }));
    let mut batch = Batch::new();
    batch.stream(0).push_fragment(&stream);
    let (batches, rejected) = process_all(&mut *decode, batch);
    assert!(rejected.is_empty() && batches.len() > 1, "{}", batches.len());
    let text: Vec<u8> = batches.iter().flat_map(messages).flatten().collect();
    assert_eq!(text.len(), "\u{feff}é\n".len() * (3 << 20) - 3);
    let mut output = Output::new();
    decode.process(&mut Batch::new(), &mut output).unwrap();
}

#[test]
fn unknown_encoding_is_rejected_with_examples() {
    for name in ["utf-61", "", "iso-2022-jp", "replacement"] {
        let error = preprocessor("decode-text", &json!({ "encoding": name })).err().unwrap();
        assert!(error.to_string().contains("`encoding`: expected the name"), "{error}");
    }
}
