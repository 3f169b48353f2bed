//! Tests of plugins that are executables: their manifests, their processes, and the errors of both.
//!
//! The executable is the binary itself, which loads a library of a fixture, so that no other language is needed.

use std::{fs, process::Command};

use serde_json::{Value as Json, json};

use crate::{
    api::start,
    isolated::{Process, processes, signal, wait_for},
    running::Running,
    support::library,
    tremor::{Run, Scene},
};

/// A flow whose connectors of the type `relay` come from a manifest in its folder.
const FLOW: &str = "plugins: [.]
connectors:
  input: { type: relay, config: { count: 1000 } }
  output: { type: file, codec: string, postprocessors: [lines], config: { path: out, mode: append } }
links: [input -> output]";

/// Returns the manifest of a plugin with the connector `relay` and this command.
fn manifest(command: &Json) -> Json {
    json!({
        "protocol": 1, "name": "relays", "version": "1.2.3", "command": command,
        "connectors": [{
            "name": "relay", "about": "Counts up.", "codec": "string",
            "config": {
                "type": "object", "additionalProperties": false,
                "properties": { "count": { "type": "integer", "description": "Number of events." } },
            },
        }],
    })
}

/// Returns the manifest of a plugin that works.
fn working() -> Json {
    let (program, library) = (env!("CARGO_BIN_EXE_tremor"), library("fixture-relay"));
    manifest(&json!([program, "plugin-process", "relay", "--library", library]))
}

/// Returns a scene with a flow and a manifest.
fn scene(flow: &str, manifest: &Json) -> Scene {
    Scene::new(flow).write("relays.plugin.json", manifest.to_string().as_bytes())
}

