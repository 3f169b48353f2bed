mod copies;
mod deleted;
mod failed;
mod offsets;
mod positions;
mod reach;
mod selection;
mod silent;
mod unpulled;

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use tremor_pdk::{
    Batch, EventRef, Pull, Result,
    testing::{Connection, TestHost, conformance},
};

use crate::FileConnector;

/// A folder with files, and the host of the sources that read them.
struct Scene {
    host: TestHost,
    folder: TempDir,
}

impl Scene {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = TestHost::new();
        host.set_folder(folder.path());
        let scene = Self { host, folder };
        files.iter().for_each(|(name, text)| scene.write(name, text));
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn append(&self, name: &str, text: &str) {
        let mut file = File::options().append(true).open(self.path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    /// Opens a source with `keys` in addition to the mode.
    fn open(&self, keys: &str) -> Result<Connection> {
        self.host.connect::<FileConnector>(&format!(r#"{{ "mode": "read", {keys} }}"#))
    }

    fn logged(&self, part: &str) -> bool {
        self.host.log().iter().any(|(_, line)| line.contains(part))
    }

    /// Lets time pass in which the source is not pulled.
    fn pause(&self, seconds: u32) {
        let host = self.host.host();
        self.host.block_on(host.sleep(Duration::from_millis(1_050) * seconds));
    }

    /// Returns all batches until no events have arrived for the time `quiet`.
    fn all_for(&self, source: &mut Connection, quiet: Duration) -> Vec<Batch> {
        let (mut batches, mut since) = (Vec::new(), self.host.now_ns());
        loop {
            let (pull, batch) = source.pull().unwrap();
            if !batch.is_empty() {
                since = self.host.now_ns();
                batches.push(batch);
            }
            match pull {
                Pull::Events => {}
                Pull::Idle(time) => self.host.advance(time),
                Pull::Finished => return batches,
            }
            if self.host.now_ns() - since > u64::try_from(quiet.as_nanos()).unwrap() {
                return batches;
            }
        }
    }

    fn all(&self, source: &mut Connection) -> Vec<Batch> {
        self.all_for(source, Duration::from_millis(1_500))
    }
}

/// Returns the text of each stream, ordered by first event, with `[ends]` and `[cut off]` where a
/// stream ended or was aborted.
fn text(batches: &[Batch]) -> Vec<String> {
    let mut streams: Vec<(u64, String)> = Vec::new();
    for event in batches.iter().flat_map(Batch::iter) {
        let at = streams.iter().position(|(stream, _)| *stream == event.stream().number());
        let at = at.unwrap_or_else(|| {
            streams.push((event.stream().number(), String::new()));
            streams.len() - 1
        });
        let text = &mut streams[at].1;
        match event.raw() {
            Some(bytes) => *text += std::str::from_utf8(bytes).unwrap(),
            None if event.is_stream_aborted() => *text += "[cut off]",
            None => *text += "[ends]",
        }
    }
    streams.into_iter().map(|(_, text)| text).collect()
}

const CHECKPOINT: &str = r#""path": "in", "checkpoint": "at""#;

#[test]
fn each_run_continues_after_last_acknowledged_message() {
    let lines = (0..40).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat();
    for acknowledged in 0..9 {
        let scene = Scene::new(&[("in", &lines)]);
        let keys = format!(r#"{CHECKPOINT}, "chunk_bytes": 40"#);
        let mut source = scene.open(&keys).unwrap();
        let batches = source.pull_all().unwrap();
        let first: Vec<_> = batches.iter().take(acknowledged).cloned().collect();
        for batch in &first {
            source.acks().unwrap().ack(batch.pull()).unwrap();
        }
        source.stop().unwrap();
        let before = text(&first).concat();
        assert!(before.is_empty() || before.ends_with('\n'), "{before}");
        let mut source = scene.open(&keys).unwrap();
        let after = text(&source.pull_all().unwrap()).concat();
        assert_eq!((before + &after).replace("[ends]", ""), lines, "{acknowledged} pulls");
    }
}

#[test]
fn message_longer_than_chunk_is_redelivered_whole() {
    let long = format!("{}\n", "x".repeat(100));
    let scene = Scene::new(&[("in", &format!("one\n{long}three\n"))]);
    let keys = format!(r#"{CHECKPOINT}, "chunk_bytes": 16"#);
    let mut source = scene.open(&keys).unwrap();
    let batches = source.pull_all().unwrap();
    // Acknowledge all pulls but the last ones, which contain the end of the long message.
    for batch in batches.iter().take(batches.len() - 3) {
        source.acks().unwrap().ack(batch.pull()).unwrap();
    }
    source.stop().unwrap();
    let after = text(&scene.open(&keys).unwrap().pull_all().unwrap());
    assert_eq!(after, [format!("{long}three\n[ends]")]);
}

#[test]
fn finished_file_is_read_again_only_for_added_data() {
    let scene = Scene::new(&[("in", "one\nlast")]);
    let run = || {
        let mut source = scene.open(CHECKPOINT).unwrap();
        let batches = source.pull_all().unwrap();
        for batch in &batches {
            source.acks().unwrap().ack(batch.pull()).unwrap();
        }
        source.stop().unwrap();
        text(&batches)
    };
    assert_eq!(run(), ["one\nlast[ends]"]);
    assert!(run().is_empty());
    scene.append("in", "more\n");
    assert_eq!(run(), ["more\n[ends]"]);
    scene.rename("in", "in.1");
    scene.write("in", "anew\n");
    assert_eq!(run(), ["anew\n[ends]"], "another file has the name now");
}

#[test]
fn positions_are_saved_by_interval_and_by_read_ahead() {
    let lines = "some line\n".repeat(100);
    let scene = Scene::new(&[("in", &lines)]);
    let positions = |scene: &Scene| {
        let text = fs::read_to_string(scene.path("at")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["files"][0]["position"].as_u64()
    };
    let keys = r#""chunk_bytes": 10, "read_ahead": 8"#;
    let mut source = scene.open(&format!("{CHECKPOINT}, {keys}")).unwrap();
    let mut read = 0;
    loop {
        let (pull, batch) = source.pull().unwrap();
        if pull == Pull::Finished {
            break;
        }
        read += batch.iter().filter_map(EventRef::raw).map(<[u8]>::len).sum::<usize>();
        let ahead = read as u64 - positions(&scene).unwrap_or(0);
        assert!(ahead <= 80, "{ahead} bytes are read beyond the checkpoint");
        source.acks().unwrap().ack(batch.pull()).unwrap();
    }
    source.stop().unwrap();
    assert_eq!(positions(&scene), Some(1_000));
}

#[test]
fn followed_line_is_delivered_once_it_is_whole() {
    let scene = Scene::new(&[("in", "one\nha")]);
    let mut source = scene.open(r#""path": "in", "follow": true"#).unwrap();
    assert_eq!(text(&scene.all(&mut source)), ["one\n"]);
    scene.append("in", "lf");
    assert!(scene.all(&mut source).is_empty());
    scene.append("in", " a line\ntwo\n");
    assert_eq!(text(&scene.all(&mut source)), ["half a line\ntwo\n"]);
}

#[test]
fn missing_file_is_awaited_without_busy_polling() {
    let scene = Scene::new(&[]);
    let mut source = scene.open(r#""path": "in", "follow": true"#).unwrap();
    assert!(scene.logged("waiting for it"));
    let pulls = (0..10).map(|_| source.pull().unwrap().0);
    assert!(pulls.into_iter().all(|pull| pull == Pull::Idle(Duration::from_millis(100))));
    scene.write("in", "there\n");
    assert_eq!(text(&scene.all(&mut source)), ["there\n"]);
}

#[test]
fn renamed_file_is_read_to_its_end_before_its_successor() {
    let scene = Scene::new(&[("in", "one\n")]);
    let mut source = scene.open(r#""path": "in", "follow": true, "chunk_bytes": 8"#).unwrap();
    assert_eq!(text(&scene.all(&mut source)), ["one\n"]);
    scene.append("in", "two\nthree\nfour\nfive\n");
    scene.rename("in", "in.1");
    scene.write("in", "six\n");
    let batches = scene.all(&mut source);
    assert_eq!(text(&batches), ["two\nthree\nfour\nfive\n", "six\n"]);
    // A writer that has not noticed the rename yet.
    scene.append("in.1", "late\nand half");
    scene.append("in", "seven\n");
    let batches = scene.all_for(&mut source, Duration::from_secs(9));
    assert_eq!(text(&batches), ["late\nand half[ends]", "seven\n"]);
    scene.append("in.1", " of another\n");
    assert!(scene.all(&mut source).is_empty(), "the renamed file is not read any more");
}

#[test]
fn waiting_successor_is_known_after_crash() {
    let scene = Scene::new(&[("in", "one\ntwo\n")]);
    let keys = format!(r#"{CHECKPOINT}, "follow": true, "chunk_bytes": 4"#);
    let mut source = scene.open(&keys).unwrap();
    assert_eq!(text(&[source.pull().unwrap().1]), ["one\n"]);
    scene.rename("in", "in.1");
    scene.write("in", "three\n");
    scene.host.advance(Duration::from_secs(1));
    assert_eq!(text(&[source.pull().unwrap().1]), ["two\n"]);
    drop(source);
    scene.rename("in", "in.2");
    scene.write("in", "four\n");
    let mut source = scene.open(&keys).unwrap();
    assert_eq!(text(&scene.all(&mut source)), ["one\ntwo\n", "three\n", "four\n"]);
}

#[test]
fn rename_between_runs_loses_nothing() {
    let scene = Scene::new(&[("in", "one\ntwo\n")]);
    let keys = format!(r#"{CHECKPOINT}, "follow": true, "chunk_bytes": 4"#);
    let mut source = scene.open(&keys).unwrap();
    let batches = scene.all(&mut source);
    source.acks().unwrap().ack(batches[0].pull()).unwrap();
    source.stop().unwrap();
    scene.append("in", "three\n");
    scene.rename("in", "in.1");
    scene.write("in", "four\n");
    let mut source = scene.open(&keys).unwrap();
    let batches = scene.all(&mut source);
    assert_eq!(text(&batches), ["two\nthree\n", "four\n"]);
    assert!(scene.logged("in.1`, and is read to its end"));
    source.stop().unwrap();
    let mut source = scene.open(&format!(r#"{CHECKPOINT}, "chunk_bytes": 4"#)).unwrap();
    let once = source.pull_all().unwrap();
    assert_eq!(text(&once), ["two\nthree\n[ends]", "four\n[ends]"], "and without `follow`");
}

#[test]
fn position_of_unconfigured_file_is_dropped() {
    let scene = Scene::new(&[("in", "one\n"), ("other", "two\n")]);
    scene.open(CHECKPOINT).unwrap().stop().unwrap();
    let mut source = scene.open(r#""path": "other", "checkpoint": "at""#).unwrap();
    assert_eq!(text(&source.pull_all().unwrap()), ["two\n[ends]"]);
    assert!(scene.logged("no longer matches `path`"));
}

#[test]
fn truncated_file_is_reported_and_read_from_its_start() {
    for (after, name) in [("new\n", "shorter"), ("another day, much longer\n", "longer")] {
        let scene = Scene::new(&[("in", "one\ntwo\n")]);
        let keys = format!(r#"{CHECKPOINT}, "follow": true"#);
        let mut source = scene.open(&keys).unwrap();
        let batches = scene.all(&mut source);
        source.acks().unwrap().ack(batches[0].pull()).unwrap();
        // Copy and truncate: the inode stays the same, the contents change.
        fs::copy(scene.path("in"), scene.path("in.1")).unwrap();
        scene.write("in", after);
        let batches = scene.all(&mut source);
        assert_eq!(text(&batches), [after], "{name}");
        assert!(scene.logged("was truncated"), "{name}");
        source.acks().unwrap().ack(batches[0].pull()).unwrap();
        source.stop().unwrap();
        let mut source = scene.open(&keys).unwrap();
        assert!(scene.all(&mut source).is_empty(), "{name}");
        source.stop().unwrap();
        scene.write("in", "once\n");
        let mut source = scene.open(&keys).unwrap();
        assert_eq!(text(&scene.all(&mut source)), ["once\n"], "{name} while no source ran");
    }
}

#[test]
fn truncation_is_noticed_after_checkpoint_write() {
    for after in ["new\n", "another day, much longer\n"] {
        let scene = Scene::new(&[("in", "one\ntwo\n")]);
        let mut source = scene.open(&format!(r#"{CHECKPOINT}, "follow": true"#)).unwrap();
        assert_eq!(text(&scene.all(&mut source)), ["one\ntwo\n"]);
        scene.write("in", after);
        scene.host.advance(Duration::from_secs(2));
        assert_eq!(text(&scene.all(&mut source)), [after]);
        assert!(scene.logged("was truncated"), "{after}");
    }
}

#[test]
fn rewritten_file_that_began_empty_is_read_from_its_start() {
    let scene = Scene::new(&[("in", "")]);
    let mut source = scene.open(r#""path": "in", "follow": true"#).unwrap();
    assert!(scene.all(&mut source).is_empty());
    scene.append("in", "first\n");
    assert_eq!(text(&scene.all(&mut source)), ["first\n"]);
    scene.write("in", "second, longer\n");
    assert_eq!(text(&scene.all(&mut source)), ["second, longer\n"]);
}

#[test]
fn files_of_a_pattern_are_read_in_turn() {
    let scene = Scene::new(&[("a.log", "a1\na2\na3\n"), ("b.log", "b1\nb2\n"), ("c.txt", "c\n")]);
    let mut source = scene.open(r#""path": "*.log", "chunk_bytes": 3"#).unwrap();
    let batches = source.pull_all().unwrap();
    let mut parts = text(&batches);
    parts.sort();
    assert_eq!(parts, ["a1\na2\na3\n[ends]", "b1\nb2\n[ends]"]);
    let turns: Vec<_> =
        batches.iter().take(4).map(|it| it.first().unwrap().stream().number()).collect();
    assert!(turns.windows(2).all(|two| two[0] != two[1]), "{turns:?}");
    let origin = |batch: &Batch| Path::new(batch.first().unwrap().origin().unwrap()).to_owned();
    assert!(batches.iter().any(|batch| origin(batch).ends_with("a.log")));
}

#[test]
fn pattern_finds_new_files_and_recognises_renamed_ones() {
    let scene = Scene::new(&[("app.log", "one\n")]);
    let keys = r#""path": "app.log*", "follow": true, "checkpoint": "at""#;
    let mut source = scene.open(keys).unwrap();
    let mut batches = scene.all(&mut source);
    assert_eq!(text(&batches), ["one\n"]);
    scene.rename("app.log", "app.log.1");
    scene.write("app.log", "two\n");
    scene.append("app.log.1", "late\n");
    batches.extend(scene.all(&mut source));
    assert_eq!(text(&batches), ["one\nlate\n", "two\n"]);
    for batch in &batches {
        source.acks().unwrap().ack(batch.pull()).unwrap();
    }
    source.stop().unwrap();
    let mut source = scene.open(keys).unwrap();
    assert!(scene.all(&mut source).is_empty());
}

#[test]
fn compressed_file_is_redelivered_whole_or_not_at_all() {
    let scene = Scene::new(&[]);
    let member =
        crate::compression::Format::Gzip.member(b"one\ntwo\n", std::slice::from_ref(&(0..8)));
    fs::write(scene.path("in.gz"), member.unwrap()).unwrap();
    let keys = r#""path": "in.gz", "checkpoint": "at", "chunk_bytes": 4"#;
    let run = |most: usize| {
        let mut source = scene.open(keys).unwrap();
        let batches = source.pull_all().unwrap();
        for batch in batches.iter().take(most) {
            source.acks().unwrap().ack(batch.pull()).unwrap();
        }
        source.stop().unwrap();
        text(&batches)
    };
    assert_eq!(run(2), ["one\ntwo\n[ends]"], "the end of the file was not acknowledged");
    assert_eq!(run(9), ["one\ntwo\n[ends]"]);
    assert!(run(9).is_empty());
}

#[test]
fn file_without_message_end_is_redelivered_whole_or_not() {
    let scene = Scene::new(&[("in", "0123456789")]);
    let keys = format!(r#"{CHECKPOINT}, "message_end": "", "chunk_bytes": 4"#);
    let run = |most: usize| {
        let mut source = scene.open(&keys).unwrap();
        let batches = source.pull_all().unwrap();
        for batch in batches.iter().take(most) {
            source.acks().unwrap().ack(batch.pull()).unwrap();
        }
        source.stop().unwrap();
        text(&batches)
    };
    assert_eq!(run(3), ["0123456789[ends]"]);
    assert_eq!(run(9), ["0123456789[ends]"]);
    assert!(run(9).is_empty());
}

#[test]
fn file_stays_open_while_a_pull_reads_it() {
    let lines = "a line of the larger file\n".repeat(30_000);
    let scene = Scene::new(&[("a.log", "a\n"), ("b.log", &lines)]);
    let keys = r#""path": "*.log", "checkpoint": "at""#;
    let mut source = scene.open(keys).unwrap();
    let (_, first) = source.pull().unwrap();
    // The checkpoint is due while the next chunk is read.
    scene.host.advance(Duration::from_secs(2));
    scene.host.block_on(scene.host.host().sleep(Duration::from_millis(1)));
    let mut batches = vec![first];
    batches.extend(source.pull_all().unwrap());
    for batch in &batches {
        source.acks().unwrap().ack(batch.pull()).unwrap();
    }
    source.stop().unwrap();
    let mut source = scene.open(keys).unwrap();
    assert_eq!(text(&source.pull_all().unwrap()).concat(), "");
}

#[test]
fn cancelled_pulls_lose_and_duplicate_nothing() {
    let scene = Scene::new(&[("in", "one\ntwo\nthree\n")]);
    let mut source = scene.open(&format!(r#"{CHECKPOINT}, "chunk_bytes": 4"#)).unwrap();
    let mut batches = Vec::new();
    loop {
        let (pull, batch) = source.pull_and_give_up().unwrap();
        assert!(batch.is_empty() || pull.is_some());
        batches.push(batch);
        let (pull, batch) = source.pull().unwrap();
        batches.push(batch);
        if pull == Pull::Finished {
            break;
        }
    }
    assert_eq!(text(&batches), ["one\ntwo\nthree\n[ends]"]);
}

#[test]
fn connector_passes_conformance_checks() {
    let scene = Scene::new(&[("in", "one\ntwo\nthree\n")]);
    let path = |name: &str| scene.path(name).display().to_string();
    for more in ["", r#", "follow": true"#, r#", "offset": true"#] {
        let (path, at) = (path("in*"), path("at"));
        let config = format!(
            r#"{{ "path": "{path}", "mode": "read", "checkpoint": "{at}", "chunk_bytes": 4{more} }}"#
        );
        conformance::connector::<FileConnector>(&config).expect_no_faults();
    }
    let (path, keys) = (path("out"), r#""sync": "batch", "rotate": { "max_bytes": "1KiB" }"#);
    let config = format!(r#"{{ "path": "{path}", "mode": "append", "message_end": "", {keys} }}"#);
    conformance::connector::<FileConnector>(&config).expect_no_faults();
}
