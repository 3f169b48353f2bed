//! Tests of compressed files beside plain ones, and of copies of files that were read.

use std::{fs, path::Path, time::Duration};

use tremor_pdk::{Batch, ErrorKind, EventRef, testing::Connection};

use super::{Scene, text};
use crate::compression::Format;

const FOLLOW: &str = r#""path": "app*", "follow": true, "checkpoint": "at""#;

fn gzip(text: &str) -> Vec<u8> {
    Format::Gzip.member(text.as_bytes(), std::slice::from_ref(&(0..text.len()))).unwrap()
}

/// Compresses a file like logrotate: to a new file, after which the old one is deleted.
fn compress(scene: &Scene, name: &str) {
    let text = fs::read_to_string(scene.path(name)).unwrap();
    fs::write(scene.path(&format!("{name}.gz")), gzip(&text)).unwrap();
    fs::remove_file(scene.path(name)).unwrap();
}

/// Copies a file and truncates it.
fn copy_truncate(scene: &Scene, from: &str, to: &str) {
    fs::copy(scene.path(from), scene.path(to)).unwrap();
    scene.write(from, "");
}

fn ack(source: &mut Connection, batches: &[Batch]) {
    for batch in batches {
        source.acks().unwrap().ack(batch.pull()).unwrap();
    }
}

