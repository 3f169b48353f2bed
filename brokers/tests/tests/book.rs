//! Checks the flows in the documentation and the examples that need the plugins of this workspace.

#![allow(clippy::unwrap_used)] // a panic names the line of the failure

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use broker_tests::{
    broker::Broker,
    built::{built, root},
    nats::Nats,
};
use serde_json::json;

fn needs_this(flow: &str) -> bool {
    ["type: kafka_", "type: nats_"].iter().any(|kind| flow.contains(kind))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Returns the flows of a file: the whole file, or the YAML blocks of a page.
fn flows(path: &Path) -> Vec<String> {
    let extension = path.extension().and_then(|it| it.to_str());
    if !matches!(extension, Some("yaml" | "md")) {
        return Vec::new();
    }
    let text = fs::read_to_string(path).unwrap();
    let all = if extension == Some("yaml") {
        let lines = text.lines().filter(|line| !line.starts_with("plugins:"));
        vec![lines.flat_map(|line| [line, "\n"]).collect()]
    } else {
        let blocks = text.split("```yaml\n").skip(1);
        blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
    };
    all.into_iter().filter(|flow| needs_this(flow)).collect()
}

#[test]
fn flows_of_docs_and_examples_pass_check() {
    let mut paths = Vec::new();
    ["docs", "examples"].iter().for_each(|folder| files(&root().join(folder), &mut paths));
    let mut count = 0;
    for (path, flow) in
        paths.iter().flat_map(|path| flows(path).into_iter().map(move |it| (path, it)))
    {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("flow.yaml"), &flow).unwrap();
        let mut command = Command::new(&built().tremor);
        command.args(["check", "flow.yaml"]).current_dir(folder.path());
        command.env("TREMOR_PLUGIN_PATH", &built().plugins);
        let out = command.env("PASSWORD", "a password").output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && !said.contains("error"), "{}:\n{said}", path.display());
        count += 1;
    }
    assert!(count >= 2, "{count}");
}

/// Exit status of `tremor plugin verify` if no check failed and a connector did not connect.
const NOT_CONNECTED: i32 = 5;

/// Runs `tremor plugin verify` with further arguments. Accepts a result without a connection, so no broker is needed.
fn verify(library: &str, arguments: &[String]) {
    let mut command = Command::new(&built().tremor);
    command.args(["plugin", "verify"]).arg(built().plugins.join(library)).args(arguments);
    let out = command.output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    let is_passed = out.status.success() || out.status.code() == Some(NOT_CONNECTED);
    assert!(is_passed && !said.contains("FAILED"), "{said}");
}

#[test]
fn kafka_plugin_passes_verify() {
    verify("libconnector_kafka.so", &[]);
}

#[test]
fn nats_plugin_passes_verify_with_a_server() {
    let Some(broker) = Broker::start("nats", &[]) else { return };
    let address = broker.get("plain");
    let stream = Nats::new(address).stream("verify");
    let folder = tempfile::tempdir().unwrap();
    let configurations = [
        ("nats_consumer", json!({ "servers": [address], "stream": stream, "consumer": "c" })),
        ("nats_consumer", json!({ "servers": [address], "subjects": ["a.>"], "queue": "q" })),
        ("nats_producer", json!({ "servers": [address], "subject": format!("{stream}.a") })),
        ("nats_producer", json!({ "servers": [address], "subject": "a", "jetstream": false })),
    ];
    let mut arguments = Vec::new();
    for (number, (name, configuration)) in configurations.iter().enumerate() {
        let file = folder.path().join(format!("{number}.json"));
        fs::write(&file, configuration.to_string()).unwrap();
        arguments.extend(["--config".to_owned(), format!("{name}={}", file.display())]);
    }
    verify("libconnector_nats.so", &arguments);
}
