//! Tests of reloads: flow files that change while their process runs.

use std::{
    fs,
    io::Write as _,
    net::{TcpListener, TcpStream},
};

use serde_json::{Value, json};

use crate::{
    api::{Asked, start_with},
    tremor::Scene,
};

/// Returns a flow that writes numbered events to the file `to`.
pub(crate) fn ticks(to: &str) -> String {
    format!(
        "connectors:
  ticks: {{ type: metronome, config: {{ interval_ms: 1 }} }}
  output: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: ../{to}, mode: append }} }}
links: [ticks -> output]
"
    )
}

/// The reason why a flow of [`ticks`] is replaced by that of [`ticks_through`] with the pipeline `p`.
const REPLACED: &str = "`links` has changed, the pipeline `p` was added, the connector `ticks` was removed, the \
                        connector `ticks-p` was added, and the source `ticks-p` was added";

/// Returns the same flow as [`ticks`] with a pipeline and another source, so that the flow has to be replaced.
fn ticks_through(pipeline: &str, to: &str) -> String {
    let links =
        format!("pipelines: {{ {pipeline}: {{}} }}\nlinks: [ticks -> {pipeline} -> output]");
    let text = ticks(to).replace("links: [ticks -> output]", &links);
    text.replace("ticks", &format!("ticks-{pipeline}"))
}

/// Returns a scene with the folder `flows`, in which the flows `a` and `b` write to `out-a` and `out-b`.
pub(crate) fn scene() -> Scene {
    let scene = Scene::new("");
    fs::create_dir(scene.path().join("flows")).unwrap();
    scene
        .write("flows/a.yaml", ticks("out-a").as_bytes())
        .write("flows/b.yaml", ticks("out-b").as_bytes())
}

/// Starts the flows of the folder `flows`, with further arguments.
pub(crate) fn run(scene: Scene, arguments: &[&str]) -> Asked {
    start_with(scene, &[&["flows"], arguments].concat(), 2, |command| command)
}

pub(crate) fn write(asked: &Asked, name: &str, text: &str) {
    fs::write(asked.path().join("flows").join(name), text).unwrap();
}

/// Returns the number of events that the source of a flow has read.
fn taken(asked: &Asked, flow: &str) -> u64 {
    let flow = asked.json("GET", &format!("/v1/flows/{flow}"));
    let components = flow["components"].as_array().unwrap();
    let ticks = components.iter().find(|it| it["name"] == "ticks").unwrap();
    ticks["events"]["taken"].as_u64().unwrap()
}

/// Waits until a file has contents.
pub(crate) fn until_written(asked: &Asked, name: &str) {
    let is_written = || fs::metadata(asked.path().join(name)).is_ok_and(|it| it.len() > 0);
    crate::peer::wait_until(is_written);
}

