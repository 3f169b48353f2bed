//! Tests of `tremor queue`, and of processes that use the same queue.

use std::{
    fs,
    io::Read,
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{
    stored::{DOWN, NOTHING, lines, out, scene, send, up},
    tremor::{Run, Scene},
};

/// Starts of a second process on a folder in use.
const STARTS: usize = 3;

fn tremor(arguments: &[&str]) -> Run {
    Scene::new("").tremor(&[&["queue"], arguments].concat())
}

/// Runs a command for the queue of a folder.
fn queue(folder: &Path, command: &str, arguments: &[&str]) -> Run {
    let path = folder.join("queue");
    tremor(&[&[command, path.to_str().unwrap()], arguments].concat())
}

fn json(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns names, lengths and times of all files of the queue.
fn files(folder: &Path) -> Vec<(String, u64, i64)> {
    let entries = fs::read_dir(folder.join("queue")).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| {
            let about = entry.metadata().unwrap();
            (entry.file_name().into_string().unwrap(), about.len(), about.mtime_nsec())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn queue_in_use_is_listed_checked_and_dumped() {
    let folder = tempfile::tempdir().unwrap();
    let running = send(DOWN, folder.path(), 0..5);
    let list = queue(folder.path(), "list", &["--json"]);
    list.expect(0, &[]);
    let found = &json(&list.stdout)[0];
    assert_eq!(found["process"], running.pid());
    assert_eq!((&found["owner"], &found["waiting"]["events"]), (&"flow/output".into(), &5.into()));
    assert_eq!(found["oldest"]["record"], 1);
    let list = queue(folder.path(), "list", &[]);
    for part in
        ["used by      process ", "waiting      5 events in 5 records", "oldest       record 1, "]
    {
        assert!(list.stdout.contains(part), "{part} is not in:\n{}", list.stdout);
    }
    let check = queue(folder.path(), "check", &[]);
    check.expect(0, &[]);
    assert!(check.stdout.contains("5 records are intact, 5 of them wait"), "{}", check.stdout);
    let dump = queue(folder.path(), "dump", &["--from", "2", "--limit", "3"]);
    dump.expect(0, &[]);
    let events = json(&dump.stdout);
    let number = |value: &Value| value.as_u64().unwrap();
    let numbers: Vec<_> =
        events.iter().map(|it| (number(&it["record"]), number(&it["event"]["n"]))).collect();
    assert_eq!(numbers, [(2, 1), (3, 2), (4, 3)]);
    assert!(events.iter().all(|it| it["ingest_ns"].as_u64() > Some(0) && it["stream"].is_u64()));
    let repair = queue(folder.path(), "repair", &[]);
    repair.expect(
        2,
        &["error: cannot repair the queue", &format!("by the process {}", running.pid())],
    );
    running.end();
    let before = files(folder.path());
    for command in ["list", "check", "dump"] {
        queue(folder.path(), command, &[]).expect(0, &[]);
    }
    assert_eq!(files(folder.path()), before);
    let list = queue(folder.path(), "list", &["--json"]);
    assert_eq!(json(&list.stdout)[0]["process"], Value::Null);
    scene(NOTHING, &up(folder.path()), folder.path()).run().expect(0, &["0 events in, 5 out"]);
    assert_eq!(queue(folder.path(), "dump", &[]).stdout, "");
}

#[test]
fn damage_is_reported_and_headers_are_repaired() {
    let folder = tempfile::tempdir().unwrap();
    send(DOWN, folder.path(), 0..5).end();
    let path = folder.path().join("queue");
    let mut segments = files(folder.path()).into_iter().map(|it| path.join(it.0));
    let has_records = |path: &std::path::PathBuf| {
        path.extension().is_some_and(|it| it == "segment")
            && fs::read(path).unwrap()[8192..].starts_with(b"TRB2")
    };
    let segment = segments.rfind(|path| has_records(path)).unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    bytes[..8192].fill(7);
    fs::write(&segment, &bytes).unwrap();
    let check = queue(folder.path(), "check", &["--json"]);
    check.expect(1, &["error: a part of the queue"]);
    let damage = &json(&check.stdout)[0]["damage"];
    assert_eq!((&damage[0]["kind"], &damage[0]["is_damage"]), (&"segment".into(), &true.into()));
    let repair = queue(folder.path(), "repair", &[]);
    repair.expect(0, &[]);
    assert!(repair.stdout.contains("5 records can be read"), "{}", repair.stdout);
    assert_eq!(fs::read(format!("{}.aside", segment.display())).unwrap(), bytes);
    queue(folder.path(), "check", &[]).expect(0, &[]);
    let repair = queue(folder.path(), "repair", &[]);
    repair.expect(0, &[]);
    assert!(repair.stdout.contains("there is nothing to repair"), "{}", repair.stdout);
    scene(NOTHING, &up(folder.path()), folder.path()).run().expect(0, &["0 events in, 5 out"]);
    assert_eq!(out(folder.path()), lines(5));
}

#[test]
fn folder_without_a_queue_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("queue")).unwrap();
    for command in ["list", "check", "dump", "repair"] {
        let missing = folder.path().join("missing");
        tremor(&[command, missing.to_str().unwrap()]).expect(2, &["there is no folder"]);
        queue(folder.path(), command, &[]).expect(2, &["contains no queue"]);
    }
    assert_eq!(files(folder.path()), []);
}

#[test]
fn dump_ends_quietly_when_its_reader_exits() {
    let folder = tempfile::tempdir().unwrap();
    send(DOWN, folder.path(), 0..1).end();
    let path = folder.path().join("queue");
    let scene = Scene::new("");
    let mut command: Command = scene.command(&["queue", "dump", path.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(child.wait().unwrap().success() && stderr.is_empty(), "{stderr}");
}

#[test]
fn second_process_is_refused_also_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let first = send(DOWN, folder.path(), 0..1);
    let link = folder.path().join("link");
    symlink(folder.path(), &link).unwrap();
    for folder in [folder.path(), &link].iter().cycle().take(2 * STARTS) {
        let second = scene(NOTHING, &up(folder), folder).run();
        assert!(second.status.is_some_and(|it| it != 0), "{}", second.stderr);
        let holder = format!("it is in use by the process {}", first.pid());
        assert!(second.stderr.contains(&holder), "{}", second.stderr);
    }
    first.end();
}
