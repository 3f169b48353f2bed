//! Repairs of logs whose segments have lost both headers, or that contain files with wrong names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::commit::Progress;
use crate::disk::{Disk, Open};
use crate::error::{InspectError, RepairError};
use crate::mend::{Repair, repair_on};
use crate::tests::disk::SimDisk;
use crate::tests::model::{DIR, Stepped, numbered};

const SEGMENTS: u64 = 6;

/// Random logs, and damaged copies of each.
const SEEDS: u64 = 20;
const COPIES: u64 = 5;

/// Makes a log with several segments that has settled some records.
fn sample(seed: u64) -> (SimDisk, fastrand::Rng) {
    let disk = SimDisk::new(seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut log = Stepped::open(&disk, SEGMENTS).unwrap();
    for id in 1..random.u64(20..200) {
        log.append(numbered(id, random.usize(..4000)), |_| ());
        while log.committer.step() == Progress::Worked {}
        let next = log.shared.lock().next;
        if log.shared.lock().is_full {
            log.settle(1, next - random.u64(1..20).min(next - 1));
        } else if random.u8(..4) == 0 {
            let number = random.u64(1..next);
            log.settle(number, number);
        }
        while log.committer.rest() == Progress::Worked {}
    }
    drop(log);
    disk.kill();
    (disk, random)
}

fn repaired(disk: &SimDisk) -> Result<Vec<Repair>, RepairError> {
    repair_on(Arc::new(disk.clone()), Path::new(DIR))
}

fn payloads(disk: &SimDisk) -> Vec<(u64, Vec<u8>)> {
    let mut log = Stepped::open(&disk.fork(), SEGMENTS).unwrap();
    log.read_all().iter().map(|it| (it.number, it.payload().to_vec())).collect()
}

fn segments(disk: &SimDisk) -> Vec<PathBuf> {
    let files = disk.digest().into_iter().map(|(dir, name, _)| dir.join(name));
    files.filter(|it| it.extension().is_some_and(|it| it == "segment")).collect()
}

#[test]
fn segments_without_headers_are_read_again() {
    let mut rebuilt = 0;
    for seed in 1..=SEEDS {
        let (disk, mut random) = sample(seed);
        let before = payloads(&disk);
        for copy in 0..COPIES {
            let damaged = disk.fork();
            let mut contents = Vec::new();
            for path in segments(&damaged) {
                if random.u8(..3) > 0 {
                    continue;
                }
                let mut bytes = damaged.contents(&path);
                bytes[..8192].fill_with(|| random.u8(..));
                damaged.set_contents(&path, &bytes);
                contents.push((path, bytes));
            }
            let repairs = repaired(&damaged).unwrap_or_else(|it| panic!("seed {seed}: {it}"));
            assert_eq!(repairs.len(), contents.len(), "seed {seed}, copy {copy}: {repairs:?}");
            for repair in &repairs {
                let (path, aside) = match repair {
                    Repair::Headers { path, copy, .. } => (path, copy),
                    Repair::Unreadable { path, to } | Repair::Renamed { path, to } => (path, to),
                };
                let expected = contents.iter().find(|it| it.0 == *path).map(|it| &it.1);
                assert_eq!(expected, Some(&damaged.contents(aside)), "seed {seed}");
                rebuilt += usize::from(matches!(repair, Repair::Headers { .. }));
            }
            let after = payloads(&damaged);
            let lost: Vec<_> =
                before.iter().filter(|it| !after.contains(it)).map(|it| it.0).collect();
            assert!(lost.is_empty(), "seed {seed}, copy {copy}: {lost:?}, {repairs:?}");
            assert!(after.is_sorted_by_key(|it| it.0), "seed {seed}, copy {copy}");
            let log = Stepped::open(&damaged, SEGMENTS).unwrap();
            let certain = log.opened.damage.iter().find(|it| it.kind.is_certain());
            assert_eq!(certain, None, "seed {seed}, copy {copy}: {repairs:?}");
        }
    }
    assert!(rebuilt > 50, "{rebuilt}");
}

#[test]
fn intact_log_is_not_changed() {
    let (disk, _) = sample(1);
    let before = disk.digest();
    assert_eq!(repaired(&disk).unwrap(), []);
    assert_eq!(disk.digest(), before);
}

#[test]
fn log_in_use_and_other_folders_are_refused() {
    let disk = SimDisk::new(1);
    let error = repaired(&disk).unwrap_err();
    assert!(matches!(error, RepairError::Inspect(InspectError::NotFound(_))), "{error}");
    let log = Stepped::open(&disk, SEGMENTS).unwrap();
    let error = repaired(&disk).unwrap_err();
    assert!(matches!(error, RepairError::InUse(_)), "{error}");
    drop(log);
    disk.create_dir(Path::new("/etc")).unwrap();
    let error = repair_on(Arc::new(disk.clone()), Path::new("/etc")).unwrap_err();
    assert!(matches!(error, RepairError::Inspect(InspectError::NotALog(_))), "{error}");
}

#[test]
fn file_that_prevents_opening_is_renamed() {
    let (disk, _) = sample(1);
    let before = payloads(&disk);
    let path = Path::new(DIR).join("7.segment");
    disk.open(&path, Open::Empty).unwrap();
    assert!(Stepped::open(&disk.fork(), SEGMENTS).is_err());
    let to = Path::new(DIR).join("7.segment.aside");
    assert_eq!(repaired(&disk).unwrap(), [Repair::Renamed { path, to }]);
    assert_eq!(payloads(&disk), before);
}
