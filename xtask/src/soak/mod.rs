//! `cargo xtask soak`: flows that are loaded and ended, and components that panic and are restarted,
//! again and again; what the process has meanwhile is judged and drawn. Linux only.

mod judgement;
mod plot;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::built::{self, Built};
use crate::process::Program;
use crate::project::{cargo, root, run};
use crate::scenario::{Judgement, Scenario, Stage};

/// Scenarios of `bench/soak`, each run in a process of its own.
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
}

/// Samples of a run, as `bench/soak` writes them. The first is from after the cycle that loads what stays loaded, the last
/// from when everything has settled.
pub(crate) type Table = Vec<Row>;

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Row {
    cycle: f64,
    elapsed_s: f64,
    allocated_bytes: f64,
    rss_bytes: f64,
    descriptors: f64,
    threads: f64,
    libraries: f64,
    pool_threads: f64,
}

impl Scenario for Arguments {
    const NAME: &'static str = "soak";
    const PLUGINS: &'static [&'static str] = &[
        "connector-bench",
        "connector-metronome",
        "connector-null",
        "fixture-hostile",
        "fixture-mischief",
    ];
    type Found = Vec<(&'static str, Table)>;

    fn build(&self, release: bool, to: &Path) -> Result<Built> {
        ensure!(cfg!(target_os = "linux"), "a soak reads /proc: run it on Linux");
        let built = built::build(Self::PLUGINS, release, to)?;
        run(cargo([&["build", "--package=soak", "--bins"], built::profile(release)].concat()))?;
        built::copy(&built::folder(release).join("soak"), to)?;
        Ok(built)
    }

    fn play(&self, stage: &Stage<'_>) -> Result<Self::Found> {
        SCENARIOS.iter().map(|name| Ok((*name, self.soak(name, stage)?))).collect()
    }

    fn judge(&self, tables: &Self::Found) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        for (name, table) in tables {
            judgement.line(format_args!("\n{name}"));
            judgement::add(&mut judgement, table);
        }
        judgement.files.push(("soak.svg", plot::draw(tables)?));
        Ok(judgement)
    }
}

impl Arguments {
    /// Runs a scenario to its end and reads what it wrote.
    fn soak(&self, name: &str, stage: &Stage<'_>) -> Result<Table> {
        let (csv, built) = (stage.folder.join(format!("{name}.csv")), stage.built);
        let (limit, value) = match self.cycles {
            Some(cycles) => ("--cycles", cycles),
            None => ("--seconds", self.minutes * 60 / SCENARIOS.len() as u64),
        };
        let program = Program::new(built.plugins.join("soak"), name, &stage.folder).argument(name);
        let program = program.argument("--plugins").argument(built.plugins.display());
        let program = program.argument("--tremor").argument(built.tremor.display());
        let program = program.argument("--csv").argument(csv.display());
        let program = program.argument(limit).argument(value).within(root());
        eprintln!("==> {name}");
        // Each thread would keep some of what is freed, and count it as allocated.
        let mut program = program.variable("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
        program.start()?.finish()?;
        let rows = csv::Reader::from_path(&csv)?.into_deserialize().collect::<Result<Table, _>>();
        let rows = rows.with_context(|| format!("{} is no table of samples", csv.display()))?;
        ensure!(rows.len() > 1, "there is no cycle");
        Ok(rows)
    }
}
