//! `cargo xtask faults`: each fault of the fixture `hostile` and each attack of a peer in a flow, and beside it, in the
//! same process, a flow at full load and a metronome: whether the process lives, whether the other flow loses events,
//! its throughput against a run without a fault right before, the processors that the fault takes where no other flow
//! wants them, and the longest gap between two events of the metronome.

mod table;

use std::fs;
use std::iter;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use attackers::{ATTACKS, Attack, Peer};
use serde_json::Value;

use self::table::Row;
use crate::built::{self, Built};
use crate::process::{Api, Process, Signal, processor_time};
use crate::project::root;
use crate::scenario::{self, Judgement, Options, Scenario, Stage, csv, summary};

const PLUGINS: [&str; 5] = [
    "connector-bench",
    "connector-file",
    "connector-metronome",
    "connector-null",
    "fixture-hostile",
];
/// Plugins of the flows that peers attack.
const ATTACKED: [&str; 7] = [
    "connector-exec",
    "connector-http-server",
    "connector-tcp-client",
    "connector-tcp-server",
    "connector-udp-server",
    "connector-unix-server",
    "connector-ws-server",
];
/// Seconds that the other flow runs before its events count: faults begin meanwhile.
const WARM_UP: f64 = 0.3;
/// Maximum time for what takes no time.
const PATIENCE: Duration = Duration::from_secs(30);
/// Two signals that come sooner are one request.
const APART: Duration = Duration::from_millis(300);
/// The faults of the short form: one of each family.
const FEW: [&str; 12] = [
    "pull_panic",
    "pull_every_error",
    "pull_hang",
    "pull_block",
    "pull_wake_storm",
    "forged_length",
    "pull_too_many",
    "deliver_every_error",
    "deliver_lie",
    "thread_outlives",
    "pull_tokio",
    "lost_again",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long to measure beside each fault, and as long without, in seconds
    #[arg(long, default_value_t = 3.0, value_name = "S")]
    seconds: f64,
    /// Only these faults and attacks
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    only: Vec<String>,
}

/// The short form, for every change.
pub(crate) fn check() -> Result<()> {
    let only = FEW.map(str::to_owned).into();
    scenario::run(&Arguments { seconds: 0.5, only }, &Options::default())
}

impl Scenario for Arguments {
    const NAME: &'static str = "faults";
    type Found = Vec<Row>;

    fn build(&self, release: bool, to: &Path) -> Result<Built> {
        let attacked = if self.attacks().is_empty() { &[][..] } else { &ATTACKED };
        built::build(&[&PLUGINS[..], attacked].concat(), release, to)
    }

    fn play(&self, stage: &Stage<'_>) -> Result<Vec<Row>> {
        let mut faults = faults(stage.built)?;
        faults.retain(|fault| self.is_selected(fault));
        faults.append(&mut self.attacks());
        ensure!(!faults.is_empty(), "there is no such fault; `tremor plugin inspect` lists them");
        eprintln!("{}", table::HEAD);
        let row = |fault: &String| {
            let without = measure(stage, "none", self.seconds)?;
            let with = measure(stage, fault, self.seconds)?;
            let taken = processors_taken(stage, fault, self.seconds)?;
            let left = left(taken, without.processors);
            let row = Row::new(fault, &without, &with, left);
            eprintln!("{row}");
            Ok(row)
        };
        faults.iter().map(row).collect()
    }

    fn judge(&self, rows: &Vec<Row>) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        judgement.line(format_args!("{} s beside each fault", self.seconds));
        table::judge(&mut judgement, rows);
        judgement.files.push(("faults.csv", csv(rows)?));
        Ok(judgement)
    }
}

impl Arguments {
    fn is_selected(&self, fault: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == fault)
    }

    /// Names of the attacks that are selected.
    fn attacks(&self) -> Vec<String> {
        let names = ATTACKS.iter().map(|attack| attack.name);
        names.filter(|name| self.is_selected(name)).map(str::to_owned).collect()
    }
}

/// The faults that can happen while a flow runs, as the fixture lists them.
fn faults(built: &Built) -> Result<Vec<String>> {
    let mut command = Command::new(&built.tremor);
    command.args(["plugin", "inspect", "hostile", "--json"]);
    let output = command.env("TREMOR_PLUGIN_PATH", &built.plugins).output();
    let output = output.context("cannot start tremor")?;
    let described: Value = serde_json::from_slice(&output.stdout).context("no description")?;
    let faults = described["components"][0]["config"]["$defs"]["Fault"]["oneOf"].as_array();
    let names = faults.context("no list of faults")?.iter().filter_map(|it| it["const"].as_str());
    Ok(names.filter(|it| *it != "none" && !it.starts_with("check_")).map(str::to_owned).collect())
}

