//! A batch that was written and read again is equal.

use std::collections::HashMap;

use super::*;
use crate::{
    batch::frame::{FrameError, MAX_EVENTS, divide, restore, stamp, verify},
    literal,
};

/// Restores the unedited events of a record, and checks that none fails.
fn restored(mut batch: Batch) -> Batch {
    let rejected = restore(&mut batch, |_, bytes, nodes, span| codec(bytes, nodes, span));
    assert!(rejected.is_empty());
    batch
}

/// Checks that events which share their metadata or origin in `before` share it in `after`.
fn assert_sharing(before: &Batch, after: &Batch) {
    let mut copies = HashMap::new();
    for (old, new) in before.events().iter().zip(after.events()) {
        for (old, new) in [(old.metadata, new.metadata), (old.origin, new.origin)] {
            assert_eq!(*copies.entry(old).or_insert(new), new, "the copy of {old:#x}");
        }
    }
}

proptest! {
    #[test]
    fn batch_to_a_process_and_back_is_equal(steps in any_steps()) {
        let batch = batch(&steps);
        let frame = encoded(&batch, Medium::Process);
        let decoded = decoded(&frame, Medium::Process);
        prop_assert_eq!(seen(&decoded.batch), seen(&batch));
        prop_assert_eq!(decoded.header.number, 7);
        assert_sharing(&batch, &decoded.batch);
        let claims = batch.events().iter().any(|event| event.unedited().is_some());
        prop_assert_eq!(decoded.claims.is_empty(), !claims);
        prop_assert_eq!(encoded(&decoded.batch, Medium::Process), frame);
    }

    #[test]
    fn record_on_disk_and_back_is_equal(steps in any_steps(), epoch in any::<u64>()) {
        let batch = for_disk(batch(&steps));
        let mut record = encoded(&batch, Medium::Disk);
        let before = record.clone();
        stamp(&mut record, 99, epoch).unwrap();
        let header = verify(&record, epoch).unwrap();
        prop_assert_eq!((header.number, header.epoch), (99, epoch));
        let decoded = decoded(&record, Medium::Disk);
        prop_assert!(decoded.claims.is_empty());
        // Nodes of unedited events are not stored.
        prop_assert!(decoded.batch.events().iter().all(|event| event.unedited().is_none()));
        let restored = restored(decoded.batch);
        restored.validate().unwrap();
        prop_assert_eq!(seen(&restored), seen(&batch));
        assert_sharing(&batch, &restored);
        prop_assert_eq!(encoded(&restored, Medium::Disk), before);
    }

    #[test]
    fn part_of_a_batch_is_written_without_the_rest(steps in any_steps(), size in 1_usize..4) {
        let mut batch = batch(&steps);
        batch.push_message(&[b'x'; 10_000]);
        let start = batch.len().saturating_sub(1 + size);
        let part = batch.part(start..batch.len() - 1);
        let frame = encoded(&part, Medium::Process);
        prop_assert!(frame.len() < 10_000);
        let decoded = decoded(&frame, Medium::Process);
        prop_assert_eq!(seen(&decoded.batch), seen(&part));
        assert_sharing(&part, &decoded.batch);
        prop_assert_eq!(encoded(&decoded.batch, Medium::Process), frame);
    }

    #[test]
    fn damaged_record_is_found(steps in any_steps(), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let mut record = encoded(&for_disk(batch(&steps)), Medium::Disk);
        stamp(&mut record, 1, 5).unwrap();
        let at = at.index(record.len());
        record[at] ^= 1 << bit;
        prop_assert!(verify(&record, 5).is_err(), "bit {bit} of byte {at}");
    }
}

#[test]
fn unedited_events_on_disk_have_no_nodes() {
    let mut batch = Batch::new();
    let message = "a message of some length ".repeat(20);
    (0..10).for_each(|_| batch.push_message(message.as_bytes()));
    batch.decode_as(|bytes, nodes, span| Ok((codec(bytes, nodes, span)?, Some(Format::Msgpack))));
    let header = Encoder::new(Medium::Disk).prepare(&batch).unwrap().header();
    assert_eq!((header.nodes, header.bytes as usize), (0, 10 * message.len()));
    let header = Encoder::new(Medium::Process).prepare(&batch).unwrap().header();
    assert_eq!((header.nodes as usize, header.bytes as usize), (30, batch.bytes().len()));
    let read = decoded(&encoded(&batch, Medium::Disk), Medium::Disk).batch;
    assert!(read.events().iter().all(|event| event.flags.0 == Format::Msgpack as u8));

    let (mut refused, before) = (read.clone(), read.bytes().len());
    let mut calls = 0;
    let rejected = restore(&mut refused, |format, bytes, nodes, span| {
        assert_eq!(format, Format::Msgpack);
        calls += 1;
        bytes.push(0);
        if calls % 2 == 0 { Err(PluginError::bad_data("no")) } else { codec(bytes, nodes, span) }
    });
    assert_eq!((rejected.len(), refused.len()), (5, 5));
    let event = rejected[0].event;
    assert_eq!((event.flags.0, refused.raw(&event)), (0, Some(message.as_bytes())));
    assert_eq!(refused.nodes().len(), 5 * 3);
    let appended = 5 * (1 + message.len());
    assert_eq!(refused.bytes().len(), before + appended, "failed events leave no bytes");
    refused.validate().unwrap();
}

#[test]
fn interleaved_metadata_is_written_once() {
    let mut batch = Batch::new();
    (0..100).for_each(|_| batch.push_message(b"x"));
    batch.push_message(&vec![b'y'; 100_000]);
    batch.write_metadata(0, |writer| writer.str(&"m".repeat(1_000))).unwrap();
    batch.set_metadata(1, literal!({ "n": "o".repeat(1_000) }));
    for position in 2..100 {
        batch.events[position].metadata = batch.events[position % 2].metadata;
    }
    batch.events.truncate(100);
    let len = encoded(&batch, Medium::Process).len();
    assert!(len < 64 + 100 * 57 + 2_200, "{len} bytes");
}

