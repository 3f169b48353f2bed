mod hostile;
mod many;

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

use flate2::read::MultiGzDecoder;
use tempfile::TempDir;
use tremor_pdk::{
    Batch, ErrorKind, ErrorPolicy, Result, literal,
    testing::{Connection, TestHost, exceptions},
};

use crate::FileConnector;

/// A sink whose events name files below a folder.
struct Scene {
    /// Folder that contains the folder of the files, `logs`.
    root: TempDir,
    host: TestHost,
    sink: Connection,
}

impl Scene {
    /// Opens a sink with the path `logs/TEMPLATE` and further keys.
    fn new(template: &str, keys: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("logs")).unwrap();
        let host = TestHost::new();
        let sink = open(&host, root.path(), template, keys).unwrap();
        Self { root, host, sink }
    }

    fn logs(&self) -> PathBuf {
        self.root.path().join("logs")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.logs().join(name)
    }

    /// Delivers events of hosts, all of which have to be accepted.
    fn deliver<H: AsRef<str>>(&mut self, events: &[(H, &str)]) {
        self.sink.deliver(&batch(events)).unwrap();
    }

    /// Returns the contents of all files below `logs`, by path.
    fn contents(&self) -> BTreeMap<String, String> {
        let mut contents = BTreeMap::new();
        collect(&self.logs(), "", &mut contents);
        contents
    }

    /// Returns the number of files below the root that this process has open.
    fn open_files(&self) -> usize {
        let links = fs::read_dir("/proc/self/fd").unwrap();
        let links = links.filter_map(|it| fs::read_link(it.ok()?.path()).ok());
        links.filter(|it| it.starts_with(self.root.path())).count()
    }
}

fn open(host: &TestHost, root: &Path, template: &str, keys: &str) -> Result<Connection> {
    let path = root.join("logs").join(template);
    let comma = if keys.is_empty() { "" } else { ", " };
    host.connect::<FileConnector>(&format!(
        r#"{{ "path": "{}", "mode": "append"{comma}{keys} }}"#,
        path.display()
    ))
}

/// Returns a batch of encoded events with the field `host`, as the runtime passes them.
fn batch<H: AsRef<str>>(events: &[(H, &str)]) -> Batch {
    let mut batch = Batch::new();
    for (host, text) in events {
        batch.push_message(text.as_bytes());
        let host = host.as_ref().to_owned();
        batch.last_mut().unwrap().set_metadata(literal!({ "template": { "host": host } }));
    }
    batch
}

fn collect(folder: &Path, name: &str, contents: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{name}{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &format!("{name}/"), contents);
        } else {
            contents.insert(name, fs::read_to_string(entry.path()).unwrap());
        }
    }
}

