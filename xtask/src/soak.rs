//! `cargo xtask soak`: repeatedly loads and ends flows, and restarts components that panic, and checks that memory,
//! descriptors, threads and libraries do not grow. Linux only.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::built::{self, Built};
use crate::process::Program;
use crate::project::{cargo, profile_folder, root, run};
use crate::scenario::{Judgement, Scenario, Stage};

/// Scenarios of `bench/soak`. Each runs in a process of its own.
const SCENARIOS: [&str; 2] = ["load", "restart"];

/// Share of the cycles, from the first one on, in which memory may grow to its stable level.
const WARM_UP: f64 = 0.5;
/// Minimum number of cycles after the warm-up. Memory is not judged if there are fewer.
const LEAST_CYCLES: usize = 100;
/// Maximum growth of allocated memory per cycle after the warm-up, in bytes: the size of four of the smallest blocks of
/// glibc.
const ALLOCATED: f64 = 128.0;
/// Maximum growth of resident memory per cycle after the warm-up, in bytes. The limit finds memory that does not come
/// from an allocator. It is large, because allocators take some hundred cycles to reach a stable level.
const RESIDENT: f64 = 4_096.0;
/// Maximum number of threads of the pool for blocking work. The pool needs only a few, because few
/// blocking jobs run at a time.
const POOL: f64 = 8.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Duration of both scenarios together, in minutes
    #[arg(long, default_value_t = 10, value_name = "M",
          value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
}

/// Samples of a run, as `bench/soak` writes them. The first sample is taken after the first cycle, which loads the
/// libraries, and the last one when descriptors and threads have been released, or after 30 seconds.
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
    const PLUGINS: &'static [&'static str] =
        &["connector-bench", "connector-metronome", "connector-null", "fixture-faults"];
    type Found = Vec<(&'static str, Table)>;

    fn build(&self, release: bool, to: &Path) -> Result<Built> {
        ensure!(cfg!(target_os = "linux"), "the soak test reads /proc, so it runs only on Linux");
        let built = built::build(Self::PLUGINS, release, to)?;
        run(cargo([&["build", "--package=soak", "--bins"], built::profile(release)].concat()))?;
        built::copy(&profile_folder(release).join("soak"), to)?;
        Ok(built)
    }

    fn play(&self, stage: &Stage<'_>) -> Result<Self::Found> {
        SCENARIOS.iter().map(|name| Ok((*name, self.soak(name, stage)?))).collect()
    }

    fn judge(&self, tables: &Self::Found) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        for (name, table) in tables {
            judgement.line(format_args!("\n{name}"));
            add(&mut judgement, table);
        }
        Ok(judgement)
    }
}

