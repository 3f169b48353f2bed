//! A tool of `scripts/bench.sh`: computes the order of runs, checks the results that subjects wrote, and writes the
//! report with its statistics. `docs/benchmarks/harness.md` describes its use.
//!
//! ```sh
//! bench-report schedule --seed 1 --rounds 10 --flows a b --subjects static plugin static-again
//! bench-report check samples/0001.json
//! bench-report report bench/out/2026-05-01
//! ```
//!
//! [`experiment`] reads the folder of a benchmark, [`analysis`] computes figures and verdicts with [`statistics`], and
//! [`page`] writes them as Markdown. [`chart`] draws a run in `bench/runs`.

#![allow(clippy::print_stderr)] // because people read the output

mod analysis;
mod chart;
mod experiment;
mod format;
mod overview;
mod page;
mod report;
mod sample;
mod schedule;
mod statistics;
mod theme;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(
    name = "bench-report",
    about = "Computes schedules and reports for scripts/bench.sh",
    version
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints the runs of a benchmark in random order: number, round, flow, subject, separated by tabs
    Schedule(schedule::Arguments),
    /// Checks whether the JSON that a subject wrote is a result
    Check {
        /// File that the subject wrote
        file: PathBuf,
    },
    /// Writes report.md and samples.csv into the folder of a benchmark
    Report {
        /// Folder of the benchmark
        folder: PathBuf,
    },
    /// Draws throughput and latency of a run in bench/runs
    Chart(chart::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Schedule(arguments) => schedule::print(&arguments),
        Command::Check { file } => sample::Sample::read(&file).map(drop),
        Command::Report { folder } => report::write(&folder),
        Command::Chart(arguments) => chart::write(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
