//! The program `tremor` and plugins, built and copied to a folder of their own: what is built meanwhile
//! is none of a run's.

use std::env;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::project::{cargo, root, run};

/// Where they are.
pub(crate) struct Built {
    pub(crate) tremor: PathBuf,
    /// A folder with the plugins.
    pub(crate) plugins: PathBuf,
}

/// Which packages are examples, which cargo puts into a folder of their own.
fn is_fixture(package: &str) -> bool {
    package.starts_with("fixture-")
}

/// The folder that cargo builds a profile into.
pub(crate) fn folder(release: bool) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(target).join(if release { "release" } else { "debug" })
}

/// The flag of cargo for a profile.
pub(crate) fn profile(release: bool) -> &'static [&'static str] {
    if release { &["--release"] } else { &[] }
}

/// Builds the program.
pub(crate) fn program(release: bool) -> Result<()> {
    let runtime = ["build", "--package=tremor-runtime", "--bins"];
    run(cargo([&runtime, profile(release)].concat()))
}

/// Builds a plugin by itself, as the tests do: cargo joins the features of what it builds together, and
/// another selection would have most dependencies built anew.
pub(crate) fn plugin(package: &str, release: bool) -> Result<()> {
    let target = if is_fixture(package) { vec!["--example", package] } else { vec!["--lib"] };
    let package = ["build", "--package", package];
    run(cargo([&package, &target[..], profile(release)].concat()))
}

/// Builds the program and these packages, which are plugins, and copies them to this folder.
pub(crate) fn build(packages: &[&str], release: bool, own: &Path) -> Result<Built> {
    program(release)?;
    packages.iter().try_for_each(|package| plugin(package, release))?;
    let from = folder(release);
    fs::create_dir_all(own).with_context(|| format!("cannot make {}", own.display()))?;
    copy(&from.join("tremor"), own)?;
    for package in packages {
        let name = format!("{DLL_PREFIX}{}{DLL_SUFFIX}", package.replace('-', "_"));
        let from = if is_fixture(package) { &from.join("examples") } else { &from };
        copy(&from.join(name), own)?;
    }
    Ok(Built { tremor: own.join("tremor"), plugins: own.to_owned() })
}

/// Builds the program, a plugin of the workspace `brokers` and others, and copies them to this folder.
pub(crate) fn build_broker(
    package: &str,
    others: &[&str],
    release: bool,
    own: &Path,
) -> Result<Built> {
    let built = build(others, release, own)?;
    let target = folder(release);
    let target = target.parent().context("a profile is in a folder")?;
    let mut command = cargo(["build", "--manifest-path=brokers/Cargo.toml"]);
    command.args(profile(release)).args(["--package", package, "--target-dir"]).arg(target);
    run(command)?;
    let name = package.replace('-', "_");
    copy(&folder(release).join(format!("{DLL_PREFIX}{name}{DLL_SUFFIX}")), own)?;
    Ok(built)
}

/// Copies a file to a folder.
pub(crate) fn copy(built: &Path, to: &Path) -> Result<()> {
    let copy = to.join(built.file_name().context("what is built has a name")?);
    // Another run may have the old one open: it keeps it.
    let _ = fs::remove_file(&copy);
    fs::copy(built, &copy).with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(())
}
