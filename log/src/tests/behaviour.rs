//! Single rules of the log, on a simulated disk.

use std::path::Path;
use std::sync::Arc;

use crate::commit::Progress;
use crate::error::OpenError;
use crate::layout::{put, seal, u64_at};
use crate::open::open;
use crate::record::record;
use crate::report::DamageKind;
use crate::tests::disk::SimDisk;
use crate::tests::model::{DIR, SEGMENT, Stepped, limits, numbered};

/// Makes commits until nothing waits or can be committed.
fn run(log: &mut Stepped) -> Progress {
    loop {
        let progress = log.committer.step();
        if progress != Progress::Worked {
            return progress;
        }
    }
}

fn fill(log: &mut Stepped) -> usize {
    let mut count = 0;
    while !log.shared.lock().is_full {
        log.append_one(numbered(count as u64 + 1, 3000));
        count += 1;
    }
    count
}

#[test]
fn full_log_waits_until_records_are_settled() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 4).unwrap();
    let count = fill(&mut log);
    assert_eq!(run(&mut log), Progress::Full);
    let durable: Vec<_> = log.read_all().iter().map(|it| it.number).collect();
    // Three segments with eight records each; the fourth segment is reserved.
    assert_eq!((count, durable), (19, (1..19).collect()));
    log.settle(1, 6);
    assert_eq!(run(&mut log), Progress::Idle);
    assert_eq!(log.read_all().last().map(|it| it.number), Some(19));
}

#[test]
fn skipped_records_and_their_segments_are_not_read() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 4).unwrap();
    fill(&mut log);
    assert_eq!(run(&mut log), Progress::Full);
    let next = |log: &mut Stepped| log.next().map(|it| it.number);
    assert_eq!(next(&mut log), Some(1));
    log.skip_to(3);
    assert_eq!(next(&mut log), Some(4));
    log.skip_to(2);
    assert_eq!(next(&mut log), Some(5));
    log.skip_to(14);
    assert_eq!(next(&mut log), Some(15));
    // The segments are sealed.
    log.skip_to(18);
    disk.fail_reads(true);
    assert!(log.next_or_error().unwrap().is_none());
    disk.fail_reads(false);
    log.settle(1, 6);
    assert_eq!(run(&mut log), Progress::Idle);
    assert_eq!(next(&mut log), Some(19));
}

/// Their numbers are not used again, and the log does not miss them.
#[test]
fn refused_records_do_not_come_back() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 4).unwrap();
    fill(&mut log);
    assert_eq!(run(&mut log), Progress::Full);
    assert!(log.committer.take_refused().is_empty(), "nobody asked for it");
    log.shared.lock().refuses_waiting = true;
    let refused: Vec<_> = log.committer.take_refused().iter().map(|it| it.number).collect();
    assert_eq!((refused, log.shared.lock().staged_bytes), (vec![19], 0));
    assert_eq!(run(&mut log), Progress::Idle);
    assert!(!log.shared.lock().is_full);
    log.settle(1, 6);
    log.append_one(numbered(20, 3000));
    assert_eq!(run(&mut log), Progress::Idle);
    let expected: Vec<_> = (7..19).chain([20]).collect();
    let numbers = |log: &mut Stepped| log.read_all().iter().map(|it| it.number).collect::<Vec<_>>();
    assert_eq!(numbers(&mut log), expected);
    drop(log);
    let mut log = Stepped::open(&disk, 4).unwrap();
    assert!(log.opened.damage.is_empty());
    assert_eq!(numbers(&mut log), expected);
}

/// The disk stays full, and nothing is appended that would show that the log has segments again.
#[test]
fn failure_ends_when_settled_records_have_freed_segments() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 8).unwrap();
    disk.set_space(disk.used() + 3 * SEGMENT as usize);
    let count = fill(&mut log) as u64;
    assert_eq!(run(&mut log), Progress::Full);
    log.shared.lock().refuses_waiting = true;
    assert_eq!(log.committer.take_refused().len(), 1);
    assert_eq!(run(&mut log), Progress::Idle);
    assert!(log.shared.lock().failure.is_some(), "the next record has no segment");
    log.settle(1, count - 1);
    while log.committer.rest() == Progress::Worked {}
    assert_eq!(run(&mut log), Progress::Idle);
    assert_eq!(log.shared.lock().failure, None);
}

#[test]
fn segment_behind_an_unsettled_one_is_reused() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 4).unwrap();
    for id in 1..200 {
        log.append_one(numbered(id, 3000));
        if id > 1 {
            log.settle(id, id);
        }
        assert_ne!(run(&mut log), Progress::Full, "record {id}");
    }
    let numbers: Vec<_> = log.read_all().iter().map(|it| it.number).collect();
    assert_eq!(numbers, [1]);
    assert!(disk.used() < 6 * SEGMENT as usize);
}

