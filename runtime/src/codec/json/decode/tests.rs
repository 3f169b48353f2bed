mod errors;

use proptest::prelude::*;

use super::*;
use crate::codec::json::{EncodeOptions, Encoder};
use tremor_abi::document::{Document, validate};

/// Decodes a message in the middle of a batch, and encodes the result to JSON.
fn decode_with(options: DecodeOptions, message: &[u8]) -> Result<String, Error> {
    let mut bytes = Bytes::from_slice(b"{\"before\":1}");
    let span = Span { start: 12, len: u32::try_from(message.len()).expect("a short message") };
    bytes.extend_from_copy_slice(message);
    bytes.extend_from_copy_slice(b"[\"behind\"");
    let mut nodes = Nodes::from_slice(&[tremor_abi::document::Node::null()]);
    let mut decoder = Decoder::new(options);
    let decoded = decoder.decode(&mut bytes, span, &mut nodes);
    assert_eq!(&bytes[12..12 + message.len()], message, "the message is unchanged");
    assert_eq!(
        &bytes[12 + message.len()..][..9],
        b"[\"behind\"",
        "the bytes after the message are unchanged"
    );
    let root = match decoded {
        Ok(root) => root,
        Err(error) => {
            assert_eq!(nodes.len(), 1, "an error leaves no nodes");
            assert!(bytes.len() <= 12 + message.len() + INPUT_PADDING, "an error leaves no copy");
            return Err(error);
        }
    };
    assert_eq!(root, 1);
    assert_eq!(validate(&bytes, &nodes, root), Ok(()));
    assert_eq!(nodes[1].span(), nodes.len() as u64 - 1);
    let mut out = Bytes::new();
    Encoder::new(EncodeOptions::default()).document(&bytes, &nodes, root, &mut out)?;
    Ok(String::from_utf8(out.into()).expect("JSON is UTF-8"))
}

fn decode(message: impl AsRef<[u8]>) -> Result<String, String> {
    decode_with(DecodeOptions::default(), message.as_ref()).map_err(|error| error.to_string())
}

#[track_caller]
fn accept(message: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(decode(message).as_deref(), Ok(expected));
}

#[track_caller]
fn reject(message: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(decode(message), Err(expected.to_owned()));
}

#[test]
fn any_value_may_be_a_message() {
    for message in ["null", "true", "false", "0", "\"\"", "[]", "{}", "-1", "1.5", "[null]"] {
        accept(message, message);
        accept(format!(" \t\r\n{message}\n\t\r "), message);
    }
}

