use std::{
    fs::{self, File},
    io,
    path::Path,
    sync::Barrier,
    thread,
};

use proptest::prelude::*;
use tremor_pdk::ErrorKind;

use super::{Checkpoint, Entry, Identity};

fn entry(folder: &Path, name: &str, position: u64) -> Entry {
    let path = folder.join(name);
    fs::write(&path, name).unwrap();
    let identity = Identity::of(&File::open(&path).unwrap()).unwrap();
    Entry { path: path.display().to_string(), identity, position }
}

/// A folder with a checkpoint of two files, and what is in it.
fn scene() -> (tempfile::TempDir, Vec<Entry>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let entries = vec![entry(folder.path(), "a", 7), entry(folder.path(), "b", u64::MAX)];
    let path = folder.path().join("at");
    let (mut checkpoint, found) = Checkpoint::open(&path).unwrap();
    assert_eq!(found, []);
    checkpoint.save(entries.clone(), true).unwrap();
    let bytes = fs::read(path).unwrap();
    (folder, entries, bytes)
}

#[test]
fn what_was_kept_is_found_again() {
    let (folder, entries, _) = scene();
    let path = folder.path().join("at");
    assert_eq!(Checkpoint::open(&path).unwrap().1, entries);
}

#[test]
fn a_checkpoint_of_the_first_version_has_no_checksum_and_is_read() {
    let (folder, entries, bytes) = scene();
    let path = folder.path().join("at");
    let text = String::from_utf8(bytes).unwrap().replace(r#""version": 2"#, r#""version": 1"#);
    let is_checksum = |line: &&str| line.contains("checksum");
    let first: Vec<&str> = text.lines().filter(|line| !is_checksum(line)).collect();
    fs::write(&path, first.join("\n")).unwrap();
    let (mut checkpoint, found) = Checkpoint::open(&path).unwrap();
    assert_eq!(found, entries);
    checkpoint.save(entries[..1].to_vec(), true).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains(r#""version": 2"#));
}

#[test]
fn of_two_sources_with_one_checkpoint_the_second_is_refused_while_the_first_lives() {
    let (folder, entries, _) = scene();
    let path = folder.path().join("at");
    let refused = || {
        let error = Checkpoint::open(&path).unwrap_err();
        assert!(error.to_string().contains("a `checkpoint` of its own"), "{error}");
        assert!(!error.is_final(), "one that has just ended may still hold it");
    };
    let (mut first, _) = Checkpoint::open(&path).unwrap();
    refused();
    first.save(entries[..1].to_vec(), true).unwrap();
    refused();
    drop(first);
    assert_eq!(Checkpoint::open(&path).unwrap().1, entries[..1]);
}

#[test]
fn of_two_sources_that_begin_a_checkpoint_the_second_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("at");
    let (_first, _) = Checkpoint::open(&path).unwrap();
    // The other one has found none, and begins one.
    let other = Checkpoint::new(&path);
    fs::hard_link(folder.path().join("at"), other.new_path()).unwrap();
    other.begin_new().unwrap_err();
}

#[test]
fn of_two_sources_that_begin_a_checkpoint_at_once_one_has_it() {
    let (folder, both) = (tempfile::tempdir().unwrap(), Barrier::new(2));
    for round in 0..200 {
        let path = folder.path().join(round.to_string());
        let opened = thread::scope(|scope| {
            let open = || {
                both.wait();
                Checkpoint::open(&path)
            };
            [scope.spawn(open), scope.spawn(open)].map(|thread| thread.join().unwrap())
        });
        let refused: Vec<_> = opened.iter().filter_map(|it| it.as_ref().err()).collect();
        let [refused] = refused[..] else { panic!("{opened:?}") };
        assert!(refused.to_string().contains("a `checkpoint` of its own"), "{refused}");
    }
}

#[test]
fn where_its_folder_cannot_be_brought_to_the_disk_it_is_not_saved_and_stays_locked() {
    let (folder, mut entries, _) = scene();
    let path = folder.path().join("at");
    let (mut checkpoint, _) = Checkpoint::open(&path).unwrap();
    checkpoint.sync_folder = |_| Err(io::Error::other("the disk is broken"));
    entries[0].position += 1;
    for _ in 0..2 {
        // Also the second time: nobody knows what is on the disk.
        let error = checkpoint.save(entries.clone(), true).unwrap_err();
        assert!(error.to_string().contains("the disk is broken"), "{error}");
        assert!(Checkpoint::open(&path).is_err(), "the file with the name is locked");
    }
    checkpoint.sync_folder = |_| Ok(());
    checkpoint.save(entries.clone(), true).unwrap();
    drop(checkpoint);
    assert_eq!(Checkpoint::open(&path).unwrap().1, entries);
}

#[test]
fn what_a_killed_process_has_left_beside_it_does_not_count() {
    let (folder, entries, bytes) = scene();
    fs::write(folder.path().join("at.new"), &bytes[..9]).unwrap();
    assert_eq!(Checkpoint::open(&folder.path().join("at")).unwrap().1, entries);
}

#[test]
fn a_checkpoint_of_a_later_version_is_refused() {
    let (folder, _, bytes) = scene();
    let path = folder.path().join("at");
    let text = String::from_utf8(bytes).unwrap();
    for later in [
        text.replace(r#""version": 2"#, r#""version": 3"#),
        r#"{ "version": 3, "streams": [] }"#.to_owned(),
    ] {
        fs::write(&path, &later).unwrap();
        let error = Checkpoint::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains("has version 3"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), later, "it is left as it is");
    }
}

#[test]
fn a_checkpoint_that_was_cut_is_refused_wherever_it_was_cut() {
    let (folder, _, bytes) = scene();
    let path = folder.path().join("at");
    let whole = bytes.trim_ascii_end().len();
    for length in 0..whole {
        fs::write(&path, &bytes[..length]).unwrap();
        let error = Checkpoint::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION, "{length} bytes");
        for part in ["damaged", "delete it", path.to_str().unwrap()] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn garbage_is_refused(garbage in proptest::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        fs::write(&path, &garbage).unwrap();
        let error = Checkpoint::open(&path).unwrap_err();
        prop_assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        prop_assert_eq!(fs::read(&path).unwrap(), garbage);
    }

    #[test]
    fn a_byte_that_was_changed_is_refused_or_says_nothing(at in 0..1_000_usize, byte: u8) {
        let (folder, entries, mut bytes) = scene();
        let path = folder.path().join("at");
        let at = at % bytes.len();
        bytes[at] = byte;
        fs::write(&path, &bytes).unwrap();
        if let Ok((_, found)) = Checkpoint::open(&path) {
            prop_assert_eq!(found, entries);
        }
    }
}

/// A machine that loses power may lose the contents of a file that took its name without `fsync`.
#[test]
fn damaged_checkpoint_is_replaced_by_the_last_durable_one() {
    let (folder, entries, _) = scene();
    let path = folder.path().join("at");
    let (mut checkpoint, _) = Checkpoint::open(&path).unwrap();
    let mut later = entries.clone();
    for (position, is_durable) in [(8, true), (9, false), (10, false)] {
        later[0].position = position;
        checkpoint.save(later.clone(), is_durable).unwrap();
    }
    drop(checkpoint);
    assert_eq!(Checkpoint::open(&path).unwrap().1, later);
    fs::write(&path, "").unwrap();
    let (checkpoint, found) = Checkpoint::open(&path).unwrap();
    assert_eq!(found[0].position, 8);
    assert!(checkpoint.damage.unwrap().to_string().contains("is damaged"));
    fs::write(&path, r#"{ "version": 3 }"#).unwrap();
    Checkpoint::open(&path).unwrap_err();
}

#[test]
fn a_folder_that_is_not_there_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none").join("at");
    let error = Checkpoint::open(&path).unwrap_err();
    assert!(error.to_string().contains("cannot write the checkpoint"), "{error}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
}

#[test]
fn a_checkpoint_that_can_be_read_and_not_written_is_told_at_once() {
    let (folder, _, bytes) = scene();
    let path = folder.path().join("at");
    // A superuser may write to a read-only folder.
    fs::create_dir(folder.path().join("at.new")).unwrap();
    let error = Checkpoint::open(&path).unwrap_err();
    assert!(error.to_string().contains("cannot write the checkpoint"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_full_disk_leaves_what_was_there_and_may_have_room_again() {
    let (folder, entries, bytes) = scene();
    let path = folder.path().join("at");
    let (mut checkpoint, _) = Checkpoint::open(&path).unwrap();
    fs::remove_file(folder.path().join("at.new")).unwrap();
    // What is written beside it goes to a full device.
    std::os::unix::fs::symlink("/dev/full", folder.path().join("at.new")).unwrap();
    let error = checkpoint.save(vec![entries[0].clone()], true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FULL);
    assert!(!error.is_final());
    assert_eq!(fs::read(&path).unwrap(), bytes);
    fs::remove_file(folder.path().join("at.new")).unwrap();
    checkpoint.save(vec![entries[0].clone()], true).unwrap();
    drop(checkpoint);
    assert_eq!(Checkpoint::open(&path).unwrap().1, entries[..1]);
}