#[test]
fn failing_disk_does_not_fill_the_log() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 4).unwrap();
    log.append_one(numbered(1, 100));
    assert_eq!(run(&mut log), Progress::Idle);
    disk.fail_one_in(1);
    log.append(numbered(2, 100), |_| ());
    for _ in 0..1000 {
        assert_eq!(log.committer.step(), Progress::Failed);
        assert_eq!(log.read_all().len(), 1);
    }
    let state = log.shared.lock();
    assert_eq!(state.live.len(), 1);
    assert!(state.failure.as_ref().unwrap().contains("simulated error"), "{:?}", state.failure);
    drop(state);
    disk.fail_one_in(0);
    assert_eq!(run(&mut log), Progress::Idle);
    assert_eq!(log.read_all().len(), 2);
    assert!(disk.used() < 6 * SEGMENT as usize);
    assert!(log.shared.lock().failure.is_none());
}

#[test]
fn full_log_uses_its_reserve_after_a_failed_sync() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 3).unwrap();
    for id in 1..12 {
        log.append_one(numbered(id, 3000));
    }
    // Both segments beside the reserve have records, and the sync of the next commit fails.
    disk.fail_syncs();
    log.append(numbered(12, 100), |_| ());
    assert_eq!(log.committer.step(), Progress::Failed);
    disk.fail_one_in(0);
    assert_eq!(log.committer.step(), Progress::Worked);
    assert_eq!(log.read_all().len(), 12);
}

#[test]
fn full_disk_is_a_full_log() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 8).unwrap();
    log.append_one(numbered(1, 3000));
    run(&mut log);
    disk.set_space(disk.used());
    fill(&mut log);
    assert_eq!(run(&mut log), Progress::Full);
    let used = disk.used();
    drop(log);
    // A full disk does not prevent opening.
    let mut log = Stepped::open(&disk, 8).unwrap();
    assert!(log.opened.damage.is_empty());
    let count = log.read_all().len();
    assert!(count > 4, "{count}");
    assert!(disk.used() <= used);
    disk.set_space(usize::MAX);
    log.append(numbered(99, 3000), |_| ());
    assert_eq!(run(&mut log), Progress::Idle);
    assert_eq!(log.read_all().len(), count + 1);
}

#[test]
fn thousand_crashes_fill_no_disk() {
    let disk = SimDisk::new(1);
    for id in 1..=1000 {
        let mut log = Stepped::open(&disk, 4).unwrap();
        assert_eq!(log.opened.records, (id - 1) % 20);
        log.append_one(numbered(id, 100));
        if id % 20 == 0 {
            log.settle_all();
            while log.committer.rest() == Progress::Worked {}
        }
        assert!(disk.used() <= 5 * SEGMENT as usize, "{} bytes after {id} crashes", disk.used());
        drop(log);
        disk.lose_power();
    }
}

fn error(disk: &SimDisk, owner: &str) -> String {
    open(Arc::new(disk.clone()), Path::new(DIR), owner, limits(4))
        .err()
        .expect("an error")
        .to_string()
}

#[test]
fn second_opener_and_other_owner_change_nothing() {
    let disk = SimDisk::new(1);
    let log = Stepped::open(&disk, 4).unwrap();
    let before = disk.digest();
    assert!(error(&disk, "tests").starts_with("cannot open the log /var/log: it is in use by "));
    drop(log);
    let message =
        "cannot open the log /var/log for `other`: it belongs to `tests`; set another folder";
    assert_eq!(error(&disk, "other"), message);
    assert_eq!(disk.digest(), before);
    Stepped::open(&disk, 4).unwrap();
}

/// The system tells first that the folder is locked, and then by whom.
#[test]
fn folder_that_is_released_meanwhile_is_not_in_use() {
    let disk = SimDisk::new(1);
    let _log = Stepped::open(&disk, 4).unwrap();
    disk.release_next_lock();
    Stepped::open(&disk, 4).unwrap();
}

#[test]
fn newer_version_of_any_file_changes_nothing() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 4).unwrap();
    log.append_one(record(b"a"));
    drop(log);
    for name in ["log", "positions", "0000000001.segment"] {
        let disk = disk.fork();
        let path = format!("{DIR}/{name}");
        let mut bytes = disk.contents(&path);
        put(&mut bytes, 4, &2u16.to_le_bytes());
        assert!(u64_at(&bytes, 8) >= 64);
        seal(&mut bytes);
        disk.set_contents(&path, &bytes);
        let before = disk.digest();
        let result = open(Arc::new(disk.clone()), Path::new(DIR), "tests", limits(4));
        assert!(matches!(result, Err(OpenError::Newer { version: 2, .. })), "{name}");
        assert_eq!(disk.digest(), before, "{name}");
    }
}

#[test]
fn damaged_tail_is_kept_within_a_limit() {
    let disk = SimDisk::new(1);
    for run in 0..40 {
        let mut log = Stepped::open(&disk, 4).unwrap();
        log.append_one(numbered(run + 1, 8000));
        let (id, end) = {
            let state = log.shared.lock();
            let live = state.live.values().next_back().unwrap();
            (live.id, live.end)
        };
        log.settle_all();
        drop(log);
        let path = format!("{DIR}/{id:010}.segment");
        let mut bytes = disk.contents(&path);
        bytes[end as usize - 9] ^= 4;
        disk.set_contents(&path, &bytes);
    }
    let log = Stepped::open(&disk, 4).unwrap();
    let [tail] = &log.opened.damage[..] else { panic!("{:?}", log.opened.damage) };
    assert_eq!((tail.kind, log.opened.kept_removed), (DamageKind::Tail, 1));
    assert!(!disk.contents(tail.kept.as_ref().unwrap()).is_empty());
    assert!(disk.used() < 5 * SEGMENT as usize + (64 << 10));
}

