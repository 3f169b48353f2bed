//! Tests of the operator on batches, and of changes of its file.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value as Json, json};
use tremor_pdk::{
    Batch, LogLevel, Operator, Output, Value, literal,
    testing::{TestHost, batch_of},
};

use super::Lookup;

const TEAMS: &str = "host,team,floor\nweb-1,shop,1\n7,lab,2\n";

/// A host whose folder contains the file `teams.csv`.
struct Scene {
    host: TestHost,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let (host, folder) = (TestHost::new(), tempfile::tempdir().unwrap());
        host.set_folder(folder.path());
        let scene = Self { host, folder };
        fs::write(scene.path(), TEAMS).unwrap();
        scene
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("teams.csv")
    }

    /// Creates the operator with further keys of the configuration.
    fn operator(&self, keys: Json) -> Result<Lookup, String> {
        let mut config = json!({ "file": "teams.csv", "key": "host", "into": "owner" });
        let Json::Object(keys) = keys else { panic!("{keys}") };
        config.as_object_mut().unwrap().extend(keys);
        self.host.component(&config.to_string()).map_err(|error| error.to_string())
    }

    /// Lets the operator check its file `count` times.
    fn check(&self, count: u64) {
        self.host.block_on(self.host.host().sleep(Duration::from_millis(count * 1000 + 100)));
    }
}

/// Returns the event after the operator, or the message with which the event was rejected.
fn processed(operator: &mut Lookup, event: &Value<'static>) -> Result<String, String> {
    let mut batch = Batch::new();
    batch.push(event).unwrap();
    let mut output = Output::new();
    operator.process(&mut batch, &mut output).unwrap();
    match output.rejected().first() {
        Some(rejected) => Err(rejected.error.to_string()),
        None => Ok(batch.first().unwrap().value().unwrap().to_string()),
    }
}

