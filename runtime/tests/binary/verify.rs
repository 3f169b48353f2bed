//! Tests of `tremor plugin verify`. The command finds violations of the contract of plugins, and reports nothing else.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    thread,
    time::Duration,
};

use serde_json::Value as Json;

use crate::{
    peer::free_address,
    support::library,
    tremor::{Run, Scene},
};

/// Faulty connectors: the component, the check that fails, and a part of the remedy.
const CONNECTORS: &[(&str, &str, &str)] = &[
    ("new_panics", "makes", "return an error"),
    ("new_opens_a_file", "stays_inside", "to `Connector::connect`"),
    ("new_starts_a_thread", "stays_inside", "to `Connector::connect`"),
    ("new_starts_a_task", "stays_inside", "to `Connector::connect`"),
    ("new_blocks", "makes", "`Host::blocking`"),
    ("new_fails", "makes", "`Error::configuration`"),
    ("lenient", "refuses_unknown_keys", "`#[tremor_pdk::config]`"),
    ("bad_configuration_panics", "refuses_bad_configurations", "`Error::configuration`"),
    ("bad_configuration_is_internal", "refuses_bad_configurations", "`Error::configuration`"),
    ("one_instance_only", "makes_many", "a static is shared"),
    ("connect_exits", "connects", "do not end the process"),
    ("connect_aborts", "connects", "do not end the process"),
    ("connect_hangs", "connects", "do not block the thread"),
    ("connect_is_never_woken", "connects", "poll inner futures with the context"),
    ("pause_panics", "lives", "return an error"),
    ("pause_fails", "lives", "return `Ok` from a call in its legal order"),
    ("one_source_only", "reconnects", "return every wanted half"),
    ("reconnect_panics", "reconnects", "return an error"),
    ("drop_panics", "drops_at_every_stage", "handle the error at the location"),
    ("leaves_a_task", "leaves_nothing", "in `Connector::close`, or when"),
    ("leaves_a_thread", "leaves_nothing", "in `Connector::close`, or when"),
    ("leaves_a_descriptor", "leaves_nothing", "close the files and sockets"),
    ("pull_panics", "pulls", "return an error"),
    ("pull_is_busy", "pulls", "return `Pull::Idle`"),
    ("pull_blocks", "pulls", "`Host::blocking`"),
    ("pull_is_never_woken", "pulls", "poll inner futures with the context"),
    ("pull_forges", "pulls", "with the methods of the batch"),
    ("pull_ignores_the_limit", "heeds_the_limit", "call `Batch::is_full`"),
    ("pull_starts_again", "stays_finished", "store in `self` that the source has finished"),
    ("pull_loses", "survives_dropped_pulls", "before the next `await`"),
    ("pull_doubles", "survives_dropped_pulls", "before the next `await`"),
    ("pull_loses_work", "survives_dropped_pulls", "keep the future of `Host::blocking`"),
    ("shared_source", "sources_share_nothing", "not in a static"),
    ("ack_panics", "accepts_acknowledgements", "return an error"),
    ("ack_fails", "accepts_acknowledgements", "return `Ok` for the acknowledgement"),
    ("limit_has_no_key", "accepts_acknowledgements", "name the key of the configuration"),
    ("forgets_failures", "reads_again", "the positions of `Watermarks::begin`"),
    ("breaker_panics", "answers_the_circuit_breaker", "return an error"),
    ("empty_batch_panics", "delivers", "return an error"),
    ("empty_batch_fails", "delivers", "if there is nothing to deliver"),
    ("rejects_another_batch", "delivers", "reject events of the batch"),
    ("binary_is_unsupported", "delivers", "an error of the kind bad data"),
    ("deliver_is_never_woken", "delivers", "poll inner futures with the context"),
    ("tick_panics", "answers_ticks", "return an error"),
    ("drain_leaves_work", "drains", "in `Sink::deliver`, await"),
    ("drain_leaves_a_buffer", "drains", "send the buffered events"),
    ("shared_sink", "sinks_share_nothing", "not in a static"),
    ("stop_panics_undrained", "stops_without_a_drain", "return an error"),
];

