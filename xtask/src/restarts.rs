//! `cargo xtask restarts`: connectors that are restarted again and again, by the admin API, while events
//! flow through them and another flow runs at full load; what the process holds before and after.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::process::{Api, Process};
use crate::project::root;
use crate::scenario::{self, Judgement, Options, Scenario, Stage, counts, csv, mebibytes};

/// Maximum growth of the process, in bytes.
const GROWTH: u64 = 1 << 20;
/// Divisor of the restarts that are the warm-up, in which memory may still find its level.
const WARM_UP: u64 = 4;
/// Minimum number of restarts after the warm-up that say something of memory.
const LEAST: u64 = 1_000;
/// Maximum time for what takes no time.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many restarts
    #[arg(long, default_value_t = 10_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(4..))]
    restarts: u64,
}

/// Figures of the process after a number of restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sample {
    restarts: u64,
    rss_bytes: u64,
    descriptors: usize,
    threads: usize,
}

/// The short form, for every change.
pub(crate) fn check() -> Result<()> {
    scenario::run(&Arguments { restarts: 400 }, &Options::default())
}

impl Scenario for Arguments {
    const NAME: &'static str = "restarts";
    const PLUGINS: &'static [&'static str] =
        &["connector-bench", "connector-file", "connector-null", "fixture-hostile"];
    type Found = Vec<Sample>;

    fn play(&self, stage: &Stage<'_>) -> Result<Vec<Sample>> {
        stage.write("restarted.yaml", RESTARTED)?;
        stage.write("load.yaml", &load_flow())?;
        let flows = ["--api", "127.0.0.1:0", "--drain-timeout", "5", "restarted.yaml", "load.yaml"];
        let mut process = stage.start("tremor", &flows)?;
        let api = process.api()?;
        let mut samples = vec![sample(&mut process, &api, 0)?];
        let every = (self.restarts / 100).max(1);
        for number in 1..=self.restarts {
            let connector = ["input", "output"][usize::try_from(number % 2)?];
            restart(&mut process, &api, connector, number.div_ceil(2))?;
            if number % every == 0 {
                samples.push(sample(&mut process, &api, number)?);
            }
        }
        let log = process.stop(PATIENCE)?;
        // Every event has arrived.
        ["restarted", "load"].iter().try_for_each(|flow| counts(&log, flow).map(drop))?;
        Ok(samples)
    }

    fn judge(&self, samples: &Vec<Sample>) -> Result<Judgement> {
        let mut judgement = judge(samples, self.restarts);
        judgement.files.push(("samples.csv", csv(samples)?));
        Ok(judgement)
    }
}

/// Events at an even pace to a file that begins again with each instance.
const RESTARTED: &str = "connectors:
  input: { type: hostile, codec: string, config: { count: 1000000000000, pace_ms: 1 } }
  output:
    type: file
    codec: string
    postprocessors: [lines]
    config: { path: out, mode: truncate }
links: [input -> output]
";

/// Returns a flow at full load.
fn load_flow() -> String {
    let file = root().join("examples/logs.json");
    format!(
        "connectors:
  source: {{ type: bench, codec: json, config: {{ file: {}, duration_s: 1000000 }} }}
  sink: {{ type: 'null' }}
links: [source -> sink]
",
        file.display()
    )
}

/// Restarts a connector, and waits until it runs again.
fn restart(process: &mut Process, api: &Api, connector: &str, times: u64) -> Result<()> {
    let path = format!("/v1/flows/restarted/connectors/{connector}");
    api.json("POST", &format!("{path}/restart"))?;
    process.until("a connector that runs again", PATIENCE, |_| {
        let it = api.json("GET", &path)?;
        let is_back = it["state"] == "running" && it["restarts"].as_u64() >= Some(times);
        Ok(is_back.then_some(()))
    })
}

/// Measures the process while the load is paused, because buffers that are in use are not left over.
fn sample(process: &mut Process, api: &Api, restarts: u64) -> Result<Sample> {
    let source = "/v1/flows/load/connectors/source";
    process.until("a flow at full load", PATIENCE, |_| {
        Ok((api.ask("POST", &format!("{source}/pause"))?.0 == 202).then_some(()))
    })?;
    process.until("a flow that rests", PATIENCE, |_| {
        Ok((api.json("GET", source)?["state"] == "paused").then_some(()))
    })?;
    let rss_bytes = process.memory()?;
    let (descriptors, threads) = (process.count("fd")?, process.count("task")?);
    api.json("POST", &format!("{source}/resume"))?;
    // So that there is load.
    thread::sleep(Duration::from_millis(1));
    Ok(Sample { restarts, rss_bytes, descriptors, threads })
}

