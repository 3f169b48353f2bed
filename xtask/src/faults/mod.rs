//! `cargo xtask faults`: runs each fault of the connector `hostile`, and each attack of `tests/peers`, in one process
//! with a flow at full load (the loaded flow) and a metronome.
//!
//! Three measurements are made for each fault: without the fault, with the fault, and with the fault but without the
//! loaded flow. They show whether the process survives, whether the loaded flow loses events, how much of its
//! throughput it keeps, how many processors the fault takes, and the longest gap between two events of the metronome.

mod table;

use std::time::{Duration, Instant};
use std::{fmt::Display, fs, process::Command, thread};

use anyhow::{Context, Result, anyhow, ensure};
use hostile_peers::{ATTACKS, Attacker};
use serde_json::Value;

use self::table::Row;
use crate::built::Built;
use crate::process::{Api, Process, Signal, processor_time};
use crate::project::{root, text};
use crate::scenario::{self, Judgement, Options, Scenario, Stage, csv, summary};

/// Time that the loaded flow runs before its events count, in seconds. The fault begins during this time.
const WARM_UP: f64 = 0.3;
/// Maximum wait for a step that normally ends immediately, so that a hanging process becomes an error.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two signals to `tremor`, which treats signals within 250 ms as one request.
const APART: Duration = Duration::from_millis(300);
/// Faults of the short form, which include each kind of fault.
const FEW: &str = "pull_panic,pull_every_error,pull_hang,pull_block,pull_wake_storm,forged_length,pull_too_many,\
    deliver_every_error,deliver_lie,thread_outlives,pull_tokio,lost_again";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Duration of each of the three measurements of a fault, in seconds
    #[arg(long, default_value_t = 3.0, value_name = "S")]
    seconds: f64,
    /// Only these faults and attacks
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    only: Vec<String>,
}

/// Runs the short form, which is a step of CI.
pub(crate) fn check() -> Result<()> {
    let only = FEW.split(',').map(str::to_owned).collect();
    scenario::run(&Arguments { seconds: 0.5, only }, &Options::default())
}

impl Scenario for Arguments {
    const NAME: &'static str = "faults";
    const PLUGINS: &'static [&'static str] = &[
        "connector-bench",
        "connector-exec",
        "connector-file",
        "connector-http",
        "connector-metronome",
        "connector-null",
        "connector-socket",
        "connector-ws",
        "fixture-faults",
    ];
    type Found = Vec<Row>;

    fn play(&self, stage: &Stage<'_>) -> Result<Vec<Row>> {
        let mut faults = faults(stage.built)?;
        faults.extend(ATTACKS.iter().map(|attack| attack.name.to_owned()));
        faults.retain(|fault| self.only.is_empty() || self.only.contains(fault));
        ensure!(
            !faults.is_empty(),
            "unknown fault: expected a fault that `tremor plugin inspect hostile` lists, or an attack of tests/peers"
        );
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
        judgement
            .line(format_args!("{} s for each of the three measurements of a fault", self.seconds));
        table::judge(&mut judgement, rows);
        judgement.files.push(("faults.csv", csv(rows)?));
        Ok(judgement)
    }
}

/// Returns the names of the faults that occur while a flow runs, as `tremor plugin inspect` lists them.
fn faults(built: &Built) -> Result<Vec<String>> {
    let mut command = Command::new(&built.tremor);
    command.args(["plugin", "inspect", "hostile", "--json"]);
    let described = text(command.env("TREMOR_PLUGIN_PATH", &built.plugins))?;
    let described: Value =
        serde_json::from_str(&described).context("the description of the fixture is not JSON")?;
    let faults = described["components"][0]["config"]["$defs"]["Fault"]["oneOf"].as_array();
    let faults = faults.context("the description of the fixture has no list of faults")?;
    let names = faults.iter().filter_map(|it| it["const"].as_str());
    let elsewhere =
        |it: &&str| ["none", "check_", "verify_"].iter().any(|begin| it.starts_with(begin));
    Ok(names.filter(|it| !elsewhere(it)).map(str::to_owned).collect())
}

