//! What a soak runs: the program, the `tremor` binary, and a folder with the plugins.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::built::{self, Built};
use crate::project::{cargo, run};

const PLUGINS: [&str; 5] = [
    "connector-bench",
    "connector-metronome",
    "connector-null",
    "fixture-hostile",
    "fixture-mischief",
];

/// The program that cycles, and what it runs.
pub(super) fn all(release: bool, own: &Path) -> Result<(PathBuf, Built)> {
    let built = built::build(&PLUGINS, release, own)?;
    run(cargo([&["build", "--package=soak", "--bins"], built::profile(release)].concat()))?;
    let soak = built::folder(release).join("soak");
    built::copy(&soak, own)?;
    Ok((own.join("soak"), built))
}
