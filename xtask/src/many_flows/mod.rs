//! `cargo xtask many-flows`: a hundred flows of three connectors in one process: how long they take to
//! start, what they cost while nothing happens, and how late the events of each are while others take all
//! processors, block a thread, or do nothing.

mod flows;
mod judgement;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use self::flows::Part;
use crate::process::Process;
use crate::scenario::{Judgement, Scenario, Stage};

/// Maximum time for what takes no time.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many flows
    #[arg(long, default_value_t = 100, value_name = "N")]
    flows: usize,
    /// How long to look at an idle process, and how long to measure latency, in seconds
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    seconds: f64,
}

/// Figures of all starts; times in seconds, latencies in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// From the start of the process until all flows are ready: of a few starts, the median and the most.
    ready: Vec<f64>,
    /// The part of a processor that it takes while nothing happens, and its memory, in bytes.
    idle: f64,
    memory: u64,
    threads: usize,
    /// p99 of each of the other flows, without and with the second in which a thread is replaced.
    steady: Vec<f64>,
    replaced: Vec<f64>,
}

impl Scenario for Arguments {
    const NAME: &'static str = "many-flows";
    const PLUGINS: &'static [&'static str] =
        &["connector-bench", "connector-metronome", "connector-null", "fixture-hostile"];
    type Found = Found;

    fn play(&self, stage: &Stage<'_>) -> Result<Found> {
        let mut found = Found::default();
        for _ in 0..5 {
            found.ready.push(start(stage, self.flows)?.1);
        }
        idle(stage, self, &mut found)?;
        // A blocking call begins in the first second, and before that for which latency is measured.
        found.steady = latencies(stage, self.flows, 3.0, self.seconds)?;
        found.replaced = latencies(stage, self.flows, 1.0, 1.0)?;
        Ok(found)
    }

    fn judge(&self, found: &Found) -> Result<Judgement> {
        let mut judgement = judgement::of(found);
        judgement.line(format_args!("  flows        {}", self.flows));
        Ok(judgement)
    }
}

/// Starts `tremor` with the flows of these parts, and returns the process with the names of their files.
fn run(
    stage: &Stage<'_>,
    log: &str,
    parts: &[Part],
    (warm_up, seconds): (f64, f64),
) -> Result<(Process, Vec<String>)> {
    let names = flows::write_all(stage, parts, warm_up, seconds)?;
    let mut arguments = vec!["--api", "127.0.0.1:0", "--drain-timeout", "1"];
    arguments.extend(names.iter().map(String::as_str));
    Ok((stage.start(log, &arguments)?, names))
}

/// Starts flows that do nothing, and returns the process and the seconds until all of them were ready.
fn start(stage: &Stage<'_>, count: usize) -> Result<(Process, f64)> {
    let (mut process, _) = run(stage, "tremor", &vec![Part::Idle; count], (0.0, 0.0))?;
    let api = process.api()?;
    process.until("a flow that is ready", PATIENCE, |_| {
        Ok((api.ask("GET", "/readyz")?.0 == 200).then_some(()))
    })?;
    let ready = process.begun.elapsed().as_secs_f64();
    Ok((process, ready))
}

fn idle(stage: &Stage<'_>, arguments: &Arguments, found: &mut Found) -> Result<()> {
    let (process, _) = start(stage, arguments.flows)?;
    // What the start has left to do.
    thread::sleep(Duration::from_secs(1));
    let (before, begun) = (process.processor_time()?, Instant::now());
    thread::sleep(Duration::from_secs_f64(arguments.seconds));
    let taken = process.processor_time()?.saturating_sub(before);
    found.idle = taken.as_secs_f64() / begun.elapsed().as_secs_f64();
    found.memory = process.memory()?;
    found.threads = process.count("task")?;
    Ok(())
}

/// Returns the p99 of each flow at an even pace, in milliseconds.
fn latencies(stage: &Stage<'_>, flows: usize, warm_up: f64, seconds: f64) -> Result<Vec<f64>> {
    let even = flows.saturating_sub(3);
    let mut parts = vec![Part::Even; even];
    parts.extend([Part::Full, Part::Blocks, Part::Idle]);
    let (mut process, names) = run(stage, "latency", &parts, (warm_up, seconds))?;
    let api = process.api()?;
    let within = PATIENCE + Duration::from_secs_f64(warm_up + seconds);
    process.until("the end of the flows", within, |_| {
        thread::sleep(Duration::from_millis(200));
        let flows = api.json("GET", "/v1/flows")?;
        let flows = flows["flows"].as_array().map_or(&[][..], Vec::as_slice);
        let ended = flows.iter().filter(|flow| flow["state"] == "stopped").count();
        Ok((ended >= even).then_some(()))
    })?;
    let p99 = |name: &String| {
        let path = stage.folder.join(name).with_extension("json");
        let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
        let report: Value = serde_json::from_str(&text)?;
        let nanoseconds = report["latency_ns"]["p99"].as_f64().context("no p99")?;
        Ok(nanoseconds / 1e6)
    };
    names[..even].iter().map(p99).collect()
}
