//! `cargo xtask models`: the model checks in `models/`.
//!
//! loom runs each model without faults, and with each of the faults that were added on purpose. Miri runs the models of
//! unsafe code and some tests of the pool and of frames, because it checks accesses to memory, which loom does not.
//! Each fault needs a separate run of Miri, because Miri ends the process at the first finding.

use anyhow::{Result, ensure};

use crate::project::{Skipped, cargo, run as run_command, shown};
use crate::tools::nightly;

const MODELS: &str = "--manifest-path=models/Cargo.toml";
/// Target folder for builds with Miri, because other builds cannot use their artefacts.
const TARGET: &str = "--target-dir=target/miri";
/// Models, each with a fault that Miri has to find.
const RACES: [[&str; 2]; 3] = [
    ["storage_is_used_again", "pool_relaxed_drop"],
    ["storage_is_used_again", "pool_reuses_without_fence"],
    ["last_reference_writes", "pool_relaxed_check"],
];

pub(crate) fn run() -> Result<Skipped> {
    run_command(cargo(["fmt", MODELS, "--check"]))?;
    let clippy = ["clippy", MODELS, "--target-dir=target", "--all-targets"];
    run_command(cargo([&clippy[..], &["--", "--deny", "warnings"]].concat()))?;
    run_command(cargo(["run", MODELS, "--target-dir=target"]))?;
    let miri = nightly(["miri", "--version"]).output();
    if !miri.is_ok_and(|output| output.status.success()) {
        return Ok(Some(
            "Miri (the nightly toolchain has none; `rustup component add miri --toolchain nightly` provides it)".into(),
        ));
    }
    let miri = ["miri", "run", TARGET, MODELS];
    run_command(nightly(miri))?;
    for tests in ["batch::storage", "batch::frame::tests::miri"] {
        let miri =
            ["miri", "test", TARGET, "--package=tremor-abi", "--features=frame", "--lib", tests];
        run_command(nightly(miri))?;
    }
    for race in RACES {
        let mut command = nightly([&miri[..], &["--"], &race].concat());
        let output = command.output()?;
        let printed = String::from_utf8_lossy(&output.stderr);
        let is_found = !output.status.success() && printed.contains("Data race detected");
        ensure!(is_found, "{} found no data race:\n{printed}", shown(&command));
    }
    Ok(None)
}
