//! Tests of the checks of more files than are checked in one poll interval.

use std::{fs, os::unix::fs::symlink, time::Duration};

use tremor_pdk::{RawBatch, testing::Connection};

use super::{Scene, text};
use crate::tail::{
    Files,
    files::{Next, pause_ns},
};

/// Number of files, which is more than are checked in one poll interval.
const COUNT: usize = 600;

/// The longest pause of some of these files is 11 s.
const KEYS: &str = r#""path": "*.log", "follow": true, "poll_interval": "1s""#;

fn write_files(scene: &Scene) {
    (0..COUNT).for_each(|number| scene.write(&format!("{number:03}.log"), "line\n"));
}

/// Opens a source that has read all files, which were silent for minutes since then.
fn silent(scene: &Scene) -> Connection {
    write_files(scene);
    let mut source = scene.open(KEYS).unwrap();
    assert_eq!(scene.all_for(&mut source, Duration::from_mins(4)).len(), COUNT);
    source
}

#[test]
fn many_silent_files_are_checked_in_turn() {
    let scene = Scene::new(&[]);
    write_files(&scene);
    let mut source = scene.open(r#""path": "*.log", "follow": true"#).unwrap();
    assert_eq!(scene.all_for(&mut source, Duration::from_secs(20)).len(), COUNT);
    (0..COUNT).for_each(|number| scene.append(&format!("{number:03}.log"), "more\n"));
    assert_eq!(scene.all_for(&mut source, Duration::from_secs(2)).len(), COUNT);
}

/// The clock of a network file system may be minutes behind, so that each change looks old.
#[test]
fn file_that_was_just_read_is_checked_soon() {
    let scene = Scene::new(&[]);
    write_files(&scene);
    // A file of the system whose last change was long ago.
    symlink("/etc/passwd", scene.path("old.log")).unwrap();
    let path = scene.path("*.log").display().to_string();
    let config = format!(r#"{{ "path": "{path}", "mode": "read", "follow": true }}"#);
    let mut files =
        Files::open(&serde_json::from_str(&config).unwrap(), scene.host.host()).unwrap();
    let mut batch = RawBatch::default();
    while !matches!(files.next(&mut batch).unwrap(), Next::Nothing) {}
    let now_ns = scene.host.host().monotonic_ns();
    let pauses = files.inputs.iter().map(|input| pause_ns(input, COUNT, 1_000, now_ns));
    let longest = pauses.max();
    assert_eq!(longest, Some(1_000), "each file was read at this time");
}

#[test]
fn change_that_a_search_finds_is_read_with_next_poll() {
    let scene = Scene::new(&[]);
    let mut source = silent(&scene);
    // The rounds are at different times after the last check of the files.
    for number in [7, 15, 23, 31] {
        scene.append(&format!("{number:03}.log"), "more\n");
        // The search reads a folder that has changed.
        scene.write(&format!("{number}.new.log"), "new\n");
        let mut lines = text(&scene.all_for(&mut source, Duration::from_millis(2_500)));
        lines.sort();
        assert_eq!(lines, ["more\n", "new\n"], "{number}");
    }
}

/// A renamed file may be compressed and deleted soon.
#[test]
fn last_lines_of_renamed_file_are_read_with_next_poll() {
    let scene = Scene::new(&[]);
    let mut source = silent(&scene);
    for name in ["007", "015", "599"] {
        scene.append(&format!("{name}.log"), "last\n");
        scene.rename(&format!("{name}.log"), &format!("{name}.log.1"));
    }
    let read = scene.all_for(&mut source, Duration::from_millis(2_500));
    assert_eq!(text(&read), ["last\n"; 3]);
    fs::remove_file(scene.path("007.log.1")).unwrap();
}
