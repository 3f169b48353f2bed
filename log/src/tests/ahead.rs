//! Scans of segments by several threads.

use std::sync::Arc;

use crate::commit::Progress;
use crate::files::Files;
use crate::find::find;
use crate::scanner::{Scanned, Scanner};
use crate::tests::disk::SimDisk;
use crate::tests::model::{DIR, Stepped, numbered};

/// Returns a disk with a log of several segments, some of whose records are settled, and the paths of the segments.
fn log(random: &mut fastrand::Rng) -> (SimDisk, Vec<String>) {
    let disk = SimDisk::new(random.u64(..));
    let mut log = Stepped::open(&disk, 8).unwrap();
    for id in 1..random.u64(40..100) {
        log.append(numbered(id, random.usize(..2000)), |_| ());
        while log.committer.step() == Progress::Worked {}
        if random.u8(..4) == 0 {
            let number = random.u64(1..=id);
            log.settle(number, number);
        }
    }
    if random.bool() {
        log.settle(1, random.u64(1..40));
    }
    while log.committer.rest() == Progress::Worked {}
    let state = log.shared.lock();
    let ids = state.live.values().map(|it| it.id);
    let paths = ids.map(|id| format!("{DIR}/{id:010}.segment")).collect();
    drop(state);
    (disk, paths)
}

fn scanner(disk: &SimDisk) -> (Scanner, Files) {
    let files = Files { disk: Arc::new(disk.clone()), dir: DIR.into(), is_read_only: false };
    let contents = find(&files).unwrap();
    (Scanner::new(contents.segments, contents.positions.settled.clone(), true).0, files)
}

/// Describes what a scanner finds.
fn found(mut scanner: Scanner, files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(scanned) = scanner.next(files) {
        let Scanned { segment, scan, damage, .. } = scanned.unwrap();
        let scan = scan.map(|it| (it.last, it.end, it.commit, it.highest, it.unsettled));
        found.push(format!("{:?} {scan:?} {damage:?}", segment.header));
    }
    let Scanner { settled, previous, highest, .. } = scanner;
    found.push(format!("{settled:?} {previous:?} {highest}"));
    found
}

#[test]
fn several_threads_find_what_one_finds() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (disk, paths) = log(&mut random);
        for _ in 0..random.usize(..3) {
            let path = &paths[random.usize(..paths.len())];
            let mut bytes = disk.contents(path);
            let at = random.usize(8192..bytes.len());
            bytes[at] ^= 1 << random.u8(..8);
            disk.set_contents(path, &bytes);
        }
        let (one, files) = scanner(&disk);
        let (mut several, _) = scanner(&disk);
        several.scan_ahead(&files, 3);
        assert_eq!(found(one, &files), found(several, &files), "{seed}");
    }
}

#[test]
fn intact_segments_are_read_by_the_threads_only() {
    for seed in 0..20 {
        let (disk, _) = log(&mut fastrand::Rng::with_seed(seed));
        let (mut several, files) = scanner(&disk);
        several.scan_ahead(&files, 3);
        disk.fail_reads(true);
        found(several, &files);
    }
}
