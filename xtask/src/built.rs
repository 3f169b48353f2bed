//! Builds of `tremor` and plugins. The files are copied to a folder of the caller, so that a later build does not
//! change them during a run.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::project::{cargo, profile_folder, run, target_folder};

/// Paths of the copied program and plugins.
pub(crate) struct Built {
    pub(crate) tremor: PathBuf,
    /// A folder with the plugins.
    pub(crate) plugins: PathBuf,
}

/// Returns whether a package is a fixture. Fixtures are cargo examples, which have a folder of their own.
fn is_fixture(package: &str) -> bool {
    package.starts_with("fixture-")
}

/// Returns the file name of the plugin that a package builds.
pub(crate) fn library(package: &str) -> String {
    format!("{DLL_PREFIX}{}{DLL_SUFFIX}", package.replace('-', "_"))
}

/// Returns the arguments of cargo for a profile.
pub(crate) fn profile(release: bool) -> &'static [&'static str] {
    if release { &["--release"] } else { &[] }
}

/// Builds the program and the plugins in `packages`.
///
/// Cargo unifies the features of packages that it builds together, so another selection of packages rebuilds many
/// dependencies. Without `release`, the selection is that of tests, which reuses the files of `cargo test --workspace`.
/// With `release`, the program and each plugin are built by themselves, as they are for a release.
pub(crate) fn compile(packages: &[&str], release: bool) -> Result<()> {
    if !release {
        return run(cargo(["build", "--workspace", "--lib", "--examples", "--bin=tremor"]));
    }
    run(cargo(["build", "--release", "--package=tremor-runtime", "--bins"]))?;
    for package in packages {
        let target = if is_fixture(package) { vec!["--example", package] } else { vec!["--lib"] };
        run(cargo([&["build", "--release", "--package", package], &target[..]].concat()))?;
    }
    Ok(())
}

/// Builds the program and the plugins in `packages`, and copies them to the folder `own`.
pub(crate) fn build(packages: &[&str], release: bool, own: &Path) -> Result<Built> {
    compile(packages, release)?;
    let from = profile_folder(release);
    fs::create_dir_all(own).with_context(|| format!("cannot create {}", own.display()))?;
    copy(&from.join("tremor"), own)?;
    for package in packages {
        let from = if is_fixture(package) { &from.join("examples") } else { &from };
        copy(&from.join(library(package)), own)?;
    }
    Ok(Built { tremor: own.join("tremor"), plugins: own.to_owned() })
}

/// Builds a plugin of the workspace `brokers`, and copies it to the folder `own`.
pub(crate) fn build_broker(package: &str, release: bool, own: &Path) -> Result<()> {
    let mut command = cargo(["build", "--manifest-path=brokers/Cargo.toml"]);
    command
        .args(profile(release))
        .args(["--package", package, "--target-dir"])
        .arg(target_folder());
    run(command)?;
    copy(&profile_folder(release).join(library(package)), own)
}

/// Builds the program with the plugins of the benchmark's flows linked into it, for `cargo xtask build-static`.
///
/// The build has a target folder of its own: its plugin crates export nothing, so their libraries cannot be loaded and
/// must not overwrite those that can.
pub(crate) fn build_static() -> Result<()> {
    let build = ["build", "--release", "--package=tremor-runtime", "--bin=tremor"];
    let options = ["--features=link-static", "--target-dir=target/static"];
    run(cargo([build.as_slice(), &options].concat()))
}

/// Copies a file to a folder.
pub(crate) fn copy(built: &Path, to: &Path) -> Result<()> {
    let copy = to.join(built.file_name().context("the path has no file name")?);
    // The old file may still be used by another run, so it is removed and not overwritten.
    let _ = fs::remove_file(&copy);
    fs::copy(built, &copy).with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(())
}
