//! Limits of the memory and output that little input can cause.

use serde_json::json;
use tremor_abi::batch::HostBatch;
use tremor_pdk::{Batch, Component, testing::TestHost};
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use super::DecompressZstd;
use crate::processor::testing::{frame, messages, pre, process, process_all};

const FORMATS: [&str; 5] = ["gzip", "zstd", "lz4", "snappy", "xz"];

fn fragment(stream: u64, bytes: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.stream(stream).push_fragment(bytes);
    batch
}

#[test]
fn stream_of_any_ratio_leaves_in_light_batches() {
    let zeros = vec![0; 6 << 20];
    for name in FORMATS {
        let bomb = frame(name, &json!(null), std::slice::from_ref(&zeros)).0.concat();
        for decompress in [name, "decompress"] {
            let mut batch = fragment(7, &bomb);
            batch.stream(8).push_fragment(&bomb[..bomb.len() / 2]);
            batch.stream(7).end();
            let decompress = &mut *pre(decompress, &json!({}));
            let (batches, rejected) = process_all(decompress, batch);
            assert_eq!(rejected, [] as [String; 0], "{name}");
            assert!(batches.len() >= 4, "{name}: {}", batches.len());
            let heaviest = batches.iter().map(Batch::weight).max().unwrap();
            // The remaining input is in the same batch as the output.
            let most = Batch::WEIGHT_AT_MOST + 2 * bomb.len() + (64 << 10);
            assert!(heaviest <= most, "{name}: {heaviest}");
            let mut length = 0;
            for batch in &batches {
                let mine = batch.events().iter().filter(|event| event.stream == 7);
                length += mine.map(|event| batch.raw(event).map_or(0, <[u8]>::len)).sum::<usize>();
            }
            assert_eq!(length, zeros.len(), "{name}");
            assert_eq!(decompress.streams(), [8], "{name}: the other stream has not ended");
        }
    }
}

/// Returns a zstd frame that needs a window of 2^`log` bytes.
fn zstd_with_window(log: u32, data: &[u8]) -> Vec<u8> {
    let mut context = CCtx::create();
    context.set_parameter(CParameter::WindowLog(log)).unwrap();
    let mut frame = vec![0; zstd::zstd_safe::compress_bound(data.len()) + 100];
    let mut out = OutBuffer::around(frame.as_mut_slice());
    // Without a known size of the data, the frame contains the configured window.
    context.compress_stream(&mut out, &mut InBuffer::around(data)).unwrap();
    while context.end_stream(&mut out).unwrap() > 0 {}
    let length = out.pos();
    frame.truncate(length);
    frame
}

#[test]
fn window_above_the_limit_is_rejected_at_once() {
    let zstd = zstd_with_window(25, b"small");
    let xz = frame("xz", &json!({ "level": 9 }), &[vec![b'x'; 17 << 20]]).0.concat();
    for (name, data) in [("zstd", &zstd), ("xz", &xz)] {
        let decompress = &mut *pre(name, &json!({ "max_memory": 16 << 20 }));
        let (batches, rejected) = process_all(decompress, fragment(0, data));
        assert!(batches.iter().all(|batch| messages(batch).is_empty()), "{name}");
        assert!(rejected[0].contains("`max_memory`"), "{name}: {}", rejected[0]);
        let decompress = &mut *pre(name, &json!({ "max_memory": 33 << 20 }));
        let (_, rejected) = process_all(decompress, fragment(0, data));
        assert_eq!(rejected, [] as [String; 0], "{name}");
    }
}

#[test]
fn many_short_streams_stay_within_the_memory_limit() {
    for name in FORMATS {
        // The start creates a decompressor but does not complete the data.
        let bytes = frame(name, &json!(null), &[[b'x'; 1_000]]).0.concat();
        let start = &bytes[..bytes.len() - 5];
        let decompress = &mut *pre(name, &json!({ "max_memory": 1 }));
        let mut lost = Vec::new();
        for stream in 0..200 {
            lost.extend(process_all(decompress, fragment(stream, start)).1);
        }
        assert!((2..199).contains(&lost.len()), "{name}: {} are lost", lost.len());
        assert!(lost[0].contains("raise `max_memory`"), "{}", lost[0]);
        // The first stream still has its memory.
        let (_, rejected) = process_all(decompress, fragment(0, &bytes[bytes.len() - 5..]));
        assert_eq!(rejected, [] as [String; 0], "{name}");
        // Streams that ended release their memory.
        let mut ends = Batch::new();
        (0..200).for_each(|stream| ends.stream(stream).abort());
        process_all(decompress, ends);
        assert_eq!(process_all(decompress, fragment(0, start)).1, [] as [String; 0], "{name}");
    }
}

#[test]
fn input_of_streams_raises_their_memory_limit() {
    let text: Vec<u8> = (0..400_000_u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
    let bytes = frame("zstd", &json!(null), &[text]).0.concat();
    let decompress = &mut *pre("zstd", &json!({ "max_memory": 4 << 20 }));
    for stream in 0..20 {
        let start = &bytes[..bytes.len() - 5];
        let rejected = process_all(decompress, fragment(stream, start)).1;
        assert_eq!(rejected, [] as [String; 0], "{stream}");
    }
}

#[test]
fn decompressor_kept_between_whole_messages_is_counted() {
    const WINDOW: usize = 4 << 20;
    let host = TestHost::new();
    let config = serde_json::from_value(json!({})).unwrap();
    let mut decompress = DecompressZstd::new(config, host.context()).unwrap();
    let mut whole = |bytes: &[u8]| {
        let mut batch = Batch::new();
        batch.push_message(bytes);
        process(&mut decompress, &mut batch)
    };
    assert_eq!(whole(&zstd_with_window(22, &vec![b'x'; WINDOW - 1])), [] as [String; 0]);
    assert!(host.memory() >= WINDOW, "{}", host.memory());
    // A failed message ends its decompressor.
    assert_eq!(whole(b"not zstd").len(), 1);
    assert!(host.memory() < WINDOW, "{}", host.memory());
}
