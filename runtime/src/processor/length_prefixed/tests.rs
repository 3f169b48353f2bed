use proptest::{collection::vec, prelude::*};
use serde_json::json;
use tremor_pdk::Batch;

use crate::processor::testing::{cut_anywhere, frame, messages, pre, process, run};

#[test]
fn framed_messages_are_split_in_any_fragments() {
    let long = "x".repeat(300);
    let texts = ["one", "", "three", long.as_str()];
    for (config, overhead) in [
        (json!({ "prefix": "decimal" }), 2 + 2 + 2 + 4),
        (json!({}), 4 * 4),
        (json!({ "prefix": "u16" }), 4 * 2),
        (json!({ "prefix": "u32", "endianness": "little" }), 4 * 4),
        (json!({ "prefix": "u64" }), 4 * 8),
        (json!({ "prefix": "varint" }), 5),
    ] {
        let (framed, rejected) = frame("length-prefixed", &config, &texts);
        assert!(rejected.is_empty());
        let stream = framed.concat();
        assert_eq!(stream.len(), 308 + overhead, "{config}");
        cut_anywhere(
            &stream,
            || pre("length-prefixed", &config),
            |found, rejected| {
                assert_eq!(found, texts.map(str::as_bytes), "{config}");
                assert_eq!(rejected, [] as [String; 0]);
            },
        );
    }
}

#[test]
fn length_has_the_configured_byte_order() {
    for (config, expected) in [
        (json!({}), &b"\0\0\0\x02ab"[..]),
        (json!({ "endianness": "little" }), b"\x02\0\0\0ab"),
        (json!({ "prefix": "u8" }), b"\x02ab"),
        (json!({ "prefix": "varint" }), b"\x02ab"),
    ] {
        assert_eq!(frame("length-prefixed", &config, &["ab"]).0, [expected], "{config}");
    }
}

#[test]
fn syslog_messages_are_framed_by_octet_counting() {
    let (one, two) = ("<13>1 - host app - - - one", "<13>two\nlines");
    let config = json!({ "prefix": "decimal" });
    let (framed, rejected) = frame("length-prefixed", &config, &[one, two]);
    assert!(rejected.is_empty());
    assert_eq!(framed.concat(), format!("26 {one}13 {two}").as_bytes());
    cut_anywhere(
        &framed.concat(),
        || pre("length-prefixed", &config),
        |found, rejected| {
            assert_eq!(found, [one.as_bytes(), two.as_bytes()]);
            assert_eq!(rejected, [] as [String; 0]);
        },
    );
}

#[test]
fn invalid_decimal_length_ends_the_stream() {
    for stream in
        ["1 a<13>message", "1 a 1 b", "1 a00 ", "1 a01 b", "1 a12x", "1 a184467440737095516160 "]
    {
        let config = json!({ "prefix": "decimal" });
        cut_anywhere(
            stream.as_bytes(),
            || pre("length-prefixed", &config),
            |found, rejected| {
                assert_eq!(found, [b"a"], "{stream}");
                assert!(rejected[0].starts_with("expected a length in decimal digits"), "{stream}");
            },
        );
    }
}

#[test]
fn message_too_long_for_its_prefix_is_rejected() {
    let (framed, rejected) =
        frame("length-prefixed", &json!({ "prefix": "u8" }), &["a", &"x".repeat(256), "b"]);
    assert_eq!(framed, [b"\x01a", b"\x01b"]);
    assert!(rejected[0].starts_with("a message of 256 bytes is too long"), "{}", rejected[0]);
}

#[test]
fn stream_continues_after_too_long_message() {
    let config = json!({ "prefix": "u8", "max_length": 3 });
    cut_anywhere(
        b"\x03abc\x04abcd\x01e",
        || pre("length-prefixed", &config),
        |found, rejected| {
            assert_eq!(found, [&b"abc"[..], b"e"]);
            assert_eq!(rejected.len(), 1);
            assert!(
                rejected[0].starts_with("a message of 4 bytes is longer than"),
                "{}",
                rejected[0]
            );
        },
    );
}

#[test]
fn truncated_stream_names_the_missing_part() {
    for (stream, expected) in [
        (&b"\x01a\x04ab"[..], "the stream ended within a message: 2 of 4 bytes were received"),
        (b"\x01a\x81", "the stream ends within a length"),
    ] {
        let config = json!({ "prefix": "varint" });
        cut_anywhere(
            stream,
            || pre("length-prefixed", &config),
            |found, rejected| {
                assert_eq!(found, [b"a"]);
                assert_eq!(rejected, [expected]);
            },
        );
    }
}

#[test]
fn stream_is_lost_after_an_invalid_length() {
    let stream = [&b"\x01a"[..], &[0xff; 10], b"rest"].concat();
    let config = json!({ "prefix": "varint" });
    cut_anywhere(
        &stream,
        || pre("length-prefixed", &config),
        |found, rejected| {
            assert_eq!(found, [b"a"]);
            assert_eq!(
                rejected,
                [
                    "the length has more than 64 bits: the remainder of the stream is lost",
                    "14 bytes were not split into messages, because an earlier part of the stream could not be split",
                ]
            );
        },
    );
}

#[test]
fn streams_and_whole_messages_do_not_mix() {
    let mut split = pre("length-prefixed", &json!({ "prefix": "u8" }));
    let mut batch = Batch::new();
    batch.stream(1).push_fragment(b"\x02a");
    batch.stream(2).push_fragment(b"\x01");
    batch.stream(3).push_message(b"\x01x\x01y");
    batch.stream(3).push_message(b"\x02z");
    batch.stream(1).push_fragment(b"b");
    batch.stream(2).push_fragment(b"c");
    let rejected = process(&mut *split, &mut batch);
    assert_eq!(messages(&batch), [&b"x"[..], b"y", b"ab", b"c"]);
    assert_eq!(rejected.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_format_reads_what_it_writes(
        texts in vec(prop_oneof![vec(any::<u8>(), 0..4), vec(any::<u8>(), 0..256)], 0..8),
        prefix in prop::sample::select(&["u8", "u16", "u32", "u64", "varint", "decimal"][..]),
        endianness in prop::sample::select(&["big", "little"][..]),
        size in 1..300_usize,
    ) {
        let config = json!({ "prefix": prefix, "endianness": endianness });
        let (framed, rejected) = frame("length-prefixed", &config, &texts);
        prop_assert!(rejected.is_empty(), "{:?}", rejected);
        let (found, rejected) = run(&mut *pre("length-prefixed", &config), &framed.concat(), size);
        prop_assert_eq!((found, rejected), (texts, Vec::new()));
    }
}