/// Returns the median memory of samples, in bytes.
fn median(samples: &[Sample]) -> u64 {
    let mut memory: Vec<u64> = samples.iter().map(|it| it.rss_bytes).collect();
    memory.sort_unstable();
    memory.get(memory.len() / 2).copied().unwrap_or(0)
}

/// Judges memory between the first and the last part of what follows the warm-up, in parts that are long enough for a
/// median, and descriptors and threads between the first and the last quarter of all samples. These are compared by
/// their minimum: a connection that is being closed has a descriptor, and is not left over.
fn judge(samples: &[Sample], restarts: u64) -> Judgement {
    let warm: Vec<Sample> =
        samples.iter().copied().filter(|it| it.restarts >= restarts / WARM_UP).collect();
    let part = warm.len() / 4;
    let (before, after) = (median(&warm[..part]), median(&warm[warm.len() - part..]));
    let growth = after.saturating_sub(before);
    let is_enough = restarts - restarts / WARM_UP >= LEAST;
    let reserve = if is_enough { "" } else { "; not judged: too few restarts" };
    let [from, to, more, allowed] = [before, after, growth, GROWTH].map(mebibytes);
    let mut judgement = Judgement::default();
    judgement.line(format_args!("  restarts     {restarts} under load"));
    let text = format!(
        "{from:.2} MiB after the warm-up, {to:.2} MiB at the end, {more:.2} MiB more, {allowed:.0} allowed{reserve}"
    );
    judgement.add("memory", text, !is_enough || growth <= GROWTH);
    let quarter = samples.len().div_ceil(4);
    let (first, last) = (&samples[..quarter], &samples[samples.len() - quarter..]);
    let mut left = |what, of: fn(&Sample) -> usize, more: usize| {
        let [before, after] = [first, last].map(|it| it.iter().map(of).min().unwrap_or(0));
        judgement.add(what, format!("{before} before, {after} after"), after <= before + more);
    };
    left("descriptors", |it| it.descriptors, 0);
    // The pool for blocking work keeps what it has.
    left("threads", |it| it.threads, 2);
    judgement
}

#[cfg(test)]
mod tests {
    use super::{Sample, judge};

    fn samples(change: fn(u64, &mut Sample)) -> Vec<Sample> {
        let sample = |restarts| {
            let mut held = Sample { restarts, rss_bytes: 30 << 20, descriptors: 12, threads: 9 };
            change(restarts, &mut held);
            held
        };
        (0..=100).map(|it| sample(it * 100)).collect()
    }

    #[test]
    fn each_bound_is_broken_by_what_it_is_for() {
        for (name, change, holds) in [
            ("nothing", (|_, _| {}) as fn(u64, &mut Sample), true),
            ("a warm-up", |at, held| held.rss_bytes += at.min(2_000) * 10_000, true),
            ("a hundred bytes a restart", |at, held| held.rss_bytes += at * 100, true),
            ("a KiB a restart", |at, held| held.rss_bytes += at * 1_024, false),
            ("a descriptor", |at, held| held.descriptors += usize::from(at > 5_000), false),
            ("one at times", |at, held| held.descriptors += usize::from(at % 700 == 200), true),
            ("threads", |at, held| held.threads += usize::from(at > 5_000) * 3, false),
        ] {
            let judgement = judge(&samples(change), 10_000);
            assert_eq!(judgement.broken == 0, holds, "{name}: {}", judgement.text);
        }
    }

    #[test]
    fn memory_of_few_restarts_is_not_judged() {
        let samples = samples(|at, held| held.rss_bytes += at * 1_024);
        let few: Vec<Sample> =
            samples.into_iter().map(|it| Sample { restarts: it.restarts / 20, ..it }).collect();
        let judgement = judge(&few, 500);
        assert_eq!(judgement.broken, 0);
        assert!(judgement.text.contains("not judged"), "{}", judgement.text);
    }
}
