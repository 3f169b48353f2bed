//! The steps `clippy` and `doc`, which check the packages of the main workspace. A pass is remembered for each package.

use anyhow::Result;

use super::passed;
use crate::inputs::Sources;
use crate::packages::Package;
use crate::project::{cargo, run};

/// Lints all packages.
pub(super) fn clippy(all: bool) -> Result<String> {
    check("clippy", all, |packages, selected| {
        let lints = ["--all-targets", "--", "--deny", "warnings"];
        run(cargo([&["clippy"], selected, &lints].concat()))?;
        // Cargo enables the features that one package needs for all packages that it builds together. Therefore only a
        // plugin that is compiled by itself shows whether its manifest names all features that the plugin needs.
        for package in packages.iter().filter(|package| is_plugin(package)) {
            run(cargo(["check", "--lib", "--manifest-path", &package.manifest]))?;
        }
        Ok(())
    })
}

/// Builds the API documentation of all packages.
pub(super) fn doc(all: bool) -> Result<String> {
    check("doc", all, |_, selected| {
        let mut command = cargo([&["doc", "--no-deps"], selected].concat());
        command.env("RUSTDOCFLAGS", "--deny warnings");
        run(command)
    })
}

/// Runs `check` for the packages without a remembered pass, or for all packages if `all` is set. `check` gets the
/// packages, and the options with which cargo selects them. Returns a remark for the summary.
fn check(
    step: &str,
    all: bool,
    check: impl FnOnce(&[&Package], &[&str]) -> Result<()>,
) -> Result<String> {
    let sources = Sources::read()?;
    let hash = |package| sources.hash(&sources.of_package(package));
    let packages: Vec<_> = sources.packages("").collect();
    let name = |package: &Package| format!("{step} {}", package.name);
    let mut pending = Vec::new();
    for package in &packages {
        let before = hash(package)?;
        if all || passed::find(&name(package), &before).is_none() {
            pending.push((*package, before));
        }
    }
    if !pending.is_empty() {
        let options: Vec<_> =
            pending.iter().map(|(it, _)| format!("--package={}", it.name)).collect();
        let mut selected: Vec<_> = options.iter().map(String::as_str).collect();
        if pending.len() == packages.len() {
            selected = vec!["--workspace"];
        }
        check(&pending.iter().map(|(package, _)| *package).collect::<Vec<_>>(), &selected)?;
    }
    for (package, before) in &pending {
        passed::keep_if_unchanged(&name(package), before, &hash(package)?, "");
    }
    Ok(passed::remark(packages.len() - pending.len(), packages.len(), "packages"))
}

fn is_plugin(package: &Package) -> bool {
    let folders = ["codecs-plugins/", "connectors-plugins/", "operators-plugins/"];
    folders.iter().any(|folder| package.manifest.starts_with(folder))
}
