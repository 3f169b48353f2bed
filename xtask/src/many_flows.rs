//! `cargo xtask many-flows`: runs a hundred flows of three connectors in one process.
//!
//! Measures the time until all flows are ready, the cost of idle flows, and the latency of each of 97 flows while one
//! flow runs at full load, one blocks a thread, and one is idle.

use std::time::{Duration, Instant};
use std::{fmt::Display, fs, thread};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::Process;
use crate::scenario::{Judgement, Scenario, Stage, mebibytes, spread};

/// Maximum wait for a step that normally ends immediately, so that a hanging process becomes an error.
const PATIENCE: Duration = Duration::from_mins(1);
/// Maximum time until all flows are ready, in seconds.
const READY: f64 = 1.0;
/// Maximum processor time while idle, as a share of one processor.
const IDLE: f64 = 0.01;
/// Maximum resident memory while idle, in bytes.
const MEMORY: u64 = 100 << 20;
/// Maximum p99 latency of any measured flow, in milliseconds.
const STEADY: f64 = 5.0;
/// Maximum p99 latency of any measured flow in the second in which a blocked thread is replaced, in milliseconds.
const REPLACED: f64 = 150.0;
/// Events per second of a measured flow.
const RATE: u32 = 100;
const LINE: &str = r#"{"id":17,"host":"host3","text":"a line as there are many","ok":true}"#;

/// Number of flows.
const FLOWS: usize = 100;
/// Duration of the measurements of idle cost and of latency, in seconds.
const SECONDS: f64 = 10.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Measurements of all processes that were started.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Time from the start of the process until all flows are ready, for each start, in seconds.
    ready: Vec<f64>,
    /// Processor time while idle, as a share of one processor.
    idle: f64,
    /// Resident memory while idle, in bytes.
    memory: u64,
    threads: usize,
    /// p99 latency of each measured flow, in milliseconds.
    steady: Vec<f64>,
    /// p99 latency of each measured flow in the second in which a blocked thread is replaced, in milliseconds.
    replaced: Vec<f64>,
}

impl Scenario for Arguments {
    const NAME: &'static str = "many-flows";
    const PLUGINS: &'static [&'static str] =
        &["connector-bench", "connector-metronome", "connector-null", "fixture-faults"];
    type Found = Found;

    fn play(&self, stage: &Stage<'_>) -> Result<Found> {
        let mut found = Found::default();
        for _ in 0..5 {
            found.ready.push(start(stage)?.1);
        }
        idle(stage, &mut found)?;
        // A thread is blocked 1.5 s after the start: before the first measurement, and during the second one.
        found.steady = latencies(stage, 3.0, SECONDS)?;
        found.replaced = latencies(stage, 1.0, 1.0)?;
        Ok(found)
    }

    fn judge(&self, found: &Found) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        let [_, ready, slowest] = spread(found.ready.iter().copied());
        let text = format!(
            "{ready:.2} s in the median start, {slowest:.2} s in the slowest; the median has to be below {READY} s"
        );
        judgement.add("ready", text, ready < READY);
        let text = format!("{:.2} % of a processor, limit {} %", found.idle * 100.0, IDLE * 100.0);
        judgement.add("idle", text, found.idle < IDLE);
        let (memory, limit) = (mebibytes(found.memory), MEMORY >> 20);
        let text = format!("{memory:.1} MiB, {} threads, limit {limit} MiB", found.threads);
        judgement.add("memory", text, found.memory < MEMORY);
        let latencies =
            [("p99", &found.steady, STEADY), ("p99 replaced", &found.replaced, REPLACED)];
        for (what, values, limit) in latencies {
            let [_, median, most] = spread(values.iter().copied());
            let text = format!(
                "{median:.2} ms in the median flow of {}, {most:.2} ms in the worst; the worst has to be below {limit} ms",
                values.len()
            );
            judgement.add(what, text, most < limit);
        }
        Ok(judgement)
    }
}

/// Load of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A single event, followed by an hour of silence.
    Idle,
    /// Events at a constant rate, whose latency is measured.
    Even,
    /// Events without a pause.
    Full,
    /// Events to a sink that blocks its thread permanently.
    Blocks,
}

