//! Tests of the operator `lookup` with the whole program: the examples of its page, a change of the file while a flow
//! runs, and the mistakes that `tremor check` finds.

use std::{
    fs,
    io::{Write, pipe},
};

use serde_json::Value;

use crate::{
    running::Running,
    support::workspace,
    tremor::{Run, Scene},
};

/// Tables that the flows of the book name.
const TABLES: [(&str, &str); 3] = [
    ("teams.csv", "host,team,floor\nweb-1,shop,2\n"),
    ("networks.csv", "network,site\n10.0.0.0/8,office\n"),
    ("services.jsonl", "{\"path\":\"/\",\"service\":\"web\",\"limit\":1}\n"),
];

/// Returns a database of MaxMind of two networks for documentation, which was written for these tests.
fn database() -> Vec<u8> {
    fs::read(workspace().join("tests/fixtures/lookup/cities.mmdb")).unwrap()
}

/// Adds the tables that the flows of the book name.
pub(crate) fn with_tables(scene: Scene) -> Scene {
    let scene = scene.write("cities.mmdb", &database());
    TABLES.iter().fold(scene, |scene, (name, table)| scene.write(name, table.as_bytes()))
}

/// Returns the fenced blocks of the page, each with its language.
fn blocks() -> Vec<(String, String)> {
    let page = fs::read_to_string(workspace().join("docs/guide/lookup.md")).unwrap();
    let blocks = page.split("\n```").skip(1).step_by(2);
    blocks
        .map(|block| {
            let (language, text) = block.split_once('\n').unwrap();
            (language.to_owned(), format!("{text}\n"))
        })
        .collect()
}

/// Returns a flow that passes events of stdin through these operators.
fn flow(operators: &str) -> Scene {
    let operators: String = operators.lines().flat_map(|line| ["    ", line, "\n"]).collect();
    Scene::new(&format!(
        "connectors:
  input: {{ type: stdio, preprocessors: [lines], postprocessors: [lines], codec: json }}
  dead: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: dead, mode: write }} }}
pipelines:
  main:
{operators}links: [input -> main -> input, main/err -> dead]"
    ))
}

fn run(scene: Scene, input: &str) -> (Scene, Run) {
    let scene = scene.write("in", input.as_bytes());
    let file = fs::File::open(scene.path().join("in")).unwrap();
    let mut command = scene.command(&["run", "flow.yaml"]);
    let run = Run::of(&command.stdin(file).output().unwrap());
    (scene, run)
}

#[test]
fn examples_of_the_lookup_page_have_the_shown_results() {
    let mut examples = 0;
    for example in blocks().windows(4) {
        let [(_, table), (yaml, operators), (text, event), (json, expected)] = example else {
            continue;
        };
        if [&**yaml, text, json] != ["yaml", "json", "json"] || operators.contains(".mmdb") {
            continue;
        }
        let file = operators.split("file: ").nth(1).unwrap().split(',').next().unwrap();
        let (_, run) = run(flow(operators).write(file, table.as_bytes()), event);
        run.expect(0, &["1 events in, 1 out, 0 dead-lettered"]);
        let [found, expected] =
            [&run.stdout, expected].map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(found, expected, "{operators}");
        examples += 1;
    }
    assert_eq!(examples, 3);
}

#[test]
fn example_with_a_database_has_the_shown_result() {
    let blocks = blocks();
    let at = blocks.iter().position(|(_, text)| text.contains("cities.mmdb")).unwrap();
    let [(_, operators), (_, event), (_, expected)] = &blocks[at..at + 3] else { panic!() };
    let (_, run) = run(with_tables(flow(operators)), event);
    run.expect(0, &["1 events in, 1 out, 0 dead-lettered"]);
    let [found, expected] =
        [&run.stdout, expected].map(|text| serde_json::from_str::<Value>(text).unwrap());
    assert_eq!(found, expected);
}

#[test]
fn broken_database_leaves_the_previous_one_in_use() {
    let operators = "operators: [{ type: lookup, config: { file: cities.mmdb, key: ip, into: ., fields: [country] } }]";
    let scene = with_tables(flow(operators));
    let file = scene.path().join("cities.mmdb");
    let (reader, mut input) = pipe().unwrap();
    let mut running = Running::of(scene, &["flow.yaml"], |command| command.stdin(reader));
    let mut country = |running: &Running| {
        input.write_all(b"{\"ip\":\"2001:db8::7\"}\n").unwrap();
        let event: Value = serde_json::from_str(&running.event()).unwrap();
        event["country"]["iso_code"].as_str().unwrap().to_owned()
    };
    assert_eq!(country(&running), "FR");
    let mut database = database();
    let half = database.split_off(database.len() / 2);
    fs::write(&file, &half).unwrap();
    let line = running.until("the previous version of the table stays in use");
    assert!(line.contains("not a valid database of MaxMind"), "{line}");
    assert_eq!(country(&running), "FR");
    drop(input);
    running.end().expect(0, &["2 events in, 2 out, 0 dead-lettered"]);
}

