//! `VictoriaLogs`: the sinks `elasticsearch`, `loki`, `splunk_hec` and `victorialogs`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::turn::{Disturbance, FLOW, Input, PATIENCE, Served};
use super::{Finding, built, finding};
use crate::process::{Signal, wait};
use crate::scenario::Stage;
use crate::tools::GoProgram;

pub(super) const PROGRAM: GoProgram = GoProgram {
    name: "victoria-logs",
    package: "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs",
    version: "1.52.2",
};

/// Names of the sinks, which the flow adds to each entry.
const SINKS: [&str; 4] = ["elasticsearch", "loki", "splunk_hec", "victorialogs"];
/// Number of lines in each turn.
const LINES: u64 = 40_000;
/// Number of entries of a turn that the server has accepted before the disturbance, from all sinks.
const BEFORE: u64 = LINES / 2;
/// The server is ended properly, because it answers before entries are on its disk, so a kill loses the last ones.
const TURNS: [Disturbance; 4] = [
    Disturbance::KillFlow,
    Disturbance::EndServer(Signal::TERM),
    Disturbance::Pause,
    Disturbance::KillFlow,
];
/// Number of entries of each sink, and number of different lines among them.
const QUERY: &str = "/select/logsql/query?query=*+%7C+stats+by+(sink)+count()+entries,\
                     +count_uniq(n,%22event.n%22)+lines";

pub(super) fn program(fetch: bool) -> Result<PathBuf> {
    built(&PROGRAM, fetch)
}

/// Entries of a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stored {
    entries: u64,
    /// Number of different lines among the entries.
    lines: u64,
}

#[allow(clippy::needless_pass_by_value)] // because all servers have the same signature
pub(super) fn play(stage: &Stage<'_>, program: PathBuf) -> Result<Vec<Finding>> {
    let mut server = Served::start(stage, &program, "started server at", |address, data| {
        vec![
            format!("-httpListenAddr={address}"),
            format!("-storageDataPath={}", data.display()),
            "-syslog.listenAddr.tcp=".to_owned(),
        ]
    })?;
    let flow = include_str!("../flows/victorialogs.yaml");
    stage.flow(FLOW, flow, &[("SERVER", &server.address)])?;
    let mut input = Input::new(stage);
    for disturbance in TURNS {
        let enough = accepted(&server)? + BEFORE;
        input.add(LINES, |number| format!(r#"{{"n":{number},"_msg":"line {number}"}}"#))?;
        server.turn(stage, disturbance, |server| Ok(accepted(server)? >= enough))?;
    }
    // The server shows entries up to a second after it has answered. If some are lost, the wait fails, and the findings
    // tell how many.
    let is_all = |of: &BTreeMap<String, Stored>| of.values().all(|it| it.lines == input.count);
    let _ = wait("all lines", PATIENCE / 4, || Ok(is_all(&stored(&server)?).then_some(())));
    let mut findings = findings(&stored(&server)?, input.count);
    findings.push(server.disturbed());
    Ok(findings)
}

/// Returns the number of entries that the server has accepted since its start. Queries show them up to a second later.
fn accepted(server: &Served) -> Result<u64> {
    let (status, body) = server.get("/metrics")?;
    ensure!(status == 200, "the metrics were answered with {status}: {body}");
    let metrics = body.lines().filter(|line| line.starts_with("vl_rows_ingested_total{"));
    Ok(metrics.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum())
}

fn stored(server: &Served) -> Result<BTreeMap<String, Stored>> {
    let (status, body) = server.get(QUERY)?;
    ensure!(status == 200, "the query was answered with {status}: {body}");
    parse(&body)
}

/// Reads the answer to [`QUERY`]. Sinks without entries have 0 of them.
fn parse(body: &str) -> Result<BTreeMap<String, Stored>> {
    let mut all: BTreeMap<_, _> = SINKS.map(|sink| (sink.to_owned(), Stored::default())).into();
    for line in body.lines() {
        let row: Value = serde_json::from_str(line)?;
        let number = |name: &str| row[name].as_str().and_then(|text| text.parse().ok());
        let counts = number("entries").zip(number("lines"));
        let (entries, lines) = counts.with_context(|| format!("no counts in {line}"))?;
        all.insert(row["sink"].as_str().unwrap_or_default().to_owned(), Stored { entries, lines });
    }
    Ok(all)
}

fn findings(stored: &BTreeMap<String, Stored>, sent: u64) -> Vec<Finding> {
    let of_sink = |(sink, Stored { entries, lines }): (&String, &Stored)| {
        let text = format!(
            "{} of {sent} lines lost, 0 allowed; {} stored again",
            sent.saturating_sub(*lines),
            entries.saturating_sub(*lines)
        );
        finding(sink, text, *lines == sent && sent > 0)
    };
    stored.iter().map(of_sink).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_line_of_one_sink_is_a_broken_guarantee() {
        let body = SINKS.map(|sink| format!(r#"{{"sink":"{sink}","entries":"9","lines":"7"}}"#));
        let mut all = parse(&body.join("\n")).expect("rows");
        assert!(
            findings(&all, 7).iter().all(|it| it.holds && it.text.contains("; 2 stored again"))
        );
        all.get_mut("loki").expect("a sink").lines = 6;
        let broken: Vec<_> = findings(&all, 7).into_iter().filter(|it| !it.holds).collect();
        assert_eq!((broken.len(), &*broken[0].what), (1, "loki"));
        assert!(broken[0].text.starts_with("1 of 7 lines lost"), "{}", broken[0].text);
    }

    #[test]
    fn sink_without_entries_has_lost_all_lines() {
        assert_eq!(
            findings(&parse("").expect("no rows"), 7).iter().filter(|it| !it.holds).count(),
            4
        );
    }
}