#[test]
fn containers_nest_and_keep_their_order() {
    accept(r#"{"b":[1,{"c":[]},[[]]],"a":{"d":{}}}"#, r#"{"b":[1,{"c":[]},[[]]],"a":{"d":{}}}"#);
    accept("[ 1 , [ ] , { } ]", "[1,[],{}]");
}

#[test]
fn utf8_signature_is_not_part_of_the_message() {
    accept("\u{feff}{\"a\":1}", "{\"a\":1}");
    accept("\u{feff}[\"\\n\"]", "[\"\\n\"]");
    // Within a text, the code point is an ordinary character.
    accept("\"\u{feff}\"", "\"\u{feff}\"");
}

#[test]
fn invalid_utf8_is_rejected_with_its_position() {
    for (message, at) in [
        (&b"[\"\xff\"]"[..], 2),
        (b"\"\xc0\xaf\"", 1),         // overlong
        (b"\"ab\xed\xa0\x80\"", 3),   // a surrogate
        (b"\"\xf4\x90\x80\x80\"", 1), // above U+10FFFF
        (b"\"\xe2\x82\"", 1),         // cut short
        (b"{\"\\n\xff\":1}", 4),      // in a message that is copied aside
        (b"\xff", 0),
    ] {
        reject(message, &format!("invalid UTF-8 at byte {at}"));
    }
    accept("\"é€😀\u{7f}\u{10ffff}\"", "\"é€😀\u{7f}\u{10ffff}\"");
}

#[test]
fn escapes_are_resolved_and_invalid_ones_rejected() {
    accept(r#""\"\\\/\b\f\n\r\t""#, r#""\"\\/\b\f\n\r\t""#);
    accept(r#""\u0041\u00e9\u20AC\ud83d\ude00\uffff""#, "\"Aé€😀\u{ffff}\"");
    accept(r#"{"\u0000":"a\u0000b"}"#, r#"{"\u0000":"a\u0000b"}"#);
    for escape in [
        r"\x",
        r"\u12",
        r"\u123g",
        r"\u+123",
        r"\ud800",
        r"\ud800x",
        r"\ud800\u0041",
        r"\udc00",
        r"\U0041",
        r"\'",
    ] {
        reject(format!("[\"ok\\n\", \"{escape}\"]"), "invalid escape in a string at byte 10");
    }
}

#[test]
fn integers_of_64_bits_are_exact() {
    for number in ["0", "-1", "9223372036854775807", "-9223372036854775808", "18446744073709551615"]
    {
        accept(number, number);
        accept(format!("[{number}]"), &format!("[{number}]"));
    }
    accept("-0", "-0.0");
    accept("[-0,0]", "[-0.0,0]");
}

/// Numbers that no 64-bit integer or float represents exactly.
const INEXACT: &[&str] = &[
    "18446744073709551616",
    "-9223372036854775809",
    "100000000000000000000000",
    "1e400",
    "-1E+400",
    "1e-400",
    "3.14159265358979323846",
    "123456789012345678.9",
    "0.1000000000000000055511151231257827",
    "9007199254740993.0",
    "4.9e-324",
    "-0.00000000000000000000000000000000000000000000000000000000000000012345678901234567891e-300",
];

#[test]
fn inexact_numbers_keep_their_text() {
    for number in INEXACT {
        accept(number, number);
        accept(format!(" {number} "), number);
        accept(format!(r#"{{"a":[1,{number},2.5]}}"#), &format!(r#"{{"a":[1,{number},2.5]}}"#));
        // An escape requires the complete parser. Digits in strings are not numbers.
        accept(
            format!(r#"{{"1e999\n":"7\"8", "a":[-0,{number},"\\",2.50,{number},3]}}"#),
            &format!(r#"{{"1e999\n":"7\"8","a":[-0.0,{number},"\\",2.5,{number},3]}}"#),
        );
        // The first of two values of a key is dropped.
        accept(
            format!(r#"{{"a":"\n","b":1.5,"b":{number}}}"#),
            &format!(r#"{{"a":"\n","b":{number}}}"#),
        );
    }
    let huge = "9".repeat(400);
    accept(&huge, &huge);
}

#[test]
fn errors_behind_inexact_numbers_are_reported() {
    reject("[1e400,]", "expected a JSON value, found `]` at byte 7");
    reject("[1e400,01]", "the number 01 is not valid at byte 7");
    reject("[18446744073709551616", "the message ends within a value at byte 21");
}

#[test]
fn inexact_numbers_become_floats_if_configured() {
    let floats = DecodeOptions { nearest_floats: true, ..DecodeOptions::default() };
    let read = |message: &str| decode_with(floats, message.as_bytes()).map_err(|e| e.to_string());
    for (number, float) in [
        ("18446744073709551616", "18446744073709552000.0"),
        ("-9223372036854775809", "-9223372036854776000.0"),
        ("1e-400", "0.0"),
    ] {
        let message = format!(r#"{{"a\n{number}":[1,{number},{number}]}}"#);
        let decoded = read(&message).expect("floats");
        let parsed: serde_json::Value = serde_json::from_str(&decoded).expect("JSON");
        let float: f64 = float.parse().expect("a float");
        assert_eq!(parsed[format!("a\n{number}")], serde_json::json!([1, float, float]));
    }
    assert_eq!(read("[1,18446744073709551615]").as_deref(), Ok("[1,18446744073709551615]"));
    let huge = "9".repeat(400);
    let error = format!("the number {}… does not fit into a float at byte 1", &huge[..40]);
    assert_eq!(read(&format!("[{huge}]")), Err(error));
    let error = "the number -1e400 does not fit into a float at byte 9";
    assert_eq!(read(r#"["\n", 1,-1e400]"#), Err(error.to_owned()));
    assert!(read("[18446744073709551616,").is_err());
}

#[test]
fn floats_are_the_nearest_ones() {
    for (text, value) in [
        ("1e308", 1e308),
        ("1.7976931348623157e308", f64::MAX),
        ("2.2250738585072014e-308", f64::MIN_POSITIVE),
        ("5e-324", 5e-324),
        ("2.225073858507201e-308", 2.225_073_858_507_201e-308),
        ("-0.0", -0.0),
        ("-0e5", -0.0),
        ("0.1", 0.1),
        ("1.10", 1.1),
        ("1E+2", 100.0),
        ("9007199254740992.0", 9_007_199_254_740_992.0),
        ("0.300000000000000040000000000000000000000000000000000000000", 0.300_000_000_000_000_04),
    ] {
        for message in [text.to_owned(), format!("[{text},\"\\n\"]")] {
            let decoded = decode(&message).expect(text);
            let parsed: serde_json::Value = serde_json::from_str(&decoded).expect("JSON");
            let read = parsed.as_f64().or_else(|| parsed[0].as_f64()).expect("a float");
            assert_eq!(read.to_bits(), value.to_bits(), "{message} became {decoded}");
        }
    }
}

#[test]
fn malformed_numbers_are_rejected() {
    for number in
        ["01", "-01", "1.", "1.e1", "1e", "1e+", "-", "--1", "1.2.3", "0x1", "1_000", "1a"]
    {
        let error = decode(format!("[{number}]")).expect_err(number);
        assert!(error.ends_with("is not valid at byte 1"), "{number}: {error}");
    }
    for number in [".5", "+1", "NaN", "Infinity", "-Infinity"] {
        decode(format!("[{number}]")).expect_err(number);
    }
}

#[test]
fn nesting_is_limited_without_recursion() {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    accept(nested(MAX_DEPTH), &nested(MAX_DEPTH));
    reject(nested(MAX_DEPTH + 1), "nested deeper than 512 levels at byte 512");
    reject("[".repeat(100_000), "nested deeper than 512 levels at byte 512");
    reject("{\"a\":".repeat(100_000), "nested deeper than 512 levels at byte 2560");
    let shallow = DecodeOptions { max_depth: 2, ..DecodeOptions::default() };
    assert_eq!(decode_with(shallow, b"[[1]]").as_deref(), Ok("[[1]]"));
    let error = decode_with(shallow, b"{\"a\":[{}]}").expect_err("three levels");
    assert_eq!(error.to_string(), "nested deeper than 2 levels at byte 6");
}

#[test]
fn last_value_of_duplicate_keys_replaces_the_first() {
    accept(r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#);
    accept(
        r#"{"a":1,"\u0061":[{"b":1,"b":{"c":2}}],"a":[{"d":1,"d":[2]},3]}"#,
        r#"{"a":[{"d":[2]},3]}"#,
    );
    accept(r#"[{"":1,"":2},{"x":{"y":1,"y":2},"z":3}]"#, r#"[{"":2},{"x":{"y":2},"z":3}]"#);
    accept(r#"{"ab":1,"axb":2,"ayb":3,"azb":4}"#, r#"{"ab":1,"axb":2,"ayb":3,"azb":4}"#);
}

#[test]
fn duplicate_keys_are_found_in_large_objects() {
    let pairs = |keys: std::ops::Range<usize>| keys.map(|key| format!("\"key {key}\":{key}"));
    for count in [31, 32, 33, 34, 1000] {
        let object = |keys| format!("{{{}}}", pairs(keys).collect::<Vec<_>>().join(","));
        let plain = object(0..count);
        accept(&plain, &plain);
        let doubled = plain.replace('}', ",\"key 7\":true}");
        accept(&doubled, &plain.replace("\"key 7\":7", "\"key 7\":true"));
        let inner = format!("{{\"a\":{doubled},\"b\":{plain},\"a\":0}}");
        accept(&inner, &format!("{{\"a\":0,\"b\":{plain}}}"));
    }
}

#[test]
fn large_objects_and_texts_are_decoded() {
    let pairs: Vec<_> = (0..100_000).map(|key| format!("\"{key}\":{{\"k\":{key}}}")).collect();
    let message = format!("{{{}}}", pairs.join(","));
    accept(&message, &message);
    for text in ["x".repeat(1 << 20), "é\\n".repeat(1 << 18)] {
        let message = format!("[\"{text}\"]");
        accept(&message, &message);
    }
}

#[test]
fn messages_share_a_batch_at_any_offset() {
    let messages = ["{\"a\":\"b\"}", "[1,", "\"\\u0041\"", "{\"a\":\"c\"}"];
    let mut bytes = Bytes::from_slice(messages.concat().as_bytes());
    let mut nodes = Nodes::new();
    let mut decoder = Decoder::new(DecodeOptions::default());
    let mut start = 0;
    let mut decoded = Vec::new();
    for message in messages {
        let len = u32::try_from(message.len()).expect("a short message");
        decoded.push(decoder.decode(&mut bytes, Span { start, len }, &mut nodes));
        start += len;
    }
    let document = Document::new(&bytes, &nodes);
    let texts: Vec<_> = decoded
        .into_iter()
        .map(|root| root.map(|root| document.root(root).to_string()).map_err(|e| e.to_string()))
        .collect();
    assert_eq!(texts[0].as_deref(), Ok("{\"a\":\"b\"}"));
    assert_eq!(texts[1], Err("the message ends within a value at byte 3".to_owned()));
    assert_eq!(texts[2].as_deref(), Ok("\"A\""));
    assert_eq!(texts[3].as_deref(), Ok("{\"a\":\"c\"}"));
}

#[test]
fn span_outside_of_the_batch_is_an_error() {
    let mut decoder = Decoder::new(DecodeOptions::default());
    for span in [
        Span { start: 0, len: 2 },
        Span { start: 2, len: 0 },
        Span { start: u32::MAX, len: u32::MAX },
    ] {
        let error = decoder.decode(&mut Bytes::from_slice(b"1"), span, &mut Nodes::new());
        assert_eq!(error.expect_err("outside").message(), "the message lies outside its batch");
    }
}

/// Generates texts that are JSON, or nearly.
fn nearly_json() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        "-?(0|[1-9][0-9]{0,20})",
        "-?[0-9]{1,20}(\\.[0-9]{0,19})?([eE][+-]?[0-9]{0,3})?",
        "\"[ -~]{0,70}\"",
        "\"[a-cé€\u{0}\t\\\\]{0,40}\"",
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("null".to_owned()),
        "[\\[\\]{}:,\"0-9eE.+\\-a-z \n]{0,9}",
    ];
    scalar.prop_recursive(5, 60, 8, |inner| {
        let blank = || "[ \n\t\r]{0,2}";
        let colon = prop_oneof![19 => Just(":".to_owned()), 1 => "[:,;\"1]{0,2}"];
        let pairs = prop::collection::vec(("[a-d]{0,2}", blank(), colon, inner.clone()), 0..8);
        prop_oneof![
            prop::collection::vec((blank(), inner), 0..8).prop_map(|elements| {
                let text = |(blank, element)| format!("{blank}{element}{blank}");
                format!("[{}]", elements.into_iter().map(text).collect::<Vec<_>>().join(","))
            }),
            pairs.prop_map(|pairs| {
                let text = |(key, blank, colon, value)| {
                    format!("{blank}\"{key}\"{blank}{colon}{blank}{value}")
                };
                format!("{{{}}}", pairs.into_iter().map(text).collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn plain_reader_agrees_with_parser(message in nearly_json()) {
        let mut bytes = Bytes::from_slice(message.as_bytes());
        bytes.extend_from_copy_slice(b"\"}],1");
        bytes.resize(bytes.len() + INPUT_PADDING, 0);
        let mut decoder = Decoder::new(DecodeOptions { max_depth: 5, ..DecodeOptions::default() });
        let mut plain = Nodes::new();
        let read = decoder.read_plain(&bytes, 0..message.len(), &mut plain);
        let value = |bytes: &Bytes, nodes: &Nodes| {
            let document = Document::validated(bytes, nodes, 0).expect("a valid document");
            format!("{:?}", document.to_value())
        };
        let read = read.map(|_| value(&bytes, &plain));
        let copy = append_copy(&mut bytes, 0..message.len());
        let is_blanked = numbers::blank(&mut bytes[copy..][..message.len()]);
        let mut parsed = Nodes::new();
        let taken = decoder.parse(&mut bytes, 0..message.len(), copy, is_blanked, &mut parsed).is_ok();
        if read.is_some() {
            prop_assert!(taken);
            prop_assert_eq!(read, Some(value(&bytes, &parsed)));
        } else {
            prop_assert!(plain.is_empty());
            let is_rare = || message.contains(['\\', '.']) || message.len() > 19;
            prop_assert!(!taken || is_rare(), "the message should be plain");
        }
    }

    #[test]
    fn processors_without_avx2_have_the_same_results(message in nearly_json()) {
        let decoded = |without: bool| {
            let mut bytes = Bytes::from_slice(message.as_bytes());
            let span = Span { start: 0, len: u32::try_from(message.len()).expect("a short message") };
            let (mut nodes, mut out) = (Nodes::new(), Bytes::new());
            let (mut decoder, mut encoder) = (Decoder::new(DecodeOptions::default()), Encoder::default());
            if without {
                decoder.plain = plain::Reader::without_avx2();
                encoder = Encoder::without_avx2();
            }
            let root = decoder.decode(&mut bytes, span, &mut nodes).ok()?;
            encoder.document(&bytes, &nodes, root, &mut out).expect("decoded JSON can be encoded");
            Some((nodes, out))
        };
        prop_assert_eq!(decoded(true), decoded(false));
    }
}

/// Decodes a message, and returns its JSON or its error, and whether the value is exact.
fn decoded_by(decoder: &mut Decoder, message: &str) -> (Result<String, String>, bool) {
    let (mut bytes, mut nodes) = (Bytes::from_slice(message.as_bytes()), Nodes::new());
    let span = Span { start: 0, len: u32::try_from(message.len()).unwrap() };
    let decoded = decoder.decode(&mut bytes, span, &mut nodes).map(|root| {
        let mut out = Bytes::new();
        Encoder::new(EncodeOptions::default()).document(&bytes, &nodes, root, &mut out).unwrap();
        String::from_utf8(out.into()).unwrap()
    });
    let is_exact = decoded.is_ok() && decoder.is_exact();
    (decoded.map_err(|error| error.to_string()), is_exact)
}

const MESSAGES: [&str; 14] = [
    r#"{"a":"b"}"#,
    r#"{"a":"b\n"}"#,
    r#"{ "a": "b\\" }"#,
    "\n{\"a\":1}\r\n",
    "{\"a\":\n1}",
    "[\r1]",
    "[\"\\u0041\",\n1]",
    "\u{feff}[1]\n",
    "\u{feff}[1,\n2]",
    "[1e400]",
    "[1e400,\n2]",
    r#"{"a":1,"a":2}"#,
    r#"["\x"]"#,
    "[1",
];

proptest! {
    #[test]
    fn earlier_messages_do_not_matter(order in prop::collection::vec(0..MESSAGES.len(), 0..30)) {
        let mut decoder = Decoder::new(DecodeOptions::default());
        // A run of messages without escapes, and then any messages.
        for at in std::iter::repeat_n(0, 20).chain(order) {
            let reused = decoded_by(&mut decoder, MESSAGES[at]);
            let fresh = decoded_by(&mut Decoder::new(DecodeOptions::default()), MESSAGES[at]);
            prop_assert_eq!(reused, fresh, "{}", MESSAGES[at]);
        }
    }
}

#[test]
fn value_of_a_line_with_all_its_keys_is_exact() {
    let exact = MESSAGES.map(|message| {
        let mut decoder = Decoder::new(DecodeOptions::default());
        decoded_by(&mut decoder, message).1
    });
    let expected = [
        true, true, true, true, false, false, false, true, false, true, false, false, false, false,
    ];
    assert_eq!(exact, expected);
}
