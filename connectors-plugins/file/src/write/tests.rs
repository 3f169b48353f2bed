mod order;

use std::{
    env, fs,
    io::{self, Write},
    path::Path,
    process::Command,
    time::Duration,
};

use tremor_pdk::{
    Batch, ErrorKind, Result,
    testing::{Connection, TestHost, batch_of},
};

use crate::FileConnector;

fn open(path: &Path, mode: &str) -> Result<Connection> {
    let config = format!(r#"{{ "path": "{}", "mode": "{mode}" }}"#, path.display());
    TestHost::new().connect::<FileConnector>(&config)
}

#[test]
fn each_mode_treats_existing_contents_as_documented() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    for (mode, expected) in [
        ("write", "one\n"),
        ("append", "one\none\n"),
        ("truncate", "one\n"),
        ("append", "one\none\n"),
    ] {
        let mut sink = open(&path, mode).unwrap();
        assert_eq!(sink.deliver(&batch_of(&["one\n"])), Ok(()));
        sink.stop().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{mode}");
    }
}

#[test]
fn filtered_events_are_not_written() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut sink = open(file.path(), "write").unwrap();
    sink.deliver(&batch_of(&["one,", "two,"])).unwrap();
    let mut thinned = batch_of(&["three,", "four,", "five"]);
    thinned.retain(|event| event.raw() != Some(b"four,"));
    sink.deliver(&thinned).unwrap();
    sink.deliver(&Batch::new()).unwrap();
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "one,two,three,five");
}

#[test]
fn full_device_is_an_error_that_names_it() {
    let mut sink = open(Path::new("/dev/full"), "append").unwrap();
    let error = sink.deliver(&batch_of(&["one"])).unwrap_err().into_error();
    assert_eq!(error.kind(), ErrorKind::FULL);
    assert!(error.to_string().starts_with("cannot write `/dev/full`: "), "{error}");
}

/// Environment variable that marks the test's child process, which may write at most 512 bytes to a
/// file.
const LIMITED: &str = "FILE_TEST_IS_LIMITED";

/// The clock of the test host does not advance, so no write counts as slow, and each small write
/// runs on the calling thread.
#[test]
fn interrupted_inline_write_leaves_nothing_of_the_batch() {
    if env::var_os(LIMITED).is_none() {
        let name = "write::tests::interrupted_inline_write_leaves_nothing_of_the_batch";
        let mut shell = Command::new("sh");
        // A write that exceeds the limit writes only the part that fits, and the next write fails.
        shell.args(["-c", r#"trap '' XFSZ; ulimit -f 1; exec "$0" --exact --nocapture "$1""#]);
        shell.arg(env::current_exe().unwrap()).arg(name).env(LIMITED, "1");
        let output = shell.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let first = "x".repeat(499) + "\n";
    let mut sink = open(&path, "append").unwrap();
    sink.deliver(&batch_of(&[&first])).unwrap();
    for _ in 0..2 {
        let error = sink.deliver(&batch_of(&["seven.\n", "eight..\n"])).unwrap_err().into_error();
        assert!(error.to_string().starts_with("cannot write `"), "{error}");
        assert!(!error.to_string().contains("an incomplete batch"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), first);
    }
    sink.deliver(&batch_of(&["twelve byte\n"])).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), first + "twelve byte\n");
    // Users delete a file to free its space, which happens only once the file is closed.
    fs::remove_file(&path).unwrap();
    sink.deliver(&batch_of(&["seven.\n"])).unwrap_err();
    sink.deliver(&batch_of(&["seven.\n"])).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "seven.\n");
}

#[test]
fn device_without_sync_accepts_deliveries() {
    let mut sink = open(Path::new("/dev/null"), "truncate").unwrap();
    sink.deliver(&batch_of(&["one"])).unwrap();
    sink.close_sink().unwrap();
}

#[test]
fn full_disk_is_not_final_for_compressed_file() {
    let mut sink = TestHost::new()
        .connect::<FileConnector>(
            r#"{ "path": "/dev/full", "mode": "append", "compression": "gzip" }"#,
        )
        .unwrap();
    let error = sink.deliver(&batch_of(&["one\n", "two\n"])).unwrap_err().into_error();
    assert_eq!(error.kind(), ErrorKind::FULL, "the runtime retries");
}

