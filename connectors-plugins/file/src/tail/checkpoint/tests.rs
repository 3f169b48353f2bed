use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
    sync::Barrier,
    thread,
};

use proptest::prelude::*;
use tremor_pdk::ErrorKind;

use super::{Checkpoint, Entry, Identity, MANY};

fn entry(folder: &Path, name: &str, position: u64) -> Entry {
    let path = folder.join(name);
    fs::write(&path, name).unwrap();
    let identity = Identity::of(&File::open(&path).unwrap()).unwrap();
    Entry {
        path: path.display().to_string(),
        identity,
        position,
        unread: 0,
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
fn checkpoint_of_unread_bytes_has_later_version() {
    let (folder, mut entries, _) = scene();
    let path = folder.path().join("at");
    for (unread, version) in [(5, r#""version": 4"#), (0, r#""version": 3"#)] {
        let (mut checkpoint, _) = Checkpoint::open(&path).unwrap();
        entries[0].unread = unread;
        checkpoint.save(entries.clone(), true).unwrap();
        drop(checkpoint);
        assert!(fs::read_to_string(&path).unwrap().contains(version));
        assert_eq!(Checkpoint::open(&path).unwrap().1, entries);
    }
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
        text.replace(r#""version": 3"#, r#""version": 5"#),
        r#"{ "version": 5, "streams": [] }"#.to_owned(),
        r#"{ "version": 5 } { "checksum": "", "changes": [] }"#.to_owned(),
    ] {
        fs::write(&path, &later).unwrap();
        let error = Checkpoint::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains("has version 5"), "{error}");
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
    fs::write(&path, r#"{ "version": 5 }"#).unwrap();
    Checkpoint::open(&path).unwrap_err();
}

/// Creates a checkpoint of [`MANY`] files, to which changes are appended, and returns its entries.
fn many(folder: &Path) -> (Checkpoint, Vec<Entry>) {
    let entry = entry(folder, "a", 7);
    let named = |at| Entry { path: format!("file {at}"), ..entry.clone() };
    let entries: Vec<_> = (0..MANY).map(named).collect();
    let (mut checkpoint, _) = Checkpoint::open(&folder.join("at")).unwrap();
    checkpoint.save(entries.clone(), true).unwrap();
    (checkpoint, entries)
}

/// Writes the position of the entry with index `at`.
fn write(checkpoint: &mut Checkpoint, entries: &mut [Entry], at: usize, position: u64) {
    entries[at].position = position;
    checkpoint.save_changes(vec![(at, entries[at].clone())], false).unwrap();
}

#[test]
fn changes_of_many_files_are_appended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("at");
    let (mut checkpoint, mut entries) = many(folder.path());
    let before = fs::read(&path).unwrap();
    write(&mut checkpoint, &mut entries, 3, 8);
    checkpoint.save_changes(vec![(3, entries[3].clone())], true).unwrap();
    write(&mut checkpoint, &mut entries, MANY - 1, 9);
    let after = fs::read(&path).unwrap();
    let lines = after.strip_prefix(&*before).expect("the entries are not written again");
    assert_eq!(memchr::memchr_iter(b'\n', lines).count(), 2);
    assert!(Checkpoint::open(&path).is_err(), "the file is still locked");
    drop(checkpoint);
    let (mut checkpoint, found) = Checkpoint::open(&path).unwrap();
    assert_eq!((found, checkpoint.torn), (entries.clone(), 0));
    // The next run does not append to lines that it has not written.
    write(&mut checkpoint, &mut entries, 4, 10);
    drop(checkpoint);
    assert_eq!(Checkpoint::open(&path).unwrap().1, entries);
}

#[test]
fn incomplete_change_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("at");
    let (mut checkpoint, mut entries) = many(folder.path());
    write(&mut checkpoint, &mut entries, 3, 8);
    let (before, expected) = (fs::read(&path).unwrap(), entries.clone());
    write(&mut checkpoint, &mut entries, 3, 9);
    write(&mut checkpoint, &mut entries, 4, 10);
    drop(checkpoint);
    let after = fs::read(&path).unwrap();
    let line = after[before.len()..].iter().position(|byte| *byte == b'\n').unwrap();
    let check = |bytes: &[u8], torn: usize| {
        fs::write(&path, bytes).unwrap();
        let (checkpoint, found) = Checkpoint::open(&path).unwrap();
        assert_eq!((&found, checkpoint.torn), (&expected, torn));
    };
    for length in 0..=line {
        check(&after[..before.len() + length], length);
        // A power failure may also leave zeros or lose the middle of the file.
        let mut damaged = after.clone();
        damaged[before.len() + length] = 0;
        check(&damaged, after.len() - before.len());
    }
}

#[test]
fn checkpoint_with_many_changes_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("at");
    let (mut checkpoint, mut entries) = many(folder.path());
    let most = 2 * fs::metadata(&path).unwrap().len() + 1_000;
    for position in 0..1_000 {
        write(&mut checkpoint, &mut entries, 5, position);
        let length = fs::metadata(&path).unwrap().len();
        assert!(length < most, "{length} bytes");
    }
    drop(checkpoint);
    assert_eq!(Checkpoint::open(&path).unwrap().1, entries);
}

#[test]
fn failed_append_replaces_the_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("at");
    let (mut checkpoint, mut entries) = many(folder.path());
    // The write fails, because this handle of the checkpoint can only read.
    checkpoint.locked = Some(File::open(&path).unwrap());
    write(&mut checkpoint, &mut entries, 5, 11);
    drop(checkpoint);
    assert_eq!(Checkpoint::open(&path).unwrap().1, entries);
}

