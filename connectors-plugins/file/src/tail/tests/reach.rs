//! Tests of files that cannot be read, permanently or for a while.

use std::{fs, time::Duration};

use tremor_pdk::{ErrorKind, Pull};

use super::{Scene, text};

#[test]
fn invalid_configuration_is_rejected_with_its_reason() {
    let scene = Scene::new(&[("in", "")]);
    fs::write(scene.path("at"), "{").unwrap();
    for (keys, reason) in [
        (r#""path": "none", "checkpoint": "new""#, "there is no file"),
        (r#""path": "none*""#, "there is no file"),
        (r#""path": "in", "follow": true, "message_end": """#, "`message_end`"),
        (r#""path": "in", "checkpoint": "at""#, "it is damaged"),
    ] {
        let error = scene.open(keys).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    let error = scene.open(r#""path": "/dev/null", "follow": true"#).err().unwrap();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn temporarily_unreadable_folder_loses_no_position() {
    let scene = Scene::new(&[]);
    fs::create_dir(scene.path("logs")).unwrap();
    scene.write("logs/in", "one\n");
    let keys = r#""path": "log*/in", "checkpoint": "at", "follow": true"#;
    let mut source = scene.open(keys).unwrap();
    let batches = scene.all(&mut source);
    source.acks().unwrap().ack(batches[0].pull()).unwrap();
    source.stop().unwrap();
    // The file can no longer be found: its folder was moved away, and a folder that cannot be read
    // has the old name.
    scene.rename("logs", "away");
    fs::create_dir(scene.path("logs")).unwrap();
    std::os::unix::fs::symlink("in", scene.path("logs/in")).unwrap();
    let mut source = scene.open(keys).unwrap();
    assert!(scene.all(&mut source).is_empty());
    fs::remove_dir_all(scene.path("logs")).unwrap();
    scene.rename("away", "logs");
    scene.append("logs/in", "two\n");
    assert_eq!(text(&scene.all(&mut source)), ["two\n"]);
    assert!(!scene.logged("no longer exists"));
}

#[test]
fn unreadable_file_is_an_error_without_follow() {
    let scene = Scene::new(&[("in", "one\n")]);
    // A file that not even a superuser can read.
    let path = r#""path": "/proc/self/clear_refs""#;
    for keys in
        [format!(r#"{path}, "checkpoint": "at""#), r#""path": "/proc/self/clear_ref*""#.into()]
    {
        let error = scene.open(&keys).err().unwrap();
        assert!(error.to_string().contains("cannot read `/proc/self/clear_refs`"), "{error}");
    }
    let mut source = scene.open(&format!(r#"{path}, "follow": true"#)).unwrap();
    assert_eq!(source.pull().unwrap().0, Pull::Idle(Duration::from_millis(100)));
    assert!(scene.logged("retrying"));
}

#[test]
fn unreadable_entry_hides_no_rename_of_other_files() {
    let scene = Scene::new(&[("a.log", "one\n")]);
    std::os::unix::fs::symlink("loop.log", scene.path("loop.log")).unwrap();
    let mut source = scene.open(r#""path": "*.log", "follow": true"#).unwrap();
    assert_eq!(text(&scene.all(&mut source)), ["one\n"]);
    scene.rename("a.log", "away");
    let batches = scene.all_for(&mut source, Duration::from_secs(10));
    assert_eq!(text(&batches), ["[ends]"]);
}

#[test]
fn file_whose_name_is_not_utf_8_is_read() {
    use std::os::unix::ffi::OsStrExt;
    let scene = Scene::new(&[]);
    let name = std::ffi::OsStr::from_bytes(b"\xff.log");
    fs::write(scene.folder.path().join(name), "one\n").unwrap();
    let mut source = scene.open(r#""path": "*.log""#).unwrap();
    assert_eq!(text(&source.pull_all().unwrap()), ["one\n[ends]"]);
}

/// In tests at most eight files are open at a time.
#[test]
fn more_files_than_open_file_limit_are_all_read() {
    let names: Vec<_> = (10..60).map(|number| format!("{number}.log")).collect();
    let scene = Scene::new(&[]);
    names.iter().for_each(|name| scene.write(name, &format!("{name}\n")));
    let sorted = |batches: &[tremor_pdk::Batch]| {
        let mut lines = text(batches);
        lines.sort();
        lines
    };
    let once = scene.open(r#""path": "*.log", "chunk_bytes": 4"#).unwrap().pull_all().unwrap();
    let whole = |name: &String| format!("{name}\n[ends]");
    assert_eq!(sorted(&once), names.iter().map(whole).collect::<Vec<_>>());

    let mut source = scene.open(r#""path": "*.log", "follow": true"#).unwrap();
    let lines: Vec<_> = names.iter().map(|name| format!("{name}\n")).collect();
    assert_eq!(sorted(&scene.all(&mut source)), lines);
    // Rotate half of the files meanwhile, to names that the pattern does not match.
    names.iter().for_each(|name| scene.append(name, &format!("{name}\n")));
    names.iter().step_by(2).for_each(|name| scene.rename(name, &format!("{name}.1")));
    let more = scene.all_for(&mut source, Duration::from_secs(10));
    let read: Vec<_> = sorted(&more).iter().map(|text| text.replace("[ends]", "")).collect();
    assert_eq!(read, lines);
}

/// Adds more files than may be open at a time, and reads them.
fn crowd(scene: &Scene, source: &mut tremor_pdk::testing::Connection) {
    (10..30).for_each(|number| scene.write(&format!("{number}.log"), "more\n"));
    assert_eq!(scene.all(source).len(), 20);
}

#[test]
fn deleted_file_stays_open_for_a_pull_that_fails() {
    let scene = Scene::new(&[("a.log", "one\n")]);
    let keys = r#""path": "*.log", "checkpoint": "at", "follow": true"#;
    let mut source = scene.open(keys).unwrap();
    let batches = scene.all(&mut source);
    assert_eq!(text(&batches), ["one\n"]);
    fs::remove_file(scene.path("a.log")).unwrap();
    crowd(&scene, &mut source);
    source.acks().unwrap().fail(batches[0].pull(), std::slice::from_ref(&(0..1))).unwrap();
    let again = text(&scene.all_for(&mut source, Duration::from_secs(10))).concat();
    assert!(again.contains("one\n"), "{again}");
}

#[test]
fn replaced_closed_file_is_read_from_its_start() {
    use std::os::unix::fs::MetadataExt;
    let scene = Scene::new(&[("a.log", "one\n")]);
    let mut source = scene.open(r#""path": "*.log", "follow": true"#).unwrap();
    assert_eq!(text(&scene.all(&mut source)), ["one\n"]);
    crowd(&scene, &mut source);
    // A new file may have the same inode and the same length as the old one, so only the time of
    // the change differs.
    let changed = || {
        let metadata = fs::metadata(scene.path("a.log")).unwrap();
        (metadata.ctime(), metadata.ctime_nsec())
    };
    let before = changed();
    while changed() == before {
        scene.write("a.log", "two\n");
    }
    let reread = text(&scene.all_for(&mut source, Duration::from_secs(10)));
    assert!(reread.concat().ends_with("two\n"), "{reread:?}");
}
