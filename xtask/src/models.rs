//! `cargo xtask models`: the model checks in `models/`.
//!
//! loom runs all of them. Miri runs those of code that is `unsafe`, and the tests of the pool itself: it
//! sees what is done to memory, which loom does not, and ends the process where it finds something. So it
//! has to find what is planted one fault at a time.

use anyhow::{Result, ensure};

use crate::nightly;
use crate::project::{cargo, run as run_command, shown};

pub(crate) const MODELS: &str = "--manifest-path=models/Cargo.toml";
/// What Miri makes is of no use to others.
const TARGET: &str = "--target-dir=target/miri";
/// The models of code that is `unsafe`.
const UNSAFE: [&str; 2] = ["call::", "pool::"];
/// How models are named that look for a planted fault,
const PLANTED: &str = "it_is_found_that";
/// and those of which Miri finds it.
const RACES: [&str; 3] = [
    "a_reader_lets_go_too_early",
    "the_last_one_does_not_wait_for_readers",
    "the_last_one_writes_while_another_reads",
];

pub(crate) const MIRI_SKIPPED: &str = "Miri (the nightly toolchain has none; \
    `rustup component add miri --toolchain nightly` provides it)";

/// Whether Miri took part.
pub(crate) fn run() -> Result<bool> {
    run_command(cargo(["test", MODELS, "--target-dir=target", "--lib"]))?;
    let miri = nightly::cargo(["miri", "--version"]).output();
    let has_miri = miri.is_ok_and(|output| output.status.success());
    if has_miri {
        let miri = ["miri", "test", TARGET, MODELS, "--lib", "--"];
        let skip = ["--skip", PLANTED];
        run_command(nightly::cargo([&miri[..], &UNSAFE, &skip].concat()))?;
        let pool = ["--package=tremor-abi", "--lib", "batch::storage"];
        run_command(nightly::cargo([&["miri", "test", TARGET][..], &pool].concat()))?;
        for race in RACES {
            let name = format!("pool::{PLANTED}_{race}");
            let mut command = nightly::cargo([&miri[..], &["--exact", &name]].concat());
            let output = command.output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            let is_found = !output.status.success() && said.contains("Data race detected");
            ensure!(is_found, "{} found no data race:\n{said}", shown(&command));
        }
    } else {
        eprintln!("SKIPPED: {MIRI_SKIPPED}");
    }
    Ok(has_miri)
}