#[test]
fn deleted_checkpoint_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("at");
    let (mut checkpoint, mut entries) = many(folder.path());
    fs::remove_file(&path).unwrap();
    write(&mut checkpoint, &mut entries, 5, 11);
    drop(checkpoint);
    assert_eq!(Checkpoint::open(&path).unwrap().1, entries);
}

#[test]
fn deleted_checkpoint_is_written_without_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("at");
    let (mut checkpoint, entries) = many(folder.path());
    fs::remove_file(&path).unwrap();
    checkpoint.save(entries.clone(), false).unwrap();
    drop(checkpoint);
    assert_eq!(Checkpoint::open(&path).unwrap().1, entries);
}

#[test]
fn copy_of_durable_checkpoint_has_appended_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("at");
    let (mut checkpoint, mut entries) = many(folder.path());
    write(&mut checkpoint, &mut entries, 5, 11);
    checkpoint.save(entries[..MANY - 1].to_vec(), false).unwrap();
    drop(checkpoint);
    fs::write(&path, "").unwrap();
    let (checkpoint, found) = Checkpoint::open(&path).unwrap();
    assert_eq!((found, checkpoint.damage.is_some()), (entries, true));
}

/// An older copy would repeat events if the checkpoint were damaged later, or if an earlier version
/// of the plugin could not read it.
#[test]
fn older_copy_is_removed_once_the_checkpoint_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("at");
    let (mut checkpoint, mut entries) = many(folder.path());
    let copy = checkpoint.copy_path();
    // Replace a checkpoint of few files by one of many files, and append to that.
    checkpoint.save(entries[..2].to_vec(), true).unwrap();
    checkpoint.save(entries.clone(), false).unwrap();
    assert!(copy.exists(), "the new checkpoint is not durable");
    write(&mut checkpoint, &mut entries, 5, 11);
    assert!(copy.exists(), "the change is not durable");
    checkpoint.save_changes(Vec::new(), true).unwrap();
    assert!(!copy.exists(), "an append made the checkpoint durable");
    entries[5].position = 12;
    for is_durable in [false, true] {
        checkpoint.save(entries[5..].to_vec(), is_durable).unwrap();
        assert_eq!(copy.exists(), !is_durable);
    }
    drop(checkpoint);
    // A copy of an earlier run is older as well.
    fs::write(&copy, "old").unwrap();
    let (mut checkpoint, _) = Checkpoint::open(&path).unwrap();
    checkpoint.save(entries.clone(), true).unwrap();
    assert!(!copy.exists());
}

#[test]
fn checkpoint_changed_in_place_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("at");
    for (position, is_append) in [(11, true), (12, false), (13, true), (14, false)] {
        let (mut checkpoint, mut entries) = many(folder.path());
        write(&mut checkpoint, &mut entries, 5, 1);
        let file = File::options().append(true).open(&path).unwrap();
        if position < 13 {
            file.set_len(file.metadata().unwrap().len() - 9).unwrap();
        } else {
            (&file).write_all(b"{}\n").unwrap();
        }
        if is_append {
            write(&mut checkpoint, &mut entries, 6, position);
        } else {
            checkpoint.save(entries.clone(), false).unwrap();
        }
        drop(checkpoint);
        let (checkpoint, found) = Checkpoint::open(&path).unwrap();
        assert_eq!((found, checkpoint.torn), (entries, 0), "{position}");
        fs::remove_file(&path).unwrap();
    }
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
