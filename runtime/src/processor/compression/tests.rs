use serde_json::{Value, json};
use tremor_abi::batch::{Event, HostBatch};
use tremor_pdk::Batch;

use crate::processor::testing::{
    cut_anywhere, frame, messages, postprocessor, pre, preprocessor, process, run,
};

/// Returns the formats: their names, and their configurations before and after a codec.
fn formats() -> Vec<(&'static str, Value, Value)> {
    let none = json!(null);
    let raw = json!({ "format": "raw" });
    let mut formats: Vec<_> = ["gzip", "zstd", "lz4", "snappy", "xz"]
        .map(|name| (name, none.clone(), none.clone()))
        .into();
    formats.push(("snappy", raw.clone(), raw));
    formats
}

/// Returns the formats of streams, which may contain several members.
fn streams() -> Vec<&'static str> {
    formats().into_iter().filter(|(_, pre, _)| pre.is_null()).map(|(name, ..)| name).collect()
}

/// Returns `length` bytes that are moderately compressible.
fn text(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b"aaaabcdefghijklm\n"[(state >> 16) as usize % 17]
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn message_is_unchanged_by_compression() {
    let texts = [text(0), text(1), b"x".repeat(100_000), text(300_000)];
    for (name, before, behind) in formats() {
        let (compressed, rejected) = frame(name, &behind, &texts);
        assert!(rejected.is_empty());
        assert!(compressed[2].len() < 6_000, "{name}: {}", compressed[2].len());
        for decompress in [name, "decompress"] {
            if decompress != name && !before.is_null() {
                continue;
            }
            let mut batch = Batch::new();
            compressed.iter().for_each(|message| batch.push_message(message));
            let mut decompress = pre(decompress, &before);
            assert_eq!(process(&mut *decompress, &mut batch), [] as [String; 0], "{name}");
            assert!(messages(&batch) == texts, "{name}");
        }
    }
}

#[test]
fn stream_of_members_is_the_same_in_any_fragments() {
    let texts = [text(2_000), text(0), text(10)];
    for name in streams() {
        let stream = frame(name, &json!(null), &texts).0.concat();
        for decompress in [name, "decompress"] {
            cut_anywhere(
                &stream,
                || pre(decompress, &json!(null)),
                |found, rejected| {
                    assert_eq!(rejected, [] as [String; 0], "{name}");
                    assert!(found.concat() == texts.concat(), "{name}");
                },
            );
        }
    }
}

#[test]
fn data_of_a_member_in_several_fragments_has_no_position() {
    for name in streams() {
        let member = frame(name, &json!(null), &[text(20_000)]).0.concat();
        let mut batch = Batch::new();
        for fragment in [&member[..], &member[..100], &member[100..]] {
            batch.stream(1).push_fragment(fragment);
        }
        let events = batch.events_mut().iter_mut().enumerate();
        events.for_each(|(position, event)| event.set_position(position));
        assert_eq!(process(&mut *pre(name, &json!(null)), &mut batch), [] as [String; 0]);
        let positions = || batch.events().iter().map(Event::position);
        assert_eq!(positions().next(), Some(Some(0)), "{name}");
        assert!(positions().all(|position| position != Some(2)), "{name}");
    }
}

#[test]
fn decompressed_stream_keeps_its_end() {
    for name in streams() {
        let stream = frame(name, &json!(null), &[text(100)]).0.concat();
        let mut batch = Batch::new();
        batch.stream(5).push_fragment(&stream);
        batch.stream(5).end();
        process(&mut *pre(name, &json!(null)), &mut batch);
        let [fragment, end] = batch.events() else { panic!("{name}: {batch:?}") };
        assert!(fragment.is_fragment() && end.is_stream_end());
        assert_eq!((fragment.stream, end.stream), (5, 5));
    }
}

#[test]
fn truncated_stream_yields_its_data_and_an_error() {
    for name in streams() {
        let stream = frame(name, &json!(null), &[text(5_000)]).0.concat();
        for length in [1, 5, 11, stream.len() / 2, stream.len() - 1] {
            for size in [1, 7, stream.len()] {
                let decompress = &mut *pre(name, &json!(null));
                let (found, rejected) = run(decompress, &stream[..length], size);
                assert!(text(5_000).starts_with(&found.concat()), "{name}");
                assert_eq!(rejected.len(), 1, "{name} {length}");
                let expected = format!("the {name} data was cut off: its end is missing");
                assert!(rejected[0].contains(&expected), "{name} {length}: {}", rejected[0]);
            }
        }
    }
}

#[test]
fn corrupt_stream_is_lost_and_others_continue() {
    for name in streams() {
        let good = frame(name, &json!(null), &[text(100)]).0.concat();
        let decompress = &mut *pre(name, &json!(null));
        let mut batch = Batch::new();
        batch.stream(1).push_fragment(b"this is not compressed data at all");
        batch.stream(2).push_fragment(&good);
        batch.stream(1).push_fragment(b"rest");
        batch.stream(1).push_fragment(&good);
        batch.stream(1).end();
        batch.stream(1).push_fragment(&good);
        let rejected = process(decompress, &mut batch);
        assert!(messages(&batch).concat() == [text(100), text(100)].concat(), "{name}");
        assert_eq!(rejected.len(), 2, "{name}: {rejected:?}");
        assert!(rejected[0].contains("the remainder of the stream is lost"), "{}", rejected[0]);
        let expected = format!("{} bytes after the failure", 4 + good.len());
        assert!(rejected[1].contains(&expected), "{}", rejected[1]);
    }
}

#[test]
fn flipped_bit_is_found_and_next_message_unaffected() {
    for (name, before, behind) in formats().into_iter().filter(|(_, before, _)| before.is_null()) {
        let good = frame(name, &behind, &[text(3_000)]).0.concat();
        let decompress = &mut *pre(name, &before);
        for position in (0..good.len()).step_by(97) {
            let mut bad = good.clone();
            bad[position] ^= 0x10;
            let mut batch = Batch::new();
            batch.push_message(&bad);
            batch.push_message(&good);
            let rejected = process(decompress, &mut batch);
            let found = messages(&batch);
            // A few bits, such as times and system names, do not affect the data.
            let harmless = rejected.is_empty() && found[0] == text(3_000);
            assert!(harmless || rejected.len() == 1, "{name}, byte {position}: {rejected:?}");
            assert!(found.last() == Some(&text(3_000)), "{name}, byte {position}");
        }
    }
}

#[test]
fn decompressed_message_stays_within_its_limit() {
    let bomb = vec![0; 10 << 20];
    for (name, mut before, behind) in formats() {
        let compressed = frame(name, &behind, &[bomb.as_slice(), b"next"]).0;
        if before.is_null() {
            before = json!({});
        }
        before["max_bytes"] = json!(1_000_000);
        let decompress = &mut *pre(name, &before);
        let mut batch = Batch::new();
        compressed.iter().for_each(|message| batch.push_message(message));
        let rejected = process(decompress, &mut batch);
        assert_eq!(messages(&batch), [b"next"], "{name}");
        assert_eq!(
            rejected,
            ["the decompressed message has more than 1000000 bytes: raise `max_bytes` to allow \
              more"],
            "{name}"
        );
        assert!(batch.byte_capacity() < 4 << 20, "{name}: {}", batch.byte_capacity());
    }
}

#[test]
fn long_stream_has_no_total_limit() {
    let long = text(3_000_000);
    for name in streams() {
        let stream = frame(name, &json!(null), std::slice::from_ref(&long)).0.concat();
        let decompress = &mut *pre(name, &json!({ "max_bytes": 1 }));
        let (found, rejected) = run(decompress, &stream, 1 << 10);
        assert_eq!(rejected, [] as [String; 0], "{name}");
        assert!(found.concat() == long, "{name}");
    }
}

#[test]
fn uncompressed_data_passes_format_detection() {
    let texts = [&b"{}"[..], b"", b"\x1f", b"\x1f\x8b", b"plain text"];
    let mut batch = Batch::new();
    texts.iter().for_each(|text| batch.push_message(text));
    assert!(process(&mut *pre("decompress", &json!(null)), &mut batch).is_empty());
    assert_eq!(messages(&batch), texts);
    for text in texts {
        cut_anywhere(
            text,
            || pre("decompress", &json!(null)),
            |found, rejected| {
                assert_eq!((found.concat().as_slice(), rejected.len()), (text, 0));
            },
        );
    }
}

#[test]
fn padding_of_streams_is_skipped() {
    for name in ["gzip", "xz", "zstd"] {
        let mut stream = frame(name, &json!(null), &[text(10)]).0.concat();
        stream.extend([0; 512]);
        cut_anywhere(
            &stream,
            || pre(name, &json!(null)),
            |found, rejected| {
                assert_eq!((found.concat(), rejected.len()), (text(10), 0), "{name}");
            },
        );
    }
}

#[test]
fn frames_without_data_are_skipped() {
    // The skippable frame that zstd and lz4 share, and the one of snappy.
    for (name, skipped) in [
        ("zstd", &b"\x53\x2a\x4d\x18\x04\0\0\0skip"[..]),
        ("lz4", b"\x53\x2a\x4d\x18\x04\0\0\0skip"),
        ("lz4", b"\x53\x2a\x4d\x18\0\0\0\0"),
        ("snappy", b"\xfe\x04\0\0skip"),
    ] {
        let frames = frame(name, &json!(null), &[text(10), text(20)]).0;
        let stream = [&frames[0][..], skipped, &frames[1], skipped].concat();
        cut_anywhere(
            &stream,
            || pre(name, &json!(null)),
            |found, rejected| {
                assert_eq!(rejected, [] as [String; 0], "{name}");
                assert_eq!(found.concat(), [text(10), text(20)].concat(), "{name}");
            },
        );
    }
}

#[test]
fn invalid_options_are_rejected() {
    for (name, config) in [
        ("gzip", json!({ "level": 10 })),
        ("zstd", json!({ "level": 0 })),
        ("xz", json!({ "level": 10 })),
        ("lz4", json!({ "level": 1 })),
        ("snappy", json!({ "format": "other" })),
    ] {
        assert!(postprocessor(name, &config).is_err(), "{name}");
        assert!(preprocessor(name, &config).is_err(), "{name}");
    }
    let error = preprocessor("gzip", &json!({ "max_bytes": 0 })).err().unwrap();
    let expected = "`max_bytes`: expected a number of bytes, 1 to 1073741824, ";
    assert!(error.message().starts_with(expected), "{error}");
}
