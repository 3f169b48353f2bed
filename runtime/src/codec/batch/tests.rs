//! Unedited messages leave as they came, if their format is that of the sink and they fit its framing.

use proptest::prelude::*;
use serde_json::json;
use tremor_abi::batch::{HostBatch, Pool, Rejected};
use tremor_pdk::{Batch, EventRef, literal};

use super::{BatchEncoder, Codec, Terminator, without_signature};
use crate::components;

fn codec(name: &str, options: &serde_json::Value) -> Codec {
    components::codec(name, options).expect("a codec")
}

/// Decodes messages, which must be valid.
fn decoded(codec: &Codec, messages: &[&[u8]]) -> Batch {
    let mut batch = Batch::new();
    messages.iter().for_each(|message| batch.push_message(message));
    assert!(codec.decoder().decode_batch(&mut batch).rejected.is_empty());
    batch
}

/// Encodes events, which must be possible, with a terminator that consists of `suffixes`.
fn encoded(codec: &Codec, batch: &Batch, suffixes: &[&str]) -> Vec<Vec<u8>> {
    let mut terminator = Terminator::default();
    suffixes.iter().for_each(|suffix| terminator.push("end", suffix.as_bytes()));
    encoded_until(codec, batch, &terminator)
}

fn encoded_with(
    codec: &Codec,
    batch: &mut Batch,
    terminator: &Terminator,
) -> (Batch, Vec<Rejected>) {
    let encoder: &mut dyn BatchEncoder = &mut codec.encoder();
    encoder.encode_batch(batch, &Pool::new(1), terminator)
}

fn encoded_until(codec: &Codec, batch: &Batch, terminator: &Terminator) -> Vec<Vec<u8>> {
    let (encoded, rejected) = encoded_with(codec, &mut batch.clone(), terminator);
    assert!(rejected.is_empty(), "{rejected:?}");
    encoded.iter().map(|event| event.raw().unwrap().to_vec()).collect()
}

/// Decodes a message with one codec and encodes it with another one.
fn through(from: &Codec, to: &Codec, message: &[u8]) -> Vec<u8> {
    encoded(to, &decoded(from, &[message]), &[]).remove(0)
}

const TEXT: &str = "{ \"b\":1.10, \"a\" : [1e2,-0],\t\"\\u0041\":\"\\/\" }";

#[test]
fn unedited_json_keeps_its_spelling() {
    let json = codec("json", &json!(null));
    let batch = decoded(&json, &[TEXT.as_bytes(), b"\xef\xbb\xbf [ 1 ]\r\n", b"\n\"a\" "]);
    let expected = [TEXT, "[ 1 ]", "\"a\""];
    assert_eq!(encoded(&json, &batch, &[]), expected.map(|it| it.as_bytes().to_vec()));
    let lines = expected.map(|it| format!("{it}\n").into_bytes());
    assert_eq!(encoded(&json, &batch, &["\n"]), lines);
}