/// Reads for the given time, and acknowledges everything. Returns the lines, sorted.
fn lines_for(scene: &Scene, source: &mut Connection, quiet: Duration) -> Vec<String> {
    let batches = scene.all_for(source, quiet);
    ack(source, &batches);
    let texts = text(&batches).concat().replace("[ends]", "");
    let mut lines: Vec<_> = texts.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn lines(scene: &Scene, source: &mut Connection) -> Vec<String> {
    lines_for(scene, source, Duration::from_secs(15))
}

#[test]
fn each_file_of_a_pattern_is_decompressed_by_its_contents() {
    let scene = Scene::new(&[("app.log", "a1\na2\n"), ("app.log.0", "")]);
    fs::write(scene.path("app.log.1.gz"), gzip("b1\n")).unwrap();
    fs::write(scene.path("app.log.2"), gzip("c1\n")).unwrap();
    for keys in [r#""path": "app.log*""#, r#""path": "app.log*", "follow": true"#] {
        let mut source = scene.open(keys).unwrap();
        let mut lines: Vec<_> = text(&scene.all(&mut source));
        lines.sort();
        let lines = lines.concat().replace("[ends]", "");
        assert_eq!(lines, "a1\na2\nb1\nc1\n", "{keys}");
    }
    let keys = r#""path": "app.log.2*", "compression": "none", "message_end": """#;
    let mut source = scene.open(keys).unwrap();
    let batches = source.pull_all().unwrap();
    let events = batches.iter().flat_map(|batch| batch.iter().filter_map(EventRef::raw));
    let bytes: usize = events.map(<[u8]>::len).sum();
    assert_eq!(bytes, gzip("c1\n").len());
}

#[test]
fn file_of_unsupported_format_is_rejected_or_skipped() {
    let scene = Scene::new(&[("app.log", "one\n")]);
    fs::write(scene.path("app.log.1"), b"BZh91AY&SY and more").unwrap();
    let error = scene.open(r#""path": "app.log*""#).err().unwrap();
    assert!(error.is_final() && error.to_string().contains("bzip2, which is not"), "{error}");
    let mut source = scene.open(r#""path": "app.log*", "follow": true"#).unwrap();
    assert_eq!(text(&scene.all(&mut source)), ["one\n"]);
    assert!(scene.logged("app.log.1`: it is compressed with bzip2"));
    let excluded = r#""path": "app.log*", "exclude": ["*.1"]"#;
    assert_eq!(text(&scene.open(excluded).unwrap().pull_all().unwrap()), ["one\n[ends]"]);
}

#[test]
fn damaged_compressed_file_does_not_stop_a_followed_pattern() {
    let scene =
        Scene::new(&[("app.log", "one\n"), ("app.log.9.gz", "a text that is not gzip at all")]);
    let error = scene.open(r#""path": "app.log*""#).unwrap().pull_all().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UNSUPPORTED);
    let mut source = scene.open(FOLLOW).unwrap();
    assert_eq!(lines(&scene, &mut source), ["one"]);
    scene.append("app.log", "two\n");
    assert_eq!(lines(&scene, &mut source), ["two"]);
    let skipped = scene.host.log().iter().filter(|(_, it)| it.contains("is skipped")).count();
    assert_eq!(skipped, 1);
}

#[test]
fn incomplete_compressed_file_is_read_on_once_it_has_grown() {
    let scene = Scene::new(&[]);
    let words = (0..9_000u64).map(|at| format!("{}\n", at.wrapping_mul(0x9e37_79b9_7f4a)));
    let words = words.collect::<Vec<_>>().concat();
    let whole = gzip(&words);
    fs::write(scene.path("app.gz"), &whole[..whole.len() / 2]).unwrap();
    let mut source = scene.open(FOLLOW).unwrap();
    let mut read = lines(&scene, &mut source);
    assert!(!read.is_empty() && scene.logged("ends within its compressed data"));
    fs::write(scene.path("app.gz"), &whole).unwrap();
    let more = scene.all_for(&mut source, Duration::from_secs(15));
    let read_bytes: usize = read.drain(..).map(|line| line.len() + 1).sum();
    let more_bytes = text(&more).concat().replace("[ends]", "").len();
    assert!(read_bytes.abs_diff(words.len() - more_bytes) <= 1, "{read_bytes} {more_bytes}");
}

#[test]
fn compressed_copy_of_read_file_is_not_read_again() {
    for delay in [false, true] {
        let scene = Scene::new(&[("app.log", "one\n"), ("app.other", "x\n")]);
        let mut source = scene.open(FOLLOW).unwrap();
        assert_eq!(lines(&scene, &mut source), ["one", "x"]);
        scene.rename("app.log", "app.log.1");
        scene.write("app.log", "three\n");
        scene.append("app.log.1", "two\n");
        if delay {
            assert_eq!(lines(&scene, &mut source), ["three", "two"]);
            scene.rename("app.log.1", "app.log.2");
            compress(&scene, "app.log.2");
            assert!(lines(&scene, &mut source).is_empty());
        } else {
            compress(&scene, "app.log.1");
            assert_eq!(lines(&scene, &mut source), ["three", "two"]);
        }
        // The copy is read once all lines of the original are acknowledged.
        assert!(lines(&scene, &mut source).is_empty());
        assert!(scene.logged("is a copy of"));
        source.stop().unwrap();
        let mut source = scene.open(FOLLOW).unwrap();
        assert!(lines(&scene, &mut source).is_empty(), "{delay}");
    }
}

#[test]
fn file_that_was_compressed_between_runs_is_read_on() {
    let long = (0..500).map(|line| format!("a line of an old log, {line}\n"));
    let long = long.collect::<Vec<_>>().concat();
    for text in ["one\n", &long] {
        let scene = Scene::new(&[("app.log", text)]);
        let mut source = scene.open(FOLLOW).unwrap();
        assert_eq!(lines(&scene, &mut source).len(), text.lines().count());
        source.stop().unwrap();
        scene.append("app.log", "two\n");
        scene.rename("app.log", "app.log.1");
        compress(&scene, "app.log.1");
        scene.write("app.log", "three\n");
        for keys in [FOLLOW, r#""path": "app*", "checkpoint": "at""#] {
            let mut source = scene.open(keys).unwrap();
            let expected: &[&str] = if keys == FOLLOW { &["three", "two"] } else { &[] };
            assert_eq!(lines(&scene, &mut source), expected, "{keys}");
            source.stop().unwrap();
        }
    }
}

#[test]
fn copy_of_truncated_file_is_not_read_again() {
    let scene = Scene::new(&[("app.log", "one\n")]);
    let mut source = scene.open(FOLLOW).unwrap();
    assert_eq!(lines(&scene, &mut source), ["one"]);
    scene.append("app.log", "two\n");
    copy_truncate(&scene, "app.log", "app.log.1");
    scene.append("app.log", "three\n");
    assert_eq!(lines(&scene, &mut source), ["three", "two"]);
    compress(&scene, "app.log.1");
    assert!(lines(&scene, &mut source).is_empty());
    source.stop().unwrap();
    // The copies are recognised as well if they are made while the flow does not run.
    scene.append("app.log", "four\n");
    copy_truncate(&scene, "app.log", "app.log.1");
    scene.append("app.log", "five\n");
    let mut source = scene.open(FOLLOW).unwrap();
    assert_eq!(lines(&scene, &mut source), ["five", "four"]);
}

#[test]
fn copy_that_ends_before_the_last_lines_is_not_read_again() {
    for is_compressed in [false, true] {
        let scene = Scene::new(&[("app.log", "")]);
        let mut source = scene.open(FOLLOW).unwrap();
        // The lines end at more positions than the source remembers, and exceed the hashed first bytes.
        let line = "x".repeat(200);
        for number in 0..20 {
            scene.append("app.log", &format!("{number} {line}\n"));
            let batches = scene.all(&mut source);
            ack(&mut source, &batches);
            if number == 18 {
                fs::copy(scene.path("app.log"), scene.path("tmp")).unwrap();
            }
        }
        scene.write("app.log", "one\n");
        let copy = fs::read_to_string(scene.path("tmp")).unwrap();
        fs::remove_file(scene.path("tmp")).unwrap();
        if is_compressed {
            fs::write(scene.path("app.log.1.gz"), gzip(&copy)).unwrap();
        } else {
            scene.write("app.log.1", &copy);
        }
        assert_eq!(lines(&scene, &mut source), ["one"], "{is_compressed}");
        source.stop().unwrap();
        assert!(lines(&scene, &mut scene.open(FOLLOW).unwrap()).is_empty(), "{is_compressed}");
    }
}

/// Copies and truncates a file whose second line was read and is not acknowledged. Returns the batch of this line.
fn copy_unacknowledged(scene: &Scene) -> (Connection, Batch) {
    scene.write("app.log", "one\ntwo\n");
    let mut source = scene.open(&format!(r#"{FOLLOW}, "chunk_bytes": 4"#)).unwrap();
    let mut batches = scene.all(&mut source);
    ack(&mut source, &batches[..1]);
    copy_truncate(scene, "app.log", "app.log.1");
    (source, batches.remove(1))
}

#[test]
fn unacknowledged_data_of_truncated_file_is_read_from_its_copy() {
    let scene = Scene::new(&[]);
    let (mut source, _) = copy_unacknowledged(&scene);
    assert!(
        scene.all_for(&mut source, Duration::from_secs(15)).is_empty(),
        "the copy waits for the sinks"
    );
    // The process is killed.
    drop(source);
    let mut source = scene.open(FOLLOW).unwrap();
    assert_eq!(lines(&scene, &mut source), ["two"]);
}

#[test]
fn other_file_with_same_first_lines_is_read() {
    let scene = Scene::new(&[("app.log", "start\none\n"), ("app-1.log", "start\n")]);
    let mut source = scene.open(FOLLOW).unwrap();
    assert_eq!(lines(&scene, &mut source), ["one", "start", "start"]);
    // The name is that of a copy, but the file has other contents.
    scene.write("app.log.1", "start\ntwo\n");
    assert_eq!(lines(&scene, &mut source), ["start", "two"]);
    // The original still has its contents, so this is another file.
    scene.write("app.log.2", "start\none\n");
    assert_eq!(lines(&scene, &mut source), ["one", "start"]);
    fs::remove_file(scene.path("app-1.log")).unwrap();
    scene.write("app-2.log", "start\n");
    assert_eq!(lines(&scene, &mut source), ["start"]);
}

#[test]
fn rewritten_file_of_same_length_is_read() {
    for long in [false, true] {
        let start = if long { "x".repeat(2_000) + "\n" } else { String::new() };
        let scene = Scene::new(&[("app.log", &format!("{start}one\n"))]);
        let mut source = scene.open(FOLLOW).unwrap();
        assert!(lines(&scene, &mut source).contains(&"one".to_owned()));
        rewrite(&scene.path("app.log"), &format!("{start}two\n"));
        assert!(lines(&scene, &mut source).contains(&"two".to_owned()), "{long}");
        rewrite(&scene.path("app.log"), &format!("{start}two\n"));
        assert!(lines(&scene, &mut source).is_empty(), "the file has the same contents");
    }
}

/// Writes a file until the system gives the change another time.
fn rewrite(path: &Path, text: &str) {
    let modified = || fs::metadata(path).unwrap().modified().unwrap();
    let before = modified();
    while modified() == before {
        fs::write(path, text).unwrap();
    }
}

/// The writer crashed, so the last line has no newline.
#[test]
fn compressed_copy_with_partial_last_line_is_not_read_again() {
    for restart in [false, true] {
        let long = "a line of an old log\n".repeat(200);
        let scene = Scene::new(&[("app.log", &format!("{long}partial"))]);
        let mut source = scene.open(FOLLOW).unwrap();
        assert_eq!(lines(&scene, &mut source).len(), 200);
        scene.rename("app.log", "app.log.1");
        scene.write("app.log", "three\n");
        assert_eq!(lines(&scene, &mut source), ["three"]);
        let text = fs::read(scene.path("app.log.1")).unwrap();
        fs::remove_file(scene.path("app.log.1")).unwrap();
        assert_eq!(lines(&scene, &mut source), ["partial"]);
        if restart {
            source.stop().unwrap();
            source = scene.open(FOLLOW).unwrap();
        }
        let text = String::from_utf8(text).unwrap();
        fs::write(scene.path("app.log.2.gz"), gzip(&text)).unwrap();
        assert!(lines(&scene, &mut source).is_empty(), "{restart}");
    }
}

#[test]
fn growing_file_with_same_header_is_read() {
    // The second original is longer than the other file, which changes all the time.
    let header = "x".repeat(1_100);
    for more in ["", "a line of the original\n"] {
        let scene = Scene::new(&[("app.log", &format!("{header}\n{more}"))]);
        let mut source = scene.open(FOLLOW).unwrap();
        lines(&scene, &mut source);
        scene.write("app-20261126.log", &format!("{header}\n"));
        let mut read = Vec::new();
        for _ in 0..70 {
            scene.append("app-20261126.log", if more.is_empty() { "one\n" } else { "" });
            rewrite_same(&scene.path("app-20261126.log"));
            read.extend(lines_for(&scene, &mut source, Duration::from_secs(1)));
        }
        assert!(read.contains(&header), "{more}");
    }
}

/// Rewrites a file with its own contents, so that the time of its last change differs.
fn rewrite_same(path: &Path) {
    rewrite(path, &fs::read_to_string(path).unwrap());
}

#[test]
fn copy_continues_longest_of_its_predecessors() {
    let scene = Scene::new(&[("app.log", "one\n")]);
    let mut source = scene.open(FOLLOW).unwrap();
    assert_eq!(lines(&scene, &mut source), ["one"]);
    // The old and the new contents begin with the same line, and neither has a copy yet.
    scene.write("app.log", "");
    assert!(lines(&scene, &mut source).is_empty());
    scene.write("app.log", "one\ntwo\n");
    assert_eq!(lines(&scene, &mut source), ["one", "two"]);
    copy_truncate(&scene, "app.log", "app.log.1");
    assert!(lines(&scene, &mut source).is_empty());
}

#[test]
fn unacknowledged_predecessor_does_not_expire() {
    let scene = Scene::new(&[]);
    let (mut source, batch) = copy_unacknowledged(&scene);
    assert!(scene.all_for(&mut source, Duration::from_secs(700)).is_empty());
    ack(&mut source, &[batch]);
    assert!(lines(&scene, &mut source).is_empty(), "the copy has no other data");
}

/// A copy of a file that is polled rarely is made long before the file is truncated.
#[test]
fn copy_of_rarely_polled_file_is_not_read_again() {
    let scene = Scene::new(&[("app.log", "one\n")]);
    for number in 0..2_000 {
        scene.write(&format!("app{number}x"), "");
    }
    let keys = format!(r#"{FOLLOW}, "poll_interval": "10s""#);
    let mut source = scene.open(&keys).unwrap();
    assert_eq!(lines_for(&scene, &mut source, Duration::from_mins(1)), ["one"]);
    copy_truncate(&scene, "app.log", "app.log.1");
    assert!(lines_for(&scene, &mut source, Duration::from_mins(2)).is_empty());
}

#[test]
fn first_search_reads_deferred_copy_from_its_end() {
    let scene = Scene::new(&[("app.log", "one\n"), ("app.log.1", "one\n")]);
    let mut source = scene.open(&format!(r#"{FOLLOW}, "start": "end""#)).unwrap();
    assert!(lines(&scene, &mut source).is_empty());
    scene.append("app.log.1", "two\n");
    assert_eq!(lines(&scene, &mut source), ["two"]);
}