/// Other faulty components, like [`CONNECTORS`] but with the kind first.
const OTHERS: &[(&str, &str, &str, &str)] = &[
    ("connector", "together_panics", "takes_several", "return an error"),
    ("connector", "mixes_deliveries", "takes_several", "reject events of the batch"),
    ("connector", "contradicts_itself", "connects", "pass to `Demand::at_most`"),
    ("connector", "ignores_flush", "flushes", "complete the gathered deliveries"),
    ("connector", "keeps_a_lock", "takes_several", "may be dropped at any `await`"),
    ("operator", "vanishes", "accounts_for_events", "account for each event"),
    ("operator", "invents", "accounts_for_events", "account for each event"),
    ("operator", "drops_buffered", "drains", "emit, reject or discard"),
    ("operator", "ignores_verdict", "accounts_for_events", "return the verdict"),
    ("operator", "unknown_port", "accounts_for_events", "name every port in `Operator::ports`"),
    ("operator", "process_panics", "accounts_for_events", "return an error"),
    ("operator", "keeps_after_drain", "drains", "emit, reject or discard"),
    ("operator", "due_for_ever", "knows_the_time", "return a later time from `due`"),
    ("operator", "changes_ports", "names_ports", "the same ports for the same configuration"),
    ("operator", "port_called_out", "names_ports", "a unique name"),
    ("operator", "shared", "shares_nothing", "not in a static"),
    ("operator", "remembers", "is_stateless_if_declared", "remove `STATELESS`"),
    ("operator", "counts_positions", "is_stateless_if_declared", "remove `STATELESS`"),
    ("codec", "loses_a_byte", "round_trips", "decode what `encode` writes"),
    ("codec", "two_values", "round_trips", "decode what `encode` writes"),
    ("codec", "bad_text_panics", "refuses_bad_messages", "return an error"),
    ("codec", "bad_text_is_internal", "refuses_bad_messages", "`Error::bad_data`"),
    ("codec", "poisoned", "refuses_bad_messages", "keep no state of a message that failed"),
    ("codec", "shared", "shares_nothing", "not in a static"),
    ("preprocessor", "forgets_between_batches", "splits_do_not_matter", "remaining bytes arrive"),
    ("preprocessor", "mixes_streams", "keeps_streams_apart", "a state for each stream"),
    ("preprocessor", "lists_no_streams", "ends_streams", "list in `streams`"),
    ("preprocessor", "lists_ended_streams", "ends_streams", "drop the state"),
    ("preprocessor", "keeps_aborted_streams", "aborts_streams", "of an aborted stream"),
    ("preprocessor", "hides_buffered", "reports_buffered_bytes", "while bytes of the stream are"),
    ("preprocessor", "time_stands_still", "keeps_time", "return a later time from `due`"),
    ("preprocessor", "has_more_for_ever", "takes_any_bytes", "return `false` from `has_more`"),
    ("preprocessor", "empty_input_panics", "takes_any_bytes", "return an error"),
    ("postprocessor", "swallows_empty_messages", "frames", "leave every message"),
    ("postprocessor", "suffix_differs", "frames", "let `process` append `suffix`"),
    ("postprocessor", "binary_panics", "takes_any_bytes", "return an error"),
    ("postprocessor", "shared", "shares_nothing", "not in a static"),
];

/// For each kind and name of a component, the failed checks and their remedies.
type Found = BTreeMap<(String, String), Vec<(String, String)>>;

fn verify(scene: &Scene, arguments: &[&str]) -> Run {
    let arguments = [&["plugin", "verify", "--json"], arguments].concat();
    scene.tremor(&arguments)
}

