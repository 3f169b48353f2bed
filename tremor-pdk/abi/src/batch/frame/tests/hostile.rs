//! Frames of unknown origin.

use super::*;
use crate::{
    batch::{
        Mark,
        frame::{FrameError, Header, apply_delta, verify},
    },
    literal,
};

/// Random numbers with a fixed seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`, which is not 0.
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }
}

/// Returns a batch with everything that a frame can contain.
fn everything() -> Batch {
    let mut batch = Batch::new();
    batch.push_message(b"unedited");
    batch.decode_as(|bytes, nodes, span| Ok((codec(bytes, nodes, span)?, Some(Format::Json))));
    batch.stream(1).push_message(b"raw");
    batch.stream(1).push_fragment(b"frag");
    batch
        .stream(2)
        .push(&literal!({ "a": [1, 2.5, "text", null, true], "b": { "c": "d" } }))
        .unwrap();
    batch.push(&"edited").unwrap();
    *batch.value_mut(4).unwrap() = literal!({ "edited": "value" });
    batch.set_metadata(1, literal!({ "m": 1 }));
    batch.write_metadata(2, |writer| writer.str("written")).unwrap();
    batch.set_origin_from(3, "here");
    let origin =
        Origin::new("peer", |writer| writer.write_value((&literal!({ "p": { "q": 7 } })).into()));
    batch.apply_origin(4, &origin);
    batch.stream(2).abort();
    batch
}

/// Changes a few bytes of a frame, or its length. Usually corrects the total length afterwards, so that the change is
/// not found there.
fn mutate(frame: &mut Vec<u8>, random: &mut Random) {
    const VALUES: [u64; 10] =
        [0, 1, 2, 55, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 32, u64::MAX, u64::MAX >> 1];
    for _ in 0..=random.below(3) {
        let at = random.below(frame.len());
        match random.below(6) {
            0 => frame[at] ^= 1 << random.below(8),
            1 => frame[at] = u8::try_from(random.below(256)).unwrap(),
            2 | 3 => {
                // An aligned number.
                let (size, value) =
                    ([1, 2, 4, 8][random.below(4)], VALUES[random.below(VALUES.len())]);
                let at = at / size * size;
                if let Some(space) = frame.get_mut(at..at + size) {
                    space.copy_from_slice(&value.to_le_bytes()[..size]);
                }
            }
            4 => {
                let (from, len) = (random.below(frame.len()), random.below(64));
                let end = (from + len).min(frame.len());
                let len = (end - from).min(frame.len() - at);
                frame.copy_within(from..from + len, at);
            }
            _ => frame.truncate(at.max(1)),
        }
    }
    if random.below(4) > 0
        && let Some(header) = frame.first_chunk::<{ Header::LEN }>()
    {
        let number =
            |at: usize| u64::from(u32::from_le_bytes(header[at..at + 4].try_into().unwrap()));
        let half =
            |at: usize| u64::from(u16::from_le_bytes(header[at..at + 2].try_into().unwrap()));
        let sum = half(6) + number(16) * half(20) + number(24) * 16 + number(32);
        let total = sum.next_multiple_of(8);
        frame[8..16].copy_from_slice(&total.to_le_bytes());
        if let Ok(total) = usize::try_from(total)
            && total <= 1 << 20
        {
            frame.resize(total, 0);
        }
    }
}

/// Checks that a batch from a hostile frame can be read, written and read again.
fn use_up(batch: &Batch) {
    batch.validate().unwrap();
    let before = seen(batch);
    let frame = encoded(batch, Medium::Process);
    assert_eq!(seen(&decode(&frame, &Pool::new(1), Medium::Process).unwrap().batch), before);
}

/// Number of mutations of each kind of frame: the whole test takes seconds.
const MUTATIONS: usize = 35_000;

#[test]
fn mutated_frames_are_refused_or_valid() {
    let (pool, mut random) = (Pool::new(2), Random(1));
    let valid = encoded(&everything(), Medium::Process);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..MUTATIONS {
        let mut frame = valid.clone();
        mutate(&mut frame, &mut random);
        match decode(&frame, &pool, Medium::Process) {
            Ok(decoded) => {
                accepted += 1;
                use_up(&decoded.batch);
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().len() > 20);
            }
        }
    }
    assert!(accepted > 1_000 && refused > 10_000, "{accepted} and {refused}");
}

#[test]
fn mutated_records_are_refused_or_valid() {
    let (pool, mut random) = (Pool::new(2), Random(2));
    let mut valid = encoded(&for_disk(everything()), Medium::Disk);
    super::super::stamp(&mut valid, 1, 77).unwrap();
    for _ in 0..MUTATIONS {
        let mut record = valid.clone();
        mutate(&mut record, &mut random);
        let is_same = record.starts_with(&valid);
        assert_eq!(verify(&record, 77).is_ok(), is_same);
        if let Ok(mut decoded) = decode(&record, &pool, Medium::Disk) {
            super::super::restore(&mut decoded.batch, |_, bytes, nodes, span| {
                codec(bytes, nodes, span)
            });
            decoded.batch.validate().unwrap();
            encoded(&decoded.batch, Medium::Disk);
        }
    }
}