#[test]
fn fields_of_the_row_are_written() {
    let scene = Scene::new();
    let event = || literal!({ "host": "web-1", "n": 1, "id": 7 });
    for (keys, expected) in [
        (json!({}), r#"{"host":"web-1","n":1,"id":7,"owner":{"team":"shop","floor":"1"}}"#),
        (
            json!({ "into": ".", "fields": ["team"] }),
            r#"{"host":"web-1","n":1,"id":7,"team":"shop"}"#,
        ),
        (
            json!({ "into": ".meta.owner", "key": "id", "fields": ["floor"] }),
            r#"{"host":"web-1","n":1,"id":7,"meta":{"owner":{"floor":"2"}}}"#,
        ),
        (
            json!({ "into": "host", "match": "team", "key": "team", "missing": { "default": { "a": [1.5] } } }),
            r#"{"n":1,"id":7,"host":{"a":[1.5]}}"#,
        ),
    ] {
        assert_eq!(
            processed(&mut scene.operator(keys).unwrap(), &event()).as_deref(),
            Ok(expected)
        );
    }
    let mut operator = scene.operator(json!({ "key": "%file.host" })).unwrap();
    let mut batch = Batch::new();
    batch.push(&literal!({})).unwrap();
    batch.last_mut().unwrap().set_metadata(literal!({ "file": { "host": "7" } }));
    operator.process(&mut batch, &mut Output::new()).unwrap();
    let value = batch.first().unwrap().value().unwrap().to_string();
    assert_eq!(value, r#"{"owner":{"team":"lab","floor":"2"}}"#);
}

#[test]
fn event_without_a_row_passes_or_is_rejected() {
    let scene = Scene::new();
    let unmatched = [literal!({ "host": "web-9" }), literal!({ "n": 1 }), literal!({ "host": [] })];
    let mut operator = scene.operator(json!({})).unwrap();
    for event in &unmatched {
        assert_eq!(processed(&mut operator, event), Ok(event.to_string()));
    }
    let mut operator = scene.operator(json!({ "missing": "err" })).unwrap();
    let error = processed(&mut operator, &unmatched[0]).unwrap_err();
    assert!(error.contains("`host` \"web-9\" matches no row of the table `teams.csv`"), "{error}");
    for event in &unmatched[1..] {
        let error = processed(&mut operator, event).unwrap_err();
        assert!(error.contains("the event has no field `host` that is a text or"), "{error}");
    }
    let mut operator = scene.operator(json!({ "into": ".", "key": "." })).unwrap();
    let error = processed(&mut operator, &literal!("web-1")).unwrap_err();
    assert!(error.contains("expected an object to add fields to"), "{error}");
    let (mut batch, mut output) = (batch_of(&[b"web-1"]), Output::new());
    operator.process(&mut batch, &mut output).unwrap();
    assert!(output.rejected()[0].error.to_string().contains("`codec`"));
}

#[test]
fn wrong_configurations_are_rejected() {
    let scene = Scene::new();
    fs::create_dir(scene.folder.path().join("folder.csv")).unwrap();
    for (keys, expected) in [
        (json!({ "file": "none.csv" }), "none.csv`: No such file or directory"),
        (json!({ "file": "folder.csv" }), "folder.csv`: expected a file, found a folder"),
        (json!({ "file": "/dev/null", "format": "csv" }), "found a pipe, a socket or a device"),
        (json!({ "file": "teams.txt" }), "set `format` to `csv`, `json_lines` or `maxmind`"),
        (json!({ "format": "maxmind", "by": "cidr" }), "`by` does not apply to `format: maxmind`"),
        (json!({ "format": "maxmind", "match": "a" }), "`match` does not apply to"),
        (
            json!({ "format": "maxmind", "delimiter": ";" }),
            "`delimiter` applies only to `format: csv`",
        ),
        (json!({ "format": "maxmind" }), "not a valid database of MaxMind"),
        (json!({ "fields": ["taem"] }), "invalid `fields`: the table has no column `taem`"),
        (json!({ "fields": [] }), "`fields` is empty"),
        (json!({ "fields": ["team", "team"] }), "`team` appears twice"),
        (json!({ "match": "hots" }), "invalid `match`: the table has no column `hots`"),
        (json!({ "by": "cidr" }), "line 2: invalid key \"web-1\": expected an address"),
        (json!({ "delimiter": ",," }), "invalid `delimiter`"),
        (json!({ "delimiter": ";", "format": "json_lines" }), "`delimiter` applies only to"),
        (json!({ "into": "%owner" }), "invalid `into` `%owner`"),
        (json!({ "into": "a[0]" }), "invalid `into`"),
        (json!({ "key": "a..b" }), "invalid `key` `a..b`"),
        (json!({ "max_memory": 100 }), "more than 100 bytes, the value of `max_memory`"),
        (json!({ "missing": "fail" }), "unknown variant"),
    ] {
        let error = scene.operator(keys).err().unwrap();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

fn replace(path: &Path, contents: &str, is_renamed: bool) {
    if is_renamed {
        let other = path.with_extension("new");
        fs::write(&other, contents).unwrap();
        fs::rename(other, path).unwrap();
    } else {
        fs::write(path, contents).unwrap();
    }
}

#[test]
fn changed_file_is_read_again_by_all_instances() {
    for is_renamed in [false, true] {
        let scene = Scene::new();
        let mut operators = [(); 3].map(|()| scene.operator(json!({})).unwrap());
        let event = literal!({ "host": "web-1" });
        let mut teams =
            || operators.each_mut().map(|operator| processed(operator, &event).unwrap());
        let expected = |team| [(); 3].map(|()| format!(r#"{{"host":"web-1","owner":{team}}}"#));
        let old = r#"{"team":"shop","floor":"1"}"#;
        assert_eq!(teams(), expected(old));
        replace(&scene.path(), "host,team\nweb-1,new team\n", is_renamed);
        scene.check(1);
        assert_eq!(teams(), expected(old), "the file may be incomplete");
        scene.check(1);
        assert_eq!(teams(), expected(r#"{"team":"new team"}"#));
        let again =
            scene.host.log().into_iter().filter(|(_, line)| line.contains("again, because"));
        assert_eq!(again.count(), 1, "one instance reads the file");
    }
}

#[test]
fn other_instance_watches_after_the_first_one_ended() {
    let scene = Scene::new();
    let mut operators =
        vec![scene.operator(json!({})).unwrap(), scene.operator(json!({})).unwrap()];
    let event = literal!({ "host": "web-1" });
    for operator in &mut operators {
        processed(operator, &event).unwrap();
    }
    scene.check(1);
    operators.remove(0);
    replace(&scene.path(), "host,team\nweb-1,new team\n", true);
    scene.check(3);
    let found = processed(&mut operators[0], &event).unwrap();
    assert!(found.contains("new team"), "{found}");
}

#[test]
fn broken_file_keeps_the_old_table_and_is_a_problem() {
    let scene = Scene::new();
    let mut operator = scene.operator(json!({})).unwrap();
    let event = literal!({ "host": "web-1" });
    let mut team = || processed(&mut operator, &event).unwrap();
    let old = team();
    for (contents, expected) in [
        ("host,team\nweb-1\n", "line 2: expected 2 values"),
        ("host,team\nweb-1,\"x\n", "line 2, column 7: the quotation mark is never closed"),
        ("", "the file is empty"),
    ] {
        replace(&scene.path(), contents, false);
        scene.check(3);
        assert_eq!(team(), old);
        let problem = scene.host.problem("table").unwrap();
        assert!(
            problem.contains(expected) && problem.contains("the previous version"),
            "{problem}"
        );
        let logged = scene.host.log().into_iter().filter(|(_, line)| line.contains(expected));
        assert_eq!(logged.map(|(level, _)| level).collect::<Vec<_>>(), [LogLevel::WARN]);
    }
    fs::remove_file(scene.path()).unwrap();
    scene.check(3);
    assert_eq!(team(), old);
    assert!(scene.host.problem("table").unwrap().contains("No such file"));
    replace(&scene.path(), TEAMS, true);
    scene.check(3);
    assert_eq!(team(), old);
    assert_eq!(scene.host.problem("table"), None);
}

/// A batch of 2,000 events would grow by 40 MB.
#[test]
fn events_beyond_the_limit_of_the_batch_are_rejected() {
    let scene = Scene::new();
    fs::write(scene.path(), format!("host,text\nlong,{}\nshort,x\n", "x".repeat(20_000))).unwrap();
    let default = json!({ "missing": { "default": { "text": "x".repeat(20_000) } } });
    for (keys, key) in [(json!({}), "long"), (default, "other")] {
        let mut operator = scene.operator(keys).unwrap();
        let (mut batch, mut output) = (Batch::new(), Output::new());
        for _ in 0..2_000 {
            batch.push(&literal!({ "host": key })).unwrap();
        }
        batch.push(&literal!({ "host": "short" })).unwrap();
        operator.process(&mut batch, &mut output).unwrap();
        let rejected = output.rejected();
        assert!((1_000..1_500).contains(&rejected.len()), "{}", rejected.len());
        let error = rejected[0].error.to_string();
        assert!(error.contains("bytes that are left for the events of its batch"), "{error}");
        // A smaller row still fits.
        let last = batch.get(batch.len() - 1).unwrap().value().unwrap().to_string();
        assert_eq!(last, r#"{"host":"short","owner":{"text":"x"}}"#);
        let events = batch.iter().filter(|event| event.value().unwrap().to_string().len() > 20_000);
        assert_eq!(events.count() + rejected.len(), 2_000);
    }
}

#[test]
fn keys_that_occur_twice_are_logged_with_their_number() {
    let scene = Scene::new();
    fs::write(scene.path(), "host,team\na,1\na,2\nb,1\na,3\n").unwrap();
    let mut operator = scene.operator(json!({})).unwrap();
    let found = processed(&mut operator, &literal!({ "host": "a" })).unwrap();
    assert_eq!(found, r#"{"host":"a","owner":{"team":"3"}}"#);
    let log = scene.host.log();
    let expected = "has 2 rows whose key is also that of a later row";
    assert!(log.iter().any(|(_, line)| line.contains(expected)), "{log:?}");
}
