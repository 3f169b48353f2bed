//! Prometheus: remote write to it and from it, and a page that it scrapes.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use hostile_peers::Reserved;
use serde_json::{Value, json};

use super::turn::{Disturbance, FLOW, Input, PATIENCE, Served, get};
use super::{Finding, finding};
use crate::process::{Signal, need, wait};
use crate::project::{output, text};
use crate::scenario::Stage;

/// Number of series of the samples.
const SERIES: u64 = 10;
/// Number of samples in each turn.
const SAMPLES: u64 = 10_000;
/// Number of samples of a turn that are stored before the disturbance.
const BEFORE: u64 = SAMPLES / 10;
/// Time between the start of Prometheus and the first sample, in ms. Prometheus forwards no samples from before its start,
/// and accepts samples of the future. Each sample is a millisecond later than the one before.
const AHEAD: u64 = 1_000;
/// Range of queries, which begins before the first sample and ends after the last one, in ms.
const RANGE: u64 = 600_000;
/// Prometheus forwards all samples of the first turns. After a kill, it forwards only samples that it then receives.
const FORWARDED: [Disturbance; 2] = [Disturbance::KillFlow, Disturbance::Pause];
const KILLED: [Disturbance; 2] =
    [Disturbance::EndServer(Signal::KILL), Disturbance::EndServer(Signal::KILL)];
/// A sample of the page, which has everything that `promtool` expects.
const GAUGE: &str = r#"{"name":"room_celsius","type":"gauge","help":"Temperature.","labels":{"room":"a"},"value":21.5}"#;
/// Query for the samples of the flow, by series, in twice [`RANGE`].
const SENT: &str = "written_total%5B20m%5D";
/// Query for the number of these samples.
const COUNT: &str = "sum(count_over_time(written_total%5B20m%5D))";
/// Query for the latest scraped sample of the page.
const SCRAPED: &str = "room_celsius";

/// The first version that accepts samples out of order.
const LEAST: (u32, u32) = (2, 39);

pub(super) fn program(_: bool) -> Result<PathBuf> {
    for program in ["prometheus", "promtool"] {
        need(program, "`apt-get install prometheus`")?;
    }
    let answer = text(Command::new("prometheus").arg("--version"))?;
    let found = version(&answer).with_context(|| format!("no version in `{}`", answer.trim()))?;
    ensure!(
        found >= LEAST,
        "version {}.{} is installed, {}.{} is needed",
        found.0,
        found.1,
        LEAST.0,
        LEAST.1
    );
    Ok("prometheus".into())
}

