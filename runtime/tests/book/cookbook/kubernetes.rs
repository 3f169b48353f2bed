//! Tests of the page "Logs of Kubernetes", and of the manifest that it describes.

use std::{
    fs::{self, File},
    io::Write,
    path::PathBuf,
};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use super::{Kitchen, collector::Collector, flows};
use crate::{running::Running, support::workspace};

/// Path of the manifest in the repository.
const MANIFEST: &str = "examples/kubernetes/daemonset.yaml";

/// Returns the flow in the `ConfigMap` of the manifest.
fn flow_of_manifest() -> String {
    let manifest = fs::read_to_string(workspace().join(MANIFEST)).unwrap();
    let (_, flow) = manifest.split_once("\n  agent.yaml: |\n").unwrap();
    let (flow, _) = flow.split_once("---\n").unwrap();
    flow.lines().flat_map(|line| [line.strip_prefix("    ").unwrap(), "\n"]).collect()
}

#[test]
fn page_and_manifest_have_the_same_flow() {
    assert_eq!(flows("kubernetes.md")[0], flow_of_manifest());
}

#[test]
fn manifest_mounts_the_folders_of_its_flow() {
    let manifest = fs::read_to_string(workspace().join(MANIFEST)).unwrap();
    for part in [
        "mountPath: /var/log/pods, readOnly: true }",
        "hostPath: { path: /var/log/pods, type: Directory }",
        "mountPath: /var/lib/tremor/agent }",
        "hostPath: { path: /var/lib/tremor/agent, type: DirectoryOrCreate }",
    ] {
        assert!(manifest.contains(part), "{part}");
    }
}

/// The log file of a container.
struct Container {
    folder: PathBuf,
    log: PathBuf,
}

impl Container {
    fn new(kitchen: &Kitchen, namespace: &str, pod: &str, container: &str) -> Self {
        let pod = format!("{namespace}_{pod}_0e0b5ae1-8a5c-4a3e-9a0b-3f6f5a4c1d2e");
        let folder = kitchen.log("pods").join(pod);
        fs::create_dir_all(folder.join(container)).unwrap();
        let log = folder.join(container).join("0.log");
        Self { folder, log }
    }

