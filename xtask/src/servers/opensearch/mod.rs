//! `OpenSearch`: the sink `elasticsearch`, with documents that the server refuses, and requests that it is too busy for.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::turn::{Disturbance, FLOW, Input, PATIENCE, Served};
use super::{Finding, finding};
use crate::process::{Signal, exchange, need, wait};
use crate::project::{root, run};
use crate::scenario::Stage;
use crate::tools::{fetched, found};

const NAME: &str = "opensearch";
/// Version of the server, the same as in `pom.xml`.
const VERSION: &str = "2.19.6";
/// The index. Its mapping refuses documents whose `n` is not an integer.
const INDEX: &str =
    r#"{"settings":{"number_of_replicas":0},"mappings":{"properties":{"n":{"type":"integer"}}}}"#;
/// Number of lines in each turn.
const LINES: u64 = 10_000;
/// Number of lines of a turn that are stored before the disturbance.
const BEFORE: u64 = LINES / 10;
/// Among this number of lines, the server refuses one.
const REFUSED: u64 = 500;
const TURNS: [Disturbance; 4] = [
    Disturbance::KillFlow,
    Disturbance::EndServer(Signal::KILL),
    Disturbance::KillFlow,
    Disturbance::EndServer(Signal::KILL),
];
/// The server refuses further requests while one is processed and one waits. It accepts documents on a disk that is almost
/// full.
const SETTINGS: [&str; 3] = [
    "thread_pool.write.size=1",
    "thread_pool.write.queue_size=1",
    "cluster.routing.allocation.disk.threshold_enabled=false",
];

pub(super) fn program(fetch: bool) -> Result<PathBuf> {
    for program in ["java", "javac"] {
        need(program, "`apt-get install default-jdk-headless`")?;
    }
    if let Some(jars) = found(NAME, VERSION) {
        return Ok(jars);
    }
    if !fetch {
        bail!("`cargo xtask servers --fetch` downloads it");
    }
    fetched(NAME, VERSION, |folder| {
        need("mvn", "`apt-get install maven`")?;
        let mut maven = Command::new("mvn");
        maven.args(["-B", "-q", "-f"]).arg(root().join("xtask/src/servers/opensearch/pom.xml"));
        maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
        maven.arg(format!("-DoutputDirectory={}", folder.display()));
        run(maven)
    })
}

#[allow(clippy::needless_pass_by_value)] // because all servers have the same signature
pub(super) fn play(stage: &Stage<'_>, jars: PathBuf) -> Result<Vec<Finding>> {
    let ready = "the node is ready";
    let mut server = Served::start(stage, Path::new("java"), ready, |address, data| {
        let java = ["-Xmx384m", "-Xms256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"];
        let port = address.rsplit_once(':').map_or(address, |(_, port)| port);
        let node = root().join("xtask/src/servers/opensearch/OpenSearchNode.java");
        let own = [jars.join("*"), node, data.to_owned()].map(|path| path.display().to_string());
        let java = java.map(str::to_owned).into_iter().chain(own);
        java.chain([format!("http.port={port}")]).chain(SETTINGS.map(str::to_owned)).collect()
    })?;
    let length = INDEX.len();
    let create = format!(
        "PUT /lines HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{INDEX}"
    );
    let (status, body) = exchange(&server.address, &create)?;
    ensure!(status == 200, "the index was not created: {status}: {body}");
    stage.flow(
        FLOW,
        include_str!("../../flows/opensearch.yaml"),
        &[("SERVER", &server.address)],
    )?;
    let mut input = Input::new(stage);
    let mut busy = 0;
    for disturbance in TURNS {
        let enough = count(&server)? + BEFORE;
        input.add(LINES, line)?;
        server.turn(stage, disturbance, |server| {
            busy = busy.max(rejections(server)?);
            Ok(count(server)? >= enough)
        })?;
        busy = busy.max(rejections(&server)?);
    }
    let refused = fs::read_to_string(stage.folder.join("refused")).unwrap_or_default();
    let mut findings = findings(count(&server)?, &refused, input.count, busy);
    findings.push(server.disturbed());
    Ok(findings)
}