#[test]
fn events_of_an_executable_are_delivered_in_order() {
    let scene = scene(FLOW, &working());
    scene.run().expect(0, &["1000 events in, 1000 out"]);
    let lines: Vec<_> = scene.read("out").lines().map(str::to_owned).collect();
    let expected: Vec<_> = (0..1_000).map(|number| format!("input {number}")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn executable_receives_encoded_events_and_its_errors_arrive() {
    let text = "plugins: [.]
connectors:
  input: { type: relay, config: { count: 7 } }
  output: { type: relay, isolation: process, memory: 64MiB, config: { count: 0 } }
links: [input -> output]";
    scene(text, &working()).run().expect(0, &["7 events in, 7 out"]);
}

#[test]
fn killed_executable_costs_a_restart_of_its_connector() {
    let text = "plugins: [.]
connectors:
  input: { type: metronome, config: { interval_ms: 1 } }
  output: { type: relay, codec: json, reconnect: { backoff: 1ms }, config: { count: 0 } }
links: [input -> output]";
    let asked = start(scene(text, &working()), &["flow.yaml"]);
    let path = "/v1/flows/flow/connectors/output";
    asked.until(path, |it| it["state"] == "running");
    let child = wait_for("process", || {
        let all = processes();
        let is_it = |it: &&Process| it.parent == asked.pid() && it.command.contains(" --library ");
        all.iter().find(is_it).map(|it| it.pid)
    });
    signal(child, "KILL");
    asked.until(path, |it| it["state"] == "running" && it["restarts"] == 1);
    let log = asked.end();
    assert!(log.contains("its process ended: SIGKILL"), "{log}");
}

/// Checks a flow whose plugin has this command.
fn check(command: &Json) -> Run {
    scene(FLOW, &manifest(command)).tremor(&["check", "flow.yaml"])
}

#[test]
fn command_that_cannot_be_run_names_its_program() {
    for (command, parts) in [
        (
            "no-such-program",
            ["`no-such-program` was not found in PATH", "install `no-such-program`"],
        ),
        ("./run", ["/run` does not exist", "relative to the folder of the manifest"]),
        ("./flow.yaml", ["/flow.yaml` is not executable", "`chmod +x "]),
    ] {
        let run = check(&json!([command]));
        run.expect(2, &["flow.yaml:3:", "relays.plugin.json: its program"]);
        run.expect(2, &parts);
    }
}

#[test]
fn process_that_ends_at_once_shows_its_last_lines() {
    let script = "echo first >&2; echo no module named numbers >&2; exit 3";
    let run = check(&json!(["sh", "-c", script]));
    run.expect(
        2,
        &[
            "relays.plugin.json: `sh -c ",
            "its process ended with exit status 3; last lines of its standard error: first / no module named numbers",
            "run the command by hand",
        ],
    );
}

/// The answer to HELLO has version 7.
#[test]
fn process_of_another_version_is_refused() {
    let answer = r"\000\000\000\000\001\000\001\000\001\000\000\000\000\000\000\000\007\000\000\000\000\000\000\000";
    let script = format!(r"printf '{answer}\000\000\000\000\000\000\000\000' >&0; exec sleep 600");
    let run = check(&json!(["sh", "-c", script]));
    run.expect(
        2,
        &["speaks version 7 of the protocol, and this program version 1", "update the plugin"],
    );
}

#[test]
fn configuration_is_checked_by_schema_and_process() {
    for (config, parts) in [
        ("{ count: 2000 }", ["flow.yaml:3:", "`count` is 2000, at most 1,000"]),
        ("{ counts: 2 }", ["flow.yaml:3:", "counts"]),
        ("{ count: many }", ["flow.yaml:3:", "expected a whole number"]),
    ] {
        let flow = FLOW.replace("{ count: 1000 }", config);
        scene(&flow, &working()).tremor(&["check", "flow.yaml"]).expect(2, &parts);
    }
}

#[test]
fn side_that_the_manifest_excludes_cannot_be_linked() {
    let mut manifest = working();
    manifest["connectors"][0]["source"] = false.into();
    let run = scene(FLOW, &manifest).tremor(&["check", "flow.yaml"]);
    run.expect(2, &["flow.yaml:5:", "`input`", "source"]);
}

#[test]
fn executable_cannot_be_loaded_into_this_process() {
    let flow = FLOW.replace("type: relay,", "type: relay, isolation: none,");
    let run = scene(&flow, &working()).tremor(&["check", "flow.yaml"]);
    run.expect(
        2,
        &[
            "flow.yaml:3:",
            "connector `input` cannot have `isolation: none`: `relay` is an executable, which always runs in a process \
             of its own",
            "remove `isolation`",
        ],
    );
}

#[test]
fn wrong_manifest_is_named_with_key_and_expectation() {
    let mut manifest = working();
    manifest["connectors"][0]["source"] = "yes".into();
    let run = scene(FLOW, &manifest).tremor(&["check", "flow.yaml"]);
    run.expect(
        2,
        &[
            "./relays.plugin.json: invalid manifest of the plugin: `connectors[0].source` is `\"yes\"`",
            "expected: `true` or `false`",
        ],
    );
}

#[test]
fn executables_are_listed_and_described() {
    let scene = scene(FLOW, &working());
    let list = scene.tremor(&["plugin", "list", "."]);
    let row = list.stdout.lines().find(|line| line.contains(" relays ")).unwrap().to_owned();
    for part in ["connector", "relay", "1.2.3", "protocol 1", "./relays.plugin.json"] {
        assert!(row.contains(part), "`{part}` is not in: {row}");
    }
    let text = scene.tremor(&["plugin", "inspect", "relays.plugin.json"]).stdout;
    for part in [
        "interface    executable",
        "plugin-process relay --library",
        "relay - Counts up.",
        "optional, default string",
        "Number of events.",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

#[test]
fn library_with_the_same_connector_is_a_conflict() {
    let scene = scene(FLOW, &working());
    fs::copy(library("fixture-relay"), scene.path().join("librelay.so")).unwrap();
    let run = scene.tremor(&["check", "flow.yaml"]);
    run.expect(
        2,
        &["two plugins provide the connector `relay`", "./relays.plugin.json (relays 1.2.3)"],
    );
}

#[test]
fn changed_manifest_replaces_its_flow_in_a_reload() {
    let text = "plugins: [.]
connectors:
  input: { type: metronome, config: { interval_ms: 1 } }
  output: { type: relay, codec: json, config: { count: 0 } }
links: [input -> output]";
    let asked = start(scene(text, &working()), &["flow.yaml"]);
    assert_eq!(asked.json("POST", "/v1/reload")["flows"][0]["change"], "kept");
    let mut manifest = working();
    manifest["version"] = "1.2.4".into();
    fs::write(asked.path().join("relays.plugin.json"), manifest.to_string()).unwrap();
    let change = &asked.json("POST", "/v1/reload")["flows"][0];
    assert_eq!(change["change"], "replaced", "{change}");
    let reason = change["reason"].as_str().unwrap();
    assert!(reason.ends_with("relays.plugin.json has changed"), "{reason}");
}

#[test]
fn standard_error_is_logged_and_memory_limited() {
    let script = "echo the limit is $(ulimit -d) >&2; exec \"$0\" \"$@\"";
    let command = working()["command"].clone();
    let command =
        [vec!["sh".into(), "-c".into(), script.into()], command.as_array().unwrap().clone()];
    let flow = FLOW.replace("relay,", "relay, isolation: process, memory: 64MiB,");
    let scene = scene(&flow, &manifest(&command.concat().into()));
    let mut running = Running::of(scene, &["flow.yaml"], |command| command);
    let line = running.until("stderr: the limit is 65536");
    assert!(line.contains("component=\"input\""), "{line}");
    running.end().expect(0, &["1000 events in, 1000 out"]);
}

#[test]
fn verify_checks_start_protocol_and_configuration() {
    let scene = scene(FLOW, &working());
    let run = scene.tremor(&["plugin", "verify", "relays.plugin.json"]);
    for part in ["passed   names", "SKIPPED  makes: the configuration is rejected", "count"] {
        assert!(run.stdout.contains(part), "`{part}` is not in:\n{}", run.stdout);
    }
    run.expect(2, &["1 components need a configuration"]);
    let scene = scene.write("relay.json", br#"{"count": 1}"#);
    let verify = ["plugin", "verify", "relays.plugin.json", "--config", "relay=relay.json"];
    let run = scene.tremor(&verify);
    for part in ["passed   makes", "SKIPPED  pulls: not checked for executables", "5 checks passed"]
    {
        assert!(run.stdout.contains(part), "`{part}` is not in:\n{}", run.stdout);
    }
    run.expect(0, &[]);
    let scene = scene.write("x.plugin.json", manifest(&json!(["false"])).to_string().as_bytes());
    let run = scene.tremor(&["plugin", "verify", "x.plugin.json"]);
    let fault =
        "FAILED   makes: `false` for the connector `relay`: its process ended with exit status 1";
    assert!(run.stdout.contains(fault), "{}", run.stdout);
    run.expect(1, &[]);
}

#[test]
fn new_plugins_in_python_run_in_their_flows() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|it| it.status.success()) {
        eprintln!("SKIPPED: there is no `python3`");
        return;
    }
    let scene = Scene::new("");
    for kind in ["source", "sink"] {
        let name = format!("new-{kind}");
        scene.tremor(&["plugin", "new", &name, "--lang", "python", "--kind", kind]).expect(0, &[]);
    }
    let run = scene.tremor(&["run", "new-source/flow.yaml"]);
    run.expect(0, &["3 events in, 3 out"]);
    assert_eq!(run.stdout, "3\n2\n1\n");
    let run = scene.tremor(&["run", "new-sink/flow.yaml"]);
    run.expect(0, &["3 events in, 3 out", "got "]);
    let run = scene
        .write(
            "flow.yaml",
            b"plugins: [new-source]
connectors:
  input: { type: new-source, config: { from: -1 } }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [input -> output]",
        )
        .tremor(&["check", "flow.yaml"]);
    run.expect(2, &["flow.yaml:3:", "from"]);
}
