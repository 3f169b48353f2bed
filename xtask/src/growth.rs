//! Growth of a process over many cycles of the same work, such as restarts or reloads.

use anyhow::Result;
use serde::Serialize;

use crate::process::Process;
use crate::scenario::{Judgement, csv, mebibytes, spread};

/// Maximum growth of the resident memory after the warm-up, in MiB.
const GROWTH: f64 = 1.0;
/// Divisor of the number of cycles. The quotient is the number of cycles of the warm-up, in which memory may grow to its
/// stable level.
const WARM_UP: u64 = 4;
/// Minimum number of cycles after the warm-up. With fewer cycles, memory is not judged.
const LEAST: u64 = 1_000;

/// Memory, descriptors and threads of a process after a number of cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sample {
    pub(crate) cycles: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
}

impl Sample {
    /// Measures a process.
    pub(crate) fn new(process: &Process, cycles: u64) -> Result<Self> {
        let (descriptors, threads) = (process.count("fd")?, process.count("task")?);
        Ok(Self { cycles, rss_bytes: process.memory()?, descriptors, threads })
    }
}

/// Judges the growth of a process over this number of cycles, and adds the samples to the files.
///
/// Memory is compared by the medians of the first and the last quarter of the samples after the warm-up, descriptors and
/// threads by the minima of the first and the last quarter of all samples. The minimum excludes descriptors of connections
/// that are being closed, which are not leaked.
///
/// # Errors
/// The samples cannot be written as a table.
pub(crate) fn judge(judgement: &mut Judgement, samples: &[Sample], cycles: u64) -> Result<()> {
    let warm: Vec<Sample> =
        samples.iter().copied().filter(|it| it.cycles >= cycles / WARM_UP).collect();
    let part = warm.len() / 4;
    let parts = [&warm[..part], &warm[warm.len() - part..]];
    let [before, after] =
        parts.map(|part| spread(part.iter().map(|it| mebibytes(it.rss_bytes)))[1]);
    let growth = (after - before).max(0.0);
    let is_enough = cycles - cycles / WARM_UP >= LEAST;
    let reserve = if is_enough { "" } else { "; not judged: too few cycles" };
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(samples: &[Sample], cycles: u64) -> Judgement {
        let mut judgement = Judgement::default();
        judge(&mut judgement, samples, cycles).expect("the table can be written");
        judgement
    }

    fn samples(change: fn(u64, &mut Sample)) -> Vec<Sample> {
        let sample = |cycles| {
            let mut sample = Sample { cycles, rss_bytes: 30 << 20, descriptors: 12, threads: 9 };
            change(cycles, &mut sample);
            sample
        };
        (0..=100).map(|it| sample(it * 100)).collect()
    }

    #[test]
    fn each_leak_exceeds_only_its_own_limit() {
        for (name, change, holds) in [
            ("nothing", (|_, _| {}) as fn(u64, &mut Sample), true),
            ("a warm-up", |at, it| it.rss_bytes += at.min(2_000) * 10_000, true),
            ("a hundred bytes per cycle", |at, it| it.rss_bytes += at * 100, true),
            ("a KiB per cycle", |at, it| it.rss_bytes += at * 1_024, false),
            ("a descriptor", |at, it| it.descriptors += usize::from(at > 5_000), false),
            (
                "a descriptor at times",
                |at, it| it.descriptors += usize::from(at % 700 == 200),
                true,
            ),
            ("threads", |at, it| it.threads += usize::from(at > 5_000) * 3, false),
        ] {
            let judgement = judged(&samples(change), 10_000);
            assert_eq!(judgement.broken == 0, holds, "{name}: {}", judgement.text);
        }
    }

    #[test]
    fn memory_of_few_cycles_is_not_judged() {
        let samples = samples(|at, it| it.rss_bytes += at * 1_024);
        let few: Vec<Sample> =
            samples.into_iter().map(|it| Sample { cycles: it.cycles / 20, ..it }).collect();
        let judgement = judged(&few, 500);
        assert_eq!(judgement.broken, 0);
        assert!(judgement.text.contains("not judged"), "{}", judgement.text);
    }
}
