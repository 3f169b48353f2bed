//! Events that try to write outside of the folder, and folders that other users have prepared.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
};

use rustix::fs::{CWD, Mode, mkfifoat};
use tremor_pdk::{Batch, ErrorKind, ErrorPolicy, literal, testing::exceptions};

use super::{Scene, batch, map};

#[test]
fn hostile_name_is_rejected_and_creates_nothing() {
    let long = "x".repeat(300);
    let deep = format!("{}x", "x/".repeat(3_000));
    let hosts = [
        ("../../x", "without `/`"),
        ("a/../b", "without `/`"),
        ("/etc/x", "without `/`"),
        ("a/b", "without `/`"),
        ("/", "without `/`"),
        (&*deep, "without `/`"),
        ("a\0b", "control characters"),
        ("a\nb", "control characters"),
        ("a\u{85}b", "control characters"),
        ("\u{1b}[31m", "control characters"),
        ("", "not empty"),
        (".", "`.` or `..`"),
        ("..", "`.` or `..`"),
        (&*long, "at most 255 bytes"),
    ];
    for template in ["{host}", "{host}/x"] {
        let mut scene = Scene::new(template, "");
        let mut events: Vec<_> = hosts.iter().map(|(host, _)| (*host, "bad\n")).collect();
        events.insert(7, ("good", "good\n"));
        let rejected = exceptions(scene.sink.deliver(&batch(&events)));
        let count: usize = rejected.iter().map(|it| it.events.len()).sum();
        assert_eq!(count, hosts.len());
        assert!(rejected.iter().all(|it| !it.events.contains(&7)));
        let errors: Vec<_> = rejected
            .iter()
            .flat_map(|it| it.events.clone().map(|_| (it.error.kind(), it.error.to_string())))
            .collect();
        for ((host, expected), (kind, error)) in hosts.iter().zip(&errors) {
            assert_eq!(*kind, ErrorKind::BAD_DATA);
            assert!(error.contains(expected), "{host:?}: {error}");
            assert!(!error.contains(char::is_control) && error.len() < 600, "{error}");
        }
        let file = if template == "{host}" { "good" } else { "good/x" };
        assert_eq!(scene.contents(), map(&[(file, "good\n")]));
        assert_eq!(fs::read_dir(scene.root.path()).unwrap().count(), 1, "only `logs`");
    }
}

#[test]
fn several_values_cannot_form_a_parent_folder() {
    let mut scene = Scene::new("{%a}{%b}/x", "");
    let mut events = Batch::new();
    for (a, b) in [(".", "."), (".", "b")] {
        events.push_message(b"1\n");
        events.last_mut().unwrap().set_metadata(literal!({ "a": a, "b": b }));
    }
    let rejected = exceptions(scene.sink.deliver(&events));
    assert_eq!((rejected.len(), rejected[0].events.clone()), (1, 0..1));
    assert_eq!(scene.contents(), map(&[(".b/x", "1\n")]));
}

#[test]
fn names_leave_space_for_those_of_renamed_files() {
    let fits = "x".repeat(255 - 25);
    for (host, is_valid) in [(fits.clone(), true), (fits + "x", false)] {
        let mut scene = Scene::new("{host}", r#""rotate": { "max_bytes": 1 }"#);
        for _ in 0..2 {
            let rejected = exceptions(scene.sink.deliver(&batch(&[(&host, "1\n")])));
            assert_eq!(rejected.is_empty(), is_valid, "{rejected:?}");
        }
        assert_eq!(scene.contents().len(), if is_valid { 2 } else { 0 });
    }
}

#[test]
fn event_cannot_name_a_renamed_file_of_another() {
    let mut scene = Scene::new("{host}", r#""rotate": { "max_bytes": 2 }"#);
    scene.deliver(&[("a", "1\n")]);
    scene.deliver(&[("a", "2\n")]);
    let renamed = scene.contents().into_keys().next_back().unwrap();
    let rejected = exceptions(scene.sink.deliver(&batch(&[(&renamed, "forged\n")])));
    assert!(rejected[0].error.to_string().contains("renamed file"), "{}", rejected[0].error);
    assert_eq!(scene.contents()[&renamed], "1\n");
}

#[test]
fn prepared_links_and_devices_are_not_used() {
    for keys in ["", r#""sync": "batch""#] {
        let mut scene = Scene::new("{host}/x", keys);
        let outside = scene.root.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "kept").unwrap();
        symlink(&outside, scene.file("folder")).unwrap();
        symlink("nowhere", scene.file("dangling")).unwrap();
        fs::write(scene.file("file"), "").unwrap();
        for name in ["link", "pipe", "socket", "loop"] {
            fs::create_dir(scene.file(name)).unwrap();
        }
        symlink(outside.join("precious"), scene.file("link/x")).unwrap();
        symlink("x", scene.file("loop/x")).unwrap();
        mkfifoat(CWD, scene.file("pipe/x"), Mode::from_raw_mode(0o600)).unwrap();
        let _socket = UnixListener::bind(scene.file("socket/x")).unwrap();
        let hosts = [
            ("folder", "symbolic link"),
            ("dangling", "symbolic link"),
            ("file", "a file or a symbolic link"),
            ("link", "symbolic link"),
            ("loop", "symbolic link"),
            ("pipe", "not a regular file"),
            ("socket", "not a regular file"),
        ];
        for (host, expected) in hosts {
            let rejected = exceptions(scene.sink.deliver(&batch(&[(host, "1\n"), ("ok", "1\n")])));
            assert_eq!((rejected.len(), rejected[0].events.clone()), (1, 0..1), "{host}");
            let error = &rejected[0].error;
            assert_eq!(error.policy(), ErrorPolicy::DEAD_LETTER, "{host}");
            assert!(error.to_string().contains(expected), "{host}: {error}");
        }
        let written = fs::read_to_string(scene.file("ok/x")).unwrap();
        assert_eq!(written, "1\n".repeat(hosts.len()));
        assert_eq!(fs::read_to_string(outside.join("precious")).unwrap(), "kept");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }
}

/// A pipe that a process reads can be opened, but is not a file.
#[test]
fn pipe_with_a_reader_gets_no_events() {
    let mut scene = Scene::new("{host}", "");
    mkfifoat(CWD, scene.file("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    let mut options = fs::File::options();
    let _reader = options.read(true).write(true).open(scene.file("pipe")).unwrap();
    let rejected = exceptions(scene.sink.deliver(&batch(&[("pipe", "1\n")])));
    assert!(rejected[0].error.to_string().contains("not a regular file"), "{rejected:?}");
}

#[test]
fn folder_that_becomes_a_link_is_not_followed() {
    let mut scene = Scene::new("{host}/x", r#""rotate": { "max_bytes": 4 }"#);
    scene.deliver(&[("a", "1\n")]);
    let outside = scene.root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::rename(scene.file("a"), scene.file("moved")).unwrap();
    symlink(&outside, scene.file("a")).unwrap();
    // The file was open and is renamed now, as by logrotate.
    scene.deliver(&[("a", "2\n")]);
    let rejected = exceptions(scene.sink.deliver(&batch(&[("a", "3\n"), ("b", "3\n")])));
    assert_eq!((rejected.len(), rejected[0].events.clone()), (1, 0..1));
    assert!(rejected[0].error.to_string().contains("symbolic link"), "{}", rejected[0].error);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(scene.file("moved/x")).unwrap(), "1\n2\n");
    fs::remove_file(scene.file("a")).unwrap();
    scene.deliver(&[("a", "3\n")]);
    assert_eq!(fs::read_to_string(scene.file("a/x")).unwrap(), "3\n");
}