fn line(number: u64) -> Value {
    let id = number.to_string();
    if is_refused(number) {
        json!({ "id": id, "n": "x" })
    } else {
        json!({ "id": id, "n": number })
    }
}

/// Returns whether the server refuses the line with this number.
fn is_refused(number: u64) -> bool {
    number % REFUSED == REFUSED / 2
}

/// Returns the number of documents, once the server has recovered the index.
fn count(server: &Served) -> Result<u64> {
    let body = wait("a count of documents", PATIENCE, || {
        server.get("/lines/_refresh")?;
        let (status, body) = server.get("/lines/_count")?;
        Ok((status == 200).then_some(body))
    })?;
    serde_json::from_str::<Value>(&body)?["count"].as_u64().context("the answer has no count")
}

/// Returns the number of requests that the server was too busy for since its start.
fn rejections(server: &Served) -> Result<u64> {
    let nodes = get(server, "/_nodes/stats/thread_pool")?;
    let nodes = nodes["nodes"].as_object().context("the answer has no nodes")?.values();
    Ok(nodes.filter_map(|node| node["thread_pool"]["write"]["rejected"].as_u64()).sum())
}

fn get(server: &Served, path: &str) -> Result<Value> {
    let (status, body) = server.get(path)?;
    ensure!(status == 200, "`{path}` was answered with {status}: {body}");
    Ok(serde_json::from_str(&body)?)
}

/// Returns the number of a refused line, from an event of `err`.
fn refused_number(event: &str) -> Option<u64> {
    let event: Value = serde_json::from_str(event).ok()?;
    let line: Value = serde_json::from_str(event["original"].as_str()?).ok()?;
    line["id"].as_str()?.parse().ok()
}

/// Judges the number of documents and the refused lines, after `sent` lines. `busy` is the number of requests that the
/// server was too busy for.
fn findings(documents: u64, refused: &str, sent: u64, busy: u64) -> Vec<Finding> {
    let expected: BTreeSet<_> = (0..sent).filter(|number| is_refused(*number)).collect();
    let good = sent - expected.len() as u64;
    let found: BTreeSet<_> = refused.lines().filter_map(refused_number).collect();
    vec![
        finding(
            "lost",
            format!("{} of {good} documents, 0 allowed", good.saturating_sub(documents)),
            documents >= good && sent > 0,
        ),
        finding(
            "again",
            format!("{} documents twice, 0 allowed", documents.saturating_sub(good)),
            documents <= good,
        ),
        finding(
            "refused",
            format!("{} lines went to `err`, {} expected", found.len(), expected.len()),
            found == expected,
        ),
        // The number of refused requests depends on the speed of the machine.
        finding("busy", format!("{busy} requests were refused because of the load"), true),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_equals_that_in_the_pom() {
        let version = format!("<opensearch>{VERSION}</opensearch>");
        assert!(include_str!("pom.xml").contains(&version));
    }

    #[test]
    fn each_guarantee_is_broken_by_its_own_fault() {
        let event = |number| json!({ "original": line(number).to_string() }).to_string();
        let (bad, other) = (event(REFUSED / 2), event(1));
        for (name, documents, refused, busy) in [
            ("", 499, format!("{bad}\n{bad}\n"), 1),
            ("lost", 498, bad.clone(), 1),
            ("again", 500, bad.clone(), 1),
            ("refused", 499, String::new(), 1),
            ("refused", 499, format!("{bad}\n{other}\n"), 1),
            ("", 499, bad.clone(), 0),
        ] {
            let findings = findings(documents, &refused, REFUSED, busy);
            let broken: Vec<_> =
                findings.iter().filter(|it| !it.holds).map(|it| &*it.what).collect();
            let expected: Vec<_> = Some(name).filter(|it| !it.is_empty()).into_iter().collect();
            assert_eq!(broken, expected);
        }
    }
}