#[test]
fn acknowledgements_wait_for_the_sync() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 4).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    log.append(numbered(1, 100), move |number| sender.send(number).unwrap());
    disk.fail_one_in(1);
    assert_eq!(log.committer.step(), Progress::Failed);
    assert!(receiver.try_recv().is_err());
    disk.fail_one_in(0);
    assert_eq!(log.committer.step(), Progress::Worked);
    assert_eq!(receiver.try_recv(), Ok(1));
}

#[test]
fn damage_while_reading_costs_one_record() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 4).unwrap();
    for id in 1..10 {
        log.append_one(numbered(id, 100));
    }
    let path = format!("{DIR}/0000000001.segment");
    let mut bytes = disk.contents(&path);
    bytes[8192 + 3 * 4096 + 70] ^= 1;
    disk.set_contents(&path, &bytes);
    let numbers: Vec<_> = log.read_all().iter().map(|it| it.number).collect();
    assert_eq!(numbers, [1, 2, 3, 5, 6, 7, 8, 9]);
    let state = log.shared.lock();
    assert!(state.settled.contains(4) && state.damaged_parts > 0);
}

#[test]
fn lost_positions_deliver_all_records_again() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 4).unwrap();
    for id in 1..4 {
        log.append_one(numbered(id, 100));
    }
    log.settle(1, 2);
    while log.committer.rest() == Progress::Worked {}
    drop(log);
    let path = format!("{DIR}/positions");
    disk.set_contents(&path, &vec![0; disk.contents(&path).len()]);
    let mut log = Stepped::open(&disk, 4).unwrap();
    assert_eq!(log.opened.damage[0].kind, DamageKind::Positions);
    let numbers: Vec<_> = log.read_all().iter().map(|it| it.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn reader_stops_at_the_limit_of_ranges() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 100).unwrap();
    let ranges = log.max_ranges() as u64;
    for id in 1..2 * ranges + 10 {
        log.append_one(numbered(id, 10));
    }
    log.read_all();
    let mut count = 0;
    while let Some(record) = log.next() {
        count += 1;
        if record.number % 2 == 0 {
            log.settle(record.number, record.number);
        }
    }
    assert_eq!(count, 2 * ranges);
    // A record below the ranges is still read again, because only its end reduces their number.
    assert_eq!(log.again(1).map(|it| it.number), Some(1));
    assert_eq!(log.again(2), None, "it is settled");
    log.settle(1, 1);
    assert!(log.next().is_some());
}

#[test]
fn events_of_unsettled_records_are_counted() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 4).unwrap();
    for id in 1..4u64 {
        let mut record = numbered(id, 100);
        put(&mut record, 16, &(id as u32 * 10).to_le_bytes());
        log.append_durably(record);
    }
    log.settle(2, 2);
    log.committer.rest();
    drop(log);
    let log = Stepped::open(&disk, 4).unwrap();
    assert_eq!((log.opened.records, log.opened.events), (2, 40));
}

#[test]
fn read_error_is_repeated_and_is_not_damage() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, 4).unwrap();
    for id in 1..4 {
        log.append_one(numbered(id, 10_000));
    }
    disk.fail_reads(true);
    for _ in 0..3 {
        assert!(
            log.next_or_error()
                .is_err_and(|it| it.to_string().contains("simulated error of a read"))
        );
    }
    disk.fail_reads(false);
    assert_eq!(log.next().map(|it| it.number), Some(1));
    assert_eq!(log.shared.lock().damaged_parts, 0);
    drop(log);
    let before = disk.digest();
    disk.fail_reads(true);
    assert!(error(&disk, "tests").contains("simulated error of a read"));
    assert_eq!(disk.digest(), before);
    disk.fail_reads(false);
    let mut log = Stepped::open(&disk, 4).unwrap();
    assert!(log.opened.damage.is_empty());
    assert_eq!(log.read_all().len(), 3);
}

#[test]
fn failed_preparation_of_a_segment_is_a_state() {
    let mut shown = 0;
    for seed in 1..40 {
        let disk = SimDisk::new(seed);
        let mut log = Stepped::open(&disk, 30).unwrap();
        for id in 1..40 {
            let durable =
                |log: &Stepped| log.shared.lock().live.values().next_back().map(|it| it.last);
            let before = durable(&log);
            log.append(numbered(id, 3000), |_| ());
            disk.fail_one_in(4);
            log.committer.step();
            let is_committed = durable(&log) != before;
            shown += u32::from(is_committed && log.shared.lock().failure.is_some());
            disk.fail_one_in(0);
            assert_eq!(run(&mut log), Progress::Idle);
            assert_eq!(log.shared.lock().failure, None);
        }
    }
    assert!(shown > 0);
}