/// Returns the version in the answer to `--version`: `prometheus, version 2.42.0+ds (branch: …`.
fn version(answer: &str) -> Option<(u32, u32)> {
    let mut numbers = answer.split("version ").nth(1)?.split('.').map(|it| it.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[allow(clippy::needless_pass_by_value)] // because all servers have the same signature
pub(super) fn play(stage: &Stage<'_>, program: PathBuf) -> Result<Vec<Finding>> {
    let [receiver, page] = [Reserved::tcp()?, Reserved::tcp()?];
    let [receiver, page] = [receiver.address(), page.address()];
    let addresses: [(_, &dyn std::fmt::Display); 2] = [("RECEIVER", &receiver), ("PAGE", &page)];
    stage.flow("prometheus.yml", include_str!("prometheus.yml"), &addresses)?;
    let receiving = "receiver.yaml";
    stage.flow(receiving, include_str!("../flows/prometheus-receiver.yaml"), &addresses)?;
    stage.write("page", &format!("{GAUGE}\n"))?;
    let mut server = Served::start(stage, &program, "Server is ready", |address, data| {
        vec![
            format!("--config.file={}", stage.folder.join("prometheus.yml").display()),
            format!("--storage.tsdb.path={}", data.display()),
            format!("--web.listen-address={address}"),
            "--web.enable-remote-write-receiver".to_owned(),
        ]
    })?;
    stage.flow(FLOW, include_str!("../flows/prometheus.yaml"), &[("SERVER", &server.address)])?;
    #[allow(clippy::disallowed_methods)]
    // because Prometheus compares the times of samples with the date
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let (mut input, first) = (Input::new(stage), u64::try_from(now.as_millis())? + AHEAD);
    let end = (first + RANGE) / 1_000;
    let mut turn = |server: &mut Served, disturbance| {
        let enough = input.count + BEFORE;
        input.add(SAMPLES, |number| sample(number, first))?;
        server.turn(stage, disturbance, |server| Ok(count(server, end)? >= enough))?;
        Ok::<_, anyhow::Error>(input.count)
    };

    let mut process = stage.start("receiver", &[receiving])?;
    let mut forwarded = 0;
    for disturbance in FORWARDED {
        forwarded = turn(&mut server, disturbance)?;
        process.expect_alive()?;
        process.kill()?;
        process = stage.start("receiver", &[receiving])?;
    }
    let out = stage.folder.join("out");
    let received = || received(&fs::read_to_string(&out).unwrap_or_default());
    // If some are lost, the wait fails, and the finding tells how many.
    let is_all = |of: &HashSet<u64>| (0..forwarded).all(|number| of.contains(&number));
    let _ = wait("forwarded samples", PATIENCE, || Ok(is_all(&received()).then_some(())));
    let received = received();
    let of_page = findings_of_page(&server, &page, &stage.folder)?;
    process.stop(PATIENCE)?;

    let mut sent = 0;
    for disturbance in KILLED {
        sent = turn(&mut server, disturbance)?;
    }
    let stored = series(&query(&server, &format!("{SENT}&time={end}"))?)?;
    let mut findings = findings(&stored, sent, &received, forwarded);
    findings.extend(of_page);
    findings.push(server.disturbed());
    Ok(findings)
}

/// Returns a sample as an event in JSON.
fn sample(number: u64, first: u64) -> Value {
    let (series, timestamp) = ((number % SERIES).to_string(), (first + number) * 1_000_000);
    json!({ "name": "written_total", "labels": { "series": series }, "value": number, "timestamp": timestamp })
}

/// Checks the page by `promtool`, and whether Prometheus has scraped it.
fn findings_of_page(server: &Served, page: &str, folder: &Path) -> Result<Vec<Finding>> {
    // The process of the page was started a moment ago.
    let text = wait("a page with the gauge", PATIENCE, || {
        let answer = get(page, "/metrics").ok();
        Ok(answer.filter(|(status, text)| *status == 200 && text.contains(SCRAPED)).map(|it| it.1))
    })?;
    let scraped = wait("a scraped page", PATIENCE, || {
        let result = query(server, SCRAPED)?;
        Ok(result[0]["value"][1].as_str().map(str::to_owned))
    })?;
    let file = folder.join("page.txt");
    fs::write(&file, text)?;
    let mut promtool = Command::new("promtool");
    let checked = output(promtool.args(["check", "metrics"]).stdin(File::open(&file)?));
    let shown = checked.as_ref().map_or_else(|error| format!("{error:#}"), |_| "no finding".into());
    Ok(vec![
        finding("promtool", shown, checked.is_ok()),
        finding("scraped", format!("{scraped}, 21.5 expected"), scraped == "21.5"),
    ])
}

/// Returns the number of stored samples of the flow. `end` is the end of the range in seconds since the Unix epoch.
fn count(server: &Served, end: u64) -> Result<u64> {
    let result = query(server, &format!("{COUNT}&time={end}"))?;
    // Without samples, there is no result.
    Ok(result[0]["value"][1].as_str().and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Returns the result of a query in `PromQL`, which is escaped for a URL, with further parameters behind it.
fn query(server: &Served, query: &str) -> Result<Value> {
    let (status, body) = server.get(&format!("/api/v1/query?query={query}"))?;
    ensure!(status == 200, "the query `{query}` was answered with {status}: {body}");
    let mut answer: Value = serde_json::from_str(&body)?;
    Ok(answer["data"]["result"].take())
}

/// Returns the values of all series, each in the order of times.
fn series(result: &Value) -> Result<Vec<Vec<u64>>> {
    let values = |series: &Value| {
        let samples = series["values"].as_array()?.iter();
        samples.map(|sample| sample[1].as_str()?.parse().ok()).collect::<Option<Vec<u64>>>()
    };
    let all = result.as_array().into_iter().flatten().map(values).collect::<Option<_>>();
    all.with_context(|| format!("expected series of integers in {result}"))
}

/// Returns the numbers of the samples of the flow in a file of events.
fn received(text: &str) -> HashSet<u64> {
    let number = |line: &str| {
        let event: Value = serde_json::from_str(line).ok()?;
        let value = event["value"].as_f64().filter(|_| event["name"] == "written_total")?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far fewer than 2^53
        Some(value as u64)
    };
    text.lines().filter_map(number).collect()
}

/// Judges the stored samples of `sent`, and the received ones of `forwarded`.
fn findings(
    stored: &[Vec<u64>],
    sent: u64,
    received: &HashSet<u64>,
    forwarded: u64,
) -> Vec<Finding> {
    let count: u64 = stored.iter().map(|series| series.len() as u64).sum();
    let unique: HashSet<_> = stored.iter().flatten().copied().collect();
    let missing = |of: &HashSet<u64>, all| (0..all).filter(|number| !of.contains(number)).count();
    let (lost, again) = (missing(&unique, sent), count - unique.len() as u64);
    let is_ordered = stored.iter().all(|series| series.is_sorted());
    let not_received = missing(received, forwarded);
    vec![
        finding("lost", format!("{lost} of {sent} samples, 0 allowed"), lost == 0 && sent > 0),
        finding("again", format!("{again} samples are stored twice, 0 allowed"), again == 0),
        finding("order", "the values of a series have the order of their times".into(), is_ordered),
        finding(
            "forwarded",
            format!("{not_received} of {forwarded} samples were not received, 0 allowed"),
            not_received == 0 && forwarded > 0,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_of_debian_is_read() {
        let answer = "prometheus, version 2.42.0+ds (branch: debian/sid, revision: 2.42.0+ds-5)\n";
        assert_eq!(version(answer), Some((2, 42)));
        assert_eq!(version("prometheus"), None);
    }

    #[test]
    fn each_guarantee_is_broken_by_its_own_fault() {
        type Change = fn(&mut Vec<Vec<u64>>, &mut HashSet<u64>);
        for (name, change) in [
            ("", (|_, _| {}) as Change),
            ("lost", |stored, _| _ = stored[1].pop()),
            ("again", |stored, _| stored[1].push(3)),
            ("order", |stored, _| stored[0].reverse()),
            ("forwarded", |_, received| _ = received.remove(&1)),
        ] {
            let (mut stored, mut received) = (vec![vec![0, 2], vec![1, 3]], HashSet::from([0, 1]));
            change(&mut stored, &mut received);
            let findings = findings(&stored, 4, &received, 2);
            let broken: Vec<_> =
                findings.iter().filter(|it| !it.holds).map(|it| &*it.what).collect();
            let expected: Vec<_> = Some(name).filter(|it| !it.is_empty()).into_iter().collect();
            assert_eq!(broken, expected);
        }
    }

    #[test]
    fn values_of_series_are_read_from_the_answer() {
        let result = json!([{ "values": [[1.5, "0"], [1.6, "2"]] }, { "values": [[1.5, "1"]] }]);
        assert_eq!(series(&result).expect("series"), [vec![0, 2], vec![1]]);
        assert!(series(&json!([{ "values": [[1.5, "NaN"]] }])).is_err());
    }

    #[test]
    fn only_samples_of_the_flow_count_as_received() {
        let lines = [sample(7, 0).to_string(), GAUGE.to_owned(), "{".to_owned()];
        assert_eq!(received(&lines.join("\n")), HashSet::from([7]));
    }
}