/// Opens a sink that appends with `sync: batch` and the additional `keys`.
fn durable(host: &TestHost, path: &Path, keys: &str) -> Result<Connection> {
    let path = path.display();
    host.connect::<FileConnector>(&format!(
        r#"{{ "path": "{path}", "mode": "append", "sync": "batch"{keys} }}"#
    ))
}

#[test]
fn incomplete_message_is_moved_to_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    fs::write(&path, "one\ntwo\nto").unwrap();
    let host = TestHost::new();
    let mut sink = durable(&host, &path, "").unwrap();
    assert_eq!(files(folder.path()), ["one\ntwo\nto"], "nothing is written yet");
    sink.deliver(&batch_of(&["three\n"])).unwrap();
    let (_, line) = host.log().pop().unwrap();
    for part in ["ended in 2 bytes of a message", "out.torn-", "8 bytes remain"] {
        assert!(line.contains(part), "{line}");
    }
    sink.deliver(&batch_of(&["four\n"])).unwrap();
    sink.stop().unwrap();
    let mut sink = durable(&host, &path, "").unwrap();
    sink.deliver(&batch_of(&["five\n"])).unwrap();
    sink.stop().unwrap();
    assert_eq!(files(folder.path()), ["one\ntwo\nthree\nfour\nfive\n", "to"]);
    assert_eq!(host.log().len(), 1, "no further message was cut off");
}

#[test]
fn incomplete_messages_are_moved_to_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let host = TestHost::new();
    for torn in ["a", "b", "c"] {
        fs::write(&path, torn).unwrap();
        let mut sink = durable(&host, &path, "").unwrap();
        sink.deliver(&batch_of(&["one\n"])).unwrap();
        sink.stop().unwrap();
    }
    assert_eq!(files(folder.path()), ["one\n", "a", "b", "c"]);
}

#[test]
fn file_of_another_framing_is_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    fs::write(&path, "one;two;").unwrap();
    let mut sink = durable(&TestHost::new(), &path, "").unwrap();
    let error = sink.deliver(&batch_of(&["three;"])).unwrap_err().into_error();
    assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
    sink.deliver(&Batch::new()).unwrap();
    sink.stop().unwrap();
    assert_eq!(files(folder.path()), ["one;two;"]);
}

#[test]
fn nothing_is_removed_without_sync_or_message_end() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "one\nto").unwrap();
    open(file.path(), "append").unwrap().stop().unwrap();
    let mut sink = durable(&TestHost::new(), file.path(), r#", "message_end": """#).unwrap();
    sink.deliver(&batch_of(&["rn"])).unwrap();
    sink.stop().unwrap();
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "one\ntorn");
}

#[test]
fn message_without_message_end_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = durable(&TestHost::new(), &folder.path().join("out"), "").unwrap();
    let error = sink.deliver(&batch_of(&["one\n", "two"])).unwrap_err().into_error();
    assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
    for part in [r#"does not end in "\n""#, "`lines`", "`message_end`"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn second_sink_with_sync_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let first = durable(&TestHost::new(), &path, "").unwrap();
    let error = durable(&TestHost::new(), &path, "").err().unwrap();
    assert!(error.to_string().contains("cannot lock"), "{error}");
    assert!(!error.is_final(), "a process that was just killed may still have the lock");
    first.stop().unwrap();
    durable(&TestHost::new(), &path, "").unwrap();
}

#[test]
fn locked_file_is_not_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let mut first = durable(&TestHost::new(), &path, "").unwrap();
    first.deliver(&batch_of(&["acknowledged\n"])).unwrap();
    let keys = r#""mode": "truncate", "sync": "batch""#;
    let truncating = format!(r#"{{ "path": "{}", {keys} }}"#, path.display());
    TestHost::new().connect::<FileConnector>(&truncating).err().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "acknowledged\n");
    first.stop().unwrap();
    TestHost::new().connect::<FileConnector>(&truncating).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
}

