//! `cargo xtask many-flows`: a hundred flows of three connectors in one process: how long they take to
//! start, what they cost while nothing happens, and how late the events of each are while others take all
//! processors, block a thread, or do nothing.

mod flows;
mod judgement;

use std::fs;
use std::path::{Path, PathBuf, absolute};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use self::flows::Part;
use self::judgement::Judgement;
use crate::built::{self, Built};
use crate::running::{Running, empty_folder, load, write};

const PLUGINS: [&str; 4] =
    ["connector-bench", "connector-metronome", "connector-null", "fixture-hostile"];
/// How long anything may take that takes no time.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many flows
    #[arg(long, default_value_t = 100, value_name = "N")]
    flows: usize,
    /// How long to look at an idle process, and how long to measure latency, in seconds
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    seconds: f64,
    /// Build in the profile `release`
    #[arg(long)]
    release: bool,
    /// Where to write flows, logs and summary.txt
    #[arg(long, default_value = "target/many-flows", value_name = "DIR")]
    output: PathBuf,
}

/// What was found; times in seconds, latencies in milliseconds.
#[derive(Debug, Default)]
struct Found {
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

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = absolute(&arguments.output)?;
    empty_folder(&folder)?;
    let built = built::build(&PLUGINS, arguments.release, &folder.join("bin"))?;
    let mut found = Found::default();
    for _ in 0..5 {
        found.ready.push(start(&built, &folder, arguments.flows)?.1);
    }
    idle(&built, &folder, arguments, &mut found)?;
    // A blocking call begins in the first second, and before that for which latency is measured.
    found.steady = latencies(&built, &folder, arguments, 3.0, arguments.seconds)?;
    found.replaced = latencies(&built, &folder, arguments, 1.0, 1.0)?;
    let judgement = Judgement::of(&found);
    let profile = if arguments.release { "release" } else { "dev" };
    let (flows, load) = (arguments.flows, load());
    let summary = format!("profile {profile}, {flows} flows, load at the end {load}\n{judgement}");
    print(&summary);
    write(&folder.join("summary.txt"), &summary)?;
    match judgement.missed() {
        0 => Ok(()),
        missed => bail!("{missed} of the figures are not what they should be"),
    }
}

/// Starts flows that do nothing; the process, and how long it took until all of them were ready.
fn start(built: &Built, folder: &Path, count: usize) -> Result<(Running, f64)> {
    let names = flows::write_all(folder, &vec![Part::Idle; count], 0.0, 0.0)?;
    let mut arguments = vec!["--api", "127.0.0.1:0", "--drain-timeout", "1"];
    arguments.extend(names.iter().map(String::as_str));
    let begun = Instant::now();
    let mut running = Running::start(built, folder, "tremor.log", &arguments)?;
    let api = running.api()?;
    running.until("a flow that is ready", PATIENCE, |_| {
        Ok((api.ask("GET", "/readyz")?.0 == 200).then_some(()))
    })?;
    Ok((running, begun.elapsed().as_secs_f64()))
}

fn idle(built: &Built, folder: &Path, arguments: &Arguments, found: &mut Found) -> Result<()> {
    let (running, _) = start(built, folder, arguments.flows)?;
    // What the start has left to do.
    thread::sleep(Duration::from_secs(1));
    let (before, begun) = (running.processor_time()?, Instant::now());
    thread::sleep(Duration::from_secs_f64(arguments.seconds));
    let taken = running.processor_time()?.saturating_sub(before);
    found.idle = taken.as_secs_f64() / begun.elapsed().as_secs_f64();
    found.memory = running.memory()?;
    found.threads = running.count("task")?;
    Ok(())
}

/// p99 of each flow that goes on at an even pace, in milliseconds.
fn latencies(
    built: &Built,
    folder: &Path,
    arguments: &Arguments,
    warm_up: f64,
    seconds: f64,
) -> Result<Vec<f64>> {
    let mut parts = vec![Part::Even; arguments.flows.saturating_sub(3)];
    parts.extend([Part::Full, Part::Blocks, Part::Idle]);
    let names = flows::write_all(folder, &parts, warm_up, seconds)?;
    let mut all = vec!["--api", "127.0.0.1:0", "--drain-timeout", "1"];
    all.extend(names.iter().map(String::as_str));
    let mut running = Running::start(built, folder, "latency.log", &all)?;
    let api = running.api()?;
    let within = PATIENCE + Duration::from_secs_f64(warm_up + seconds);
    let even: Vec<&String> = names
        .iter()
        .zip(&parts)
        .filter(|(_, part)| **part == Part::Even)
        .map(|(it, _)| it)
        .collect();
    running.until("the end of the flows", within, |_| {
        thread::sleep(Duration::from_millis(200));
        let flows = api.json("GET", "/v1/flows")?;
        let flows = flows["flows"].as_array().map_or(&[][..], Vec::as_slice);
        let ended = flows.iter().filter(|flow| flow["state"] == "stopped").count();
        Ok((ended >= even.len()).then_some(()))
    })?;
    let p99 = |name: &&String| {
        let path = folder.join(name).with_extension("json");
        let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
        let report: Value = serde_json::from_str(&text)?;
        let nanoseconds = report["latency_ns"]["p99"].as_f64().context("no p99")?;
        Ok(nanoseconds / 1e6)
    };
    even.iter().map(p99).collect()
}

#[allow(clippy::print_stdout)] // what was asked for
fn print(summary: &str) {
    print!("{summary}");
}
