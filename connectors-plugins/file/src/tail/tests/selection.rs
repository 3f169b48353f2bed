//! Tests of the keys that select files and the start of reading.

use std::{
    fs::{self, File},
    time::Duration,
};

use super::{Scene, text};

#[test]
fn start_at_end_reads_only_added_lines_of_existing_files() {
    let scene = Scene::new(&[("a.log", "old\n"), ("b.log", "old\nha")]);
    let keys = r#""path": "*.log", "follow": true, "start": "end", "checkpoint": "at""#;
    let mut source = scene.open(keys).unwrap();
    assert!(scene.all(&mut source).is_empty());
    scene.append("a.log", "one\n");
    scene.append("b.log", "lf\n");
    scene.write("c.log", "new\n");
    let mut lines = text(&scene.all(&mut source));
    lines.sort();
    assert_eq!(lines, ["half\n", "new\n", "one\n"]);
    source.stop().unwrap();
    // Later starts read from the positions in the checkpoint, and new files from their beginning.
    scene.write("d.log", "newer\n");
    let mut source = scene.open(keys).unwrap();
    let mut lines = text(&scene.all(&mut source));
    lines.sort();
    assert_eq!(lines, ["half\n", "new\n", "newer\n", "one\n"], "nothing was acknowledged");
}

#[test]
fn file_that_appears_after_a_first_start_without_files_is_read() {
    let scene = Scene::new(&[]);
    let keys = r#""path": "*.log", "follow": true, "start": "end""#;
    let mut source = scene.open(keys).unwrap();
    assert!(scene.all(&mut source).is_empty());
    scene.write("a.log", "new\n");
    assert_eq!(text(&scene.all(&mut source)), ["new\n"]);
}

#[test]
fn old_file_is_read_once_it_is_modified() {
    let scene = Scene::new(&[("a.log", "old\n"), ("b.log", "new\n")]);
    let modified = fs::metadata(scene.path("a.log")).unwrap().modified().unwrap();
    let old = modified - Duration::from_hours(2);
    File::options().append(true).open(scene.path("a.log")).unwrap().set_modified(old).unwrap();
    let keys = r#""path": "*.log", "follow": true, "ignore_older": "1h""#;
    let mut source = scene.open(keys).unwrap();
    assert_eq!(text(&scene.all(&mut source)), ["new\n"]);
    scene.append("a.log", "more\n");
    assert_eq!(text(&scene.all(&mut source)), ["old\nmore\n"]);
}

#[test]
fn invalid_selection_is_rejected_with_its_reason() {
    let scene = Scene::new(&[("in", "")]);
    for (keys, reason) in [
        (r#""path": "in*", "exclude": ["a[*"]"#, "invalid `exclude` `a[*`"),
        (r#""path": "in", "exclude": ["a"]"#, "`exclude` applies only to a pattern"),
        (r#""path": "in*", "start": "end""#, "`start: end` needs `follow`"),
        (r#""path": "in", "ignore_older": "1h""#, "`ignore_older` applies only"),
        (r#""path": "in", "max_open_files": 3"#, "`max_open_files` applies only"),
    ] {
        let error = scene.open(keys).err().unwrap();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn open_files_stay_below_configured_limit() {
    let scene = Scene::new(&[]);
    (0..20).for_each(|number| scene.write(&format!("{number}.log"), "line\n"));
    let keys = r#""path": "*.log", "follow": true, "max_open_files": 3"#;
    let mut source = scene.open(keys).unwrap();
    let open = || {
        let entries = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
        links.filter(|path| path.starts_with(scene.folder.path())).count()
    };
    for round in 0..3 {
        assert_eq!(scene.all(&mut source).len(), 20, "{round}");
        assert!(open() <= 3, "{}", open());
        (0..20).for_each(|number| scene.append(&format!("{number}.log"), "line\n"));
    }
}

#[test]
fn metrics_show_files_and_unread_bytes() {
    let scene = Scene::new(&[("a.log", "one\ntwo\n"), ("b.log", "three\n")]);
    let mut source = scene.open(r#""path": "*.log", "follow": true, "chunk_bytes": 4"#).unwrap();
    let metric = |name: &str| scene.host.metric(name).unwrap();
    source.pull().unwrap();
    assert_eq!((metric("files"), metric("files_open")), (2.0, 2.0));
    assert_eq!((metric("unread_bytes"), metric("unread_bytes_max")), (14.0, 8.0));
    scene.all(&mut source);
    scene.append("a.log", "ha");
    scene.all(&mut source);
    assert_eq!((metric("unread_bytes"), metric("unread_bytes_max")), (2.0, 2.0));
}
