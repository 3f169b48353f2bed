//! Flows that are loaded and ended, and components that panic and are restarted, again and again in
//! one process, leave no descriptor and no thread behind. `cargo xtask soak` does it for longer and
//! looks at memory as well.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a test that cannot go on says where

#[path = "support/mod.rs"]
mod support;

use std::{fs, path::Path};

use soak::{Sample, Scenario, Soak, settled};

#[test]
fn descriptors_threads_and_libraries_return_to_what_they_were_after_the_first_cycle() {
    let plugins = tempfile::tempdir().unwrap();
    for package in [
        "connector-bench",
        "connector-metronome",
        "connector-null",
        "fixture-hostile",
        "fixture-mischief",
    ] {
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
