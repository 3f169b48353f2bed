use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;
use tempfile::TempDir;
use tremor_pdk::{
    ErrorKind,
    testing::{Connection, TestHost, batch_of},
};

use crate::FileConnector;

/// A sink, the folder of its file, and another path in that folder.
struct Scene {
    folder: TempDir,
    host: TestHost,
    sink: Connection,
    path: PathBuf,
    renamed: PathBuf,
}

impl Scene {
    fn new(name: &str, keys: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (path, renamed) = (folder.path().join(name), folder.path().join("renamed"));
        let host = TestHost::new();
        let config = format!(r#"{{ "path": "{}", {keys} }}"#, path.display());
        let sink = host.connect::<FileConnector>(&config).unwrap();
        Self { folder, host, sink, path, renamed }
    }

    fn deliver(&mut self, message: &str) {
        self.sink.deliver(&batch_of(&[message])).unwrap();
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

const MODES: [&str; 4] = [
    r#""mode": "append""#,
    r#""mode": "truncate""#,
    r#""mode": "write""#,
    r#""mode": "append", "sync": "batch""#,
];

/// Renames the file as logrotate does with `create` and with `nocreate`.
#[test]
fn renamed_file_keeps_delivery_and_next_goes_to_path() {
    for keys in MODES {
        for creates in [true, false] {
            let mut scene = Scene::new("out", keys);
            scene.deliver("one\n");
            fs::rename(&scene.path, &scene.renamed).unwrap();
            if creates {
                fs::write(&scene.path, "").unwrap();
            }
            for message in ["two\n", "three\n", "four\n"] {
                scene.deliver(message);
            }
            assert_eq!(read(&scene.renamed), "one\ntwo\n", "{keys}");
            assert_eq!(read(&scene.path), "three\nfour\n", "{keys}");
            scene.sink.stop().unwrap();
        }
    }
}

#[test]
fn delivery_to_deleted_file_is_written_again_at_path() {
    let long = "x".repeat(100_000) + "\n";
    for keys in MODES {
        // A small delivery is written by the thread of the task, a large one by another thread.
        for message in ["two\n", &long] {
            let mut scene = Scene::new("out", keys);
            scene.deliver("one\n");
            fs::remove_file(&scene.path).unwrap();
            scene.deliver(message);
            assert!(read(&scene.path) == *message, "{keys}, {} bytes", message.len());
            scene.deliver("three\n");
            assert!(read(&scene.path) == format!("{message}three\n"), "{keys}");
            let log = scene.host.log();
            assert_eq!(log.len(), 1, "{log:?}");
            assert!(log[0].1.contains("was deleted"), "{log:?}");
            scene.sink.stop().unwrap();
        }
    }
}

/// Copies and truncates the file as logrotate does with `copytruncate`.
#[test]
fn truncated_file_begins_with_next_delivery() {
    for keys in MODES {
        let mut scene = Scene::new("out", keys);
        scene.deliver("one\n");
        fs::write(&scene.path, "").unwrap();
        scene.deliver("two\n");
        assert_eq!(read(&scene.path), "two\n", "{keys}");
    }
}

/// Replaces the file like an editor that writes a copy and renames it.
#[test]
fn file_that_replaces_the_written_one_keeps_its_contents() {
    for keys in MODES {
        let mut scene = Scene::new("out", keys);
        scene.deliver("one\n");
        fs::write(&scene.renamed, "edited\n").unwrap();
        fs::rename(&scene.renamed, &scene.path).unwrap();
        scene.deliver("two\n");
        assert_eq!(read(&scene.path), "edited\ntwo\n", "{keys}");
    }
}

#[test]
fn compressed_files_are_whole_after_rename_and_deletion() {
    let decompressed = |path: &Path| {
        let mut text = String::new();
        MultiGzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        text
    };
    let mut scene = Scene::new("out.gz", r#""mode": "truncate""#);
    scene.deliver("one\n");
    fs::rename(&scene.path, &scene.renamed).unwrap();
    scene.deliver("two\n");
    scene.deliver("three\n");
    assert_eq!(decompressed(&scene.renamed), "one\ntwo\n");
    assert_eq!(decompressed(&scene.path), "three\n");
    fs::remove_file(&scene.path).unwrap();
    scene.deliver("four\n");
    assert_eq!(decompressed(&scene.path), "four\n");
}

#[test]
fn delivery_fails_while_its_folder_is_gone() {
    let mut scene = Scene::new("out", r#""mode": "append""#);
    scene.deliver("one\n");
    fs::remove_dir_all(scene.folder.path()).unwrap();
    let error = scene.sink.deliver(&batch_of(&["two\n"])).unwrap_err().into_error();
    assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
    assert!(error.to_string().contains("its folder does not exist"), "{error}");
    fs::create_dir(scene.folder.path()).unwrap();
    scene.deliver("two\n");
    assert_eq!(read(&scene.path), "two\n");
}

#[test]
fn rotation_counts_from_zero_after_truncation_by_others() {
    let mut scene = Scene::new("out", r#""mode": "append", "rotate": { "max_bytes": 12 }"#);
    scene.deliver("1234567\n");
    fs::write(&scene.path, "").unwrap();
    scene.deliver("one\n");
    scene.deliver("two\n");
    assert_eq!(read(&scene.path), "one\ntwo\n");
    scene.deliver("three\n");
    assert_eq!(read(&scene.path), "three\n");
}

#[test]
fn file_renamed_before_first_delivery_is_not_cut_or_missed() {
    for creates in [true, false] {
        let mut scene = Scene::new("out", r#""mode": "append", "sync": "batch""#);
        fs::write(&scene.path, "acknowledged\nanother acknowledged\n").unwrap();
        fs::rename(&scene.path, &scene.renamed).unwrap();
        if creates {
            fs::write(&scene.path, "of another process\n").unwrap();
        }
        scene.deliver("one\n");
        assert_eq!(read(&scene.renamed), "acknowledged\nanother acknowledged\n");
        let before = if creates { "of another process\n" } else { "" };
        assert_eq!(read(&scene.path), format!("{before}one\n"));
    }
}

#[test]
fn rotation_keeps_another_file_at_the_path() {
    let mut scene =
        Scene::new("out", r#""mode": "truncate", "rotate": { "max_bytes": "1KiB", "keep": 2 }"#);
    scene.deliver(&format!("{}\n", "x".repeat(1_000)));
    fs::rename(&scene.path, &scene.renamed).unwrap();
    fs::write(&scene.path, "of another process\n").unwrap();
    scene.deliver(&format!("{}\n", "y".repeat(1_000)));
    assert!(read(&scene.path).starts_with("of another process\n"), "{}", read(&scene.path));
}
