//! Tests of the memory that decoding a message of 4 MiB may take, whatever the message contains.

use serde_json::json;
use tremor_abi::{batch::Batch, document::Node};

use super::{Bytes, Decoder, Error, Nodes, Span, tests::decode};
use crate::components;

/// Length of the messages in bytes: the default maximum length of a message in flows.
const LENGTH: usize = 4 << 20;

/// Returns a message of about `LENGTH` bytes that contains copies of `text` between `before` and `after`.
fn filled(before: &str, text: &str, after: &str) -> Vec<u8> {
    [before, &text.repeat(LENGTH / text.len()), after].concat().into_bytes()
}

/// Returns the head of a container of `count` elements, followed by `LENGTH` bytes of copies of `element`.
fn msgpack(kind: u8, count: usize, element: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend(u32::try_from(count).expect("few").to_be_bytes());
    message.extend(element.repeat(LENGTH / element.len()));
    message
}

/// Returns an array of copies of `element`. All copies together have `LENGTH` bytes.
fn array(element: &[u8]) -> Vec<u8> {
    msgpack(0xdd, LENGTH / element.len(), element)
}

/// Returns the bytes that decoding allocates for the nodes of a message, and the result of decoding.
fn cost(decoder: &mut Decoder, message: &[u8]) -> (usize, Result<u32, Error>) {
    let (mut bytes, mut nodes) = (Bytes::from_slice(message), Nodes::new());
    let span = Span { start: 0, len: u32::try_from(message.len()).expect("4 MiB") };
    let decoded = decoder.decode(&mut bytes, span, &mut nodes);
    if decoded.is_err() {
        assert!(nodes.is_empty());
    }
    (nodes.capacity() * size_of::<Node>(), decoded)
}

#[test]
fn decoded_messages_stay_within_memory_limit() {
    let bombs = [
        ("json", "numbers", filled("[", "0,", "0]")),
        ("json", "empty arrays", filled("[", "[],", "0]")),
        ("json", "nested arrays", filled("[", "[[[[[[]]]]]],", "0]")),
        ("json", "short keys", filled("{", "\"\":0,", "\"\":0}")),
        ("json", "escapes", filled("[", "\"\\n\",", "0]")),
        ("json", "escapes and numbers", filled("[", "\"\\n\",0,0,", "0]")),
        ("json", "numbers and an escape", filled("[", "0,", "\"\\n\"]")),
        ("json", "numbers and no end", filled("[", "0,", "")),
        ("msgpack", "nil", array(&[0xc0])),
        ("msgpack", "empty arrays", array(&[0x90])),
        ("msgpack", "arrays of one", array(&[0x91, 0xc0])),
        ("msgpack", "empty maps", array(&[0x80])),
        ("msgpack", "extensions", array(&[0xc7, 0, 5])),
        ("msgpack", "timestamps", array(&[0xd6, 0xff, 0, 0, 0, 1])),
        ("msgpack", "short keys", msgpack(0xdf, LENGTH / 2, &[0xa0, 0xc0])),
        ("csv", "empty fields", filled("", ",", "")),
        ("csv", "quotes", filled("", "\"\",", "")),
        ("influx", "fields", filled("m a=1", ",a=1", "")),
        ("influx", "tags", filled("m", ",a=b", " a=1")),
        ("logfmt", "keys", filled("", "a ", "")),
        ("logfmt", "escapes", filled("a=\"", "\\n", "\"")),
        ("gelf", "fields", filled("{\"host\":\"\",\"short_message\":\"\",\"_a\":[", "0,", "0]}")),
        ("syslog", "parameters", filled("<1>1 - - - - - [a", " b=\"\"", "]")),
    ];
    for (name, what, bomb) in bombs {
        let mut decoder = components::codec(name, &json!(null)).expect("a codec").decoder();
        let (memory, decoded) = cost(&mut decoder, &bomb);
        // The limit is doubled, because a buffer doubles its capacity when it grows.
        assert!(memory <= 2 * Batch::EVENT_AT_MOST + (1 << 20), "{name}, {what}: {memory}");
        let expected = match what {
            // An escape adds five bytes of text, and no nodes. Structured data of more than 1,024 parameters becomes a
            // part of the text.
            "escapes" | "parameters" => Ok(0),
            _ => Err("the decoded message takes more than "),
        };
        match (&decoded, expected) {
            (Ok(root), expected) => assert_eq!(Ok(*root), expected, "{name}, {what}"),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().starts_with(expected), "{error}");
            }
            (Err(error), Ok(_)) => panic!("{name}, {what}: {error}"),
        }
        let good = match name {
            "json" => &b"[1]"[..],
            "msgpack" => &[0x91, 1],
            "influx" => b"m a=1",
            "gelf" => b"{\"host\":\"\",\"short_message\":\"\"}",
            "syslog" => b"<1>text",
            _ => b"a,b",
        };
        assert!(cost(&mut decoder, good).1.is_ok(), "{name}: the next message is unaffected");
    }
}

