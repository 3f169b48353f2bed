//! Tests that are short enough for Miri: `cargo xtask models` runs them in it, because writing and reading frames
//! reinterprets events and nodes as bytes.

use super::*;
use crate::{
    batch::{
        Mark,
        frame::{apply_delta, restore, stamp, verify},
    },
    literal,
};

fn small() -> Batch {
    let mut batch = Batch::new();
    batch.push_message(b"unedited");
    batch.decode_as(|bytes, nodes, span| Ok((codec(bytes, nodes, span)?, Some(Format::Json))));
    batch.push(&literal!({ "a": [1, "text"] })).unwrap();
    *batch.value_mut(1).unwrap() = literal!(["edited"]);
    batch.stream(1).push_message(b"raw");
    batch.set_origin_from(0, "here");
    batch
}

#[test]
fn small_batch_is_equal_at_any_alignment() {
    let batch = small();
    let frame = encoded(&batch, Medium::Process);
    assert_eq!(seen(&decoded(&frame, Medium::Process).batch), seen(&batch));
}

#[test]
fn small_record_is_restored() {
    let batch = small();
    let mut record = encoded(&batch, Medium::Disk);
    stamp(&mut record, 1, 2).unwrap();
    verify(&record, 2).unwrap();
    let mut read = decoded(&record, Medium::Disk).batch;
    assert!(restore(&mut read, |_, bytes, nodes, span| codec(bytes, nodes, span)).is_empty());
    assert_eq!(seen(&read), seen(&batch));
}

#[test]
fn small_answer_is_applied() {
    let mut host = small();
    let (mut call, mut answer) = (Vec::new(), Vec::new());
    let mut encoder = Encoder::new(Medium::Process);
    encoder.prepare_call(&mut host).unwrap().append_to(0, &mut call);
    let mut child = decoded(&call, Medium::Process).batch;
    child.write_metadata(0, |writer| writer.str("new")).unwrap();
    encoder.prepare_answer(&child, &call).unwrap().append_to(0, &mut answer);
    let other = host.clone();
    apply_delta(&mut host, &mut Mark::default(), &answer).unwrap();
    assert_eq!(seen(&host), seen(&child));
    drop(other);
}
