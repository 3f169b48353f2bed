//! Tests of sources that are not pulled, for example because a sink is down.

use std::{fs, process::Command};

use tremor_pdk::LogLevel;

use super::{Scene, text};

const KEYS: &str = r#""path": "*.log", "follow": true"#;

fn delete(scene: &Scene, name: &str) {
    fs::remove_file(scene.path(name)).unwrap();
}

fn metric(scene: &Scene, name: &str) -> u64 {
    format!("{}", scene.host.metric(name).unwrap_or_default()).parse().unwrap()
}

/// Returns the warnings about losses.
fn losses(scene: &Scene) -> Vec<String> {
    let log = scene.host.log().into_iter();
    let log = log.filter(|(level, line)| *level == LogLevel::WARN && line.contains("are lost:"));
    log.map(|(_, line)| line).collect()
}

/// Returns the lines of all streams, sorted.
fn lines(scene: &Scene, source: &mut tremor_pdk::testing::Connection) -> Vec<String> {
    let batches = scene.all_for(source, std::time::Duration::from_secs(30));
    let text = text(&batches).concat().replace("[ends]", "").replace("[cut off]", "");
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Appends a line, and then copies the log and truncates it, as `copytruncate` of logrotate does.
fn copy_and_truncate(scene: &Scene, line: &str) {
    scene.append("in.log", &format!("{line}\n"));
    scene.pause(2);
    // The copy of the last round, if there is one.
    let _ = fs::remove_file(scene.path("in.log.1"));
    fs::copy(scene.path("in.log"), scene.path("in.log.1")).unwrap();
    scene.write("in.log", "");
    scene.pause(2);
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("line {number:02}")).collect()
}

#[test]
fn rotated_and_deleted_files_are_read() {
    for path in ["in.log", "*.log"] {
        let scene = Scene::new(&[("in.log", "line 00\n")]);
        let mut source = scene.open(&KEYS.replace("*.log", path)).unwrap();
        assert_eq!(text(&scene.all(&mut source)), ["line 00\n"]);
        for line in &numbered(6)[1..] {
            scene.append("in.log", &format!("{line}\n"));
            scene.pause(2);
            // The renamed file replaces the one before it, as with `rotate 1` of logrotate.
            scene.rename("in.log", "old");
            scene.write("in.log", "");
        }
        assert_eq!(lines(&scene, &mut source), numbered(6)[1..], "{path}");
        assert_eq!(losses(&scene), Vec::<String>::new());
        assert_eq!(metric(&scene, "files_lost"), 0);
    }
}

#[test]
fn files_that_come_and_go_are_read() {
    let scene = Scene::new(&[]);
    let mut source = scene.open(KEYS).unwrap();
    for (number, line) in numbered(6).iter().enumerate() {
        let name = format!("{number}.log");
        scene.write(&name, &format!("{line}\n"));
        scene.pause(2);
        delete(&scene, &name);
    }
    assert_eq!(lines(&scene, &mut source), numbered(6));
}

#[test]
fn metrics_are_true_without_pulls() {
    for keys in [KEYS, r#""path": "*.log""#] {
        let scene = Scene::new(&[("a.log", "1234\n"), ("b.log", "12\n")]);
        let _source = scene.open(keys).unwrap();
        scene.pause(2);
        let metrics = || ["files", "unread_bytes", "unread_bytes_max"].map(|it| metric(&scene, it));
        assert_eq!(metrics(), [2, 8, 5]);
        scene.append("b.log", "12345\n");
        scene.write("c.log", "x\n");
        scene.pause(2);
        assert_eq!(metrics(), if keys == KEYS { [3, 16, 9] } else { [2, 14, 9] });
    }
}

/// In tests at most eight files are open at a time.
#[test]
fn unread_files_beyond_the_open_files_are_counted_when_deleted() {
    let scene = Scene::new(&[]);
    let mut source = scene.open(KEYS).unwrap();
    let expected = numbered(11);
    for (number, line) in expected.iter().enumerate() {
        scene.write(&format!("{number:02}.log"), &format!("{line}\n"));
    }
    scene.pause(2);
    assert_eq!(metric(&scene, "files_open"), 8);
    (0..11).for_each(|number| delete(&scene, &format!("{number:02}.log")));
    scene.pause(3);
    assert_eq!((metric(&scene, "files_lost"), metric(&scene, "bytes_lost")), (3, 24));
    let losses = losses(&scene);
    assert_eq!(losses.len(), 1, "{losses:?}");
    for part in ["at least 24 bytes of 3 files are lost", "08.log`", "10.log`", "`max_open_files`"]
    {
        assert!(losses[0].contains(part), "{losses:?}");
    }
    assert!(scene.host.problem("lost_files").unwrap().contains("24 bytes of 3 files"));
    assert_eq!(lines(&scene, &mut source), expected[..8]);
    scene.pause(60);
    assert_eq!(scene.host.problem("lost_files"), None, "nothing more was lost for a minute");
}

/// Files of which everything was read need not be open.
#[test]
fn unread_files_are_held_instead_of_read_ones() {
    let scene = Scene::new(&[]);
    (10..18).for_each(|number| scene.write(&format!("{number}.log"), "read\n"));
    let mut source = scene.open(KEYS).unwrap();
    scene.all(&mut source);
    for (number, line) in numbered(4).iter().enumerate() {
        scene.write(&format!("{number}.log"), &format!("{line}\n"));
    }
    scene.append("10.log", "line 04\n");
    scene.pause(2);
    (0..4).for_each(|number| delete(&scene, &format!("{number}.log")));
    delete(&scene, "10.log");
    scene.pause(2);
    assert_eq!(lines(&scene, &mut source), numbered(5));
    assert_eq!(metric(&scene, "files_lost"), 0);
}

