//! Tests of messages about files that were deleted.

use std::{fs, time::Duration};

use tremor_pdk::{Batch, LogLevel, testing::Connection};

use super::{Scene, text};

const KEYS: &str = r#""path": "*.log", "checkpoint": "at", "follow": true, "chunk_bytes": 4"#;

fn ack(source: &mut Connection, batches: &[Batch]) {
    batches.iter().for_each(|batch| source.acks().unwrap().ack(batch.pull()).unwrap());
}

/// Reads and acknowledges everything.
fn read(scene: &Scene, source: &mut Connection) {
    let batches = scene.all(source);
    ack(source, &batches);
}

/// Returns the warnings with the word `lost`.
fn losses(scene: &Scene) -> Vec<String> {
    let is_loss =
        |(level, line): &(LogLevel, String)| *level == LogLevel::WARN && line.contains("lost");
    scene.host.log().into_iter().filter(is_loss).map(|(_, line)| line).collect()
}

fn delete(scene: &Scene, name: &str) {
    fs::remove_file(scene.path(name)).unwrap();
}

/// Kubernetes deletes the logs of a pod together with the pod.
#[test]
fn deletion_of_a_read_file_between_runs_is_no_loss() {
    for names in ["a.log", "a.log b.log"] {
        let scene = Scene::new(&[("a.log", "one\ntwo\n"), ("b.log", "one\n")]);
        let mut source = scene.open(KEYS).unwrap();
        read(&scene, &mut source);
        source.stop().unwrap();
        names.split(' ').for_each(|name| delete(&scene, name));
        for _ in 0..2 {
            let mut source = scene.open(KEYS).unwrap();
            assert!(scene.all(&mut source).is_empty());
            source.stop().unwrap();
        }
        assert!(losses(&scene).is_empty(), "{:?}", losses(&scene));
        assert!(scene.logged("a.log` no longer exists"));
    }
}

#[test]
fn unread_bytes_of_deleted_files_are_one_warning() {
    let names = ["a.log", "b.log", "c.log", "d.log", "e.log"];
    let scene = Scene::new(&[("read.log", "one\n")]);
    names.iter().for_each(|name| scene.write(name, "one\n"));
    let mut source = scene.open(KEYS).unwrap();
    read(&scene, &mut source);
    // The source has not seen these lines yet when it stops.
    names.iter().for_each(|name| scene.append(name, "more\n"));
    source.stop().unwrap();
    names.iter().chain(&["read.log"]).for_each(|name| delete(&scene, name));
    for _ in 0..2 {
        scene.open(KEYS).unwrap().stop().unwrap();
    }
    let losses = losses(&scene);
    assert_eq!(losses.len(), 1, "{losses:?}");
    for part in ["at least 25 bytes of 5 files", "/a.log`", "/b.log`", "/c.log` and 2 more"] {
        assert!(losses[0].contains(part), "{losses:?}");
    }
    assert!(!losses[0].contains("d.log"), "{losses:?}");
}

#[test]
fn unacknowledged_bytes_of_deleted_file_are_lost() {
    for is_crash in [false, true] {
        let scene = Scene::new(&[("a.log", "one\ntwo\nten\n")]);
        let mut source = scene.open(KEYS).unwrap();
        let batches = scene.all(&mut source);
        ack(&mut source, &batches[..1]);
        scene.host.advance(Duration::from_secs(2));
        scene.all(&mut source);
        if is_crash {
            drop(source);
        } else {
            source.stop().unwrap();
        }
        delete(&scene, "a.log");
        scene.open(KEYS).unwrap().stop().unwrap();
        let losses = losses(&scene);
        assert!(losses.concat().contains("at least 8 bytes of 1 file "), "{losses:?}");
    }
}

#[test]
fn copy_of_deleted_file_contains_its_unread_bytes() {
    let keys = KEYS.replace("*.log", "*.log*");
    let scene = Scene::new(&[("a.log", "one\n")]);
    let mut source = scene.open(&keys).unwrap();
    read(&scene, &mut source);
    scene.append("a.log", "more\n");
    source.stop().unwrap();
    fs::copy(scene.path("a.log"), scene.path("a.log.1")).unwrap();
    delete(&scene, "a.log");
    let mut source = scene.open(&keys).unwrap();
    assert_eq!(text(&scene.all(&mut source)), ["more\n"]);
    assert!(losses(&scene).is_empty(), "{:?}", losses(&scene));
}

/// The inode of a deleted file may be that of a new file, which the pattern does not match.
#[test]
fn other_file_with_inode_of_closed_file_is_not_read() {
    let scene = Scene::new(&[]);
    (10..30).for_each(|number| scene.write(&format!("{number}.log"), "one\n"));
    let mut source = scene.open(KEYS).unwrap();
    read(&scene, &mut source);
    scene.rename("10.log", "other");
    scene.write("other", "no log at all\n");
    let batches = scene.all_for(&mut source, Duration::from_secs(10));
    assert_eq!(text(&batches), ["[ends]"]);
    assert!(scene.logged("10.log` was deleted or moved while it was closed"));
}

/// In tests at most eight files are open at a time.
#[test]
fn deletion_of_a_closed_file_is_a_loss_if_bytes_are_unread() {
    let keys = r#""path": "*.log", "checkpoint": "at", "follow": true"#;
    for is_read in [false, true] {
        let scene = Scene::new(&[]);
        (10..30).for_each(|number| scene.write(&format!("{number}.log"), "one\n"));
        let mut source = scene.open(keys).unwrap();
        read(&scene, &mut source);
        if !is_read {
            scene.append("10.log", "half a line");
            read(&scene, &mut source);
            (11..30).for_each(|number| scene.append(&format!("{number}.log"), "two\n"));
            read(&scene, &mut source);
        }
        delete(&scene, "10.log");
        scene.all_for(&mut source, Duration::from_secs(10));
        assert!(scene.logged("10.log` was deleted or moved while"));
        let losses = losses(&scene);
        assert_eq!(losses.len(), usize::from(!is_read), "{losses:?}");
        assert!(is_read || losses[0].contains("at least 11 bytes"), "{losses:?}");
    }
}