/// Figures of a run with one fault.
struct Measured {
    /// Whether the process lived until it was told to end.
    lives: bool,
    /// Events of the other flow that came in, and those that arrived.
    taken: u64,
    delivered: u64,
    /// Events of the other flow in a second.
    rate: f64,
    /// Processors that the process took.
    processors: f64,
    /// Longest gap between two events of the metronome.
    gap: Duration,
    /// Maximum memory of the process, in bytes; 0 if the process ended by itself.
    memory: u64,
}

/// Returns the part of its processors that a fault leaves to another flow, which uses `used` processors without the
/// fault. The fault takes `taken` processors where no other flow wants them. Flows share processors, so a fault that
/// takes all leaves half.
fn left(taken: f64, used: f64) -> f64 {
    let all = thread::available_parallelism()
        .map_or(1.0, |count| f64::from(u16::try_from(count.get()).unwrap_or(u16::MAX)));
    let left = (all - taken).max(all / 2.0);
    if used > left { left / used } else { 1.0 }
}

/// Measures the processors that a fault takes without the flow at full load, the attacker of a peer included.
fn processors_taken(stage: &Stage<'_>, fault: &str, seconds: f64) -> Result<f64> {
    let name = format!("{fault}-alone");
    let (mut running, api, attacker) =
        start(stage, fault, &name, &["fault.yaml", "metronome.yaml"])?;
    let (begun, own) = (Instant::now(), processor_time(std::process::id())?);
    let mut taken = Duration::ZERO;
    let mut elapsed = Duration::from_millis(1);
    while elapsed.as_secs_f64() < seconds && running.ended()?.is_none() {
        ask_for(&api, fault);
        // A process that ends meanwhile took what it took until then.
        taken = running.processor_time().unwrap_or(taken);
        elapsed = begun.elapsed();
    }
    let own = processor_time(std::process::id())?.saturating_sub(own);
    drop(running);
    attacker.map_or(Ok(()), Attacker::end)?;
    Ok((taken + own).as_secs_f64() / elapsed.as_secs_f64())
}

/// A peer that attacks on a thread of its own.
struct Attacker {
    thread: thread::JoinHandle<()>,
    is_over: Arc<AtomicBool>,
}

impl Attacker {
    fn start(attack: &'static Attack, peer: Peer) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = thread::spawn(move || attack.run(peer, &AtomicUsize::new(0), &ends));
        Self { thread, is_over }
    }

    fn end(self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        ensure!(self.thread.join().is_ok(), "the attacker panicked");
        Ok(())
    }
}

/// Starts a process with these flows, and the attacker if the fault is a peer's.
fn start(
    stage: &Stage<'_>,
    fault: &str,
    name: &str,
    flows: &[&str],
) -> Result<(Process, Api, Option<Attacker>)> {
    let attack = ATTACKS.iter().find(|attack| attack.name == fault);
    let peer = attack.map(|attack| attack.prepare(&stage.folder, "fault.yaml")).transpose()?;
    if peer.is_none() {
        stage.write("fault.yaml", &flow(fault))?;
    }
    stage.write("metronome.yaml", METRONOME)?;
    let arguments = [&["--api", "127.0.0.1:0", "--drain-timeout", "1"], flows].concat();
    let mut running = stage.start(name, &arguments)?;
    let api = running.api()?;
    let attacker = iter::zip(attack, peer).next();
    Ok((running, api, attacker.map(|(attack, peer)| Attacker::start(attack, peer))))
}