#[test]
fn deleted_files_beyond_the_limit_are_closed_and_counted() {
    let scene = Scene::new(&[]);
    let mut source = scene.open(&format!(r#"{KEYS}, "max_deleted_bytes": 20000"#)).unwrap();
    let long = "x".repeat(7_000);
    for number in 0..4 {
        scene.write(&format!("{number}.log"), &format!("{long}\n{number}\n"));
        scene.pause(2);
        delete(&scene, &format!("{number}.log"));
        scene.pause(2);
    }
    // Each file takes two blocks of 4 KiB.
    assert_eq!(metric(&scene, "deleted_bytes"), 16_384);
    assert_eq!((metric(&scene, "files_lost"), metric(&scene, "bytes_lost")), (2, 14_006));
    assert!(losses(&scene).concat().contains("raise `max_deleted_bytes`"));
    let lines = lines(&scene, &mut source);
    assert_eq!(lines.iter().filter(|it| it.len() == 1).collect::<Vec<_>>(), ["2", "3"]);
}

/// The pattern matches the copies: the same as with `*.log`, which does not, but without a loss.
#[test]
fn contents_that_are_copied_and_truncated_are_read_from_copies() {
    for has_copies in [true, false] {
        let scene = Scene::new(&[("in.log", "line 00\n")]);
        let keys = if has_copies { KEYS.replace("*.log", "*.log*") } else { KEYS.to_owned() };
        let mut source = scene.open(&keys).unwrap();
        assert_eq!(text(&scene.all(&mut source)), ["line 00\n"]);
        for line in &numbered(6)[1..] {
            copy_and_truncate(&scene, line);
        }
        scene.append("in.log", "last\n");
        let mut expected = vec!["last".to_owned()];
        expected.extend(numbered(6).into_iter().skip(if has_copies { 1 } else { 6 }));
        assert_eq!(lines(&scene, &mut source), expected);
        let lost = if has_copies { (0, 0) } else { (5, 40) };
        assert_eq!((metric(&scene, "files_lost"), metric(&scene, "bytes_lost")), lost);
    }
}

/// A copy has the only bytes of lines that were not acknowledged yet, so that it is read after that.
#[test]
fn copies_are_held_until_earlier_lines_are_acknowledged() {
    let scene = Scene::new(&[("in.log", "line 00\n")]);
    let keys = format!(r#"{}, "checkpoint": "at""#, KEYS.replace("*.log", "*.log*"));
    let mut source = scene.open(&keys).unwrap();
    let first = scene.all(&mut source);
    for line in &numbered(4)[1..] {
        copy_and_truncate(&scene, line);
    }
    assert_eq!(lines(&scene, &mut source), ["line 02", "line 03"]);
    first.iter().for_each(|batch| source.acks().unwrap().ack(batch.pull()).unwrap());
    assert_eq!(lines(&scene, &mut source), ["line 01"]);
    assert_eq!(metric(&scene, "files_lost"), 0);
}

#[test]
fn files_that_are_renamed_and_compressed_are_read_once() {
    let scene = Scene::new(&[("in.log", "line 00\n")]);
    let mut source = scene.open(&KEYS.replace("*.log", "*.log*")).unwrap();
    assert_eq!(text(&scene.all(&mut source)), ["line 00\n"]);
    for line in &numbered(6)[1..] {
        scene.append("in.log", &format!("{line}\n"));
        scene.pause(2);
        let _ = fs::remove_file(scene.path("in.log.1.gz"));
        scene.rename("in.log", "in.log.1");
        scene.write("in.log", "");
        let packed = Command::new("gzip").arg(scene.path("in.log.1")).status().unwrap();
        assert!(packed.success());
        scene.pause(2);
    }
    assert_eq!(lines(&scene, &mut source), numbered(6)[1..], "{:#?}", scene.host.log());
    assert_eq!(metric(&scene, "files_lost"), 0);
}

#[test]
fn stream_of_truncated_file_is_cut_off_by_the_next_pull() {
    let scene = Scene::new(&[("in.log", "")]);
    let keys = format!(r#"{KEYS}, "chunk_bytes": 4"#);
    let mut source = scene.open(&keys).unwrap();
    scene.append("in.log", "begin");
    assert_eq!(text(&scene.all(&mut source)), ["begi"]);
    scene.write("in.log", "a\n");
    scene.pause(2);
    scene.write("in.log", "");
    scene.pause(2);
    scene.append("in.log", "b\n");
    assert_eq!(text(&scene.all(&mut source)), ["[cut off]", "b\n"]);
}

/// Without `follow`, too, a file has to be open to be read after its deletion.
#[test]
fn deletion_of_closed_file_is_counted_without_follow() {
    let scene = Scene::new(&[]);
    let expected = numbered(10);
    for (number, line) in expected.iter().enumerate() {
        scene.write(&format!("{number}.log"), &format!("{line}\n"));
    }
    let mut source = scene.open(r#""path": "*.log""#).unwrap();
    (0..10).for_each(|number| delete(&scene, &format!("{number}.log")));
    scene.pause(2);
    assert_eq!((metric(&scene, "files_lost"), metric(&scene, "bytes_lost")), (2, 16));
    assert_eq!(lines(&scene, &mut source), expected[..8]);
}