fn map(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

const SYNCS: [&str; 3] = ["", r#""sync": "batch""#, r#""sync": "interval""#];

#[test]
fn events_go_to_their_files_in_order() {
    for keys in SYNCS {
        let mut scene = Scene::new("{host}/{:+%Y}.log", keys);
        scene.deliver(&[("a", "1\n"), ("b", "2\n"), ("a", "3\n"), ("a", "4\n"), ("b", "5\n")]);
        scene.deliver(&[("b", "6\n"), ("c", "7\n")]);
        let expected =
            [("a/1970.log", "1\n3\n4\n"), ("b/1970.log", "2\n5\n6\n"), ("c/1970.log", "7\n")];
        assert_eq!(scene.contents(), map(&expected), "{keys}");
        scene.sink.stop().unwrap();
    }
}

#[test]
fn event_without_field_is_rejected_or_gets_default() {
    let mut without = Batch::new();
    without.push_message(b"1\n");
    let mut scene = Scene::new("{host}.log", "");
    let rejected = exceptions(scene.sink.deliver(&without));
    assert_eq!(rejected[0].error.kind(), ErrorKind::BAD_DATA);
    let error = rejected[0].error.to_string();
    assert!(error.contains("`host`") && error.contains("no such field"), "{error}");
    let mut scene = Scene::new("{host:-unknown}.log", "");
    scene.sink.deliver(&without).unwrap();
    assert_eq!(scene.contents(), map(&[("unknown.log", "1\n")]));
}

#[test]
fn error_of_one_file_does_not_affect_others() {
    for keys in SYNCS {
        let mut scene = Scene::new("{host}", keys);
        fs::create_dir(scene.file("bad")).unwrap();
        let events = [("a", "1\n"), ("bad", "2\n"), ("b", "3\n"), ("bad", "4\n"), ("a", "5\n")];
        let rejected = exceptions(scene.sink.deliver(&batch(&events)));
        let positions: Vec<_> = rejected.iter().map(|it| it.events.clone()).collect();
        assert_eq!(positions, [1..2, 3..4], "{keys}");
        for rejected in &rejected {
            assert_eq!(rejected.error.policy(), ErrorPolicy::DEAD_LETTER);
            assert!(rejected.error.to_string().contains("it is a folder"), "{}", rejected.error);
        }
        fs::remove_dir(scene.file("bad")).unwrap();
        scene.deliver(&[("bad", "2\n"), ("bad", "4\n")]);
        let expected = [("a", "1\n5\n"), ("b", "3\n"), ("bad", "2\n4\n")];
        assert_eq!(scene.contents(), map(&expected), "{keys}");
    }
}

#[test]
fn events_wait_while_the_fixed_folder_is_gone() {
    let mut scene = Scene::new("{host}", "");
    let moved = scene.root.path().join("moved");
    fs::rename(scene.logs(), &moved).unwrap();
    let rejected = exceptions(scene.sink.deliver(&batch(&[("a", "1\n")])));
    assert_eq!(rejected[0].error.policy(), ErrorPolicy::RETRY);
    assert!(rejected[0].error.to_string().contains("create the folder"), "{rejected:?}");
    fs::rename(&moved, scene.logs()).unwrap();
    scene.deliver(&[("a", "1\n")]);
    assert_eq!(scene.contents(), map(&[("a", "1\n")]));
}

#[test]
fn renamed_or_deleted_file_is_opened_again() {
    for keys in SYNCS {
        let mut scene = Scene::new("{host}/x.log", keys);
        scene.deliver(&[("a", "1\n"), ("b", "1\n")]);
        fs::rename(scene.file("a/x.log"), scene.file("a/old")).unwrap();
        fs::remove_dir_all(scene.file("b")).unwrap();
        // The file of `b` has no name after this write, so the event is written again.
        scene.deliver(&[("a", "2\n"), ("b", "2\n")]);
        scene.deliver(&[("a", "3\n"), ("b", "3\n")]);
        let expected = [("a/old", "1\n2\n"), ("a/x.log", "3\n"), ("b/x.log", "2\n3\n")];
        assert_eq!(scene.contents(), map(&expected), "{keys}");
        assert_eq!(scene.open_files(), 2, "{keys}");
    }
}

#[test]
fn compressed_file_is_whole_after_each_delivery_and_reopening() {
    let mut scene = Scene::new("{host}.log.gz", r#""max_open_files": 1"#);
    for round in 0..3 {
        let text = format!("{round}\n");
        scene.deliver(&[("a", &*text), ("b.zst", &text)]);
        for name in ["a.log.gz", "b.zst.log.gz"] {
            let mut found = String::new();
            let file = fs::File::open(scene.file(name)).unwrap();
            MultiGzDecoder::new(file).read_to_string(&mut found).unwrap();
            assert!(found.ends_with(&text) && found.len() == 2 * (round + 1), "{found}");
        }
    }
}

#[test]
fn incomplete_message_of_each_file_is_moved_to_another_file() {
    let mut scene = Scene::new("{host}/x", r#""sync": "batch""#);
    for host in ["a", "b"] {
        fs::create_dir(scene.file(host)).unwrap();
        fs::write(scene.file(host).join("x"), "1\nto").unwrap();
    }
    scene.deliver(&[("a", "2\n"), ("b", "2\n")]);
    scene.deliver(&[("a", "3\n")]);
    let contents = scene.contents();
    let texts: Vec<_> = contents.values().map(String::as_str).collect();
    assert_eq!(texts, ["1\n2\n3\n", "to", "1\n2\n", "to"]);
    assert!(contents.keys().nth(3).unwrap().starts_with("b/x.torn-"), "{contents:?}");
}

#[test]
fn message_without_message_end_fails_before_any_write() {
    let mut scene = Scene::new("{host}", r#""sync": "batch""#);
    let answer = scene.sink.deliver(&batch(&[("a", "1\n"), ("b", "2"), ("a", "3\n")]));
    let error = answer.unwrap_err().into_error();
    assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
    assert!(error.to_string().contains("/logs/{host}` does not end in"), "{error}");
    assert_eq!(scene.contents(), map(&[]));
}

#[test]
fn each_file_is_rotated_for_itself() {
    for open in ["", r#", "max_open_files": 1"#] {
        let keys = format!(r#""rotate": {{ "max_bytes": 4, "keep": 1 }}{open}"#);
        let mut scene = Scene::new("{host}/x", &keys);
        for number in 0..5 {
            let text = format!("{number}\n");
            scene.deliver(&[("a", &*text)]);
            scene.deliver(&[("b", &*text), ("b", &text)]);
            scene.host.advance(Duration::from_millis(1));
        }
        let contents = scene.contents();
        let texts: Vec<_> = contents.values().map(String::as_str).collect();
        assert_eq!(texts, ["4\n", "2\n3\n", "4\n4\n", "3\n3\n"], "{contents:?}");
    }
}

/// The file is closed between the days, so its time of creation counts. The clock of the test is that of the system, on
/// which the times of files depend.
#[test]
fn file_of_an_earlier_day_is_rotated_after_it_was_closed() {
    let keys = r#""rotate": { "at": "midnight", "timezone": "UTC" }, "max_open_files": 1"#;
    let mut scene = Scene::new("{host}/x", keys);
    let system_ns = |path: &Path| {
        let at = fs::metadata(path).unwrap().modified().unwrap();
        u64::try_from(at.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()).unwrap()
    };
    scene.host.set_now_ns(system_ns(&scene.logs()));
    scene.deliver(&[("a", "1\n"), ("b", "1\n")]);
    scene.host.set_now_ns(scene.host.now_ns() + 86_400_000_000_000);
    scene.deliver(&[("a", "2\n")]);
    scene.deliver(&[("b", "2\n")]);
    let contents = scene.contents();
    let texts: Vec<_> = contents.values().map(String::as_str).collect();
    assert_eq!(texts, ["2\n", "1\n", "2\n", "1\n"], "{contents:?}");
}

#[test]
fn idle_file_is_closed_after_a_minute() {
    for keys in SYNCS {
        let mut scene = Scene::new("{host}", keys);
        scene.deliver(&[("a", "1\n"), ("b", "1\n")]);
        assert_eq!(scene.host.metric("files_open"), Some(2.0));
        fs::remove_file(scene.file("a")).unwrap();
        scene.host.advance(Duration::from_secs(59));
        scene.deliver(&[("b", "2\n")]);
        scene.sink.tick().unwrap();
        assert_eq!(scene.open_files(), 2, "{keys}");
        scene.host.advance(Duration::from_secs(1));
        scene.sink.tick().unwrap();
        assert_eq!(scene.open_files(), 1, "a deleted file takes space while it is open");
        assert_eq!(scene.host.metric("files_open"), Some(1.0));
        scene.deliver(&[("a", "3\n")]);
        assert_eq!(scene.contents(), map(&[("a", "3\n"), ("b", "1\n2\n")]), "{keys}");
    }
}

#[test]
fn memory_of_open_files_is_counted_until_they_are_closed() {
    let mut scene = Scene::new("{host}", "");
    let hosts: Vec<_> = (0..500).map(|number| format!("{number:0>200}")).collect();
    scene.deliver(&hosts.iter().map(|host| (host, "1\n")).collect::<Vec<_>>());
    let counted = scene.host.memory();
    assert!(counted > 500 * 2 * 200, "{counted}");
    scene.deliver(&hosts.iter().map(|host| (host, "2\n")).collect::<Vec<_>>());
    assert_eq!(scene.host.memory(), counted, "the groups of a delivery count only until its end");
    scene.host.advance(Duration::from_mins(1));
    scene.sink.tick().unwrap();
    assert!(scene.host.memory() <= 64 << 10, "one block may remain");
}

#[test]
fn relative_template_starts_at_the_folder_of_the_flow() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new();
    host.set_folder(folder.path());
    let config = r#"{ "path": "{host}.log", "mode": "append" }"#;
    let mut sink = host.connect::<FileConnector>(config).unwrap();
    sink.deliver(&batch(&[("a", "1\n")])).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("a.log")).unwrap(), "1\n");
}

#[test]
fn second_sink_with_sync_does_not_write_to_the_same_file() {
    let mut scene = Scene::new("{host}", r#""sync": "batch""#);
    let mut other = open(&scene.host, scene.root.path(), "{host}", r#""sync": "batch""#).unwrap();
    scene.deliver(&[("a", "1\n")]);
    let rejected = exceptions(other.deliver(&batch(&[("a", "2\n"), ("b", "3\n")])));
    assert_eq!(rejected.len(), 1);
    assert_eq!(
        (rejected[0].events.clone(), rejected[0].error.policy()),
        (0..1, ErrorPolicy::RETRY)
    );
    assert!(rejected[0].error.to_string().contains("cannot lock"), "{}", rejected[0].error);
    assert_eq!(scene.contents(), map(&[("a", "1\n"), ("b", "3\n")]));
}

#[test]
fn invalid_configuration_is_rejected_with_its_reason() {
    for (config, reason) in [
        (r#""path": "l/{host}", "mode": "truncate""#, "needs `mode: append`"),
        (r#""path": "l/{host}", "mode": "write""#, "needs `mode: append`"),
        (r#""path": "/{host}", "mode": "append""#, "expected a folder before the first field"),
        (r#""path": "l/{host", "mode": "append""#, "invalid template"),
        (r#""path": "l/{hostname}", "mode": "read""#, "nothing replaces `{hostname}`"),
        (r#""path": "l", "mode": "append", "max_open_files": 3"#, "only to several files"),
        (r#""path": "l/{host}.gz", "mode": "append", "sync": "batch""#, "compressed"),
        (r#""path": "no/such/{host}", "mode": "append""#, "create the folder"),
        (r#""path": "a", "mode": "append", "rotate": { "timezone": "UTC" }"#, "at least one"),
        (
            r#""path": "a", "mode": "append", "rotate": { "every": "1h", "timezone": "UTC" }"#,
            "needs `rotate.at`",
        ),
        (
            r#""path": "a", "mode": "append", "rotate": { "at": "midnight", "timezone": "X" }"#,
            "expected `local`",
        ),
    ] {
        let error = TestHost::new().connect::<FileConnector>(&format!("{{ {config} }}"));
        let error = error.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains(reason), "{config}: {error}");
    }
}
