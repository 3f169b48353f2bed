//! Tests of `tremor plugin verify`. The command finds violations of the contract of plugins, and reports nothing else.

mod table;

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

use hostile_peers::{
    PATIENCE, Reserved,
    acceptor::accept_within,
    http::{Server, response},
};
use serde_json::{Value as Json, json};

use self::table::{CONNECTOR, OTHERS};
use crate::{
    support::library,
    tremor::{Run, Scene},
};

/// For each name of a component and each of its faults, the failed checks and their remedies.
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
    let key = |it: &Json| (text(&it["name"]), text(&it["config"]["fault"]));
    components.map(|it| (key(it), faults(&it["checks"]))).collect()
}

/// Returns the checks of a component that were skipped, each with the reason.
fn skipped(json: &Json, component: &str) -> Vec<(String, String)> {
    let components = json["components"].as_array().unwrap();
    let component = components.iter().find(|it| it["name"] == component).unwrap();
    let checks = component["checks"].as_array().unwrap().iter();
    let skipped = checks.filter(|check| check["result"] == "skipped");
    skipped.map(|check| (text(&check["check"]), text(&check["reason"]))).collect()
}

/// Verifies the fixture with each of these faults. Checks that for each fault, only the expected check fails, with the
/// expected remedy, and that no check of a component without a fault fails.
fn expect(expected: &[(&str, &str, &str, &str)]) {
    let mut scene = Scene::new("");
    let mut arguments = vec![library("fixture-faults").to_str().unwrap().to_owned()];
    let mut configs: Vec<_> =
        expected.iter().map(|(component, fault, ..)| (*component, *fault)).collect();
    let mut components: Vec<_> = configs.iter().map(|(component, _)| *component).collect();
    components.dedup();
    configs.extend(components.into_iter().map(|component| (component, "none")));
    for (component, fault) in configs {
        let file = format!("{component}-{fault}.json");
        let config = json!({ "fault": fault, "hold_ms": 1_300, "transactional": true });
        scene = scene.write(&file, config.to_string().as_bytes());
        // Checks that look for files need the absolute path of the folder.
        let file = scene.path().join(file);
        arguments.extend(["--config".to_owned(), format!("{component}={}", file.display())]);
    }
    arguments.extend(["--limit", "5"].map(str::to_owned));
    let run = verify(&scene, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    run.expect(1, &["checks failed"]);
    let mut found = found(&json(&run));
    let lenient = found.remove(&("lenient".to_owned(), String::new()));
    let unknown = ("refuses_unknown_keys", "`#[tremor_pdk::config]`");
    let all = expected.iter().map(|(component, fault, check, help)| {
        let faults = found.remove(&((*component).to_owned(), (*fault).to_owned()));
        (format!("{component} {fault}"), faults, (*check, *help))
    });
    let mut wrong = Vec::new();
    for (what, faults, (check, help)) in all.chain([("lenient".to_owned(), lenient, unknown)]) {
        let is_right = matches!(faults.as_deref(), Some([(failed, said)]) if failed == check && said.contains(help));
        if !is_right {
            wrong.push(format!("{what}: expected {check}, with `{help}`: {faults:?}"));
        }
    }
    for ((component, _), faults) in found.iter().filter(|(_, faults)| !faults.is_empty()) {
        wrong.push(format!("{component}: expected no fault: {faults:?}"));
    }
    assert!(!found.is_empty(), "no component without a fault is left");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn verify_finds_each_fault_of_a_connector_and_no_other() {
    let connector = |&(fault, check, help)| ("hostile", fault, check, help);
    expect(&CONNECTOR.iter().map(connector).collect::<Vec<_>>());
}

#[test]
fn verify_finds_each_fault_of_other_components_and_no_other() {
    expect(OTHERS);
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
    let lookup = r#"{ "file": "input", "format": "json_lines", "key": "verify", "into": "found" }"#;
    expect_good("operator-lookup", &[("lookup", lookup)]);
    let redact = [
        ("redact", r#"{ "rules": [{ "fields": ["."], "patterns": ["email", "ipv6"] }] }"#),
        ("redact", r#"{ "rules": [{ "fields": ["verify", "%"], "mask": { "keep_last": 1 } }] }"#),
        (
            "redact",
            r#"{ "key": "0123456789abcdef", "rules": [{ "fields": ["."], "hash": "hmac_sha256" }] }"#,
        ),
    ];
    expect_good("operator-redact", &redact);
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
fn name_that_flows_cannot_use_fails_the_names_stage() {
    let (scene, connector) = (Scene::new(""), "\"kind\":\"connector\"");
    let path = changed(
        &scene,
        "\"name\":\"null\",\"description\":\"D",
        "\"name\":\"a/b\" ,\"description\":\"D",
    );
    expect_stage(&scene, &path, "names", "change the `NAME`");
    let path = changed(&scene, connector, "\"kind\":    \"codec\"");
    expect_stage(&scene, &path, "names", "change the `NAME`");
    let list = scene.tremor(&["plugin", "list", path.to_str().unwrap()]);
    let shadowed = "its codec `null` is never used, because tremor has a built-in codec `null`";
    list.expect(0, &[shadowed]);
    let flow =
        b"connectors: { a: { type: 'null' }, b: { type: metronome, config: { interval_ms: 1 } } }
links: [b -> a]";
    let scene = scene.write("other.yaml", flow);
    let check = scene.tremor(&["check", "other.yaml", "--plugin-path", path.to_str().unwrap()]);
    check.expect(0, &[shadowed]);
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
    // No process listens on this port.
    let port = Reserved::tcp().unwrap();
    let config = format!(r#"{{ "address": "{}" }}"#, port.address());
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
        let stream = accept_within(&listener, PATIENCE).unwrap();
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
    let port = Reserved::tcp().unwrap();
    let auth = r#"{ "basic": { "user": "known", "password": "hidden \"word\"" } }"#;
    let config = format!(r#"{{ "url": "http://{}/", "auth": {auth} }}"#, port.address());
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

/// Starts an HTTP client that repeatedly connects to a port until the sender is dropped.
fn http_client(port: &Reserved) -> Sender<()> {
    let address = port.address();
    let (sender, ends) = mpsc::channel();
    thread::spawn(move || {
        // No server listens between two instances, and nothing notifies of the next one.
        while ends.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Timeout) {
            if let Ok(mut client) = TcpStream::connect(&address) {
                let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3";
                let _ = write!(client, "{head}\r\n\r\none");
                let _ = client.read_to_end(&mut Vec::new());
            }
        }
    });
    sender
}

#[test]
fn all_checks_run_with_peers_of_client_and_server() {
    let (http, port) = (Server::start(|_| response("200 OK", "event")), Reserved::tcp().unwrap());
    let _client = http_client(&port);
    let client = format!(r#"{{ "url": "http://{}/", "interval": "10s" }}"#, http.address());
    let server = format!(r#"{{ "listen": "{}" }}"#, port.address());
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
    assert!(run.stdout.ends_with("20 checks passed, 0 failed, 11 skipped\n"), "{}", run.stdout);
}
