//! Test for leaked descriptors and threads. In one process, flows are repeatedly loaded and ended, and components panic
//! and are restarted. `cargo xtask soak` does the same for a longer time and also checks memory.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a failed test reports its location

#[path = "support/mod.rs"]
mod support;

use std::{fs, path::Path};

use soak::{Sample, Scenario, Soak, settled};

#[test]
fn cycles_leak_no_descriptors_threads_or_libraries() {
    let plugins = tempfile::tempdir().unwrap();
    for package in ["connector-bench", "connector-metronome", "connector-null", "fixture-faults"] {
        let built = support::library(package);
        fs::copy(&built, plugins.path().join(built.file_name().unwrap())).unwrap();
    }
    let soak = Soak::new(plugins.path(), Path::new(env!("CARGO_BIN_EXE_tremor"))).unwrap();
    for scenario in [Scenario::Load, Scenario::Restart] {
        soak.cycle(scenario).unwrap();
        let before = Sample::take(plugins.path()).unwrap();
        for _ in 0..4 {
            soak.cycle(scenario).unwrap();
        }
        let after = settled(plugins.path(), &before).unwrap();
        assert!(after.is_back_at(&before), "{scenario:?}: {after:?}, before: {before:?}");
        assert_eq!(after.libraries, before.libraries, "{scenario:?}");
    }
}
