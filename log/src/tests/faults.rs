//! Planted faults, each of which the tests have to find.

use crate::faults::tests::plant;
use crate::tests::crash::{FAILED, run, run_many};
use crate::tests::{flips, forged, inspect};

/// Faults that crashes reveal.
const FOUND_BY_CRASHES: [&str; 12] = [
    "acknowledged after write",
    "folder not synced",
    "segment reused before positions are durable",
    "second sync believed",
    "durable block written again",
    "older frames taken",
    "records read before they are durable",
    "numbers used again",
    "tail not cut",
    "found records not synced",
    "one block of positions written",
    "header of moved records written first",
];

#[test]
fn planted_faults_are_found_by_crashes() {
    for fault in FOUND_BY_CRASHES {
        let planted = plant(fault);
        let found = run_many(1, 10_000);
        drop(planted);
        let error = found.expect_err(fault);
        println!("{fault}: {}", error.lines().next().unwrap_or_default());
    }
}

#[test]
fn planted_fault_is_found_by_a_kept_seed() {
    let _planted = plant("found headers not synced");
    assert!(FAILED.iter().any(|(seed, crash_at)| run(*seed, *crash_at).is_err()));
}

#[test]
fn planted_faults_are_found_by_damage() {
    let planted = plant("one block of positions believed");
    flips::flip_positions().expect_err("records that are gone");
    drop(planted);
    let _planted = plant("checksum without epoch");
    forged::check().expect_err("a forged record");
}

#[test]
fn planted_fault_is_found_by_inspections() {
    let _planted = plant("headers inspected once");
    inspect::inspect_busy().expect_err("damage that is not there");
}