pub(crate) fn names(asked: &Asked) -> Vec<String> {
    let flows = asked.json("GET", "/v1/flows");
    let flows = flows["flows"].as_array().unwrap();
    flows.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn changed_flow_is_replaced_and_the_other_one_kept() {
    let asked = run(scene(), &[]);
    until_written(&asked, "out-b");
    let before = taken(&asked, "a");
    write(&asked, "a.yaml", &format!("# A comment does not count.\n{}", ticks("out-a")));
    write(&asked, "b.yaml", &ticks_through("p", "out-c"));
    let planned = asked.json("POST", "/v1/reload?dry_run=true");
    let reason = REPLACED;
    let changes = json!([
        { "flow": "a", "change": "kept" },
        { "flow": "b", "change": "replaced", "reason": reason },
    ]);
    assert_eq!(planned, json!({ "result": "planned", "flows": changes }));
    assert!(!asked.path().join("out-c").exists(), "a dry run changes nothing");
    let applied = asked.json("POST", "/v1/reload");
    assert_eq!(applied, json!({ "result": "applied", "flows": changes }));
    until_written(&asked, "out-c");
    assert!(taken(&asked, "a") >= before, "the kept flow has its counts");
    let again = asked.json("POST", "/v1/reload");
    assert_eq!(again["result"], "unchanged");
    let status = asked.json("GET", "/v1/flows");
    assert_eq!(
        (&status["reload"]["generation"], &status["reload"]["failed"]),
        (&json!(1), &json!(0))
    );
    let log = asked.end();
    // The replaced flow is summarised when it ends, and its successor at the end of the run.
    assert_eq!(log.matches("flow `b`: ").count(), 2, "{log}");
    assert_eq!(log.matches("flow `a`: ").count(), 1, "{log}");
}

#[test]
fn flows_come_and_go_with_their_files() {
    let mut asked = run(scene(), &[]);
    write(&asked, "c.yaml", &ticks("out-c"));
    asked.signal(&["HUP"]);
    asked.until_log("added `c`");
    until_written(&asked, "out-c");
    fs::remove_file(asked.path().join("flows/a.yaml")).unwrap();
    let removed = asked.json("POST", "/v1/reload");
    assert_eq!(removed["flows"][2], json!({ "flow": "a", "change": "removed" }));
    assert_eq!(names(&asked), ["b", "c"]);
    while asked.request("GET", "/readyz").0 != 200 {}
    asked.end();
}

#[test]
fn watched_files_are_reloaded_without_a_request() {
    let mut asked = run(scene(), &["--watch"]);
    write(&asked, "c.yaml", &ticks("out-c"));
    asked.until_log("added `c`");
    until_written(&asked, "out-c");
    fs::remove_file(asked.path().join("flows/c.yaml")).unwrap();
    asked.until_log("removed `c`");
    asked.end();
}

#[test]
fn files_with_errors_change_nothing() {
    let asked = run(scene(), &[]);
    write(&asked, "a.yaml", &ticks("out-a").replace("codec", "codex"));
    write(&asked, "b.yaml", &ticks("out-c"));
    write(&asked, "c.yaml", "links: [");
    let (status, body) = asked.request("POST", "/v1/reload");
    assert_eq!(status, 422, "{body}");
    let problem: Value = serde_json::from_str(&body).unwrap();
    let detail = problem["detail"].as_str().unwrap();
    for part in ["nothing has changed", "unknown key `codex`", "c.yaml:1:"] {
        assert!(detail.contains(part), "{detail}");
    }
    let before = taken(&asked, "b");
    asked.until("/v1/flows", |it| it["reload"]["failed"] == 1);
    while taken(&asked, "b") == before {}
    assert!(!asked.path().join("out-c").exists());
    asked.end();
}

#[test]
fn flow_that_cannot_connect_is_replaced_by_its_predecessor() {
    let taken_port = TcpListener::bind("127.0.0.1:0").unwrap();
    let asked = run(scene(), &[]);
    until_written(&asked, "out-b");
    let server = format!(
        "connectors:
  input:
    type: tcp_server
    codec: string
    preprocessors: [lines]
    reconnect: {{ attempts: 0 }}
    config: {{ listen: '{}' }}
  nowhere: {{ type: 'null' }}
links: [input -> nowhere]
",
        taken_port.local_addr().unwrap()
    );
    write(&asked, "b.yaml", &server);
    write(&asked, "c.yaml", &ticks("out-c"));
    let (status, body) = asked.request("POST", "/v1/reload");
    assert_eq!(status, 422, "{body}");
    let expected = "the flows of before were restored:\\nerror: flow `b` failed: `input`";
    assert!(body.contains(expected), "{body}");
    assert_eq!(names(&asked), ["a", "b"]);
    let before = taken(&asked, "b");
    while taken(&asked, "b") == before {}
    // The failure was mended by the reload itself.
    let log = asked.end();
    assert!(log.contains("error: flow `b` failed"), "{log}");
}

#[test]
fn connection_of_kept_flow_outlives_reloads() {
    let scene = scene().write(
        "flows/a.yaml",
        b"connectors:
  input:
    { type: tcp_server, codec: string, preprocessors: [lines], config: { listen: '127.0.0.1:0' } }
  output: { type: stdio, codec: string, postprocessors: [lines] }
links: [input -> output]
",
    );
    let mut asked = run(scene, &[]);
    let mut client = TcpStream::connect(asked.listens()).unwrap();
    for round in 0..10 {
        writeln!(client, "{round}").unwrap();
        write(&asked, "b.yaml", &ticks(&format!("out-{round}")));
        let applied = asked.json("POST", "/v1/reload");
        assert_eq!(applied["result"], "applied", "{applied}");
        let end = std::time::Instant::now() + crate::api::LONG;
        assert_eq!(asked.event_until(end), Some(round.to_string()));
    }
    drop(client);
    asked.end();
}

#[test]
fn replaced_flow_has_the_queue_on_disk_of_its_predecessor() {
    let flow = |round: usize| {
        ticks_through(&format!("p{round}"), "out-b").replace(
            "codec: json,",
            "codec: json, queue: { disk: { path: ../queue, max_bytes: 1MiB } },",
        )
    };
    let scene = scene().write("flows/b.yaml", flow(1).as_bytes());
    let asked = run(scene, &[]);
    for round in 2..10 {
        write(&asked, "b.yaml", &flow(round));
        let applied = asked.json("POST", "/v1/reload");
        assert_eq!(applied["result"], "applied", "{applied}");
        assert_eq!(applied["flows"][1]["change"], "replaced");
    }
    // The folder belongs to the flow `b`, so `a` cannot open it, even once `b` is removed.
    fs::remove_file(asked.path().join("flows/b.yaml")).unwrap();
    write(&asked, "a.yaml", &flow(1));
    let (status, body) = asked.request("POST", "/v1/reload");
    assert_eq!(status, 422, "{body}");
    assert!(body.contains("the flows of before were restored"), "{body}");
    assert_eq!(names(&asked), ["a", "b"]);
    asked.end();
}

#[test]
fn run_continues_while_its_only_flow_is_replaced() {
    let scene = scene();
    fs::remove_file(scene.path().join("flows/a.yaml")).unwrap();
    let asked = start_with(scene, &["flows/b.yaml"], 1, |command| command);
    write(&asked, "b.yaml", &ticks_through("p", "out-c"));
    let printed = asked.tremor(&["reload"]);
    printed.expect(0, &[]);
    assert_eq!(printed.stdout, format!("replaced  b: {REPLACED}\napplied\n"));
    until_written(&asked, "out-c");
    asked.end();
}
