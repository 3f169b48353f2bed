//! Tests of failed pulls.

use std::{fs, time::Duration};

use tremor_pdk::{EventRef, Pull};

use super::{CHECKPOINT, Scene, text};

#[test]
fn failed_pull_is_read_again_and_partial_message_aborted() {
    let scene = Scene::new(&[("in", "one\na long message\nthree\n")]);
    let mut source = scene.open(&format!(r#"{CHECKPOINT}, "chunk_bytes": 8"#)).unwrap();
    let first = source.pull().unwrap().1;
    let partial = source.pull().unwrap().1;
    assert_eq!(text(&[first.clone(), partial.clone()]), ["one\na long m"]);
    source.acks().unwrap().ack(first.pull()).unwrap();
    source.acks().unwrap().fail(partial.pull(), std::slice::from_ref(&(0..1))).unwrap();
    let again = source.pull_all().unwrap();
    assert_eq!(text(&again), ["[cut off]a long message\nthree\n[ends]"]);
}

#[test]
fn partial_message_of_failed_compressed_file_is_aborted() {
    let scene = Scene::new(&[]);
    let member =
        crate::compression::Format::Gzip.member(b"one\ntwo\n", std::slice::from_ref(&(0..8)));
    fs::write(scene.path("in.gz"), member.unwrap()).unwrap();
    let keys = r#""path": "in.gz", "checkpoint": "at", "chunk_bytes": 6"#;
    let mut source = scene.open(keys).unwrap();
    let partial = source.pull().unwrap().1;
    assert_eq!(text(std::slice::from_ref(&partial)), ["one\ntw"]);
    source.acks().unwrap().fail(partial.pull(), std::slice::from_ref(&(0..1))).unwrap();
    let again = source.pull_all().unwrap();
    assert_eq!(text(&again), ["[cut off]one\ntwo\n[ends]"]);
    // A stream that has ended has no message to abort.
    source.acks().unwrap().fail(again.last().unwrap().pull(), &[]).unwrap();
    // The stream is aborted again, because it is at its start, which preprocessors treat specially.
    assert_eq!(text(&source.pull_all().unwrap()), ["[cut off]one\ntwo\n[ends]"]);
}

#[test]
fn pull_that_fails_after_end_of_file_is_read_again() {
    let scene = Scene::new(&[("in", "one\n")]);
    let mut source = scene.open(CHECKPOINT).unwrap();
    let batches = source.pull_all().unwrap();
    assert_eq!(text(&batches), ["one\n[ends]"]);
    source.acks().unwrap().fail(batches[0].pull(), std::slice::from_ref(&(0..1))).unwrap();
    // The checkpoint is due before the source is notified of the failure.
    scene.host.advance(Duration::from_secs(2));
    assert_eq!(source.pull().unwrap().0, Pull::Idle(Duration::ZERO));
    assert_eq!(text(&source.pull_all().unwrap()), ["one\n[ends]"]);
}

#[test]
fn failure_during_a_read_is_handled_after_it() {
    let lines = "some line\n".repeat(100);
    let scene = Scene::new(&[("in", &lines)]);
    let mut source = scene.open(&format!(r#"{CHECKPOINT}, "chunk_bytes": 100"#)).unwrap();
    let first = source.pull().unwrap().1;
    assert_eq!(text(std::slice::from_ref(&first)).concat().len(), 100);
    // Meanwhile the source reads the next chunk, which starts at the end of the last pull.
    source.acks().unwrap().fail(first.pull(), std::slice::from_ref(&(0..1))).unwrap();
    let again = source.pull_all().unwrap();
    // The source discards the chunk that it read meanwhile, and reads from the start again.
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
    // The abort makes the preprocessors treat the UTF-8 byte order mark as the start of a new
    // stream.
    assert_eq!(text(&again), [format!("[cut off]{text_of_file}[ends]")]);
}

#[test]
fn messages_before_the_first_failed_one_are_not_read_again() {
    let scene = Scene::new(&[("in", "one\ntwo\nthree\nfour\n")]);
    let mut source = scene.open(CHECKPOINT).unwrap();
    let batches = source.pull_all().unwrap();
    assert_eq!(batches[0].iter().filter_map(EventRef::raw).count(), 4, "one for each message");
    source.acks().unwrap().fail(batches[0].pull(), std::slice::from_ref(&(2..3))).unwrap();
    source.stop().unwrap();
    let mut source = scene.open(CHECKPOINT).unwrap();
    assert_eq!(text(&source.pull_all().unwrap()), ["three\nfour\n[ends]"]);
}

#[test]
fn rewritten_file_is_recognised_after_a_part_of_a_pull() {
    let banner = "x".repeat(2_000);
    let scene = Scene::new(&[("in", &format!("{banner}\none\ntwo\nthree\n"))]);
    let mut source = scene.open(CHECKPOINT).unwrap();
    let batches = source.pull_all().unwrap();
    source.acks().unwrap().fail(batches[0].pull(), std::slice::from_ref(&(2..3))).unwrap();
    source.stop().unwrap();
    scene.write("in", &format!("{banner}\nnew\nnext\n"));
    let mut source = scene.open(CHECKPOINT).unwrap();
    let all = text(&source.pull_all().unwrap()).concat();
    assert_eq!(all, format!("{banner}\nnew\nnext\n[ends]"));
}

#[test]
fn failed_message_is_read_again_with_those_that_follow() {
    let scene = Scene::new(&[("in", "one\ntwo\nthree\n")]);
    let mut source = scene.open(&format!(r#"{CHECKPOINT}, "follow": true"#)).unwrap();
    let batches = scene.all(&mut source);
    source.acks().unwrap().fail(batches[0].pull(), std::slice::from_ref(&(1..2))).unwrap();
    assert_eq!(text(&scene.all(&mut source)), ["two\nthree\n"]);
}

#[test]
fn pull_is_divided_into_parts_while_acknowledgements_are_fast() {
    let line = format!("{}\n", "x".repeat(99));
    let scene = Scene::new(&[("in", &line.repeat(2_000))]);
    let mut source = scene.open(&format!(r#"{CHECKPOINT}, "chunk_bytes": 65536"#)).unwrap();
    let mut lengths = Vec::new();
    loop {
        let (pull, batch) = source.pull().unwrap();
        lengths.push(batch.iter().map(|event| event.raw().unwrap_or_default().len()).collect());
        if pull == Pull::Finished {
            break;
        }
        source.acks().unwrap().ack(batch.pull()).unwrap();
    }
    let all: Vec<Vec<usize>> = lengths;
    assert!(all[0].iter().all(|length| *length == 100), "a message is a part at first");
    let is_in_parts = |pull: &Vec<usize>| {
        pull.len() > 3 && pull[..pull.len() - 1].iter().all(|length| *length == 4_100)
    };
    assert!(all.iter().any(is_in_parts), "{all:?}");
}