impl Arguments {
    /// Runs a scenario to its end, and returns its samples.
    fn soak(&self, name: &str, stage: &Stage<'_>) -> Result<Table> {
        let (csv, built) = (stage.folder.join(format!("{name}.csv")), stage.built);
        let seconds = self.minutes * 60 / SCENARIOS.len() as u64;
        let program = Program::new(built.plugins.join("soak"), name, &stage.folder).argument(name);
        let program = program.argument("--plugins").argument(built.plugins.display());
        let program = program.argument("--tremor").argument(built.tremor.display());
        let program = program.argument("--csv").argument(csv.display());
        let program = program.argument("--seconds").argument(seconds).within(root());
        eprintln!("==> {name}");
        // The caches of threads would keep freed blocks, which glibc counts as allocated.
        let mut program = program.variable("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
        program.start()?.finish()?;
        let rows = csv::Reader::from_path(&csv)?.into_deserialize().collect::<Result<Table, _>>();
        let rows = rows.with_context(|| format!("{} is not a table of samples", csv.display()))?;
        ensure!(rows.len() > 1, "the samples contain no cycle after the first");
        Ok(rows)
    }
}

/// Judges the samples of a run.
fn add(judgement: &mut Judgement, rows: &[Row]) {
    let first = rows.first().copied().unwrap_or_default();
    let last = rows.last().copied().unwrap_or_default();
    let (cycles, elapsed) = (last.cycle, last.elapsed_s);
    judgement.line(format_args!("  cycles       {cycles} in {elapsed:.0} s"));
    memory(judgement, "allocated", rows, ALLOCATED, |row| row.allocated_bytes);
    memory(judgement, "resident", rows, RESIDENT, |row| row.rss_bytes);
    for (what, before, after) in [
        ("descriptors", first.descriptors, last.descriptors),
        ("threads", first.threads, last.threads),
        ("libraries", first.libraries, last.libraries),
    ] {
        let text = format!("{before} at the start, {after} at the end");
        judgement.add(what, text, after <= before);
    }
    let pool = rows.iter().map(|row| row.pool_threads).fold(0.0, f64::max);
    judgement.add("pool", format!("{pool} threads at most, {POOL} allowed"), pool <= POOL);
}

fn memory(judgement: &mut Judgement, what: &str, rows: &[Row], bound: f64, bytes: fn(&Row) -> f64) {
    let cycles = rows.last().map_or(0.0, |row| row.cycle);
    let warm: Vec<_> = rows
        .iter()
        .filter(|row| row.cycle > cycles * WARM_UP)
        .map(|row| (row.cycle, bytes(row)))
        .collect();
    let growth = slope(&warm);
    let mebibytes = |row: Option<&(f64, f64)>| row.map_or(0.0, |row| row.1 / f64::from(1 << 20));
    let (from, to) = (mebibytes(warm.first()), mebibytes(warm.last()));
    let is_enough = warm.len() >= LEAST_CYCLES;
    let few = format!("; not judged: {} cycles, {LEAST_CYCLES} are needed", warm.len());
    let reserve = if is_enough { "" } else { &few };
    let text = format!(
        "{from:.2} MiB after the warm-up, {to:.2} MiB at the end, {growth:.0} bytes per cycle, {bound} allowed{reserve}"
    );
    judgement.add(what, text, !is_enough || growth <= bound);
}

/// Returns the slope of bytes over cycles, in bytes per cycle, by least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    #[allow(clippy::cast_precision_loss)] // fewer than 2^53 rows
    let count = points.len() as f64;
    let cycle = points.iter().map(|point| point.0).sum::<f64>() / count;
    let bytes = points.iter().map(|point| point.1).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|point| (point.0 - cycle).powi(2)).sum();
    let product: f64 = points.iter().map(|point| (point.0 - cycle) * (point.1 - bytes)).sum();
    if spread > 0.0 { product / spread } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{Judgement, Row, add};

    /// Judges rows of `cycles` cycles, which are constant except for the changes by `change`.
    fn judged(cycles: u32, change: fn(f64, &mut Row)) -> Judgement {
        let rows = (0..=cycles).map(f64::from).map(|cycle| {
            let mut row = Row { cycle, rss_bytes: 3e7, descriptors: 9.0, ..Row::default() };
            change(cycle, &mut row);
            row
        });
        let mut judgement = Judgement::default();
        add(&mut judgement, &rows.collect::<Vec<_>>());
        judgement
    }

    #[test]
    fn each_leak_exceeds_only_its_own_limit() {
        for (name, change, expected) in [
            ("nothing", (|_, _| {}) as fn(f64, &mut Row), 0),
            ("half a KiB per cycle", |cycle, row| row.rss_bytes += cycle * 512.0, 0),
            ("8 KiB per cycle", |cycle, row| row.rss_bytes += cycle * 8_192.0, 1),
            ("a word per cycle", |cycle, row| row.allocated_bytes += cycle * 8.0, 0),
            ("ten blocks per cycle", |cycle, row| row.allocated_bytes += cycle * 320.0, 1),
            ("a warm-up", |cycle, row| row.rss_bytes += cycle.min(100.0) * 1e5, 0),
            ("a descriptor", |cycle, row| row.descriptors += f64::from(cycle > 300.0), 1),
            (
                "a descriptor for a while",
                |cycle, row| {
                    row.descriptors += f64::from((299.5..300.5).contains(&cycle));
                },
                0,
            ),
            ("a thread per cycle", |cycle, row| row.threads += cycle, 1),
            ("a library", |cycle, row| row.libraries += f64::from(cycle > 0.0), 1),
            ("a pool of nine", |cycle, row| row.pool_threads = 9.0_f64.min(cycle), 1),
        ] {
            assert_eq!(judged(400, change).broken, expected, "{name}");
        }
    }

    #[test]
    fn memory_of_few_cycles_is_not_judged() {
        let judgement = judged(100, |cycle, row| row.rss_bytes += cycle * 1e6);
        assert_eq!(judgement.broken, 0);
        assert!(judgement.text.contains("not judged: 50 cycles"), "{}", judgement.text);
    }
}
