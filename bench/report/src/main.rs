//! What `scripts/bench.sh` leaves to a program: the order of its runs, a look at what a subject
//! wrote, and the report with its statistics. `docs/benchmarks/harness.md` says how to use it.
//!
//! ```sh
//! bench-report schedule --seed 1 --rounds 10 --flows a b --subjects static plugin static-again
//! bench-report check samples/0001.json
//! bench-report report bench/out/2026-05-01
//! ```
//!
//! [`experiment`] reads the folder of a benchmark, [`analysis`] makes figures and verdicts of it with
//! [`statistics`], and [`page`] writes them as Markdown. [`chart`] draws a run that is kept.

#![allow(clippy::print_stderr)] // people read it

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
#[command(name = "bench-report", about = "The figures of scripts/bench.sh", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints the runs of a benchmark in random order: number, round, flow, subject, separated by tabs
    Schedule(schedule::Arguments),
    /// Says whether the JSON that a subject wrote is a result
    Check {
        /// What the subject wrote
        file: PathBuf,
    },
    /// Writes report.md and samples.csv into the folder of a benchmark
    Report {
        /// The folder
        folder: PathBuf,
    },
    /// Draws throughput and latency of a run that is kept in bench/runs
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
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
