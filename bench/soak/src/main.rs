//! Runs flows through plugins again and again in this one process, and writes down after each cycle
//! what it holds of memory, descriptors and threads. `cargo xtask soak` builds it, runs it, judges
//! its figures and draws them. Linux only: it asks `/proc`.

#![allow(clippy::print_stderr)] // people read it

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use soak::{Sample, Scenario, Soak, settled};

#[derive(Parser)]
#[command(about = "Runs flows again and again in one process")]
struct Arguments {
    /// What a cycle does.
    scenario: Scenario,
    /// The folder with the plugins.
    #[arg(long)]
    plugins: PathBuf,
    /// The `tremor` binary, which is asked about configurations.
    #[arg(long)]
    tremor: PathBuf,
    /// Where to write the samples.
    #[arg(long)]
    csv: PathBuf,
    /// How many cycles to run.
    #[arg(long, default_value_t = u64::MAX)]
    cycles: u64,
    /// How long to run, in seconds; whichever comes first.
    #[arg(long, default_value_t = u64::MAX)]
    seconds: u64,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The first row is from after one cycle, which loads what stays loaded, and the last from when
/// everything has settled.
fn run(arguments: &Arguments) -> Result<(), String> {
    let Arguments { scenario, plugins, tremor, csv, cycles, seconds } = arguments;
    let soak = Soak::new(plugins, tremor)?;
    let wrong = |error| format!("{}: {error}", csv.display());
    let unknown = |error| format!("/proc/self: {error}");
    let mut rows = BufWriter::new(File::create(csv).map_err(wrong)?);
    writeln!(rows, "cycle,elapsed_s,{}", Sample::COLUMNS).map_err(wrong)?;
    soak.cycle(*scenario)?;
    let start = Instant::now();
    let mut write = |cycle, sample: &Sample| {
        writeln!(rows, "{cycle},{:.3},{sample}", start.elapsed().as_secs_f64())
            .and_then(|()| rows.flush())
            .map_err(wrong)
    };
    let before = Sample::take(plugins).map_err(unknown)?;
    write(0, &before)?;
    let mut cycle = 0;
    while cycle < *cycles && start.elapsed() < Duration::from_secs(*seconds) {
        soak.cycle(*scenario)?;
        cycle += 1;
        write(cycle, &Sample::take(plugins).map_err(unknown)?)?;
    }
    write(cycle, &settled(plugins, &before).map_err(unknown)?)
}
