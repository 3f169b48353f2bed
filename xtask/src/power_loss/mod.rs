//! `cargo xtask power-loss`: runs a program that appends records to a log on a file system that loses what was not
//! synced. Fails the power at random operations, also while the log is opened, and checks that each acknowledged record
//! is found again, once and in order.

mod model;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use self::model::Model;
use crate::built::{Built, copy, profile};
use crate::lossy::{Faults, Loss, LossyDisk, Planted};
use crate::process::{Program, wait};
use crate::project::{cargo, profile_folder, run};
use crate::scenario::{Judgement, PATIENCE, Scenario, Stage};

/// Number of processes of a run that are killed.
const LIVES: u64 = 4;
/// Number of threads of each process.
const THREADS: u64 = 8;
/// Maximum number of runs in which a planted fault has to be found.
const PLANTED_RUNS: u64 = 100;

/// The part that has to keep its promises. Each other part has a planted fault, which has to be found.
const HONEST: &str = "honest";
const SYNCS: &str = "ignored-syncs";
const FOLDER_SYNCS: &str = "ignored-folder-syncs";
const NO_SYNC: &str = "program-without-syncs";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of runs, each with a new log
    #[arg(long, default_value_t = 50, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Seed of the first run, which determines when the power fails and what is lost
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
}

/// Figures of the runs of a part.
#[derive(Debug, Default)]
pub(crate) struct Found {
    part: &'static str,
    runs: u64,
    /// Number of kills, and how many of them happened before the log was open.
    kills: u64,
    while_opening: u64,
    acknowledged: u64,
    /// Number of times that a record was read by a later process.
    read: u64,
    /// Broken promises, each with the seed of its run.
    broken: Vec<String>,
}

impl Scenario for Arguments {
    const NAME: &'static str = "power-loss";
    const PARTS: &'static [&'static str] = &[HONEST, SYNCS, FOLDER_SYNCS, NO_SYNC];
    type Found = Found;

    /// Builds the example instead of `tremor`.
    fn build(&self, release: bool, to: &Path) -> Result<Built> {
        let build = ["build", "--package=tremor-log", "--example=append"];
        run(cargo([&build, profile(release)].concat()))?;
        fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
        copy(&profile_folder(release).join("examples/append"), to)?;
        Ok(Built { tremor: to.join("append"), plugins: to.to_owned() })
    }

    fn play(&self, stage: &Stage<'_>) -> Result<Found> {
        let mut found = Found { part: stage.part, ..Found::default() };
        let is_honest = stage.part == HONEST;
        for number in 0..if is_honest { self.runs } else { PLANTED_RUNS } {
            let seed = self.seed.wrapping_add(number);
            found.runs += 1;
            let log = format!("seed-{seed}");
            match play(stage, &log, seed, &mut found)? {
                Ok(()) => fs::remove_file(stage.folder.join(format!("{log}.log")))?,
                Err(error) => found.broken.push(format!("seed {seed}: {error:#}")),
            }
            if !is_honest && !found.broken.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    fn judge(&self, found: &Found) -> Result<Judgement> {
        let Found { part, runs, kills, while_opening, acknowledged, read, broken } = found;
        let mut judgement = Judgement::default();
        judgement.line(format_args!(
            "  runs         {runs}, seeds from {}: {kills} kills, {while_opening} of them before the log was open; \
             {acknowledged} records acknowledged, {read} found",
            self.seed
        ));
        let count = broken.len();
        if *part == HONEST {
            judgement.add("broken", format!("{count} promises, 0 allowed"), count == 0);
        } else {
            judgement.add("planted", format!("{part}: found {count} times, 1 expected"), count > 0);
        }
        broken.iter().for_each(|it| judgement.line(format_args!("               {it}")));
        Ok(judgement)
    }
}

/// Kills processes that use a log, until one reads it to its end. The inner error is a broken promise.
fn play(stage: &Stage<'_>, log: &str, seed: u64, found: &mut Found) -> Result<Result<()>> {
    let mut model = Model::default();
    let result = kill(stage, log, seed, (&mut model, found));
    found.acknowledged += model.acknowledged;
    found.read += model.found;
    result
}

fn kill(
    stage: &Stage<'_>,
    log: &str,
    seed: u64,
    (model, found): (&mut Model, &mut Found),
) -> Result<Result<()>> {
    let planted = match stage.part {
        SYNCS => Some(Planted::Syncs),
        FOLDER_SYNCS => Some(Planted::FolderSyncs),
        _ => None,
    };
    let mut disk = LossyDisk::mount(seed)?;
    let mut random = fastrand::Rng::with_seed(seed);
    // On two of three disks, no operation fails before the power does, so that the causes of a failure stay apart.
    let one_in = [0, 0, 40][random.usize(..3)];
    let start = |disk: &LossyDisk, life: u64, mode: &str| {
        let program = Program::new(&stage.built.tremor, log, &stage.folder);
        let program = program.argument(disk.path().join("folder/log").display());
        program.argument(life).argument(THREADS).argument(mode).start()
    };
    for life in 0..LIVES {
        // The first process creates the log. A fault that prevents this would hide the loss of records.
        let mode = if stage.part == NO_SYNC && life > 0 { "no-sync" } else { "" };
        if let Some(planted) = planted
            && life > 0
        {
            disk.plant(planted);
        }
        disk.set_faults(Faults { one_in, ..Faults::default() });
        let last = if random.u8(..3) == 0 { 40 } else { 400 };
        disk.fail_power_at(random.u64(1..last));
        let mut process = start(&disk, life, mode)?;
        wait("a failure of the power", PATIENCE, || {
            Ok((disk.is_off() || process.ended()?.is_some()).then_some(()))
        })?;
        process.kill()?;
        found.kills += 1;
        match model.add(&process.log()?) {
            Ok(is_open) => found.while_opening += u64::from(!is_open),
            Err(error) => return Ok(Err(error)),
        }
        disk.restart(
            [None, Some(Loss::Everything), Some(Loss::Some), Some(Loss::Some)][random.usize(..4)],
        )?;
    }
    disk.set_faults(Faults::default());
    let mut process = start(&disk, LIVES, "verify")?;
    let status = process.end(PATIENCE)?;
    let printed = process.log()?;
    Ok(model.add(&printed).and_then(|is_open| {
        ensure!(is_open && status.success(), "the log does not open: {status}: {printed}");
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_part_allows_no_fault_and_others_expect_one() {
        let arguments = Arguments { runs: 1, seed: 1 };
        let broken = |part, broken: &[&str]| {
            let broken = broken.iter().map(|it| (*it).to_owned()).collect();
            let found = Found { part, broken, ..Found::default() };
            arguments.judge(&found).expect("nothing is written").broken
        };
        assert_eq!((broken(HONEST, &[]), broken(HONEST, &["lost"])), (0, 1));
        assert_eq!((broken(SYNCS, &[]), broken(SYNCS, &["lost"])), (1, 0));
    }
}
