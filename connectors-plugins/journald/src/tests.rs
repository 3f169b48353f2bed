use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;
use tremor_pdk::{
    Batch, Connector as _, Error, ErrorKind, EventRef, Result, Sides,
    testing::{Connection, TestHost, conformance},
};

use crate::Journald;

/// A script that behaves like `journalctl`: it writes the lines of `journal` beside it, beginning
/// with the entry of the cursor, and appends its arguments to the file `arguments`. With
/// `--follow`, it waits for more lines.
const JOURNALCTL: &str = r#"#!/bin/sh
folder=${0%/*}
echo "$@" >> "$folder/arguments"
from=1 follow=
for argument; do
  case $argument in
    --cursor=s=*) from=${argument#--cursor=s=} ;;
    --cursor=*) echo "Failed to seek to cursor: Invalid argument" >&2; exit 1 ;;
    --since=bad) echo "Failed to parse timestamp: bad" >&2; exit 1 ;;
    --follow) follow=1 ;;
  esac
done
if [ -e "$folder/hint" ]; then cat "$folder/hint" >&2; fi
if [ -n "$follow" ]; then exec tail -n "+$from" -f "$folder/journal"; fi
exec tail -n "+$from" "$folder/journal"
"#;

/// A folder with the script and its journal.
struct Scene {
    folder: TempDir,
    host: TestHost,
}

fn entry(number: usize) -> String {
    format!(r#"{{"MESSAGE":"message {number}","__CURSOR":"s={number}"}}"#)
}

impl Scene {
    /// Creates a journal of `count` entries.
    fn new(count: usize) -> Self {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("journalctl");
        // Let another process write the file. If this process wrote it, a process that another test starts meanwhile
        // would inherit the descriptor, and executing the file would fail with "text file busy".
        let mut writer = Command::new("tee");
        let writer = writer.arg(&script).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = writer.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), JOURNALCTL.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let host = TestHost::new();
        host.set_folder(folder.path());
        let scene = Self { folder, host };
        scene.set((1..=count).map(entry));
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set(&self, lines: impl IntoIterator<Item = String>) {
        let lines: String = lines.into_iter().map(|line| line + "\n").collect();
        fs::write(self.path("journal"), lines).unwrap();
    }

    fn append(&self, number: usize) {
        let mut file = fs::File::options().append(true).open(self.path("journal")).unwrap();
        std::io::Write::write_all(&mut file, (entry(number) + "\n").as_bytes()).unwrap();
    }

    fn config(keys: &str) -> String {
        format!(r#"{{ "command": "./journalctl"{keys} }}"#)
    }

    fn connect(&self, keys: &str) -> Result<Connection> {
        self.host.connect::<Journald>(&Self::config(keys))
    }

    /// Returns the arguments of the last process.
    fn arguments(&self) -> String {
        let arguments = fs::read_to_string(self.path("arguments")).unwrap();
        arguments.lines().last().unwrap().to_owned()
    }

    fn checkpoint(&self) -> String {
        fs::read_to_string(self.path("at")).unwrap()
    }
}

fn messages(batch: &Batch) -> Vec<String> {
    let raw = batch.iter().filter_map(EventRef::raw);
    raw.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).collect()
}

/// Pulls until `count` entries are read.
fn pull(connection: &mut Connection, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(messages(&connection.pull().unwrap().1));
    }
    all
}

fn entries(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(entry).collect()
}

const ONCE: &str = r#", "follow": false"#;
const KEPT: &str = r#", "checkpoint": "at""#;

#[test]
fn journal_is_read_to_its_end() -> Result<()> {
    let scene = Scene::new(1_000);
    let mut connection = scene.connect(ONCE)?;
    let batches = connection.pull_all()?;
    let all: Vec<_> = batches.iter().flat_map(messages).collect();
    assert_eq!(all, entries(1..=1_000));
    assert_eq!(batches[0].first().and_then(EventRef::origin), Some("journald"));
    connection.stop()
}

#[test]
fn new_entries_are_followed() -> Result<()> {
    let scene = Scene::new(2);
    let mut connection = scene.connect("")?;
    assert_eq!(pull(&mut connection, 2), entries(1..=2));
    scene.append(3);
    assert_eq!(pull(&mut connection, 1), entries([3]));
    connection.stop()
}

#[test]
fn filters_become_arguments_of_journalctl() -> Result<()> {
    let scene = Scene::new(1);
    let keys = r#", "units": ["a b.service", "c"], "identifiers": ["sshd"], "priority": "err..notice",
        "matches": ["_TRANSPORT=kernel", "A=b c"], "boot": true, "since": "-1h", "directory": "j""#;
    let mut connection = scene.connect(keys)?;
    pull(&mut connection, 1);
    let expected = format!(
        "--output=json --all --no-pager --follow --no-tail --boot --unit=a b.service --unit=c --identifier=sshd \
         --priority=err..notice --directory={} --since=-1h _TRANSPORT=kernel A=b c",
        scene.path("j").display()
    );
    assert_eq!(scene.arguments(), expected);
    connection.stop()
}

#[test]
fn invalid_configuration_is_rejected_before_start() {
    for (keys, expected) in [
        (r#", "command": """#, "invalid `command`"),
        (r#", "units": ["a", ""]"#, "invalid `units[1]`: expected the name of a unit"),
        (r#", "identifiers": ["\u0000"]"#, "invalid `identifiers[0]`"),
        (r#", "matches": ["--file=x"]"#, "expected `FIELD=VALUE`, such as `_TRANSPORT=kernel`"),
        (r#", "priority": "error""#, "found `error`"),
        (r#", "since": """#, "invalid `since`"),
        (r#", "max_entry_bytes": "2GiB""#, "invalid `max_entry_bytes`: expected at most `1GiB`"),
    ] {
        let config = format!("{{ {} }}", keys.trim_start_matches(", "));
        let error = TestHost::new().component::<Journald>(&config).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn next_run_continues_after_acknowledged_cursor() -> Result<()> {
    let scene = Scene::new(3);
    let mut connection = scene.connect(KEPT)?;
    assert_eq!(pull(&mut connection, 3), entries(1..=3));
    connection.stop()?;
    assert!(scene.checkpoint().contains(r#""cursor": null"#), "nothing was acknowledged");

    let mut connection = scene.connect(KEPT)?;
    assert_eq!(pull(&mut connection, 3), entries(1..=3));
    connection.acks()?.ack(1)?;
    connection.stop()?;
    assert!(scene.checkpoint().contains(r#""cursor": "s=3""#), "{}", scene.checkpoint());

    scene.set((1..=5).map(entry));
    let mut connection = scene.connect(KEPT)?;
    assert_eq!(pull(&mut connection, 2), entries(4..=5));
    assert!(scene.arguments().ends_with("--cursor=s=3"));
    connection.stop()
}

#[test]
fn entries_before_the_first_failed_one_are_acknowledged() -> Result<()> {
    let scene = Scene::new(3);
    let mut connection = scene.connect(KEPT)?;
    assert_eq!(pull(&mut connection, 3), entries(1..=3));
    connection.acks()?.fail(1, std::slice::from_ref(&(2..3)))?;
    connection.stop()?;
    assert!(scene.checkpoint().contains(r#""cursor": "s=2""#), "{}", scene.checkpoint());
    Ok(())
}

#[test]
fn checkpoint_is_written_without_further_pulls() -> Result<()> {
    let scene = Scene::new(1);
    let mut connection = scene.connect(KEPT)?;
    pull(&mut connection, 1);
    connection.acks()?.ack(1)?;
    while !scene.checkpoint().contains("s=1") {
        scene.host.block_on(scene.host.host().sleep(Duration::from_millis(1)));
    }
    // Drop the connection without `stop`, as if the process were killed.
    drop(connection);
    scene.set((1..=2).map(entry));
    let mut connection = scene.connect(KEPT)?;
    assert_eq!(pull(&mut connection, 1), entries([2]));
    connection.stop()
}

/// The entry of the cursor may be deleted with an old journal file. `journalctl` then starts with the next entry.
#[test]
fn first_entry_is_skipped_only_if_it_is_known() -> Result<()> {
    let scene = Scene::new(2);
    fs::write(scene.path("at"), r#"{ "version": 1, "cursor": "s=1" }"#)?;
    scene.set([entry(7), entry(8)]);
    let mut connection = scene.connect(KEPT)?;
    assert_eq!(pull(&mut connection, 2), entries(7..=8));
    connection.stop()
}

#[test]
fn failed_entries_are_read_again() -> Result<()> {
    let scene = Scene::new(600);
    let mut connection = scene.connect(KEPT)?;
    let first = messages(&connection.pull()?.1);
    let second = messages(&connection.pull()?.1);
    connection.acks()?.fail(2, &[])?;
    let again = pull(&mut connection, 600 - first.len());
    assert_eq!(again[..second.len()], second);
    assert_eq!([first, again].concat(), entries(1..=600));
    // All entries are in flight again, so a failure of the first pull concerns all of them.
    connection.acks()?.fail(1, &[])?;
    assert_eq!(pull(&mut connection, 600), entries(1..=600));
    connection.stop()
}

#[test]
fn ended_journalctl_is_an_error_that_reconnects() -> Result<()> {
    let scene = Scene::new(2);
    fs::write(scene.path("hint"), "Hint: no\tpermission\nJournal file is truncated\n")?;
    let mut connector = scene.host.component::<Journald>(&Scene::config(""))?;
    for (expected, count) in [(1..=2, 2), (3..=4, 2)] {
        let mut source = scene.host.block_on(connector.connect(Sides::SOURCE))?.source.unwrap();
        let mut all = Vec::new();
        while all.len() < count {
            let mut batch = tremor_pdk::RawBatch::new();
            scene.host.block_on(tremor_pdk::Source::pull(&mut source, &mut batch))?;
            all.extend(batch.iter().map(|it| String::from_utf8(it.raw().to_vec()).unwrap()));
        }
        assert_eq!(all, entries(expected));
        let pid = tail_of(scene.folder.path());
        assert!(Command::new("kill").arg(&pid).status()?.success());
        let mut batch = tremor_pdk::RawBatch::new();
        let error = scene.host.block_on(tremor_pdk::Source::pull(&mut source, &mut batch));
        let error = error.unwrap_err();
        assert_eq!((error.kind(), error.is_final()), (ErrorKind::CONNECTION_LOST, false));
        let text = error.to_string();
        assert!(text.contains("was ended by signal 15: Journal file is truncated"), "{text}");
        assert!(!Path::new("/proc").join(&pid).exists(), "the process is reaped");
        scene.set((1..=4).map(entry));
    }
    let log = scene.host.log();
    assert!(log.iter().any(|(_, it)| it == r"journalctl: Hint: no\tpermission"), "{log:?}");
    Ok(())
}

/// Returns the process number of the `tail` that reads the journal of a folder.
fn tail_of(folder: &Path) -> String {
    let journal = folder.join("journal");
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let has = |path: &PathBuf| {
        let command = fs::read(path.join("cmdline")).unwrap_or_default();
        let mut arguments = command.split(|byte| *byte == 0);
        arguments.any(|argument| Path::new(OsStr::from_bytes(argument)) == journal)
    };
    let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    processes.filter(has).map(name).next().unwrap()
}

#[test]
fn invalid_cursor_or_time_is_final_and_names_its_remedy() -> Result<()> {
    let scene = Scene::new(1);
    fs::write(scene.path("at"), r#"{ "version": 1, "cursor": "x" }"#)?;
    for (keys, remedy) in [
        (KEPT, "delete the checkpoint to start according to `since`"),
        (r#", "since": "bad""#, "set `since` to a time that"),
    ] {
        let error = scene.connect(keys)?.pull().unwrap_err();
        assert!(error.is_final() && error.to_string().contains(remedy), "{error}");
        assert!(error.to_string().contains("`./journalctl` ended with exit status 1: Failed to"));
    }
    Ok(())
}

#[test]
fn missing_journalctl_is_reported_with_a_remedy() {
    let config = r#"{ "command": "no-such-journalctl" }"#;
    let error = TestHost::new().connect::<Journald>(config).err().unwrap();
    assert!(error.is_final() && error.to_string().contains("install systemd"), "{error}");
}

#[test]
fn since_now_is_the_time_of_the_first_run() -> Result<()> {
    let scene = Scene::new(0);
    let keys = r#", "since": "now", "checkpoint": "at", "follow": false"#;
    scene.host.set_now_ns(1_700_000_000_250_000_000);
    scene.connect(keys)?.pull_all()?;
    assert!(scene.arguments().ends_with("--since=@1700000000.250000"), "{}", scene.arguments());
    scene.host.set_now_ns(1_800_000_000_000_000_000);
    scene.connect(keys)?.pull_all()?;
    assert!(scene.arguments().ends_with("--since=@1700000000.250000"), "{}", scene.arguments());
    Ok(())
}

#[test]
fn long_entry_is_truncated_and_counted() -> Result<()> {
    let scene = Scene::new(0);
    let long = format!(r#"{{"__CURSOR":"s=1","MESSAGE":"{}"}}"#, "x".repeat(300_000));
    scene.set([long.clone(), entry(2)]);
    let keys = r#", "follow": false, "max_entry_bytes": "100KiB""#;
    let batches = scene.connect(keys)?.pull_all()?;
    let all: Vec<_> = batches.iter().flat_map(messages).collect();
    assert_eq!(all, [long[..100 << 10].to_owned(), entry(2)]);
    assert_eq!(scene.host.metric("entries_truncated"), Some(1.0));
    Ok(())
}

#[test]
fn entries_that_journald_has_deleted_are_counted_and_reported() -> Result<()> {
    for (keys, hint, missing) in [
        ("", None, 4.0),
        (r#", "units": ["a"]"#, None, 0.0),
        (
            "",
            Some("Hint: You are currently not seeing messages from other users and the system."),
            0.0,
        ),
    ] {
        let scene = Scene::new(0);
        let cursors = ["s=a;i=9", "s=a;i=a", "s=a;i=f"];
        scene.set(cursors.map(|cursor| format!(r#"{{"__CURSOR":"{cursor};b=1"}}"#)));
        if let Some(hint) = hint {
            fs::write(scene.path("hint"), format!("{hint}\n")).unwrap();
        }
        let batches = scene.connect(&format!("{ONCE}{keys}"))?.pull_all()?;
        assert_eq!(batches.iter().map(Batch::len).sum::<usize>(), 3);
        assert_eq!(scene.host.metric("entries_missing"), Some(missing), "{keys} {hint:?}");
        let log = scene.host.log();
        let is_reported = log.iter().any(|(_, line)| line.starts_with("4 entries are missing "));
        assert_eq!(is_reported, missing > 0.0, "{log:?}");
    }
    Ok(())
}

#[test]
fn connector_passes_conformance_checks() {
    let scene = Scene::new(2_000);
    let command = scene.path("journalctl").display().to_string();
    for keys in [
        ONCE.to_owned(),
        String::new(),
        format!(r#", "checkpoint": "{}""#, scene.path("at").display()),
    ] {
        let config = format!(r#"{{ "command": "{command}"{keys} }}"#);
        conformance::connector::<Journald>(&config).expect_no_faults();
    }
}

/// Reads a journal of eight entries with the real `journalctl`, if it is installed. The first two entries and the last
/// one are of journald itself, and the fourth is of the identifier `beta`.
#[test]
fn journal_is_read_with_the_real_journalctl() -> Result<()> {
    let version = Command::new("journalctl").arg("--version").stdout(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: journalctl is not installed");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/small.journal.gz");
    let journal = fs::File::create(folder.path().join("system.journal"))?;
    assert!(Command::new("gzip").arg("-dc").arg(packed).stdout(journal).status()?.success());
    let host = TestHost::new();
    let directory = folder.path().display();
    let read = |keys: &str| {
        let keys = format!(r#"{{ "directory": "{directory}", "follow": false{keys} }}"#);
        let batches = host.connect::<Journald>(&keys)?.pull_all()?;
        Ok::<_, Error>(batches.iter().flat_map(messages).collect::<Vec<_>>())
    };
    assert_eq!(read("")?.len(), 8);
    assert_eq!(read(r#", "since": "2100-01-01""#)?.len(), 0);
    assert_eq!(read(r#", "priority": "err", "matches": ["_TRANSPORT=journal"]"#)?.len(), 1);
    assert_eq!(read(r#", "units": ["absent.service"]"#)?.len(), 0);
    let alpha = read(r#", "identifiers": ["alpha"]"#)?;
    let long = format!(r#""MESSAGE":"{}""#, "x".repeat(6_000));
    let parts =
        [r#""MESSAGE":"first""#, r#""TAG":["a","b"]"#, &long, r#""MESSAGE":[98,101,108,108,7]"#];
    assert_eq!(alpha.len(), parts.len());
    for (entry, part) in alpha.iter().zip(parts) {
        assert!(entry.contains(part), "{part}: {entry}");
    }

    // The entry of the cursor does not match the filter. `journalctl --after-cursor` would omit the entry after it.
    let beta = read(r#", "identifiers": ["beta"]"#)?;
    let cursor = crate::entries::cursor(beta[0].as_bytes()).unwrap();
    let at = folder.path().join("at");
    let kept = format!(r#", "checkpoint": "{}""#, at.display());
    fs::write(&at, format!(r#"{{ "version": 1, "cursor": "{cursor}" }}"#))?;
    let later = read(&format!(r#"{kept}, "identifiers": ["alpha"]"#))?;
    assert_eq!(later.len(), 3);
    assert!(later[0].contains(parts[1]), "{}", later[0]);
    assert_eq!(read(&kept)?.len(), 4, "the entry of the cursor itself is not read again");

    let error = read(r#", "since": "bad time""#).unwrap_err();
    assert!(error.is_final() && error.to_string().contains("set `since`"), "{error}");
    fs::write(&at, r#"{ "version": 1, "cursor": "garbage" }"#)?;
    let error = read(&kept).unwrap_err();
    assert!(error.is_final() && error.to_string().contains("delete the checkpoint"), "{error}");
    Ok(())
}