/// The messages are followed by a line feed in their stream, as `lines` leaves them.
#[test]
fn messages_that_are_followed_by_the_terminator_are_not_copied() {
    let json = codec("json", &json!(null));
    let long = format!(r#"["{}"]"#, "x".repeat(4_000));
    let stream = format!("[1]\n{{ }}\n{long}\n");
    let messages = ["[1]", "{ }", &long];
    let mut batch = Batch::new();
    batch.push_message(stream.as_bytes());
    batch.set_metadata(0, literal!({ "n": 1 }));
    assert!(
        batch
            .cut(|cutter| {
                let mut start = 0;
                for message in messages {
                    cutter.emit(start..start + message.len());
                    start += message.len() + 1;
                }
            })
            .is_empty()
    );
    assert!(json.decoder().decode_batch(&mut batch).rejected.is_empty());
    let [none, mut line_feed, mut both, mut followed] = [(); 4].map(|()| Terminator::default());
    line_feed.push("lines", b"\n");
    both.push("lines", b"\r\n");
    followed.push("lines", b"\n");
    followed.set_followed();
    for (terminator, is_shared) in
        [(&none, true), (&line_feed, true), (&both, false), (&followed, false)]
    {
        let (encoded, _) = encoded_with(&json, &mut batch, terminator);
        let expected = messages.map(|it| [it.as_bytes(), terminator.bytes()].concat());
        let metadata = |event: EventRef<'_>| event.metadata().unwrap().to_string();
        assert_eq!(encoded.iter().filter_map(EventRef::raw).collect::<Vec<_>>(), expected);
        assert!(encoded.iter().map(metadata).all(|it| it == r#"{"n":1}"#));
        assert_eq!(encoded.has_buffers_of(&batch), is_shared, "{terminator:?}");
        encoded.validate().unwrap();
    }
    // Short messages that are not adjacent are copied.
    let apart = batch.pick(&[0, 0, 1, 1]);
    for terminator in [&none, &line_feed] {
        let (encoded, _) = encoded_with(&json, &mut apart.clone(), terminator);
        assert!(!encoded.has_buffers_of(&apart));
    }
    *batch.get_mut(1).unwrap().value_mut().unwrap() = literal!("edited");
    assert_eq!(encoded(&json, &batch, &[]), ["[1]", "\"edited\"", &long].map(str::as_bytes));
}

#[test]
fn options_that_change_values_or_spelling_rewrite_text() {
    let json = codec("json", &json!(null));
    let rewritten = r#"{"b":1.1,"a":[100.0,-0.0],"A":"/"}"#;
    for (from, to, expected) in [
        (json!(null), json!({ "canonical": true }), rewritten),
        (json!({ "numbers": "float" }), json!(null), rewritten),
        (json!(null), json!({ "sorted_keys": true }), r#"{"A":"/","a":[100.0,-0.0],"b":1.1}"#),
        (json!({ "max_depth": 2, "canonical": true }), json!({ "max_depth": 1 }), TEXT),
    ] {
        let (decoder, encoder) = (codec("json", &from), codec("json", &to));
        let written = through(&decoder, &encoder, TEXT.as_bytes());
        assert_eq!(String::from_utf8_lossy(&written), expected, "{from} {to}");
    }
    let gelf = codec("gelf", &json!(null));
    let message = br#"{ "host": "h", "short_message": "m" }"#;
    assert_ne!(through(&gelf, &json, message), message);
}

#[test]
fn unedited_msgpack_keeps_its_bytes() {
    let [msgpack, json] = ["msgpack", "json"].map(|name| codec(name, &json!(null)));
    // An array of an integer in three bytes and a float of 32 bits, which need fewer and more bytes.
    let message = b"\x92\xcd\x00\x07\xca\x3f\x80\x00\x00";
    assert_eq!(through(&msgpack, &msgpack, message), message);
    let rewritten = b"\x92\x07\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00";
    let canonical = codec("msgpack", &json!({ "canonical": true }));
    assert_eq!(through(&msgpack, &canonical, message), rewritten);
    assert_eq!(through(&msgpack, &json, message), b"[7,1.0]");
    assert_eq!(through(&json, &msgpack, b"[ 7, 1.0 ]"), rewritten);
}

#[test]
fn text_that_contains_the_terminator_is_rewritten() {
    let json = codec("json", &json!(null));
    let text = b"{\t\"a\": 1, \"b\":2 }";
    let batch = decoded(&json, &[text]);
    for suffix in ["\t", " ", "\":2"] {
        let rewritten = format!("{{\"a\":1,\"b\":2}}{suffix}").into_bytes();
        let mut terminator = Terminator::default();
        terminator.push("end", suffix.as_bytes());
        let (encoded, rejected) = encoded_with(&json, &mut batch.clone(), &terminator);
        let written: Vec<_> = encoded.iter().map(|event| event.raw().unwrap().to_vec()).collect();
        // The encoded text may contain the terminator too.
        assert!(rejected.len() == 1 || written == [rewritten], "{suffix:?}: {written:?}");
    }
    assert_eq!(encoded(&json, &batch, &["\n"]), [[&text[..], b"\n"].concat()]);
    // A later postprocessor ends the changed message with a tab.
    let mut later = Terminator::default();
    later.push_later("tabs", b"\t");
    assert_eq!(encoded_until(&json, &batch, &later), [br#"{"a":1,"b":2}"#]);
}

/// A sink or a postprocessor of a plugin may frame lines without a suffix that the runtime knows.
#[test]
fn text_with_line_breaks_is_rewritten() {
    let json = codec("json", &json!(null));
    for text in ["{\n\"a\":1 }", "{\r\"a\":1 }"] {
        assert_eq!(through(&json, &json, text.as_bytes()), br#"{"a":1}"#);
    }
}

/// Operators judge the last one of duplicate keys, so a receiver must not get the others.
#[test]
fn message_with_duplicate_keys_is_rewritten() {
    let [msgpack, json] = ["msgpack", "json"].map(|name| codec(name, &json!(null)));
    let texts = [&br#"{ "a":1, "a":2 }"#[..], br#"[{ "a":1, "\u0061":2 }]"#, br#"{ "a":1 }"#];
    let expected = [&br#"{"a":2}"#[..], br#"[{"a":2}]"#, br#"{ "a":1 }"#];
    assert_eq!(encoded(&json, &decoded(&json, &texts), &[]), expected);
    let (twice, once) = (b"\x82\xa1a\xcc\x01\xa1a\x02", b"\x81\xd9\x01a\x02");
    let batch = decoded(&msgpack, &[twice, once]);
    assert_eq!(encoded(&msgpack, &batch, &[]), [&b"\x81\xa1a\x02"[..], once]);
}

#[test]
fn edited_event_is_encoded_from_its_value() {
    let json = codec("json", &json!(null));
    let mut batch = decoded(&json, &[TEXT.as_bytes(), TEXT.as_bytes()]);
    let mut event = batch.get_mut(0).unwrap();
    event.value_mut().unwrap().as_object_mut().unwrap().insert("c", 3);
    let expected = [r#"{"b":1.1,"a":[100.0,-0.0],"A":"/","c":3}"#, TEXT];
    assert_eq!(encoded(&json, &batch, &[]), expected.map(|it| it.as_bytes().to_vec()));
}

fn space() -> impl Strategy<Value = String> {
    "[ \t\r\n]{0,2}"
}

/// Returns JSON texts with all spellings of a value.
fn text() -> impl Strategy<Value = String> {
    let string = r#""([a-c é]|\\[bnrtf"/\\]|\\u00[0-7][0-9a-fA-F]|\\ud83d\\ude00){0,5}""#;
    let number = r"-?(0|[1-9][0-9]{0,22})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?";
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        number.prop_map(|it| it),
        string.prop_map(|it| it),
    ];
    let value = scalar.prop_recursive(4, 24, 4, move |inner| {
        let element = (space(), inner, space())
            .prop_map(|(before, value, after)| before + &value + &after)
            .boxed();
        let pair = (space(), string, space(), element.clone());
        // The number makes the keys of an object different.
        let object = |pairs: Vec<(String, String, String, String)>| {
            let pair = |(number, (before, key, after, value)): (usize, &(_, String, _, _))| {
                let (before, after, value): (&String, &String, &String) = (before, after, value);
                format!("{before}\"{number}{}{after}:{value}", &key[1..])
            };
            format!("{{{}}}", pairs.iter().enumerate().map(pair).collect::<Vec<_>>().join(","))
        };
        prop_oneof![
            prop::collection::vec(element, 0..4).prop_map(|it| format!("[{}]", it.join(","))),
            prop::collection::vec(pair, 0..4).prop_map(object),
        ]
    });
    (space(), value, space()).prop_map(|(before, value, after)| before + &value + &after)
}

proptest! {
    #[test]
    fn unedited_json_is_copied_or_encoded_again(texts in prop::collection::vec(text(), 1..4)) {
        let json = codec("json", &json!(null));
        let canonical = codec("json", &json!({ "canonical": true }));
        let messages: Vec<_> = texts.iter().map(String::as_bytes).collect();
        let mut batch = Batch::new();
        messages.iter().for_each(|message| batch.push_message(message));
        let rejected = json.decoder().decode_batch(&mut batch).rejected;
        prop_assert!(rejected.is_empty(), "{:?}", rejected);
        let came: Vec<_> =
            messages.iter().map(|it| without_signature(it).trim_ascii().to_vec()).collect();
        // The canonical text is the same as that of a value without a message.
        let mut values = Batch::new();
        batch.iter().for_each(|event| values.push(&event.value().unwrap()).unwrap());
        let rewritten = encoded(&json, &values, &["\n"]);
        prop_assert_eq!(&encoded(&canonical, &batch, &["\n"]), &rewritten);
        let lines = encoded(&json, &batch, &["\n"]);
        for ((line, came), rewritten) in lines.iter().zip(came).zip(rewritten) {
            let fits = !came.iter().any(|byte| b"\n\r".contains(byte));
            prop_assert_eq!(line, &if fits { [&came[..], b"\n"].concat() } else { rewritten });
        }
    }
}