fn measure(stage: &Stage<'_>, fault: &str, seconds: f64) -> Result<Measured> {
    let report = stage.folder.join("other.json");
    let _ = fs::remove_file(&report);
    stage.write("other.yaml", &other(seconds))?;
    let flows = ["fault.yaml", "other.yaml", "metronome.yaml"];
    let (mut running, api, attacker) = start(stage, fault, fault, &flows)?;
    let within = PATIENCE + Duration::from_secs_f64(seconds);
    let (begun, before) = (Instant::now(), running.processor_time()?);
    let mut processors = 0.0;
    let ended = running.until("the end of the other flow", within, |running| {
        ask_for(&api, fault);
        if let Ok(time) = running.processor_time() {
            processors = time.saturating_sub(before).as_secs_f64() / begun.elapsed().as_secs_f64();
        }
        let other = api.json("GET", "/v1/flows/other").ok();
        Ok(other.filter(|other| other["state"] == "stopped"))
    });
    let memory = running.peak_memory().unwrap_or(0);
    // Where all flows are through, the process has nothing left to do.
    let through = running.ended()?.filter(|status| status.code().is_some_and(|code| code != 2));
    let log = if through.is_some() { running.log()? } else { String::new() };
    let summary = summary(&log, "other").map(|(_, counts)| counts);
    let lives = summary.is_some() || (ended.is_ok() && running.ended()?.is_none());
    if lives && summary.is_none() {
        running.signal(Signal::TERM)?;
        thread::sleep(APART);
        // What hangs is not waited for. It may have ended.
        let _ = running.signal(Signal::TERM);
        running.end(PATIENCE)?;
    }
    attacker.map_or(Ok(()), Attacker::end)?;
    let ended = ended.unwrap_or_default();
    let told = |role: &str, result: &str| {
        let components = ended["components"].as_array().map_or(&[][..], Vec::as_slice);
        let component = components.iter().find(|it| it["role"] == role);
        component.and_then(|it| it["events"][result].as_u64()).unwrap_or(0)
    };
    let report: Value = fs::read(&report)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    let told = || (told("source", "taken"), told("sink", "delivered"));
    let (taken, delivered) = summary.unwrap_or_else(told);
    Ok(Measured {
        lives,
        taken,
        delivered,
        rate: report["events_per_second"].as_f64().unwrap_or(0.0),
        processors,
        gap: gap(&fs::read_to_string(stage.folder.join("ticks")).unwrap_or_default()),
        memory,
    })
}

/// Returns the longest time between two events that a metronome has written as lines of JSON.
fn gap(ticks: &str) -> Duration {
    let time = |line| serde_json::from_str::<Value>(line).ok()?["ingest_ns"].as_u64();
    let times: Vec<u64> = ticks.lines().filter_map(time).collect();
    let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    Duration::from_nanos(gaps.max().unwrap_or(0))
}

/// Pauses and resumes the connector, where that is where it fails.
fn ask_for(api: &Api, fault: &str) {
    if ["pause_panic", "resume_panic"].contains(&fault) {
        for call in ["pause", "resume"] {
            // The flow may not have begun.
            let _ = api.ask("POST", &format!("/v1/flows/fault/connectors/bad/{call}"));
        }
    }
    thread::sleep(Duration::from_millis(20));
}

/// A flow with a connector that fails for as long as it is asked, on both of its sides.
fn flow(fault: &str) -> String {
    let to = match fault {
        "fail_panic" => "hostile, config: { fault: deliver_reject }",
        "breaker_panic" => "hostile, config: { fault: deliver_lost }",
        _ => "'null'",
    };
    format!(
        "connectors:
  good: {{ type: hostile, pull: {{ max_events: 10 }}, config: {{ count: 1000000000000, pace_ms: 1 }} }}
  bad:
    type: hostile
    reconnect: {{ backoff: 10ms, max_backoff: 10ms }}
    restart: {{ attempts: 1000000 }}
    retry: {{ backoff: 10ms, max_backoff: 10ms }}
    hang_limit: 1s
    pull: {{ max_events: 10 }}
    config: {{ fault: {fault}, after: 5, count: 1000000000000, pace_ms: 1, hold_ms: 300 }}
  to: {{ type: {to} }}
links: [good -> bad, bad -> to]
"
    )
}

/// A flow with an event each 10 ms.
const METRONOME: &str = "connectors:
  ticks: { type: metronome, config: { interval_ms: 10 } }
  output: { type: file, codec: json, postprocessors: [lines], config: { path: ticks, mode: truncate } }
links: [ticks -> output]
";

/// A flow of as many events as there can be.
fn other(seconds: f64) -> String {
    let file = root().join("examples/logs.json");
    format!(
        "connectors:
  load:
    type: bench
    codec: json
    config: {{ file: {}, warmup_s: {WARM_UP}, duration_s: {seconds}, report: other.json }}
links: [load -> load]
",
        file.display()
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn gap_is_the_longest_between_two_lines() {
        let ticks = ["{\"ingest_ns\":5}\n", "{\"ingest_ns\":7}\n", "{\"ingest_ns\":16}\n{"];
        assert_eq!(super::gap(&ticks.concat()).as_nanos(), 9);
        assert_eq!(super::gap("").as_nanos(), 0);
    }

    #[test]
    fn fault_that_takes_all_processors_leaves_half() {
        const ALL: f64 = 10_000.0;
        let all = super::thread::available_parallelism().unwrap().get();
        let all = f64::from(u16::try_from(all).unwrap());
        assert!((super::left(0.0, all) - 1.0).abs() < 1e-9);
        assert!((super::left(ALL, all) - 0.5).abs() < 1e-9);
        assert!((super::left(ALL, all / 2.0) - 1.0).abs() < 1e-9, "half is all that is used");
        assert!((super::left(ALL, all * 0.75) - 2.0 / 3.0).abs() < 1e-9);
    }
}