#[test]
fn ends_of_streams_are_refused_on_disk_only() {
    let mut batch = Batch::new();
    batch.push_message(b"x");
    batch.stream(1).end();
    let error = Encoder::new(Medium::Disk).prepare(&batch).err().unwrap().to_string();
    assert_eq!(
        error,
        "event 1 of a frame is the end of a stream, which a record on disk must not contain"
    );
    let frame = encoded(&batch, Medium::Process);
    assert_eq!(decode(&frame, &Pool::new(1), Medium::Disk).unwrap_err().to_string(), error);
    decode(&frame, &Pool::new(1), Medium::Process).unwrap();
}

#[test]
fn events_that_no_version_knows_are_not_written() {
    let refused = |change: fn(&mut Event)| {
        let mut batch = Batch::new();
        (0..2).for_each(|_| batch.push_message(b"x"));
        change(&mut batch.events[1]);
        Encoder::new(Medium::Process).prepare(&batch).err().unwrap().to_string()
    };
    let texts = [
        refused(|event| event.flags.0 = 64),
        refused(|event| event.kind = PayloadKind(200)),
        refused(|event| event.flags.0 = 8),
        refused(|event| event.flags.0 = 24),
        refused(|event| event.metadata = 5),
    ];
    let expected = [
        "event 1 of a frame has unknown flags: 0x40, expected a sum of 1, 2, 4, 8, 16 and 32",
        "event 1 of a frame has an unknown kind of payload, 200",
        "event 1 of a frame is raw and has flag 8 or 16 (0x08), which only records on disk may have",
        "event 1 of a frame has the flags of two formats (0x18), expected at most one of 8 and 16",
        "event 1 of a frame refers to a value outside of its batch; validate the batch before writing it",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn value_that_is_too_deep_is_an_error() {
    let mut deep = literal!(1);
    (0..600)
        .for_each(|_| deep = Value::Array(vec![std::mem::replace(&mut deep, Value::Null)].into()));
    let mut batch = Batch::new();
    (0..2).for_each(|_| batch.push(&1).unwrap());
    *batch.value_mut(0).unwrap() = literal!("fine");
    *batch.value_mut(1).unwrap() = deep;
    let is_value = |error: &FrameError| matches!(error, FrameError::Value { position: 1, .. });
    assert!(is_value(&Encoder::new(Medium::Disk).prepare(&batch).err().unwrap()));
    let before = (batch.events().to_vec(), batch.nodes().len());
    assert!(is_value(&Encoder::new(Medium::Process).prepare_call(&mut batch).err().unwrap()));
    assert_eq!((batch.events().to_vec(), batch.nodes().len()), before);
    assert_eq!(batch.value(&batch.events()[0]).unwrap().as_str(), Some("fine"));
}

#[test]
fn batch_with_too_many_events_is_divided_in_order() {
    let mut batch = Batch::new();
    let count = 2 * MAX_EVENTS + 10;
    (0..count as u64).for_each(|number| batch.stream(number).push_message(b"x"));
    let mut encoder = Encoder::new(Medium::Disk);
    let error = encoder.prepare(&batch).err().unwrap();
    assert!(error.is_too_large() && error.to_string().contains("131080 events"), "{error}");
    let parts: Vec<Batch> = divide(batch, Medium::Disk, usize::MAX).map(Result::unwrap).collect();
    assert_eq!(parts.iter().map(Batch::len).collect::<Vec<_>>(), [MAX_EVENTS, MAX_EVENTS, 10]);
    let streams = parts.iter().flat_map(Batch::events).map(|event| event.stream);
    assert!(streams.eq(0..count as u64));
}

#[test]
fn events_that_fit_no_frame_are_returned_alone() {
    let mut batch = Batch::new();
    for size in [1, 10, 3_000, 10, 900, 900, 900] {
        batch.push_message(&vec![b'x'; size]);
    }
    batch.stream(9).end();
    let parts: Vec<_> = divide(batch, Medium::Disk, 2_048)
        .map(|part| match part {
            Ok(batch) => (batch.len(), String::new()),
            Err(refused) => (refused.batch.len(), refused.error.to_string()),
        })
        .collect();
    let too_long = "cannot write a frame of 3000 bytes: the limit is 2048 bytes; divide the batch";
    assert_eq!(parts[1], (1, too_long.to_owned()), "{parts:?}");
    assert!(parts.last().unwrap().1.contains("the end of a stream"), "{parts:?}");
    assert_eq!(parts.iter().map(|(count, _)| count).sum::<usize>(), 8);
    assert_eq!(parts.iter().filter(|(_, error)| !error.is_empty()).count(), 2);
}

#[test]
fn record_does_not_contain_a_forgotten_message() {
    let mut batch = Batch::new();
    for message in ["secret one", "shown", "secret two"] {
        batch.push_message(message.as_bytes());
    }
    batch.decode_as(|bytes, nodes, span| Ok((codec(bytes, nodes, span)?, None)));
    for position in [0, 2] {
        *batch.value_mut(position).unwrap() = literal!("removed");
        EventMut::new(&mut batch, position).forget_original();
    }
    let record = encoded(&batch, Medium::Disk);
    let contains = |text: &str| record.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(contains("removed") && contains("SHOWN"));
    assert!(!contains("secret") && !contains("SECRET"));
    let decoded = decoded(&record, Medium::Disk).batch;
    assert_eq!(seen(&decoded), seen(&batch));
    assert_eq!(encoded(&decoded, Medium::Disk), record);
}