/// Starts `tremor` with a flow for each of `parts`, and returns the process and the names of the flow files. Latency is
/// measured for `seconds` seconds, after `warm_up` seconds.
fn run(
    stage: &Stage<'_>,
    log: &str,
    parts: &[Part],
    (warm_up, seconds): (f64, f64),
) -> Result<(Process, Vec<String>)> {
    stage.write("events.json", &(LINE.to_owned() + "\n"))?;
    let names: Vec<_> = (0..parts.len()).map(|number| format!("flow-{number}.yaml")).collect();
    for ((number, part), name) in parts.iter().enumerate().zip(&names) {
        let (ticks, bench) = ("type: metronome, config", "type: bench, codec: json, config");
        let main = match part {
            Part::Idle => format!("{ticks}: {{ interval_ms: 3600000 }}"),
            Part::Even => format!(
                "{bench}: {{ file: events.json, rate: {RATE}, warmup_s: {warm_up}, duration_s: {seconds}, \
                 report: flow-{number}.json }}"
            ),
            Part::Full => format!("{bench}: {{ file: events.json, duration_s: 3600 }}"),
            Part::Blocks => format!("{ticks}: {{ interval_ms: 1 }}"),
        };
        // The sink has one delivery per millisecond, so it blocks 1.5 s after the start.
        let blocks = "type: hostile, codec: json, config: { fault: deliver_block, after: 1500 }";
        let to = if *part == Part::Blocks { blocks } else { "type: 'null'" };
        let back = "main -> pass -> main, pass -> to";
        let links = if *part == Part::Even { back } else { "main -> pass -> to" };
        let values: [(_, &dyn Display); 3] = [("MAIN", &main), ("TO", &to), ("LINKS", &links)];
        stage.flow(name, include_str!("flows/many.yaml"), &values)?;
    }
    let mut arguments = vec!["--api", "127.0.0.1:0", "--drain-timeout", "1"];
    arguments.extend(names.iter().map(String::as_str));
    Ok((stage.start(log, &arguments)?, names))
}

/// Starts idle flows, and returns the process and the time in seconds until all flows were ready.
fn start(stage: &Stage<'_>) -> Result<(Process, f64)> {
    let (mut process, _) = run(stage, "tremor", &[Part::Idle; FLOWS], (0.0, 0.0))?;
    let api = process.api()?;
    process.until("a flow that is ready", PATIENCE, |_| {
        Ok((api.ask("GET", "/readyz")?.0 == 200).then_some(()))
    })?;
    let ready = process.begun.elapsed().as_secs_f64();
    Ok((process, ready))
}

/// Measures processor time and memory of idle flows.
fn idle(stage: &Stage<'_>, found: &mut Found) -> Result<()> {
    let (process, _) = start(stage)?;
    // Excludes work that remains after the start.
    thread::sleep(Duration::from_secs(1));
    let (before, begun) = (process.processor_time()?, Instant::now());
    thread::sleep(Duration::from_secs_f64(SECONDS));
    let taken = process.processor_time()?.saturating_sub(before);
    found.idle = taken.as_secs_f64() / begun.elapsed().as_secs_f64();
    found.memory = process.memory()?;
    found.threads = process.count("task")?;
    Ok(())
}

/// Returns the p99 latency of each measured flow, in milliseconds.
fn latencies(stage: &Stage<'_>, warm_up: f64, seconds: f64) -> Result<Vec<f64>> {
    let even = FLOWS - 3;
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
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let report: Value = serde_json::from_str(&text)?;
        let nanoseconds = report["latency_ns"]["p99"].as_f64().context("the report has no p99")?;
        Ok(nanoseconds / 1e6)
    };
    names[..even].iter().map(p99).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_is_judged_by_its_own_limit() {
        let good = || Found {
            ready: vec![0.5, 0.6, 2.0],
            idle: 0.005,
            memory: 50 << 20,
            threads: 9,
            steady: vec![1.0, 4.9],
            replaced: vec![1.0, 149.0],
        };
        let broken = |found: &Found| Arguments {}.judge(found).expect("limits").broken;
        assert_eq!(broken(&good()), 0);
        for bad in [
            Found { ready: vec![0.5, 1.1, 1.2], ..good() },
            Found { idle: 0.02, ..good() },
            Found { memory: 101 << 20, ..good() },
            Found { steady: vec![1.0, 5.1], ..good() },
            Found { replaced: vec![151.0], ..good() },
            Found { steady: vec![], ..good() },
        ] {
            assert_eq!(broken(&bad), 1);
        }
    }
}
