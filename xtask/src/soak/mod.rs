//! `cargo xtask soak`: flows that are loaded and ended, and components that panic and are restarted,
//! again and again; what the process holds meanwhile, judged and drawn. Linux only.

mod build;
mod judgement;
mod plot;
mod table;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf, absolute};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use self::judgement::Judgement;
use self::table::Table;
use crate::built::Built;
use crate::project::root;

/// What `bench/soak` knows, each run in a process of its own.
const SCENARIOS: [&str; 2] = ["load", "restart"];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long to run, in minutes, both scenarios together
    #[arg(long, default_value_t = 10, value_name = "M", conflicts_with = "cycles",
          value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// How many cycles to run of each scenario, however long that takes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    cycles: Option<u64>,
    /// Build in the profile `release`
    #[arg(long)]
    release: bool,
    /// Where to write load.csv, restart.csv, soak.svg, summary.txt and what the runs print
    #[arg(long, default_value = "target/soak", value_name = "DIR")]
    output: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(cfg!(target_os = "linux"), "a soak asks /proc what its process holds: run it on Linux");
    let output = absolute(&arguments.output)?;
    fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
    let (program, built) = build::all(arguments.release, &output.join("bin"))?;
    let profile = if arguments.release { "release" } else { "dev" };
    let mut tables = Vec::new();
    let mut summary = format!("profile {profile}\n");
    let mut broken = 0;
    for scenario in SCENARIOS {
        let table = soak(scenario, &program, &built, arguments, &output)?;
        let judgement = Judgement::of(&table);
        broken += judgement.broken();
        write!(summary, "\n{scenario}\n{judgement}")?;
        tables.push((scenario, table));
    }
    print(&summary);
    write(&output.join("summary.txt"), &summary)?;
    write(&output.join("soak.svg"), &plot::draw(&tables)?)?;
    eprintln!("samples, plot and summary are in {}", output.display());
    if broken > 0 {
        bail!("{broken} bounds are broken: memory, descriptors or threads grow with the cycles");
    }
    Ok(())
}

/// Runs one scenario to its end and reads what it wrote.
fn soak(
    scenario: &str,
    program: &Path,
    built: &Built,
    arguments: &Arguments,
    output: &Path,
) -> Result<Table> {
    let csv = output.join(format!("{scenario}.csv"));
    let log = output.join(format!("{scenario}.log"));
    let mut command = Command::new(program);
    command.arg(scenario).arg("--plugins").arg(&built.plugins);
    command.arg("--tremor").arg(&built.tremor).arg("--csv").arg(&csv);
    let (limit, value) = match arguments.cycles {
        Some(cycles) => ("--cycles", cycles),
        None => ("--seconds", arguments.minutes * 60 / SCENARIOS.len() as u64),
    };
    command.arg(limit).arg(value.to_string());
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    eprintln!("==> {scenario}");
    // Each thread would keep some of what is freed, and count it as allocated.
    command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
    // Every panic of a plugin prints a line.
    let status = command.stderr(file).current_dir(root()).status();
    let status = status.with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(status.success(), "the soak `{scenario}` failed: {status}; see {}", log.display());
    let text = fs::read_to_string(&csv).with_context(|| format!("no {}", csv.display()))?;
    text.parse().with_context(|| format!("{} is no table of samples", csv.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[allow(clippy::print_stdout)] // what was asked for
fn print(summary: &str) {
    print!("{summary}");
}