/// Figures of a measurement with the loaded flow.
struct Measured {
    /// `true` if the process did not crash: it ran until it was signalled to end, or until all of its flows had ended.
    lives: bool,
    /// Number of events that the loaded flow read.
    taken: u64,
    /// Number of events that the loaded flow delivered.
    delivered: u64,
    /// Events of the loaded flow per second.
    rate: f64,
    /// Processor time of the process, divided by elapsed time: the number of processors that it used.
    processors: f64,
    /// Longest gap between two events of the metronome.
    gap: Duration,
    /// Maximum memory of the process, in bytes; 0 if the process ended by itself.
    memory: u64,
}

/// Returns the processors that a fault leaves to the loaded flow, as a share of those that the flow can use, at most 1.
///
/// Without the fault, the loaded flow uses `used` processors. Without the loaded flow, the fault takes `taken`
/// processors. At least half of all processors count as left, because flows share processors.
fn left(taken: f64, used: f64) -> f64 {
    let all = thread::available_parallelism()
        .map_or(1.0, |count| f64::from(u16::try_from(count.get()).unwrap_or(u16::MAX)));
    let left = (all - taken).max(all / 2.0);
    if used > left { left / used } else { 1.0 }
}

/// Returns the number of processors that a fault takes without the loaded flow, including those of an attacker.
fn processors_taken(stage: &Stage<'_>, fault: &str, seconds: f64) -> Result<f64> {
    let name = format!("{fault}-alone");
    let mut running = Running::start(stage, fault, &name, &["fault.yaml", "metronome.yaml"])?;
    let (begun, own) = (Instant::now(), processor_time(std::process::id())?);
    let mut taken = Duration::ZERO;
    let mut elapsed = Duration::from_millis(1);
    while elapsed.as_secs_f64() < seconds && running.process.ended()?.is_none() {
        trigger(&running.api, fault);
        // If the process has ended, its last known processor time counts.
        taken = running.process.processor_time().unwrap_or(taken);
        elapsed = begun.elapsed();
    }
    let own = processor_time(std::process::id())?.saturating_sub(own);
    running.end()?;
    Ok((taken + own).as_secs_f64() / elapsed.as_secs_f64())
}

/// A process with the fault, and the attacker of a connector of its flow, if the fault is an attack.
struct Running {
    process: Process,
    api: Api,
    attacker: Option<Attacker>,
}

impl Running {
    /// Starts a process with these flows.
    fn start(stage: &Stage<'_>, fault: &str, name: &str, flows: &[&str]) -> Result<Self> {
        let attack = ATTACKS.iter().find(|attack| attack.name == fault);
        let peer = attack.map(|attack| attack.prepare(&stage.folder, "fault.yaml")).transpose()?;
        if peer.is_none() {
            let to = match fault {
                "fail_panic" => "hostile, config: { fault: deliver_reject }",
                "breaker_panic" => "hostile, config: { fault: deliver_lost }",
                _ => "'null'",
            };
            let values: [(_, &dyn Display); 2] = [("FAULT", &fault), ("TO", &to)];
            stage.flow("fault.yaml", include_str!("../flows/fault.yaml"), &values)?;
        }
        stage.write("metronome.yaml", include_str!("../flows/metronome.yaml"))?;
        let arguments = [&["--api", "127.0.0.1:0", "--drain-timeout", "1"], flows].concat();
        let mut process = stage.start(name, &arguments)?;
        let api = process.api()?;
        let attacker = attack.zip(peer).map(|(attack, peer)| attack.start(peer));
        Ok(Self { process, api, attacker })
    }

    /// Ends the process and the attacker.
    fn end(self) -> Result<()> {
        drop(self.process);
        let ended = self.attacker.map_or(Ok(()), Attacker::end);
        ended.map_err(|_| anyhow!("the attacker panicked"))
    }
}