#[test]
fn mode_decides_what_a_restart_does_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    for (mode, sync, expected) in [
        ("truncate", "batch", Some("two\n")),
        ("truncate", "never", Some("two\n")),
        ("write", "batch", None),
        ("append", "batch", Some("one\ntwo\n")),
    ] {
        let path = folder.path().join(format!("{mode}-{sync}"));
        let config =
            format!(r#"{{ "path": "{}", "mode": "{mode}", "sync": "{sync}" }}"#, path.display());
        let mut first = TestHost::new().connect::<FileConnector>(&config).unwrap();
        first.deliver(&batch_of(&["one\n"])).unwrap();
        // The first process stops in the middle of a message.
        fs::File::options().append(true).open(&path).unwrap().write_all(b"tor").unwrap();
        drop(first);
        let again = TestHost::new().connect::<FileConnector>(&config).and_then(|mut again| {
            again.deliver(&batch_of(&["two\n"])).map_err(tremor_pdk::Undelivered::into_error)
        });
        assert_eq!(again.is_ok(), expected.is_some(), "{mode}: {again:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), expected.unwrap_or("one\ntor"), "{mode}");
        let torn = format!("{mode}-{sync}.torn-");
        let is_torn = |entry: io::Result<fs::DirEntry>| {
            entry.unwrap().file_name().to_string_lossy().starts_with(&torn)
        };
        assert_eq!(fs::read_dir(folder.path()).unwrap().any(is_torn), mode == "append", "{mode}");
    }
}

#[test]
fn invalid_configuration_is_rejected_with_its_reason() {
    for (config, reason) in [
        (r#""path": "/dev/null", "mode": "append", "sync": "batch""#, "not a regular file"),
        (r#""path": "a.gz", "mode": "append", "sync": "interval""#, "compressed"),
        (r#""path": "a", "mode": "read", "sync": "batch""#, "that is written"),
        (r#""path": "a", "mode": "append", "follow": true"#, "that is read"),
        (r#""path": "a", "mode": "append", "rotate": { "keep": 1 }"#, "at least one of them"),
        (
            r#""path": "/dev/null", "mode": "append", "rotate": { "every": "1h" }"#,
            "not a regular file",
        ),
    ] {
        let error = TestHost::new().connect::<FileConnector>(&format!("{{ {config} }}"));
        let error = error.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn acknowledgement_waits_for_end_of_sync_interval() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let host = TestHost::new();
    let mut sink = host
        .connect::<FileConnector>(&format!(
            r#"{{ "path": "{}", "mode": "append", "sync": "interval", "sync_interval": "5s" }}"#,
            path.display()
        ))
        .unwrap();
    let start = host.now_ns();
    sink.deliver(&batch_of(&["one\n"])).unwrap();
    let first = host.now_ns();
    sink.deliver(&batch_of(&["two\n"])).unwrap();
    assert_eq!((first - start, host.now_ns() - first), (0, 5_000_000_000));
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
}

/// Returns the contents of all files in a folder, sorted by name.
fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

fn rotating(host: &TestHost, path: &Path, keys: &str) -> Result<Connection> {
    host.connect::<FileConnector>(&format!(
        r#"{{ "path": "{}", "mode": "append", {keys} }}"#,
        path.display()
    ))
}

#[test]
fn rotation_by_length_splits_no_batch() {
    for sync in ["never", "batch"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let keys = format!(r#""sync": "{sync}", "rotate": {{ "max_bytes": 8, "keep": 2 }}"#);
        let host = TestHost::new();
        let mut sink = rotating(&host, &path, &keys).unwrap();
        for messages in [&["1\n", "2\n"][..], &["3\n"], &["longer than that\n"], &["4\n"]] {
            sink.deliver(&batch_of(messages)).unwrap();
        }
        sink.stop().unwrap();
        // The current file has no stamp and sorts first.
        assert_eq!(files(folder.path()), ["4\n", "1\n2\n3\n", "longer than that\n"]);
        let mut sink = rotating(&host, &path, &keys).unwrap();
        sink.deliver(&batch_of(&["and more\n"])).unwrap();
        sink.stop().unwrap();
        assert_eq!(files(folder.path()), ["and more\n", "longer than that\n", "4\n"], "{sync}");
    }
}

#[test]
fn old_file_is_set_aside_at_the_next_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let host = TestHost::new();
    let mut sink = rotating(&host, &path, r#""rotate": { "every": "1h" }"#).unwrap();
    host.advance(Duration::from_hours(2));
    sink.deliver(&batch_of(&["one\n"])).unwrap();
    host.advance(Duration::from_mins(59));
    sink.deliver(&batch_of(&["two\n"])).unwrap();
    assert_eq!(files(folder.path()), ["one\ntwo\n"], "an empty file is not old");
    host.advance(Duration::from_mins(1));
    sink.deliver(&batch_of(&["three\n"])).unwrap();
    assert_eq!(files(folder.path()), ["three\n", "one\ntwo\n"]);
}

#[test]
fn wall_clock_set_back_does_not_delay_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let (host, hour_ns) = (TestHost::new(), 3_600_000_000_000);
    host.set_now_ns(500_000 * hour_ns);
    let path = folder.path().join("out");
    let mut sink = rotating(&host, &path, r#""rotate": { "every": "1h" }"#).unwrap();
    sink.deliver(&batch_of(&["one\n"])).unwrap();
    host.set_now_ns(host.now_ns() - hour_ns);
    host.advance(Duration::from_hours(1));
    sink.deliver(&batch_of(&["two\n"])).unwrap();
    assert_eq!(files(folder.path()), ["two\n", "one\n"]);
}

#[test]
fn failed_rotation_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let mut sink = rotating(&TestHost::new(), &path, r#""rotate": { "max_bytes": 4 }"#).unwrap();
    sink.deliver(&batch_of(&["one\n"])).unwrap();
    // Act as another process that moves the file and puts a folder at its path.
    fs::rename(&path, folder.path().join("moved")).unwrap();
    fs::create_dir(&path).unwrap();
    sink.deliver(&batch_of(&["two\n"])).unwrap_err();
    fs::remove_dir(&path).unwrap();
    sink.deliver(&batch_of(&["two\n"])).unwrap();
    assert_eq!(files(folder.path()), ["one\n", "two\n"]);
}

#[test]
fn file_of_an_earlier_day_is_set_aside_at_the_next_write() {
    let ns = |time: &str| -> u64 {
        time.parse::<jiff::Timestamp>().unwrap().as_nanosecond().try_into().unwrap()
    };
    // Each zone has a last time of a day and the first time of the next day. Daylight saving time ends in Berlin, and
    // begins in Cairo at midnight.
    for (zone, start, before, after) in [
        ("UTC", "2026-11-29T05:00:00Z", "2026-11-29T23:59:59Z", "2026-11-30T00:00:00Z"),
        ("Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T22:59:59Z", "2026-10-25T23:00:00Z"),
        ("Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-23T21:59:59Z", "2026-04-23T22:00:00Z"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let host = TestHost::new();
        host.set_now_ns(ns(start));
        let keys = format!(r#""rotate": {{ "at": "midnight", "timezone": "{zone}" }}"#);
        let mut sink = rotating(&host, &path, &keys).unwrap();
        sink.deliver(&batch_of(&["one\n"])).unwrap();
        host.set_now_ns(ns(before));
        sink.deliver(&batch_of(&["two\n"])).unwrap();
        assert_eq!(files(folder.path()), ["one\ntwo\n"], "{zone}");
        host.set_now_ns(ns(after));
        sink.deliver(&batch_of(&["three\n"])).unwrap();
        assert_eq!(files(folder.path()), ["three\n", "one\ntwo\n"], "{zone}");
        // The clock is set back before midnight, and passes midnight again.
        host.set_now_ns(ns(before));
        sink.deliver(&batch_of(&["four\n"])).unwrap();
        host.set_now_ns(ns(after));
        sink.deliver(&batch_of(&["five\n"])).unwrap();
        assert_eq!(files(folder.path()), ["three\nfour\nfive\n", "one\ntwo\n"], "{zone}");
    }
}

#[test]
fn clock_that_was_years_ahead_does_not_prevent_rotation() {
    let (day_ns, folder) = (86_400_000_000_000, tempfile::tempdir().unwrap());
    let path = folder.path().join("out");
    let host = TestHost::new();
    host.set_now_ns(30_000 * day_ns);
    let keys = r#""rotate": { "at": "midnight", "timezone": "UTC" }"#;
    let mut sink = rotating(&host, &path, keys).unwrap();
    sink.deliver(&batch_of(&["one\n"])).unwrap();
    for (day, text) in [(20_000, "two\n"), (20_001, "three\n")] {
        host.set_now_ns(day * day_ns);
        sink.deliver(&batch_of(&[text])).unwrap();
    }
    assert_eq!(files(folder.path()), ["three\n", "one\ntwo\n"]);
}
