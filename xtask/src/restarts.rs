//! `cargo xtask restarts`: restarts connectors through the admin API while events flow through them and another flow
//! runs at full load, and checks that memory, descriptors and threads do not grow.

use std::{thread, time::Duration};

use anyhow::Result;
use serde::Serialize;

use crate::process::{Api, Process};
use crate::project::root;
use crate::scenario::{self, Judgement, Options, Scenario, Stage, counts, csv, mebibytes, spread};

/// Maximum growth of the resident memory after the warm-up, in MiB.
const GROWTH: f64 = 1.0;
/// Divisor of the number of restarts. The quotient is the number of restarts of the warm-up, in which memory may grow
/// to its stable level.
const WARM_UP: u64 = 4;
/// Minimum number of restarts after the warm-up. With fewer restarts, memory is not judged.
const LEAST: u64 = 1_000;
/// Maximum wait for a step that normally ends immediately, so that a hanging process becomes an error.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of restarts
    #[arg(long, default_value_t = 10_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(4..))]
    restarts: u64,
}

/// Memory, descriptors and threads of the process after a number of restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sample {
    restarts: u64,
    rss_bytes: u64,
    descriptors: usize,
    threads: usize,
}

/// Runs the short form, which is a step of CI.
pub(crate) fn check() -> Result<()> {
    scenario::run(&Arguments { restarts: 400 }, &Options::default())
}

impl Scenario for Arguments {
    const NAME: &'static str = "restarts";
    const PLUGINS: &'static [&'static str] =
        &["connector-bench", "connector-file", "connector-null", "fixture-faults"];
    type Found = Vec<Sample>;

    fn play(&self, stage: &Stage<'_>) -> Result<Vec<Sample>> {
        stage.write("restarted.yaml", include_str!("flows/restarted.yaml"))?;
        let logs = root().join("examples/logs.json");
        stage.flow("load.yaml", include_str!("flows/load.yaml"), &[("LOGS", &logs.display())])?;
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
        // Fails if an event was lost.
        ["restarted", "load"].iter().try_for_each(|flow| counts(&log, flow).map(drop))?;
        Ok(samples)
    }

    /// Judges the growth of the process.
    ///
    /// Memory is compared by the medians of the first and the last quarter of the samples after the warm-up,
    /// descriptors and threads by the minima of the first and the last quarter of all samples. The minimum excludes
    /// descriptors of connections that are being closed, which are not leaked.
    fn judge(&self, samples: &Vec<Sample>) -> Result<Judgement> {
        let restarts = self.restarts;
        let warm: Vec<Sample> =
            samples.iter().copied().filter(|it| it.restarts >= restarts / WARM_UP).collect();
        let part = warm.len() / 4;
        let parts = [&warm[..part], &warm[warm.len() - part..]];
        let [before, after] =
            parts.map(|part| spread(part.iter().map(|it| mebibytes(it.rss_bytes)))[1]);
        let growth = (after - before).max(0.0);
        let is_enough = restarts - restarts / WARM_UP >= LEAST;
        let reserve = if is_enough { "" } else { "; not judged: too few restarts" };
        let mut judgement = Judgement::default();
        judgement.line(format_args!("  restarts     {restarts} under load"));
        let text = format!(
            "{before:.2} MiB after the warm-up, {after:.2} MiB at the end, {growth:.2} MiB more, {GROWTH:.0} MiB allowed{reserve}"
        );
        judgement.add("memory", text, !is_enough || growth <= GROWTH);
        let quarter = samples.len().div_ceil(4);
        let (first, last) = (&samples[..quarter], &samples[samples.len() - quarter..]);
        let mut left = |what, of: fn(&Sample) -> usize, more: usize| {
            let [before, after] = [first, last].map(|it| it.iter().map(of).min().unwrap_or(0));
            judgement.add(what, format!("{before} before, {after} after"), after <= before + more);
        };
        left("descriptors", |it| it.descriptors, 0);
        // The pool for blocking work may have started two threads, which it keeps.
        left("threads", |it| it.threads, 2);
        judgement.files.push(("samples.csv", csv(samples)?));
        Ok(judgement)
    }
}

/// Restarts a connector, and waits until it runs again. `times` is the number of its restarts, this one included.
fn restart(process: &mut Process, api: &Api, connector: &str, times: u64) -> Result<()> {
    let path = format!("/v1/flows/restarted/connectors/{connector}");
    api.json("POST", &format!("{path}/restart"))?;
    process.until("a running connector", PATIENCE, |_| {
        let it = api.json("GET", &path)?;
        let is_back = it["state"] == "running" && it["restarts"].as_u64() >= Some(times);
        Ok(is_back.then_some(()))
    })
}

/// Measures the process while the load is paused, so that buffers in use are not counted.
fn sample(process: &mut Process, api: &Api, restarts: u64) -> Result<Sample> {
    let source = "/v1/flows/load/connectors/source";
    process.until("a flow at full load", PATIENCE, |_| {
        Ok((api.ask("POST", &format!("{source}/pause"))?.0 == 202).then_some(()))
    })?;
    process.until("a paused flow", PATIENCE, |_| {
        Ok((api.json("GET", source)?["state"] == "paused").then_some(()))
    })?;
    let rss_bytes = process.memory()?;
    let (descriptors, threads) = (process.count("fd")?, process.count("task")?);
    api.json("POST", &format!("{source}/resume"))?;
    // The load gets time to begin before the next restart.
    thread::sleep(Duration::from_millis(1));
    Ok(Sample { restarts, rss_bytes, descriptors, threads })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(samples: &Vec<Sample>, restarts: u64) -> Judgement {
        Arguments { restarts }.judge(samples).expect("the table can be written")
    }

    fn samples(change: fn(u64, &mut Sample)) -> Vec<Sample> {
        let sample = |restarts| {
            let mut sample = Sample { restarts, rss_bytes: 30 << 20, descriptors: 12, threads: 9 };
            change(restarts, &mut sample);
            sample
        };
        (0..=100).map(|it| sample(it * 100)).collect()
    }

    #[test]
    fn each_leak_exceeds_only_its_own_limit() {
        for (name, change, holds) in [
            ("nothing", (|_, _| {}) as fn(u64, &mut Sample), true),
            ("a warm-up", |at, it| it.rss_bytes += at.min(2_000) * 10_000, true),
            ("a hundred bytes per restart", |at, it| it.rss_bytes += at * 100, true),
            ("a KiB per restart", |at, it| it.rss_bytes += at * 1_024, false),
            ("a descriptor", |at, it| it.descriptors += usize::from(at > 5_000), false),
            (
                "a descriptor at times",
                |at, it| it.descriptors += usize::from(at % 700 == 200),
                true,
            ),
            ("threads", |at, it| it.threads += usize::from(at > 5_000) * 3, false),
        ] {
            let judgement = judge(&samples(change), 10_000);
            assert_eq!(judgement.broken == 0, holds, "{name}: {}", judgement.text);
        }
    }

    #[test]
    fn memory_of_few_restarts_is_not_judged() {
        let samples = samples(|at, it| it.rss_bytes += at * 1_024);
        let few: Vec<Sample> =
            samples.into_iter().map(|it| Sample { restarts: it.restarts / 20, ..it }).collect();
        let judgement = judge(&few, 500);
        assert_eq!(judgement.broken, 0);
        assert!(judgement.text.contains("not judged"), "{}", judgement.text);
    }
}