#[test]
fn forged_lengths_allocate_nothing() {
    for head in [0xc6, 0xc9, 0xdb, 0xdd, 0xdf] {
        for length in [u32::MAX, 1 << 20] {
            let message = [&[head][..], &length.to_be_bytes(), b"rest"].concat();
            let mut decoder =
                components::codec("msgpack", &json!(null)).expect("a codec").decoder();
            let (memory, decoded) = cost(&mut decoder, &message);
            let error = decoded.expect_err("a message without its contents");
            assert!(memory < 10_000, "{head:x}: {memory}");
            let expected =
                ["the message ends within a value", "the decoded message takes more than"];
            assert!(
                expected.iter().any(|expected| error.to_string().starts_with(expected)),
                "{error}"
            );
        }
    }
}

#[test]
fn large_message_of_ordinary_values_is_decoded() {
    let event = r#"{"level":"info","text":"a line of text","n":[1,2.5,true],"none":null},"#;
    let message = filled("[", event, "0]");
    let mut decoder = components::codec("json", &json!(null)).expect("a codec").decoder();
    assert!(cost(&mut decoder, &message).1.is_ok());
    let escaped = filled("[", &event.replace("line", r"li\u006ee"), "0]");
    assert!(cost(&mut decoder, &escaped).1.is_ok());
}

#[test]
fn error_quotes_only_the_beginning_of_the_data() {
    let key = "ä".repeat(100_000);
    let value = tremor_abi::literal!({ "measurement": "m", "fields": { (key.as_str()): [1] } });
    let mut encoder = components::codec("influx", &json!(null)).expect("a codec").encoder();
    let error = encoder.value((&value).into(), &mut Bytes::new()).expect_err("an array");
    assert!((1_024..1_100).contains(&error.to_string().len()), "{}", error.to_string().len());
}

#[test]
fn last_value_of_duplicate_keys_wins_at_every_level() {
    let mut text = "{\"a\":1,\"b\":2}".to_owned();
    let mut expected = text.clone();
    for _ in 0..400 {
        text = format!("{{\"a\":[0],\"b\":{{\"a\":0,\"a\":9}},\"a\":{text}}}");
        expected = format!("{{\"a\":{expected},\"b\":{{\"a\":9}}}}");
    }
    assert_eq!(decode("json", text.as_bytes()), Ok(expected));
}

#[test]
fn many_parameters_of_one_name_stay_in_order() {
    let names: Vec<String> = (0..1_000).map(|n| format!(" p{}=\"{n}\"", n % 334)).collect();
    let names = names.concat();
    let decoded =
        decode("syslog", format!("<1>1 - - - - - [e{names}]").as_bytes()).expect("syslog");
    let decoded: serde_json::Value = serde_json::from_str(&decoded).expect("JSON");
    let element = decoded["structured_data"]["e"].as_object().expect("an object");
    assert_eq!(element.len(), 334);
    assert_eq!(element["p0"], json!(["0", "334", "668"]));
    assert_eq!(element["p333"], json!(["333", "667"]));
}
