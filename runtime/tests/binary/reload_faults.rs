//! Tests of reloads with the real program in which a plugin hangs, a flow drains slowly, or a connector fails.

use std::{fs, net::TcpListener, time::Instant};

use crate::{
    api::{Asked, start_with},
    reload::{names, run, scene, ticks, until_written, write},
    support::library,
};

/// Waits until a reload is in a step that is about the flow `b`.
fn until_step(asked: &Asked, step: &str) {
    let waits = |it: &serde_json::Value| it["step"] == step && it["flow"] == "b";
    asked.until("/v1/flows", |it| waits(&it["reload"]["in_progress"]));
}

#[test]
fn signal_ends_reload_with_hanging_constructor_at_once() {
    let mut asked = run(scene(), &[]);
    let hangs = ticks("out-c").replace(
        "links: [ticks -> output]",
        "pipelines:
  main: { operators: [{ type: mischief, config: { fault: constructor_block } }] }
links: [ticks -> main, main -> output]",
    );
    write(&asked, "b.yaml", &hangs);
    asked.signal(&["HUP"]);
    until_step(&asked, "creating");
    asked.until_log("the reload waits step=\"creating\" flow=\"b\"");
    let (_, metrics) = asked.request("GET", "/metrics");
    assert!(metrics.contains("tremor_reload_in_progress 1\n"), "{metrics}");
    let begin = Instant::now();
    let log = asked.end();
    // The time limit of the constructor is 30 s.
    assert!(begin.elapsed().as_secs() < 20, "{log}");
    assert!(log.contains("the run ends during the reload"), "{log}");
}

#[test]
fn signal_during_slow_drain_ends_run_within_its_timeout() {
    let hangs = "connectors:
  clock: { type: metronome, config: { interval_ms: 1 } }
  bad: { type: hostile, config: { fault: deliver_hang } }
links: [clock -> bad]";
    let scene = scene().write("flows/b.yaml", hangs.as_bytes());
    let asked = run(scene, &["--drain-timeout", "3"]);
    asked.until("/v1/flows/b/connectors/bad", |it| it["in_flight"].as_u64() > Some(0));
    write(&asked, "b.yaml", &ticks("out-b"));
    asked.signal(&["HUP"]);
    until_step(&asked, "draining");
    let top = asked.first_line_of(&["top"], "reload ");
    assert!(top.contains(" in_progress=draining ") && top.contains(" flow=b "), "{top}");
    let begin = Instant::now();
    let ended = asked.stop("TERM");
    assert!(begin.elapsed().as_secs() < 20, "{}", ended.stderr);
    ended.expect(4, &["flow `b` was stopped before everything", "the run ends during the reload"]);
    assert!(!ended.stderr.contains("out-b"), "the successor was not started");
}

#[test]
fn connector_that_ends_the_run_ends_only_its_reload_on_trial() {
    let taken_port = TcpListener::bind("127.0.0.1:0").unwrap();
    let asked = run(scene(), &[]);
    let server = format!(
        "connectors:
  input:
    type: tcp_server
    codec: string
    preprocessors: [lines]
    reconnect: {{ attempts: 0 }}
    on_failure: exit
    config: {{ listen: '{}' }}
  nowhere: {{ type: 'null' }}
links: [input -> nowhere]
",
        taken_port.local_addr().unwrap()
    );
    write(&asked, "c.yaml", &server);
    let (status, body) = asked.request("POST", "/v1/reload");
    assert_eq!(status, 422, "{body}");
    assert!(body.contains("flow `c` failed: `input`"), "{body}");
    assert_eq!(names(&asked), ["a", "b"]);
    while asked.request("GET", "/readyz").0 != 200 {}
    asked.end();
}

#[test]
fn changed_library_replaces_the_flows_that_use_it() {
    let scene = scene();
    let plugins = scene.path().join("plugins");
    fs::create_dir(&plugins).unwrap();
    let install = |package: &str, more: &[u8]| {
        let library = library(package);
        let name = library.file_name().unwrap();
        let contents = [&*fs::read(&library).unwrap(), more].concat();
        // The old file stays unchanged, because it is in use.
        fs::write(plugins.join("new"), contents).unwrap();
        fs::rename(plugins.join("new"), plugins.join(name)).unwrap();
    };
    for package in ["connector-metronome", "connector-file", "connector-null"] {
        install(package, b"");
    }
    let other = ticks("out-b").replace(
        "{ type: file, codec: json, postprocessors: [lines], config: { path: ../out-b, mode: append } }",
        "{ type: 'null' }",
    );
    let scene = scene.write("flows/b.yaml", other.as_bytes());
    let path = plugins.clone();
    let asked = start_with(scene, &["flows"], 2, |it| it.env("TREMOR_PLUGIN_PATH", path));
    install("connector-file", b"another build");
    let applied = asked.json("POST", "/v1/reload");
    assert_eq!(applied["flows"][1], serde_json::json!({ "flow": "b", "change": "kept" }));
    let change = &applied["flows"][0];
    assert_eq!(change["change"], "replaced", "{applied}");
    let reason = change["reason"].as_str().unwrap();
    assert!(reason.starts_with("the plugin ") && reason.ends_with(" has changed"), "{reason}");
    fs::remove_file(asked.path().join("out-a")).unwrap_or_default();
    asked.json("POST", "/v1/flows/a/connectors/output/restart");
    until_written(&asked, "out-a");
    asked.end();
}