#[test]
fn mutated_answers_are_refused_or_valid() {
    let mut random = Random(3);
    let mut host = everything();
    let mut call = Vec::new();
    let mut encoder = Encoder::new(Medium::Process);
    encoder.prepare_call(&mut host).unwrap().append_to(0, &mut call);
    let mut child = decoded(&call, Medium::Process).batch;
    child.events.remove(1);
    child
        .write_metadata(0, |writer| writer.write_value((&literal!({ "new": "x" })).into()))
        .unwrap();
    *child.value_mut(2).unwrap() = literal!(["edited", "again"]);
    let mut valid = Vec::new();
    encoder.prepare_answer(&child, &call).unwrap().append_to(0, &mut valid);
    let (before, mut mark) = (seen(&host), Mark::default());
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..MUTATIONS {
        let mut answer = valid.clone();
        mutate(&mut answer, &mut random);
        let mut batch = host.clone();
        match apply_delta(&mut batch, &mut mark, &answer) {
            Ok(_) => {
                accepted += 1;
                use_up(&batch);
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().len() > 20);
                assert_eq!((batch.nodes(), batch.bytes()), (host.nodes(), host.bytes()));
                assert_eq!(batch.events(), host.events());
            }
        }
    }
    assert!(accepted > 1_000 && refused > 10_000, "{accepted} and {refused}");
    assert_eq!(seen(&host), before);
}

/// Returns the error for the frame of [`everything`] with a change.
fn refused(change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut frame = encoded(&everything(), Medium::Process);
    change(&mut frame);
    decode(&frame, &Pool::new(1), Medium::Process).unwrap_err().to_string()
}

#[test]
fn each_field_of_the_header_is_checked() {
    let put = |at: usize, value: &'static [u8]| {
        refused(|frame| frame[at..at + value.len()].copy_from_slice(value))
    };
    let cases = [
        (put(0, b"TRB3"), "magic at offset 0 is 859984468, expected 843207252"),
        (put(4, &[0]), "layout at offset 4 is 0, expected 1"),
        (put(4, &[2]), "its layout is 2, and this version reads frames up to layout 1"),
        (put(5, &[9]), "its minor is 9, and this version reads frames up to minor 1"),
        (put(6, &[56, 0]), "header_len at offset 6 is 56, expected a multiple of 8"),
        (put(6, &[65, 0]), "header_len at offset 6 is 65"),
        (put(8, &[1]), "total_len at offset 8 is"),
        (put(16, &[255; 4]), "events at offset 16 is 4294967295, expected at most 65535"),
        (put(20, &[48, 0]), "event_size at offset 20 is 48"),
        (put(20, &[60, 0]), "event_size at offset 20 is 60"),
        (put(22, &[4, 0]), "flags at offset 22 is 4"),
        (put(22, &[1, 0]), "flags at offset 22 is 1, expected a sum without 1"),
        (put(24, &[255; 4]), "total_len at offset 8 is"),
        (put(28, &[1]), "base_nodes at offset 28 is 1, expected 0"),
        (put(32, &[255; 4]), "total_len at offset 8 is"),
        (put(36, &[1]), "base_bytes at offset 36 is 1, expected 0"),
        (put(56, &[1]), "checksum at offset 56 is 1, expected 0"),
    ];
    for (text, expected) in cases {
        assert!(text.contains(expected), "{text}");
    }
    let last = refused(|frame| *frame.last_mut().unwrap() = 1);
    assert!(last.contains("the padding at offset"), "{last}");
    assert_eq!(refused(|frame| frame.truncate(63)), "invalid frame: expected 64 bytes, found 63");
}