/// Runs the fault together with the loaded flow, and returns the figures.
fn measure(stage: &Stage<'_>, fault: &str, seconds: f64) -> Result<Measured> {
    let report = stage.folder.join("other.json");
    let _ = fs::remove_file(&report);
    let logs = root().join("examples/logs.json");
    let values: [(_, &dyn Display); 3] =
        [("LOGS", &logs.display()), ("WARM_UP", &WARM_UP), ("SECONDS", &seconds)];
    stage.flow("other.yaml", include_str!("../flows/loaded.yaml"), &values)?;
    let flows = ["fault.yaml", "other.yaml", "metronome.yaml"];
    let mut running = Running::start(stage, fault, fault, &flows)?;
    let Running { process, api, .. } = &mut running;
    let within = PATIENCE + Duration::from_secs_f64(seconds);
    let (begun, before) = (Instant::now(), process.processor_time()?);
    let mut processors = 0.0;
    let ended = process.until("the end of the other flow", within, |process| {
        trigger(api, fault);
        if let Ok(time) = process.processor_time() {
            processors = time.saturating_sub(before).as_secs_f64() / begun.elapsed().as_secs_f64();
        }
        let other = api.json("GET", "/v1/flows/other").ok();
        Ok(other.filter(|other| other["state"] == "stopped"))
    });
    let memory = process.peak_memory().unwrap_or(0);
    // The process ends by itself once all its flows have ended. Status 2 is an error in a flow file.
    let through = process.ended()?.filter(|status| status.code().is_some_and(|code| code != 2));
    let log = if through.is_some() { process.log()? } else { String::new() };
    let summary = summary(&log, "other").map(|(_, counts)| counts);
    let lives = summary.is_some() || (ended.is_ok() && process.ended()?.is_none());
    if lives && summary.is_none() {
        process.signal(Signal::TERM)?;
        thread::sleep(APART);
        // The second signal ends the process without waiting for hanging calls. The process may have ended already.
        let _ = process.signal(Signal::TERM);
        process.end(PATIENCE)?;
    }
    running.end()?;
    let ended = ended.unwrap_or_default();
    let count = |role: &str, result: &str| {
        let components = ended["components"].as_array().map_or(&[][..], Vec::as_slice);
        let component = components.iter().find(|it| it["role"] == role);
        component.and_then(|it| it["events"][result].as_u64()).unwrap_or(0)
    };
    let report: Value =
        serde_json::from_slice(&fs::read(&report).unwrap_or_default()).unwrap_or_default();
    let counts = || (count("source", "taken"), count("sink", "delivered"));
    let (taken, delivered) = summary.unwrap_or_else(counts);
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

/// Returns the longest time between two successive events of the metronome. `ticks` is the output of its flow.
fn gap(ticks: &str) -> Duration {
    let time = |line| serde_json::from_str::<Value>(line).ok()?["ingest_ns"].as_u64();
    let times: Vec<u64> = ticks.lines().filter_map(time).collect();
    let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    Duration::from_nanos(gaps.max().unwrap_or(0))
}

/// Waits for 20 ms. Before that, pauses and resumes the connector if the fault occurs only then.
fn trigger(api: &Api, fault: &str) {
    if ["pause_panic", "resume_panic"].contains(&fault) {
        for call in ["pause", "resume"] {
            // The request fails if the flow has not started yet.
            let _ = api.ask("POST", &format!("/v1/flows/fault/connectors/bad/{call}"));
        }
    }
    thread::sleep(Duration::from_millis(20));
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
    fn fault_on_all_processors_leaves_half_of_them() {
        const EVERY_PROCESSOR: f64 = 10_000.0;
        let all = super::thread::available_parallelism().unwrap().get();
        let all = f64::from(u16::try_from(all).unwrap());
        assert!((super::left(0.0, all) - 1.0).abs() < 1e-9);
        assert!((super::left(EVERY_PROCESSOR, all) - 0.5).abs() < 1e-9);
        assert!(
            (super::left(EVERY_PROCESSOR, all / 2.0) - 1.0).abs() < 1e-9,
            "the flow uses only half of the processors"
        );
        assert!((super::left(EVERY_PROCESSOR, all * 0.75) - 2.0 / 3.0).abs() < 1e-9);
    }
}
