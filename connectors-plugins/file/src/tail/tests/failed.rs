//! Pulls that have failed.

use std::{fs, time::Duration};

use tremor_pdk::Pull;

use super::{CHECKPOINT, Scene, text};

#[test]
fn what_failed_is_read_again_and_a_half_message_before_that_is_cut_off() {
    let scene = Scene::new(&[("in", "one\na long message\nthree\n")]);
    let mut source = scene.open(&format!(r#"{CHECKPOINT}, "chunk_bytes": 8"#)).unwrap();
    let first = source.pull().unwrap().1;
    let half = source.pull().unwrap().1;
    assert_eq!(text(&[first.clone(), half.clone()]), ["one\na long m"]);
    source.acks().unwrap().ack(first.pull()).unwrap();
    source.acks().unwrap().fail(half.pull(), std::slice::from_ref(&(0..1))).unwrap();
    let again = source.pull_all().unwrap();
    assert_eq!(text(&again), ["[cut off]a long message\nthree\n[ends]"]);
}

#[test]
fn of_a_compressed_file_that_failed_a_half_message_is_cut_off_as_well() {
    let scene = Scene::new(&[]);
    let member =
        crate::compression::Format::Gzip.member(b"one\ntwo\n", std::slice::from_ref(&(0..8)));
    fs::write(scene.path("in.gz"), member.unwrap()).unwrap();
    let keys = r#""path": "in.gz", "checkpoint": "at", "chunk_bytes": 6"#;
    let mut source = scene.open(keys).unwrap();
    let half = source.pull().unwrap().1;
    assert_eq!(text(std::slice::from_ref(&half)), ["one\ntw"]);
    source.acks().unwrap().fail(half.pull(), std::slice::from_ref(&(0..1))).unwrap();
    let again = source.pull_all().unwrap();
    assert_eq!(text(&again), ["[cut off]one\ntwo\n[ends]"]);
    // Of what has ended nothing is open.
    source.acks().unwrap().fail(again.last().unwrap().pull(), &[]).unwrap();
    // The stream begins again: preprocessors treat its start in their own way.
    assert_eq!(text(&source.pull_all().unwrap()), ["[cut off]one\ntwo\n[ends]"]);
}

#[test]
fn what_failed_after_the_file_was_read_to_its_end_is_read_again() {
    let scene = Scene::new(&[("in", "one\n")]);
    let mut source = scene.open(CHECKPOINT).unwrap();
    let batches = source.pull_all().unwrap();
    assert_eq!(text(&batches), ["one\n[ends]"]);
    source.acks().unwrap().fail(batches[0].pull(), std::slice::from_ref(&(0..1))).unwrap();
    // The checkpoint is due before the source hears of that.
    scene.host.advance(Duration::from_secs(2));
    assert_eq!(source.pull().unwrap().0, Pull::Idle(Duration::ZERO));
    assert_eq!(text(&source.pull_all().unwrap()), ["one\n[ends]"]);
}

#[test]
fn failure_during_a_read_is_taken_after_it() {
    let lines = "some line\n".repeat(100);
    let scene = Scene::new(&[("in", &lines)]);
    let mut source = scene.open(&format!(r#"{CHECKPOINT}, "chunk_bytes": 100"#)).unwrap();
    let first = source.pull().unwrap().1;
    assert_eq!(text(std::slice::from_ref(&first)).concat().len(), 100);
    // From the end of a pull on, the next chunk is read.
    source.acks().unwrap().fail(first.pull(), std::slice::from_ref(&(0..1))).unwrap();
    let again = source.pull_all().unwrap();
    // The events of the chunk that was read meanwhile are not handed out.
    assert_eq!(text(&again), [format!("[cut off]{lines}[ends]")]);
}

#[test]
fn rewind_to_the_start_begins_the_stream_again() {
    let text_of_file = "\u{feff}one\ntwo\n";
    let scene = Scene::new(&[("in", text_of_file)]);
    let mut source = scene.open(CHECKPOINT).unwrap();
    let first = source.pull().unwrap().1;
    source.acks().unwrap().fail(first.pull(), std::slice::from_ref(&(0..1))).unwrap();
    let again = source.pull_all().unwrap();
    // The preprocessors forget the stream, and treat the UTF-8 signature as that of another one.
    assert_eq!(text(&again), [format!("[cut off]{text_of_file}[ends]")]);
}
