//! `cargo xtask disk-queue`: measures flows with a queue on disk, each beside what it is compared with: the flow without
//! a queue, the log alone, and a loop of writes and syncs.

mod parts;

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::built::{self, Built, copy, profile};
use crate::project::{cargo, profile_folder, run};
use crate::scenario::{Judgement, Scenario, Stage, csv, spread};

/// The flow `passthrough-json` with a queue in memory of the machine, beside the flow without it.
const THROUGHPUT: &str = "throughput";
/// A flow that fills a queue on disk, beside the log alone.
const COMMITS: &str = "commits";
/// The acknowledgement of a single event, beside a write and a sync.
const ACKNOWLEDGEMENT: &str = "acknowledgement";
/// The first event after a start with a queue that was there.
const START: &str = "start";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of measurements of each figure
    #[arg(long, default_value_t = 5, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Duration of each measurement of throughput, in seconds
    #[arg(long, default_value_t = 5.0, value_name = "S")]
    seconds: f64,
    /// Number of events with which queues are filled
    #[arg(long, default_value_t = 500_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1_000..))]
    events: u64,
}

/// A measurement, and what it is compared with.
#[derive(Clone, Debug, Serialize)]
struct Sample {
    round: u64,
    /// Value of the flow with the queue.
    queue: f64,
    /// Value of what it is compared with; 0 if the limit is a number.
    other: f64,
    /// Further figures.
    remark: String,
}

/// Samples of a part.
#[derive(Debug)]
pub(crate) struct Found {
    part: &'static str,
    samples: Vec<Sample>,
}

/// Limit of a part.
struct Limit {
    unit: &'static str,
    other: &'static str,
    /// Returns the figure that is judged.
    figure: fn(&Sample) -> f64,
    /// Least or greatest value of the median of the figures.
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    fn of(part: &str) -> Self {
        let ratio = |it: &Sample| it.queue / it.other;
        match part {
            THROUGHPUT => Self {
                unit: "events/s",
                other: "without a queue",
                figure: ratio,
                bound: Bound::AtLeast(0.5),
            },
            COMMITS => Self {
                unit: "MB/s",
                other: "the log alone",
                figure: ratio,
                bound: Bound::AtLeast(0.9),
            },
            ACKNOWLEDGEMENT => Self {
                unit: "us at p50",
                other: "a write and a sync",
                figure: ratio,
                bound: Bound::AtMost(1.3),
            },
            _ => Self {
                unit: "ms",
                other: "nothing",
                figure: |it| it.queue,
                bound: Bound::AtMost(100.0),
            },
        }
    }
}

impl Scenario for Arguments {
    const NAME: &'static str = "disk-queue";
    const PLUGINS: &'static [&'static str] =
        &["connector-bench", "connector-file", "connector-http", "fixture-answered"];
    const PARTS: &'static [&'static str] = &[THROUGHPUT, COMMITS, ACKNOWLEDGEMENT, START];
    type Found = Found;

    fn build(&self, release: bool, to: &Path) -> Result<Built> {
        let built = built::build(Self::PLUGINS, release, to)?;
        let example = ["build", "--package=tremor-log", "--example=commits"];
        run(cargo([&example, profile(release)].concat()))?;
        copy(&profile_folder(release).join("examples/commits"), to)?;
        Ok(built)
    }

    fn play(&self, stage: &Stage<'_>) -> Result<Found> {
        let measure = match stage.part {
            THROUGHPUT => parts::throughput,
            COMMITS => parts::commits,
            ACKNOWLEDGEMENT => parts::acknowledgement,
            _ => parts::start,
        };
        let samples = (0..self.rounds).map(|round| measure(self, stage, round));
        Ok(Found { part: stage.part, samples: samples.collect::<Result<_>>()? })
    }

    fn judge(&self, found: &Found) -> Result<Judgement> {
        let Limit { unit, other, figure, bound } = Limit::of(found.part);
        let mut judgement = Judgement::default();
        for sample in &found.samples {
            judgement.line(format_args!(
                "               {:.1} {unit}; {other}: {:.1} {}",
                sample.queue, sample.other, sample.remark
            ));
        }
        let [low, median, high] = spread(found.samples.iter().map(figure));
        let (holds, text) = match bound {
            Bound::AtLeast(least) => (median >= least, format!("at least {least} required")),
            Bound::AtMost(most) => (median <= most, format!("at most {most} allowed")),
        };
        judgement.add(
            found.part,
            format!("median {median:.2} ({low:.2}, {high:.2}), {text}"),
            holds,
        );
        judgement.files.push(("samples.csv", csv(&found.samples)?));
        Ok(judgement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(part: &'static str, queue: f64, other: f64) -> usize {
        let samples = vec![Sample { round: 0, queue, other, remark: String::new() }];
        let arguments = Arguments { rounds: 1, seconds: 1.0, events: 1_000 };
        arguments.judge(&Found { part, samples }).expect("the table can be written").broken
    }

    #[test]
    fn each_part_is_judged_by_its_own_limit() {
        for (part, good, bad, other) in [
            (THROUGHPUT, 50.0, 49.0, 100.0),
            (COMMITS, 90.0, 89.0, 100.0),
            (ACKNOWLEDGEMENT, 130.0, 131.0, 100.0),
            (START, 100.0, 101.0, 0.0),
        ] {
            assert_eq!((broken(part, good, other), broken(part, bad, other)), (0, 1), "{part}");
        }
        assert_eq!(broken(COMMITS, f64::NAN, 1.0), 1);
    }
}
