//! What a soak runs: the program, the `tremor` binary, and a folder with the plugins.

use std::env;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::project::{cargo, root, run};

const PLUGINS: [&str; 5] = [
    "connector-bench",
    "connector-metronome",
    "connector-null",
    "fixture-hostile",
    "fixture-mischief",
];

/// Which of them are examples, which cargo puts into a folder of their own.
fn is_fixture(package: &str) -> bool {
    package.starts_with("fixture-")
}

pub(super) struct Built {
    pub(super) soak: PathBuf,
    pub(super) tremor: PathBuf,
    pub(super) plugins: PathBuf,
}

pub(super) fn all(release: bool) -> Result<Built> {
    let profile: &[&str] = if release { &["--release"] } else { &[] };
    let runtime = ["build", "--package=tremor-runtime", "--package=soak", "--bins"];
    run(cargo([&runtime, profile].concat()))?;
    let mut command = cargo([&["build", "--lib"], profile].concat());
    for package in PLUGINS {
        command.arg(format!("--package={package}"));
        if is_fixture(package) {
            command.arg(format!("--example={package}"));
        }
    }
    run(command)?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let folder = root().join(target).join(if release { "release" } else { "debug" });
    let plugins = folder.join("soak-plugins");
    fs::create_dir_all(&plugins).with_context(|| format!("cannot make {}", plugins.display()))?;
    for package in PLUGINS {
        gather(package, &folder, &plugins)?;
    }
    Ok(Built { soak: folder.join("soak"), tremor: folder.join("tremor"), plugins })
}

/// Copies a plugin to the folder of the soak's.
fn gather(package: &str, from: &Path, to: &Path) -> Result<()> {
    let name = format!("{DLL_PREFIX}{}{DLL_SUFFIX}", package.replace('-', "_"));
    let from = if is_fixture(package) { from.join("examples") } else { from.to_owned() };
    let (built, copy) = (from.join(&name), to.join(&name));
    // Another run may have the old one open: it keeps it.
    let _ = fs::remove_file(&copy);
    fs::copy(&built, &copy).with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(())
}
