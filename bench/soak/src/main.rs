//! Repeatedly runs flows with plugins in this process, and records its memory, descriptors and
//! threads after each cycle. `cargo xtask soak` builds and runs this program, and judges its
//! figures. Linux only, because it reads `/proc`.

#![allow(clippy::print_stderr)] // people read the output

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
#[command(about = "Repeatedly runs flows in one process")]
struct Arguments {
    /// Flows that each cycle runs.
    scenario: Scenario,
    /// Folder with the plugins.
    #[arg(long)]
    plugins: PathBuf,
    /// The `tremor` binary, which checks configurations.
    #[arg(long)]
    tremor: PathBuf,
    /// File for the samples.
    #[arg(long)]
    csv: PathBuf,
    /// Number of cycles.
    #[arg(long, default_value_t = u64::MAX)]
    cycles: u64,
    /// Duration in seconds. The program ends when it reaches this duration or the number of cycles.
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

/// Runs the cycles. The first row is recorded after one cycle, which loads everything that stays
/// loaded, and the last row after everything has settled.
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
