//! What little input may cost.

use serde_json::json;
use tremor_abi::batch::HostBatch;
use tremor_pdk::Batch;
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use crate::processor::testing::{frame, messages, pre, process_all};

const FORMATS: [&str; 5] = ["gzip", "zstd", "lz4", "snappy", "xz"];

fn fragment(stream: u64, bytes: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.stream(stream).push_fragment(bytes);
    batch
}

#[test]
fn a_stream_of_any_ratio_comes_out_in_light_batches() {
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
            // The rest of the input comes with what is made of it.
            let most = Batch::WEIGHT_AT_MOST + 2 * bomb.len() + (64 << 10);
            assert!(heaviest <= most, "{name}: {heaviest}");
            let mut length = 0;
            for batch in &batches {
                let mine = batch.events().iter().filter(|event| event.stream == 7);
                length += mine.map(|event| batch.raw(event).map_or(0, <[u8]>::len)).sum::<usize>();
            }
            assert_eq!(length, zeros.len(), "{name}");
            assert_eq!(decompress.streams(), [8], "{name}: the other one has not ended");
        }
    }
}

/// A zstd frame that asks for a window of this size.
fn zstd_with_window(log: u32, data: &[u8]) -> Vec<u8> {
    let mut context = CCtx::create();
    context.set_parameter(CParameter::WindowLog(log)).unwrap();
    let mut frame = vec![0; zstd::zstd_safe::compress_bound(data.len()) + 100];
    let mut out = OutBuffer::around(frame.as_mut_slice());
    // Without an end the size is not known, and the window is as it was set.
    context.compress_stream(&mut out, &mut InBuffer::around(data)).unwrap();
    while context.end_stream(&mut out).unwrap() > 0 {}
    let length = out.pos();
    frame.truncate(length);
    frame
}

#[test]
fn a_window_above_the_limit_is_refused_as_soon_as_it_is_asked_for() {
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
fn many_streams_of_a_few_bytes_take_no_more_than_the_limit_and_the_others_go_on() {
    for name in FORMATS {
        // Enough for a decompressor to be made, and not the whole of the data.
        let bytes = frame(name, &json!(null), &[[b'x'; 1_000]]).0.concat();
        let start = &bytes[..bytes.len() - 5];
        let decompress = &mut *pre(name, &json!({ "max_memory": 1 }));
        let mut lost = Vec::new();
        for stream in 0..200 {
            lost.extend(process_all(decompress, fragment(stream, start)).1);
        }
        assert!((2..199).contains(&lost.len()), "{name}: {} are lost", lost.len());
        assert!(lost[0].contains("raise `max_memory`"), "{}", lost[0]);
        // The first one has its place still.
        let (_, rejected) = process_all(decompress, fragment(0, &bytes[bytes.len() - 5..]));
        assert_eq!(rejected, [] as [String; 0], "{name}");
        // What has ended makes room.
        let mut ends = Batch::new();
        (0..200).for_each(|stream| ends.stream(stream).abort());
        process_all(decompress, ends);
        assert_eq!(process_all(decompress, fragment(0, start)).1, [] as [String; 0], "{name}");
    }
}

#[test]
fn what_has_been_read_of_streams_pays_for_their_windows() {
    let text: Vec<u8> = (0..400_000_u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
    let bytes = frame("zstd", &json!(null), &[text]).0.concat();
    let decompress = &mut *pre("zstd", &json!({ "max_memory": 4 << 20 }));
    for stream in 0..20 {
        let start = &bytes[..bytes.len() - 5];
        let rejected = process_all(decompress, fragment(stream, start)).1;
        assert_eq!(rejected, [] as [String; 0], "{stream}");
    }
}