#[test]
fn events_without_a_row_stay_unedited_or_leave_by_err() {
    let operators = |missing| {
        let keys = "file: teams.csv, key: host, into: owner";
        format!("operators: [{{ type: lookup, config: {{ {keys}, missing: {missing} }} }}]")
    };
    let unmatched = "{ \"host\" : \"web-9\", \"n\": 1.10, \"t\": \"\\u0061\" }\n";
    let (_, skipped) = run(with_tables(flow(&operators("skip"))), unmatched);
    skipped.expect(0, &["1 events in, 1 out, 0 dead-lettered"]);
    assert_eq!(skipped.stdout, unmatched);
    let (scene, rejected) = run(with_tables(flow(&operators("err"))), unmatched);
    rejected.expect(0, &["1 events in, 0 out, 1 dead-lettered"]);
    let dead = scene.read("dead");
    assert!(dead.contains("matches no row of the table `teams.csv`"), "{dead}");
}

#[test]
fn table_is_read_again_while_the_flow_runs() {
    let operators =
        "operators: [{ type: lookup, config: { file: teams.csv, key: host, into: owner } }]";
    let scene = with_tables(flow(operators));
    let table = scene.path().join("teams.csv");
    let (reader, mut input) = pipe().unwrap();
    let mut running = Running::of(scene, &["flow.yaml"], |command| command.stdin(reader));
    let mut team = |running: &Running| {
        input.write_all(b"{\"host\":\"web-1\"}\n").unwrap();
        let event: Value = serde_json::from_str(&running.event()).unwrap();
        event["owner"]["team"].as_str().unwrap().to_owned()
    };
    assert_eq!(team(&running), "shop");
    // The table is replaced by a rename.
    let new = table.with_extension("new");
    fs::write(&new, "host,team\nweb-1,lab\n").unwrap();
    fs::rename(&new, &table).unwrap();
    running.until("because the file has changed");
    assert_eq!(team(&running), "lab");
    // The table is broken in place.
    fs::write(&table, "host,team\nweb-1,lab,7\n").unwrap();
    let line = running.until("the previous version of the table stays in use");
    assert!(line.contains("line 2: expected 2 values, as in the first line, found 3"), "{line}");
    assert_eq!(team(&running), "lab");
    fs::write(&table, "host,team\nweb-1,mended team\n").unwrap();
    running.until("table: works again");
    assert_eq!(team(&running), "mended team");
    drop(input);
    running.end().expect(0, &["4 events in, 4 out, 0 dead-lettered"]);
}

#[test]
fn check_reports_mistakes_of_tables() {
    let base = "file: teams.csv, key: host, into: owner";
    for (keys, expected) in [
        ("file: none.csv, key: host, into: owner".to_owned(), "No such file or directory"),
        ("file: folder.csv, key: host, into: owner".to_owned(), "expected a file, found a folder"),
        ("file: pipe.csv, key: host, into: owner".to_owned(), "found a pipe, a socket or a device"),
        (
            "file: latin.csv, key: host, into: owner".to_owned(),
            "line 2: the value of the column `b`",
        ),
        (format!("{base}, fields: [taem]"), "its columns are `host`, `team`, `floor`"),
        (format!("{base}, match: hots"), "the table has no column `hots`"),
        (format!("{base}, by: cidr"), "line 2: invalid key \"web-1\""),
        (format!("{base}, fild: a"), "fild"),
        ("file: teams.csv, into: owner".to_owned(), "key"),
    ] {
        let operators = format!("operators: [{{ type: lookup, config: {{ {keys} }} }}]");
        let scene = with_tables(flow(&operators)).write("latin.csv", b"a,b\n1,\xe4\n");
        fs::create_dir(scene.path().join("folder.csv")).unwrap();
        let pipe = scene.path().join("pipe.csv");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let run = scene.tremor(&["check", "flow.yaml"]);
        assert_eq!(run.status, Some(2), "{keys}\n{}", run.stderr);
        assert!(run.stderr.contains(expected), "{keys}\n{}", run.stderr);
    }
}
