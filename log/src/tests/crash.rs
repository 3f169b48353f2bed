//! Crashes at every operation of random workloads.

use std::env;

use crate::commit::Progress;
use crate::tests::disk::SimDisk;
use crate::tests::model::{Model, Stepped};

/// Crash points that CI runs.
const CRASHES: u64 = 10_000;

/// Seeds and crash points that have found a fault.
pub(super) const FAILED: [(u64, u64); 2] =
    [(750_501_890_949_050_719, 160), (1_374_337_160_206_681_094, 22)];

/// Runs of a log between its creation and the last comparison.
const LIVES: u32 = 3;

/// Crashes while the log is opened after a crash, at most.
const CRASHES_OF_OPENING: u32 = 2;

/// Result of a run.
pub(super) struct Ran {
    pub(super) crashes: u64,
    /// `true` if the first workload ended before its crash.
    pub(super) is_complete: bool,
}

/// Runs the workload of a seed, with a crash at its operation `crash_at`. Later workloads, and openings, crash at random
/// operations.
pub(super) fn run(seed: u64, crash_at: u64) -> Result<Ran, String> {
    let disk = SimDisk::new(seed ^ crash_at.rotate_left(32));
    let mut random = fastrand::Rng::with_seed(seed);
    let segments = random.u64(3..6);
    // A third of the disks never fail, so that the causes of a failure stay apart.
    let fails_one_in = [0, 20, 60][random.usize(..3)];
    let mut model = Model::default();
    disk.trace(env::var_os("TREMOR_SEED").is_some());
    let mut ran = Ran { crashes: 0, is_complete: false };
    for life in 0..LIVES {
        disk.fail_one_in(fails_one_in);
        disk.stop_after(if life == 0 { crash_at } else { random.u64(1..200) });
        if let Some(mut log) = open(&disk, segments) {
            model.verify(&mut log)?;
            workload(&disk, &mut log, &mut random, &mut model)?;
        }
        if life == 0 {
            ran.is_complete = !disk.is_stopped();
            // The rest of the run has to differ between the crash points of a workload.
            random = fastrand::Rng::with_seed(seed ^ crash_at.rotate_left(16));
        }
        ran.crashes += 1;
        crash(&disk, &mut random);
        for _ in 0..random.u32(..=CRASHES_OF_OPENING) {
            disk.stop_after(random.u64(1..60));
            if let Ok(mut log) = Stepped::open(&disk, segments)
                && !disk.is_stopped()
            {
                // A delivered record is a promise.
                model.verify(&mut log)?;
            }
            ran.crashes += 1;
            crash(&disk, &mut random);
        }
    }
    finish(&disk, segments, &mut model)?;
    Ok(ran)
}

/// Opens a log on a disk that does not fail, shows that it works, and compares it with the model.
fn finish(disk: &SimDisk, segments: u64, model: &mut Model) -> Result<(), String> {
    disk.fail_one_in(0);
    let mut log = Stepped::open(disk, segments).map_err(|it| it.to_string())?;
    model.verify(&mut log)?;
    model.unsettled().into_iter().for_each(|it| model.settle(&log, it));
    for len in [10, 12_000, 3000, 15_000, 100] {
        model.append(&log, len)?;
        while log.committer.step() == Progress::Worked {}
        model.acknowledgements()?;
        if len > 10_000 {
            model.unsettled().into_iter().for_each(|it| model.settle(&log, it));
        }
    }
    model.note_durably_settled(&log);
    if log.shared.lock().staged_bytes > 0 {
        let state = log.shared.lock();
        let live: Vec<_> =
            state.live.iter().map(|(it, live)| (it, live.id, live.first, live.last)).collect();
        return Err(format!(
            "records wait although all others are settled: {live:?}, {:?}",
            state.settled
        ));
    }
    drop(log);
    disk.lose_power();
    let mut log = Stepped::open(disk, segments).map_err(|it| it.to_string())?;
    model.verify(&mut log)
}

fn crash(disk: &SimDisk, random: &mut fastrand::Rng) {
    if random.u8(..4) == 0 { disk.kill() } else { disk.lose_power() }
}

/// Opens the log. An error of the disk is retried, as a caller would. Returns `None` when the machine stops.
fn open(disk: &SimDisk, segments: u64) -> Option<Stepped> {
    while !disk.is_stopped() {
        // The machine may also stop during the last operation, whose error does not matter to the log.
        if let Ok(log) = Stepped::open(disk, segments)
            && !disk.is_stopped()
        {
            return Some(log);
        }
    }
    None
}

/// Uses the log until the machine stops or the workload ends.
fn workload(
    disk: &SimDisk,
    log: &mut Stepped,
    random: &mut fastrand::Rng,
    model: &mut Model,
) -> Result<(), String> {
    let mut delivered = Vec::new();
    for _ in 0..random.usize(60..500) {
        if disk.is_stopped() {
            break;
        }
        match random.u8(..16) {
            0..5 => {
                let is_small = random.u8(..8) > 0;
                let len = if is_small { random.usize(..3000) } else { random.usize(..16_000) };
                if log.shared.lock().staged_bytes < 40_000 {
                    model.append(log, len)?;
                }
            }
            5..10 => {
                let _: Progress = log.committer.step();
                model.acknowledgements()?;
            }
            10..12 => {
                for _ in 0..random.u32(1..5) {
                    delivered.extend(model.read(log)?);
                }
            }
            12..15 => {
                for _ in 0..random.usize(1..4).min(delivered.len()) {
                    // Mostly in order, and sometimes all but one, which then holds its segment.
                    let index = if random.bool() { 0 } else { random.usize(..delivered.len()) };
                    model.settle(log, delivered.remove(index));
                }
            }
            _ => {
                let _: Progress = log.committer.rest();
            }
        }
        if !disk.is_stopped() {
            model.note_durably_settled(log);
        }
    }
    Ok(())
}

/// Runs crash points until there were `count` of them, or until one fails.
pub(super) fn run_many(first_seed: u64, count: u64) -> Result<u64, String> {
    let mut crashes = 0;
    for seed in first_seed.. {
        for crash_at in 1.. {
            let ran = run(seed, crash_at).map_err(|it| {
                format!("{it}\nreplay with TREMOR_SEED={seed}:{crash_at} cargo test -p tremor-log crash_at_any")
            })?;
            crashes += ran.crashes;
            if ran.is_complete {
                break;
            }
            if crashes >= count {
                return Ok(crashes);
            }
        }
    }
    Ok(crashes)
}

#[test]
fn crash_at_any_operation_loses_no_promise() {
    if let Some((seed, crash_at)) =
        env::var("TREMOR_SEED").ok().as_deref().and_then(|it| it.split_once(':'))
    {
        run(seed.parse().unwrap(), crash_at.parse().unwrap()).map(drop).unwrap();
        return;
    }
    for (seed, crash_at) in FAILED {
        run(seed, crash_at).unwrap_or_else(|it| panic!("seed {seed}, crash {crash_at}: {it}"));
    }
    let count = env::var("TREMOR_LOG_CRASHES").ok();
    // The long form draws other seeds each time.
    let first = if count.is_some() { fastrand::u64(1 << 32..1 << 62) } else { 1 };
    let count = count.map_or(CRASHES, |it| it.parse().expect("TREMOR_LOG_CRASHES is a number"));
    let crashes = run_many(first, count).unwrap_or_else(|it| panic!("{it}"));
    println!("{crashes} crashes from seed {first}");
}