    fn write(&self, text: &str) {
        let mut file = File::options().append(true).create(true).open(&self.log).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Compresses a rotated file as the kubelet does: with a temporary file beside it.
    fn compress(&self, rotated: &str) {
        let rotated = self.log.with_file_name(rotated);
        let name = |extension: &str| PathBuf::from(format!("{}{extension}", rotated.display()));
        let file = File::create(name(".tmp")).unwrap();
        let mut encoder = GzEncoder::new(file, Compression::default());
        encoder.write_all(&fs::read(&rotated).unwrap()).unwrap();
        encoder.finish().unwrap();
        fs::rename(name(".tmp"), name(".gz")).unwrap();
        fs::remove_file(rotated).unwrap();
    }
}

fn messages(events: &[Value], pod: &str) -> Vec<String> {
    let of_pod = events.iter().filter(|event| event["kubernetes"]["pod"] == pod);
    let mut messages: Vec<_> =
        of_pod.map(|event| event["message"].as_str().unwrap().to_owned()).collect();
    messages.sort_unstable();
    messages.dedup();
    messages
}

/// Starts the flow with this timeout of `cri` and `multiline` in place of their defaults.
fn start(kitchen: &Kitchen, collector: &Collector, timeout: &str) -> Running {
    let preprocessors = format!(
        "[{{ cri: {{ timeout: {timeout} }} }}, {{ multiline: {{ preset: all, timeout: {timeout} }} }}]"
    );
    let replaced = [
        ("logs.example.com:8080", collector.address()),
        ("[cri, { multiline: { preset: all } }]", &preprocessors),
    ];
    kitchen.start(&flow_of_manifest(), &replaced, &[("NODE_NAME", "node-1")])
}

/// The process is killed within a stack trace and within a long line, with a timeout that does not end them. Then the
/// kubelet rotates the log twice, a pod starts, and another one is deleted.
#[test]
fn pods_that_rotate_come_and_go_lose_no_message() {
    let (kitchen, collector) = (Kitchen::new(), Collector::start(200));
    let cart = Container::new(&kitchen, "shop", "cart-7d4b", "web");
    let job = Container::new(&kitchen, "shop", "job-x2", "main");
    let agent = Container::new(&kitchen, "tremor", "tremor-agent-9", "tremor");
    agent.write("2026-01-02T03:04:05.1Z stderr F own log\n");
    job.write("2026-01-02T03:04:05.1Z stdout F job done\n");
    cart.write(
        "2026-01-02T03:04:05.1Z stdout F INFO started\n\
         2026-01-02T03:04:05.2Z stdout F ERROR java.lang.IllegalStateException: broken\n\
         2026-01-02T03:04:05.2Z stdout F \tat com.example.App.run(App.java:12)\n\
         2026-01-02T03:04:05.2Z stderr P WARNING: a long \n",
    );
    let has = |events: &[Value], pod: &str, last: &str| {
        messages(events, pod).iter().any(|message| message == last)
    };
    let running = start(&kitchen, &collector, "1h");
    collector.until(|events| has(events, "cart-7d4b", "INFO started"));
    running.signal(&["KILL"]);
    drop(running);

    cart.write(
        "2026-01-02T03:04:05.3Z stderr F line\n\
         2026-01-02T03:04:05.3Z stdout F Caused by: java.io.IOException: reset\n\
         2026-01-02T03:04:05.3Z stdout F \t... 12 more\n\
         2026-01-02T03:04:05.4Z stdout F INFO recovered\n",
    );
    fs::rename(&cart.log, cart.log.with_file_name("0.log.20260102-030405")).unwrap();
    cart.write("2026-01-02T03:05:05.1Z stdout F second file\n");
    collector.answer(503);
    let running = start(&kitchen, &collector, "50ms");
    collector.until_answered(503);
    fs::rename(&cart.log, cart.log.with_file_name("0.log.20260102-030505")).unwrap();
    cart.write("2026-01-02T03:06:05.1Z stdout F third file\n");
    cart.compress("0.log.20260102-030405");
    let api = Container::new(&kitchen, "shop", "api-0", "web");
    api.write("2026-01-02T03:06:05.1Z stdout F hello\n");
    collector.answer(200);
    collector.until(|events| {
        let cart = ["second file", "third file", "INFO recovered"];
        let others = [("api-0", "hello"), ("job-x2", "job done")];
        cart.iter().all(|it| has(events, "cart-7d4b", it))
            && others.iter().all(|(pod, message)| has(events, pod, message))
    });
    fs::remove_dir_all(&job.folder).unwrap();
    api.write("2026-01-02T03:07:05.1Z stdout F again\n");
    let events = collector.until(|events| has(events, "api-0", "again"));
    running.signal(&["TERM"]);
    running.end().expect(0, &[]);

    let trace = "ERROR java.lang.IllegalStateException: broken\n\
                 \tat com.example.App.run(App.java:12)\n\
                 Caused by: java.io.IOException: reset\n\t... 12 more";
    let expected = [
        trace,
        "INFO recovered",
        "INFO started",
        "WARNING: a long line",
        "second file",
        "third file",
    ];
    assert_eq!(messages(&events, "cart-7d4b"), expected);
    assert_eq!(messages(&events, "tremor-agent-9"), [""; 0]);
    let expected = json!({
        "time": "2026-01-02T03:04:05.2Z", "stream": "stdout", "message": trace,
        "kubernetes":
            { "namespace": "shop", "pod": "cart-7d4b", "container": "web", "node": "node-1" },
    });
    assert!(events.contains(&expected), "{events:?}");
    assert_eq!(fs::read_to_string(kitchen.state("dead.json")).unwrap(), "");
}