fn json(run: &Run) -> Json {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

fn text(json: &Json) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

fn faults(checks: &Json) -> Vec<(String, String)> {
    let checks = checks.as_array().unwrap().iter().filter(|check| check["result"] == "failed");
    checks.map(|check| (text(&check["check"]), text(&check["help"]))).collect()
}

fn found(json: &Json) -> Found {
    let components = json["components"].as_array().unwrap().iter();
    let found =
        components.map(|it| ((text(&it["kind"]), text(&it["name"])), faults(&it["checks"])));
    found.collect()
}

/// Returns the checks of a component that were skipped, each with the reason.
fn skipped(json: &Json, component: &str) -> Vec<(String, String)> {
    let components = json["components"].as_array().unwrap();
    let component = components.iter().find(|it| it["name"] == component).unwrap();
    let checks = component["checks"].as_array().unwrap().iter();
    let skipped = checks.filter(|check| check["result"] == "skipped");
    skipped.map(|check| (text(&check["check"]), text(&check["reason"]))).collect()
}

/// Checks that for every component, only the expected check fails, with the expected remedy.
fn expect(package: &str, expected: &[(&str, &str, &str, &str)]) {
    let scene = Scene::new("");
    let run = verify(&scene, &[library(package).to_str().unwrap(), "--limit", "5"]);
    run.expect(1, &["checks failed"]);
    let mut found = found(&json(&run));
    let mut wrong = Vec::new();
    for (kind, name, check, help) in expected {
        let faults = found.remove(&((*kind).to_owned(), (*name).to_owned()));
        let is_right = matches!(faults.as_deref(), Some([(failed, said)]) if failed == check && said.contains(help));
        if !is_right {
            wrong.push(format!("{kind} {name}: expected {check}, with `{help}`: {faults:?}"));
        }
    }
    // No check of the remaining components may fail.
    for ((kind, name), faults) in found.iter().filter(|(_, faults)| !faults.is_empty()) {
        wrong.push(format!("{kind} {name}: expected no fault: {faults:?}"));
    }
    assert!(!found.is_empty(), "no component without a fault is left");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn verify_finds_each_fault_of_a_connector_and_no_other() {
    let connector = |&(name, check, help)| ("connector", name, check, help);
    expect("fixture-faults", &CONNECTORS.iter().map(connector).collect::<Vec<_>>());
}

#[test]
fn verify_finds_each_fault_of_other_components_and_no_other() {
    expect("fixture-step-faults", OTHERS);
}

/// Checks that a plugin passes with these configurations.
fn expect_good(package: &str, configurations: &[(&str, &str)]) {
    let mut scene = Scene::new("").write("input", b"{\"a\":1}\n{\"a\":2}\n");
    let mut arguments = vec![library(package).to_str().unwrap().to_owned()];
    for (number, (name, config)) in configurations.iter().enumerate() {
        let file = format!("config_{number}.json");
        scene = scene.write(&file, config.as_bytes());
        arguments.extend(["--config".to_owned(), format!("{name}={file}")]);
    }
    let run = verify(&scene, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(run.status, Some(0), "{package}: {}\n{}", run.stdout, run.stderr);
}

#[test]
fn bundled_plugins_keep_the_contract() {
    let file = [
        ("file", r#"{ "path": "input", "mode": "read", "chunk_bytes": 3 }"#),
        ("file", r#"{ "path": "output", "mode": "truncate" }"#),
        ("file", r#"{ "path": "appended", "mode": "append" }"#),
        ("file", r#"{ "path": "output.gz", "mode": "truncate", "compression": "gzip" }"#),
    ];
    expect_good("connector-file", &file);
    expect_good("connector-metronome", &[("metronome", r#"{ "interval_ms": 10, "count": 5 }"#)]);
    let bench = [
        ("bench", r#"{ "file": "input", "iterations": 3 }"#),
        (
            "bench",
            r#"{ "file": "input", "iterations": 3, "rate": 1000.0, "report": "report.json" }"#,
        ),
    ];
    expect_good("connector-bench", &bench);
    let exit = [
        ("exit", r#"{ "after_events": 3 }"#),
        ("exit", r#"{ "when": { "field": "a", "equals": 1 } }"#),
    ];
    expect_good("connector-exit", &exit);
    for package in ["connector-stdio", "connector-null", "operator-logging"] {
        expect_good(package, &[]);
    }
}

#[test]
fn plugins_of_the_book_keep_the_contract() {
    for package in ["plugin-keyvalue", "plugin-pieces", "connector-countdown"] {
        expect_good(package, &[]);
    }
}

/// Copies a correct library to the scene.
fn copied(scene: &Scene) -> std::path::PathBuf {
    let path = scene.path().join("libnull.so");
    fs::copy(library("connector-null"), &path).unwrap();
    path
}

/// Checks that a stage fails before any code of the library runs.
fn expect_stage(scene: &Scene, path: &Path, stage: &str, help: &str) {
    let run = verify(scene, &[path.to_str().unwrap()]);
    run.expect(1, &["1 checks failed"]);
    let json = json(&run);
    let faults = faults(&json["checks"]);
    assert!(
        matches!(&faults[..], [(check, said)] if check == stage && said.contains(help)),
        "{json:#}"
    );
    assert_eq!(json["components"].as_array().unwrap().len(), 0, "{json:#}");
}

#[test]
fn file_that_is_not_a_plugin_fails_the_stage_that_finds_it() {
    let scene = Scene::new("").write("text.so", b"no library").write("empty.so", b"");
    expect_stage(&scene, &scene.path().join("missing.so"), "file", "name the library");
    expect_stage(&scene, &scene.path().join("text.so"), "file", "name the library");
    expect_stage(&scene, &scene.path().join("empty.so"), "file", "name the library");
    let path = copied(&scene);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    expect_stage(&scene, &path, "file", "name the library");
}

#[test]
fn world_writable_library_fails_the_access_stage() {
    let scene = Scene::new("");
    let path = copied(&scene);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    expect_stage(&scene, &path, "access", "chmod");
}

/// Copies a correct library to the scene, with `from` replaced by `to`.
fn changed(scene: &Scene, from: &str, to: &str) -> std::path::PathBuf {
    let path = copied(scene);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn unsupported_metadata_fails_the_metadata_stage() {
    let scene = Scene::new("");
    let path = changed(&scene, "\"abi\":\"2", "\"abi\":\"9");
    expect_stage(&scene, &path, "metadata", "rebuild it");
    let path = changed(&scene, "\"panic\":\"unwind\"", "\"panic\":\"abort!\"");
    expect_stage(&scene, &path, "metadata", "rebuild it");
}

#[test]
fn library_contradicting_its_metadata_fails_the_layout_stage() {
    let scene = Scene::new("");
    let path = changed(&scene, "\"name\":\"null\"", "\"name\":\"zero\"");
    expect_stage(&scene, &path, "layout", "rebuild it");
}

#[test]
fn component_that_needs_a_configuration_is_reported() {
    let scene = Scene::new("");
    let run = verify(&scene, &[library("connector-exit").to_str().unwrap()]);
    run.expect(2, &["1 components need a configuration", "--config NAME=FILE"]);
    let skipped = &json(&run)["components"][0]["checks"][0];
    assert_eq!((&skipped["check"], &skipped["result"]), (&"makes".into(), &"skipped".into()));
    assert!(text(&skipped["reason"]).starts_with("needs a configuration"), "{skipped}");
}

#[test]
fn unconnected_connector_has_its_own_exit_status() {
    // An address on which no process listens.
    let free = free_address();
    let config = format!(r#"{{ "address": "{free}" }}"#);
    let scene = Scene::new("").write("config.json", config.as_bytes());
    let library = library("connector-socket");
    let arguments = [library.to_str().unwrap(), "--config", "tcp_client=config.json"];
    let run = verify(&scene, &arguments);
    run.expect(5, &["connector `tcp_client`: it does not connect", "start a peer for each"]);
    let skipped = skipped(&json(&run), "tcp_client");
    assert!(skipped.iter().any(|(check, _)| check == "pulls"), "{skipped:#?}");
    assert!(skipped.iter().all(|(_, reason)| !reason.is_empty()), "{skipped:#?}");
}

#[test]
fn connector_that_connects_only_once_is_reported_as_unconnected() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(r#"{{ "address": "{}" }}"#, listener.local_addr().unwrap());
    let scene = Scene::new("").write("config.json", config.as_bytes());
    // The peer closes the listener after the first connection, so that the second one is refused.
    let peer = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        drop((listener, stream));
    });
    let library = library("connector-socket");
    let run = verify(&scene, &[library.to_str().unwrap(), "--config", "tcp_client=config.json"]);
    peer.join().unwrap();
    run.expect(5, &["connector `tcp_client`: it does not connect", "start a peer for each"]);
    let skipped = skipped(&json(&run), "tcp_client");
    assert!(skipped.iter().all(|(check, _)| check != "connects"), "{skipped:#?}");
}

#[test]
fn verify_shows_no_value_that_a_schema_marks_as_secret() {
    let free = free_address();
    let auth = r#"{ "basic": { "user": "known", "password": "hidden \"word\"" } }"#;
    let config = format!(r#"{{ "url": "http://{free}/", "auth": {auth} }}"#);
    let scene = Scene::new("").write("config.json", config.as_bytes());
    let library = library("connector-http");
    let path = library.to_str().unwrap();
    for option in ["--limit=20s", "--json"] {
        let run = scene.tremor(&[
            "plugin",
            "verify",
            path,
            "--config",
            "http_client=config.json",
            option,
        ]);
        assert!(
            run.stdout.contains("known") && run.stdout.contains("[redacted]"),
            "{}",
            run.stdout
        );
        assert!(!(run.stdout + &run.stderr).contains("hidden"));
    }
}

#[test]
fn server_without_clients_has_its_own_exit_status() {
    let scene = Scene::new("");
    let run = verify(&scene, &[library("connector-http").to_str().unwrap()]);
    run.expect(5, &["connector `http_server`: the source produces no event", "start a client"]);
    let skipped = skipped(&json(&run), "http_server");
    assert!(skipped.iter().any(|(check, _)| check == "pulls"), "{skipped:#?}");
}

/// Reads a request with its body. Returns `None` if the connection has ended.
fn read_request(stream: &mut impl BufRead) -> Option<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().to_lowercase().split_once("content-length: ") {
            Some((_, value)) => length = value.parse().ok()?,
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    stream.read_exact(&mut vec![0; length]).ok()
}

/// Starts an HTTP server that answers each request with an event, on any number of connections. Returns its
/// address.
fn http_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut reader = BufReader::new(&stream);
                while read_request(&mut reader).is_some() {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nevent";
                    if (&stream).write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Starts an HTTP client that repeatedly connects to a free port until the process of the test ends. Returns
/// the address that it connects to.
fn http_client() -> String {
    let free = free_address();
    let address = free.clone();
    thread::spawn(move || {
        loop {
            // Ignore an error: no server listens between two instances.
            if let Ok(mut client) = TcpStream::connect(&address) {
                let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3";
                let _ = write!(client, "{head}\r\n\r\none");
                let _ = client.read_to_end(&mut Vec::new());
            }
            thread::sleep(Duration::from_millis(5));
        }
    });
    free
}

#[test]
fn all_checks_run_with_peers_of_client_and_server() {
    let client = format!(r#"{{ "url": "http://{}/", "interval": "10s" }}"#, http_server());
    let server = format!(r#"{{ "listen": "{}" }}"#, http_client());
    let scene = Scene::new("").write("client.json", client.as_bytes());
    let scene = scene.write("server.json", server.as_bytes());
    let library = library("connector-http");
    let configs = ["--config", "http_client=client.json", "--config", "http_server=server.json"];
    let run = verify(&scene, &[&[library.to_str().unwrap()], &configs[..]].concat());
    run.expect(0, &[]);
    let json = json(&run);
    let skipped_names = |component| -> Vec<String> {
        skipped(&json, component).into_iter().map(|(check, _)| check).collect()
    };
    // The client's source has no end and no acknowledgements, and its sink does not gather deliveries.
    assert_eq!(
        skipped_names("http_client"),
        ["stays_finished", "accepts_acknowledgements", "reads_again", "flushes"]
    );
    assert!(!skipped_names("http_server").contains(&"pulls".to_owned()), "{json:#}");
}

#[test]
fn sample_that_a_codec_cannot_decode_is_a_fault() {
    let scene = Scene::new("").write("good", b"a=1 b=2").write("bad", b"\xff=\xff");
    let library = library("plugin-keyvalue");
    let arguments = |file| [library.to_str().unwrap().to_owned(), "--sample".to_owned(), file];
    let run = |file: &str| {
        let arguments = arguments(format!("keyvalue={file}"));
        verify(&scene, &arguments.each_ref().map(String::as_str))
    };
    run("good").expect(0, &[]);
    let bad = run("bad");
    bad.expect(1, &["checks failed"]);
    assert!(bad.stdout.contains("cannot be decoded"), "{}", bad.stdout);
    run("missing").expect(2, &["cannot read the sample missing"]);
}

#[test]
fn configuration_for_unknown_or_unnamed_component_is_an_error() {
    let scene = Scene::new("").write("config.json", b"{}");
    let library = library("connector-null");
    let run = verify(&scene, &[library.to_str().unwrap(), "--config", "zero=config.json"]);
    run.expect(2, &["the library has no component `zero`", "tremor plugin inspect"]);
    let run = verify(&scene, &[library.to_str().unwrap(), "--config", "config.json"]);
    run.expect(2, &["`--config config.json`: expected NAME=FILE"]);
}

#[test]
fn text_output_has_a_line_per_check_and_a_summary() {
    let scene = Scene::new("");
    let library = library("connector-null");
    let run = scene.tremor(&["plugin", "verify", library.to_str().unwrap()]);
    run.expect(0, &[]);
    let (passed, skipped) = (["layout", "leaves_nothing"], "  SKIPPED  pulls: ");
    assert!(passed.iter().all(|it| run.stdout.contains(&format!("  passed   {it}"))));
    assert!(run.stdout.contains(skipped) && run.stdout.contains("connector `null`"));
    assert!(run.stdout.ends_with("19 checks passed, 0 failed, 10 skipped\n"), "{}", run.stdout);
}