/// Sizes are checked before anything is allocated for contents that a header claims and the frame lacks.
#[test]
fn huge_claims_of_a_short_frame_are_refused() {
    for (at, count, size) in [(16, 65_535_u32, 56_u64), (24, 4_000_000, 16), (32, 60_000_000, 1)] {
        let mut frame = encoded(&Batch::new(), Medium::Process);
        frame[at..at + 4].copy_from_slice(&count.to_le_bytes());
        let total = (64 + u64::from(count) * size).next_multiple_of(8);
        frame[8..16].copy_from_slice(&total.to_le_bytes());
        let error = decode(&frame, &Pool::new(1), Medium::Process).unwrap_err();
        assert!(matches!(error, FrameError::Truncated { found: 64, .. }), "{error}");
    }
    let mut frame = encoded(&Batch::new(), Medium::Process);
    frame[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    frame[8..16].copy_from_slice(&(64 + (1_u64 << 32)).to_le_bytes());
    let error = decode(&frame, &Pool::new(1), Medium::Process).unwrap_err().to_string();
    assert!(error.contains("is 4294967360, expected at most 67108864"), "{error}");
}

/// Events that repeat a document would take unlimited time without the budget of the validation.
#[test]
fn repeated_contents_exceed_the_budget() {
    let mut batch = Batch::new();
    batch.push(&"x".repeat(100_000)).unwrap();
    let event = batch.events[0];
    (0..1_000).for_each(|_| batch.events.push(event));
    let mut encoder = Encoder::new(Medium::Process);
    let mut frame = Vec::new();
    encoder.prepare(&batch).unwrap().append_to(0, &mut frame);
    assert!(frame.len() < 200_000);
    let error = decode(&frame, &Pool::new(1), Medium::Process).unwrap_err().to_string();
    assert!(error.contains("exceeds the limit of 16777216 bytes"), "{error}");
}

#[test]
fn fields_of_later_versions_are_skipped() {
    let batch = everything();
    let frame = encoded(&batch, Medium::Process);
    let header = Header::read(&frame).unwrap();
    let events = 64 + 56 * batch.len();
    let mut larger = frame[..64].to_vec();
    larger.extend([0xee; 16]);
    for event in frame[64..events].chunks(56) {
        larger.extend(event);
        larger.extend([0xdd; 8]);
    }
    larger.extend(&frame[events..]);
    larger[6] = 80;
    larger[20] = 64;
    let total = u64::try_from(larger.len()).unwrap();
    assert_eq!(total, header.total_len + 16 + 8 * batch.len() as u64);
    larger[8..16].copy_from_slice(&total.to_le_bytes());
    let decoded = decoded(&larger, Medium::Process);
    assert_eq!(seen(&decoded.batch), seen(&batch));
    assert_eq!((decoded.header.header_len, decoded.header.event_size), (80, 64));
}

#[test]
fn flags_of_formats_on_raw_events_are_for_records() {
    let text = refused(|frame| frame[64 + 56 + 1] = 8);
    assert!(text.contains("event 1 of a frame is raw and has flag 8 or 16"), "{text}");
    let text = refused(|frame| frame[64 + 56 + 1] = 24);
    assert!(text.contains("event 1 of a frame has the flags of two formats"), "{text}");
    let mut record = encoded(&for_disk(everything()), Medium::Disk);
    record[64 + 1] = 24;
    let text = decode(&record, &Pool::new(1), Medium::Disk).unwrap_err().to_string();
    assert!(text.contains("event 0 of a frame has the flags of two formats"), "{text}");
}

/// A plugin may forge flags of a batch that is valid otherwise. A record must never be written that cannot be read.
#[test]
fn whatever_is_written_can_be_read() {
    let (mut written, mut refused) = (0, 0);
    for medium in [Medium::Process, Medium::Disk] {
        for position in 0..everything().len() - 1 {
            for flags in 0..=255 {
                let mut batch = for_disk(everything());
                batch.events[position].flags.0 = flags;
                batch.validate().unwrap();
                let mut frame = Vec::new();
                match Encoder::new(medium).prepare(&batch) {
                    Ok(prepared) => prepared.append_to(0, &mut frame),
                    Err(_) => {
                        refused += 1;
                        continue;
                    }
                }
                written += 1;
                let mut read = decode(&frame, &Pool::new(1), medium).unwrap().batch;
                super::super::restore(&mut read, |_, bytes, nodes, span| codec(bytes, nodes, span));
                assert_eq!(
                    read.value(&read.events[position]),
                    batch.value(&batch.events[position])
                );
            }
        }
    }
    assert!(written > 100 && refused > 1_000, "{written} and {refused}");
}

#[test]
fn forged_flag_does_not_undo_an_edit() {
    for medium in [Medium::Process, Medium::Disk] {
        let mut batch = for_disk(everything());
        *batch.value_mut(0).unwrap() = literal!("edited");
        batch.events[0].flags.0 |= Format::Json as u8;
        let read = decoded(&encoded(&batch, medium), medium).batch;
        assert_eq!(read.value(&read.events[0]).unwrap().as_str(), Some("edited"));
        assert_eq!(read.events[0].flags.0, 0);
    }
}

/// The host may give events of many connections, in turn, metadata that they share. Reading it counts towards the
/// budget for each event, but a record has no budget.
#[test]
fn record_with_much_shared_metadata_is_readable() {
    let mut batch = Batch::new();
    for _ in 0..20_000 {
        batch.push_message(b"x");
    }
    for position in [0, 1] {
        batch.write_metadata(position, |writer| writer.str(&"m".repeat(2_000))).unwrap();
    }
    for position in 2..batch.len() {
        batch.events[position].metadata = batch.events[position % 2].metadata;
    }
    assert!(batch.validate().is_err());
    decoded(&encoded(&batch, Medium::Disk), Medium::Disk);
    let frame = encoded(&batch, Medium::Process);
    assert!(decode(&frame, &Pool::new(1), Medium::Process).is_err());
}
