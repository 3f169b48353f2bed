//! Tests of when acknowledged positions are written to the checkpoint, and of the length of pulls.

use std::{fs, os::unix::fs::MetadataExt, time::Duration};

use tremor_pdk::{Batch, Pull, testing::Connection};

use super::{CHECKPOINT, Scene, text};

/// Returns the position in the checkpoint, which has one file.
fn position(scene: &Scene) -> u64 {
    let text = fs::read_to_string(scene.path("at")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["files"][0]["position"].as_u64().unwrap()
}

fn length(batch: &Batch) -> u64 {
    text(std::slice::from_ref(batch)).concat().replace("[ends]", "").len() as u64
}

fn ack(source: &mut Connection, batch: &Batch) {
    source.acks().unwrap().ack(batch.pull()).unwrap();
}

/// Lets tasks run for `time` without a pull.
fn pass(scene: &Scene, time: Duration) {
    let host = scene.host.host();
    scene.host.block_on(async move { host.sleep(time).await });
}

#[test]
fn position_is_written_after_1_mib_without_a_pull() {
    let scene = Scene::new(&[("in", &"some line\n".repeat(300_000))]);
    let mut source = scene.open(&format!(r#"{CHECKPOINT}, "checkpoint_interval": "1h""#)).unwrap();
    let batches = source.pull_all().unwrap();
    assert_eq!(position(&scene), 0);
    let mut acknowledged = 0;
    for batch in &batches {
        ack(&mut source, batch);
        acknowledged += length(batch);
        pass(&scene, Duration::from_millis(1));
        let behind = acknowledged - position(&scene);
        assert!(behind < 1 << 20, "{behind} bytes were acknowledged and not written");
    }
    assert_eq!(acknowledged, 3_000_000);
}

#[test]
fn checkpoint_that_cannot_be_written_is_a_problem() {
    let scene = Scene::new(&[("in", "one\n")]);
    let folder = scene.path("positions");
    fs::create_dir(&folder).unwrap();
    let mut source = scene.open(r#""path": "in", "checkpoint": "positions/at""#).unwrap();
    let batches = source.pull_all().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    ack(&mut source, &batches[0]);
    pass(&scene, Duration::from_secs(2));
    let problem = scene.host.problem("checkpoint").unwrap();
    assert!(problem.contains("cannot write the checkpoint `"), "{problem}");
    fs::create_dir(&folder).unwrap();
    pass(&scene, Duration::from_secs(2));
    assert_eq!(scene.host.problem("checkpoint"), None);
    assert!(folder.join("at").exists());
}

#[test]
fn position_of_one_of_many_files_is_appended() {
    let scene = Scene::new(&[]);
    (0..64).for_each(|number| scene.write(&format!("{number}.log"), "line\n"));
    let keys = r#""path": "*.log", "follow": true, "checkpoint": "at""#;
    let mut source = scene.open(keys).unwrap();
    let read = |source: &mut Connection| {
        let batches = scene.all(source);
        batches.iter().for_each(|batch| ack(source, batch));
        pass(&scene, Duration::from_secs(1));
        text(&batches)
    };
    assert_eq!(read(&mut source).len(), 64);
    let before = fs::read(scene.path("at")).unwrap();
    scene.append("7.log", "more\n");
    assert_eq!(read(&mut source), ["more\n"]);
    let after = fs::read(scene.path("at")).unwrap();
    let added = after.strip_prefix(&*before).expect("the other positions are not written again");
    assert!(!added.is_empty() && added.len() < before.len() / 32, "{} bytes", added.len());
    // A crash, not an orderly end.
    drop(source);
    let mut source = scene.open(keys).unwrap();
    assert!(scene.all(&mut source).is_empty());
}

/// Files that are read to their ends change the set of files in the checkpoint, so that it is
/// replaced.
#[test]
fn long_checkpoint_is_replaced_less_often() {
    let scene = Scene::new(&[]);
    // Long paths make a long checkpoint.
    let folder = ["x".repeat(250), "y".repeat(250), "z".repeat(250)].join("/");
    fs::create_dir_all(scene.path(&folder)).unwrap();
    let text = "some line\n".repeat(1_000);
    (0..500).for_each(|number| scene.write(&format!("{folder}/{number}.log"), &text));
    let path = format!(r#""path": "{folder}/*.log", "checkpoint": "at""#);
    let replaced = |keys: &str| {
        let interval = r#""checkpoint_interval": "1h""#;
        let mut source = scene.open(&format!("{path}, {interval}{keys}")).unwrap();
        let (mut last, mut written, mut longest) = (0, Vec::new(), 0);
        loop {
            let (pull, batch) = source.pull().unwrap();
            if pull == Pull::Finished {
                break;
            }
            ack(&mut source, &batch);
            let metadata = fs::metadata(scene.path("at")).unwrap();
            longest = longest.max(metadata.len());
            if std::mem::replace(&mut last, metadata.ino()) != last {
                written.push(metadata.len());
            }
        }
        drop(source);
        fs::remove_file(scene.path("at")).unwrap();
        (written.len(), longest)
    };
    let (count, length) = replaced("");
    assert!(length > 256 << 10, "{length} bytes");
    // The first two are those of the start.
    let most = 2 + usize::try_from(5_000_000 / (4 * length)).unwrap();
    assert!(count <= most, "{count} checkpoints of {length} bytes");
    // `read_ahead` limits the repeated bytes of a long checkpoint as well.
    let (count, _) = replaced(r#", "read_ahead": 8"#);
    assert!(count >= 4, "{count} checkpoints");
}

#[test]
fn position_is_written_after_its_interval_without_a_pull() {
    let scene = Scene::new(&[("in", "one\ntwo\n")]);
    let mut source = scene.open(CHECKPOINT).unwrap();
    let batches = source.pull_all().unwrap();
    batches.iter().for_each(|batch| ack(&mut source, batch));
    pass(&scene, Duration::from_millis(1));
    assert_eq!(position(&scene), 0, "the interval is not over");
    pass(&scene, Duration::from_secs(1));
    assert_eq!(position(&scene), 8);
}

/// Returns the length of the longest pull if each pull is acknowledged after `wait`.
fn longest_pull(scene: &Scene, wait: Duration) -> u64 {
    let mut source = scene.open(CHECKPOINT).unwrap();
    let mut longest = 0;
    loop {
        let (pull, batch) = source.pull().unwrap();
        if pull == Pull::Finished {
            return longest;
        }
        longest = longest.max(length(&batch));
        scene.host.advance(wait);
        ack(&mut source, &batch);
    }
}

#[test]
fn pulls_are_small_while_acknowledgements_are_slow() {
    let scene = Scene::new(&[("in", &"some line\n".repeat(100_000))]);
    let slow = longest_pull(&scene, Duration::from_millis(20));
    fs::remove_file(scene.path("at")).unwrap();
    let fast = longest_pull(&scene, Duration::ZERO);
    assert!(slow <= 64 << 10, "{slow} bytes");
    assert!(fast > 128 << 10 && fast <= 256 << 10, "{fast} bytes");
}

#[test]
fn message_longer_than_a_pull_is_whole() {
    let long = format!("{}\n", "x".repeat(100 << 10));
    let scene = Scene::new(&[("in", &format!("{}{long}", "some line\n".repeat(10_000)))]);
    let mut source = scene.open(CHECKPOINT).unwrap();
    let batches = source.pull_all().unwrap();
    let is_long = |batch: &&Batch| length(batch) > 64 << 10;
    let longer: Vec<_> = batches.iter().filter(is_long).cloned().collect();
    assert_eq!((longer.len(), text(&longer)), (1, vec![long]));
}

#[test]
fn acknowledgements_of_earlier_pulls_count_after_failure() {
    let scene = Scene::new(&[("in", "one\ntwo\nthree\n")]);
    let keys = format!(r#"{CHECKPOINT}, "chunk_bytes": 6"#);
    let mut source = scene.open(&keys).unwrap();
    let batches = source.pull_all().unwrap();
    let third = batches[2].pull();
    source.acks().unwrap().fail(third, std::slice::from_ref(&(0..1))).unwrap();
    batches[..2].iter().for_each(|batch| ack(&mut source, batch));
    source.stop().unwrap();
    assert_eq!(text(&scene.open(&keys).unwrap().pull_all().unwrap()), ["three\n[ends]"]);
}

#[test]
fn new_file_is_in_the_checkpoint_before_it_is_read() {
    let scene = Scene::new(&[("a.log", "one\n")]);
    let keys =
        r#""path": "*.log", "checkpoint": "at", "follow": true, "checkpoint_interval": "1h""#;
    let mut source = scene.open(keys).unwrap();
    let batches = scene.all(&mut source);
    batches.iter().for_each(|batch| ack(&mut source, batch));
    let count = || {
        let text = fs::read_to_string(scene.path("at")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["files"].as_array().unwrap().len()
    };
    assert_eq!(count(), 1);
    scene.write("b.log", "two\n");
    scene.host.advance(Duration::from_secs(1));
    while source.pull().unwrap().1.is_empty() {
        scene.host.advance(Duration::from_millis(100));
    }
    assert_eq!(count(), 2, "the checkpoint has the file before its first acknowledgement");
    // After a crash the file is recognised under its new name.
    drop(source);
    scene.rename("b.log", "c.log");
    scene.write("b.log", "three\n");
    let mut lines = text(&scene.all(&mut scene.open(keys).unwrap()));
    lines.sort();
    assert_eq!(lines.concat().matches("two\n").count(), 1, "{lines:?}");
    assert!(lines.concat().contains("three\n"), "{lines:?}");
}

#[test]
fn identity_of_empty_file_includes_first_bytes_once_read() {
    let scene = Scene::new(&[("in", "")]);
    let keys = format!(r#"{CHECKPOINT}, "follow": true"#);
    let mut source = scene.open(&keys).unwrap();
    assert!(scene.all(&mut source).is_empty());
    scene.append("in", "one\n");
    let batches = scene.all(&mut source);
    batches.iter().for_each(|batch| ack(&mut source, batch));
    source.stop().unwrap();
    // The new contents have the same length as the old ones. If the identity still were that of an
    // empty file, they would count as read.
    scene.write("in", "two\n");
    let again = scene.all(&mut scene.open(&keys).unwrap());
    assert_eq!(text(&again), ["two\n"]);
}

/// The first bytes of both contents are equal, so only the bytes before the position differ.
#[test]
fn rewritten_file_with_same_banner_is_read_from_its_start() {
    let banner = "x".repeat(2_000) + "\n";
    let scene = Scene::new(&[("in", &format!("{banner}one\n"))]);
    let keys = format!(r#"{CHECKPOINT}, "follow": true"#);
    let mut source = scene.open(&keys).unwrap();
    scene.all(&mut source).iter().for_each(|batch| ack(&mut source, batch));
    source.stop().unwrap();
    let after = format!("{banner}two\nthree\n");
    scene.write("in", &after);
    let mut source = scene.open(&keys).unwrap();
    assert_eq!(text(&scene.all(&mut source)), [after]);
    assert!(scene.logged("was truncated or replaced"));
}
