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
    Entry {
        path: path.display().to_string(),
        identity,
        position,
        skip: 0,
        ending: None,
        earlier: Vec::new(),
    }
}

/// Creates a folder with a checkpoint of two files, and returns its entries and its bytes.
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
fn saved_entries_are_read_back() {
    let (folder, entries, _) = scene();
    let path = folder.path().join("at");
    assert_eq!(Checkpoint::open(&path).unwrap().1, entries);
}

#[test]
fn checkpoint_of_version_1_without_checksum_is_read() {
    let (folder, entries, bytes) = scene();
    let path = folder.path().join("at");
    let text = String::from_utf8(bytes).unwrap().replace(r#""version": 3"#, r#""version": 1"#);
    let is_checksum = |line: &&str| line.contains("checksum");
    let first: Vec<&str> = text.lines().filter(|line| !is_checksum(line)).collect();
    fs::write(&path, first.join("\n")).unwrap();
    let (mut checkpoint, found) = Checkpoint::open(&path).unwrap();
    assert_eq!(found, entries);
    checkpoint.save(entries[..1].to_vec(), true).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains(r#""version": 3"#));
}

#[test]
fn locked_checkpoint_is_rejected_until_its_source_ends() {
    let (folder, entries, _) = scene();
    let path = folder.path().join("at");
    let refused = || {
        let error = Checkpoint::open(&path).unwrap_err();
        assert!(error.to_string().contains("a `checkpoint` of its own"), "{error}");
        assert!(!error.is_final(), "a source that has just ended may still have the lock");
    };
    let (mut first, _) = Checkpoint::open(&path).unwrap();
    refused();
    first.save(entries[..1].to_vec(), true).unwrap();
    refused();
    drop(first);
    assert_eq!(Checkpoint::open(&path).unwrap().1, entries[..1]);
}

#[test]
fn new_checkpoint_locked_by_another_source_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("at");
    let (_first, _) = Checkpoint::open(&path).unwrap();
    // The other source found no checkpoint and creates one.
    let other = Checkpoint::new(&path);
    fs::hard_link(folder.path().join("at"), other.new_path()).unwrap();
    other.begin_new().unwrap_err();
}

#[test]
fn one_of_two_concurrent_sources_gets_the_checkpoint() {
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
fn failed_folder_sync_fails_the_save_and_keeps_the_lock() {
    let (folder, mut entries, _) = scene();
    let path = folder.path().join("at");
    let (mut checkpoint, _) = Checkpoint::open(&path).unwrap();
    checkpoint.sync_folder = |_| Err(io::Error::other("the disk is broken"));
    entries[0].position += 1;
    for _ in 0..2 {
        // The second attempt fails as well, because the durable contents are unknown.
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
fn leftover_of_a_killed_process_is_ignored() {
    let (folder, entries, bytes) = scene();
    fs::write(folder.path().join("at.new"), &bytes[..9]).unwrap();
    assert_eq!(Checkpoint::open(&folder.path().join("at")).unwrap().1, entries);
}

#[test]
fn checkpoint_of_a_later_version_is_rejected() {
    let (folder, _, bytes) = scene();
    let path = folder.path().join("at");
    let text = String::from_utf8(bytes).unwrap();
    for later in [
        text.replace(r#""version": 3"#, r#""version": 4"#),
        r#"{ "version": 4, "streams": [] }"#.to_owned(),
    ] {
        fs::write(&path, &later).unwrap();
        let error = Checkpoint::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains("has version 4"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), later, "the file is not changed");
    }
}

#[test]
fn truncated_checkpoint_is_rejected() {
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
    fn garbage_is_rejected(garbage in proptest::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        fs::write(&path, &garbage).unwrap();
        let error = Checkpoint::open(&path).unwrap_err();
        prop_assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        prop_assert_eq!(fs::read(&path).unwrap(), garbage);
    }

    #[test]
    fn changed_byte_is_detected_or_harmless(at in 0..1_000_usize, byte: u8) {
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

/// A power failure may lose the contents of a file that was renamed without `fsync`.
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
    fs::write(&path, r#"{ "version": 4 }"#).unwrap();
    Checkpoint::open(&path).unwrap_err();
}

#[test]
fn missing_folder_is_reported_at_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none").join("at");
    let error = Checkpoint::open(&path).unwrap_err();
    assert!(error.to_string().contains("cannot write the checkpoint"), "{error}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
}

#[test]
fn read_only_checkpoint_is_reported_at_open() {
    let (folder, _, bytes) = scene();
    let path = folder.path().join("at");
    // Use a folder at the path of the new file instead of permissions, because a superuser may
    // write to a read-only folder.
    fs::create_dir(folder.path().join("at.new")).unwrap();
    let error = Checkpoint::open(&path).unwrap_err();
    assert!(error.to_string().contains("cannot write the checkpoint"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn full_disk_keeps_the_checkpoint_and_is_not_final() {
    let (folder, entries, bytes) = scene();
    let path = folder.path().join("at");
    let (mut checkpoint, _) = Checkpoint::open(&path).unwrap();
    fs::remove_file(folder.path().join("at.new")).unwrap();
    // Direct the new contents to a full device.
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
