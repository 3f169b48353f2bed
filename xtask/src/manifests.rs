//! Checks of what runs a flow elsewhere: manifests of Kubernetes, and units of systemd.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::project::{root, run};
use crate::running::{empty_folder, write};

const MANIFESTS: [&str; 1] = ["examples/scale-out/kubernetes.yaml"];
const UNITS: [&str; 2] = ["dist/tremor@.service", "examples/scale-out/scale-out@.service"];

/// It brings the schemas of Kubernetes with it.
const VALIDATOR: &str = "kubernetes-validate==1.37.0";

/// Of these each is looked at with what the machine has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) manifests: bool,
    pub(crate) units: bool,
}

/// # Errors
/// One of them is wrong.
pub(crate) fn check() -> Result<Checked> {
    let folder = target().join("manifests");
    Ok(Checked { manifests: manifests(&folder)?, units: units(&folder.join("units"))? })
}

/// Whether there is a validator: one that pip puts into the target folder.
fn manifests(folder: &Path) -> Result<bool> {
    let modules = folder.join("python");
    let python = |words: &[&OsStr]| {
        let mut command = Command::new("python3");
        command.args(words).env("PYTHONPATH", &modules).current_dir(root());
        command
    };
    let module = ["-m", "kubernetes_validate"].map(OsStr::new);
    let is_there = || {
        let asked = python(&module).arg("--version").output();
        asked.is_ok_and(|it| it.status.success())
    };
    if !is_there() {
        let words = ["-m", "pip", "install", "--quiet", "--target"].map(OsStr::new);
        let mut install = python(&words);
        let installed = install.arg(&modules).arg(VALIDATOR).output();
        if !installed.is_ok_and(|it| it.status.success()) || !is_there() {
            return Ok(false);
        }
    }
    let mut command = python(&module);
    command.args(["--strict", "--quiet"]).args(MANIFESTS);
    run(command)?;
    Ok(true)
}

/// Whether there is systemd, which warns of what it does not know, and succeeds.
fn units(folder: &Path) -> Result<bool> {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return Ok(false);
    }
    empty_folder(folder)?;
    for unit in UNITS {
        let text = fs::read_to_string(root().join(unit)).with_context(|| unit.to_owned())?;
        let name = Path::new(unit).file_name().context("a unit has a name")?;
        let copy = folder.join(name);
        // The program is not installed on the machine that looks.
        write(&copy, &text.replace("/usr/bin/tremor", "/usr/bin/env"))?;
        let said = said_of(&copy)?;
        ensure!(said.is_empty(), "{unit}:\n{said}");
    }
    Ok(true)
}

/// What systemd says of a unit: nothing where it is well.
fn said_of(unit: &Path) -> Result<String> {
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", "--recursive-errors=no"]).arg(unit);
    let output = command.output().context("cannot start systemd-analyze")?;
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |folder| root().join(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_of_the_project_is_checked() {
        for folder in ["dist", "examples/scale-out"] {
            let entries = fs::read_dir(root().join(folder)).expect("the folder is there");
            for entry in entries.map(|entry| entry.expect("it can be listed")) {
                let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
                assert!(!path.ends_with(".service") || UNITS.contains(&&*path), "{path}");
            }
        }
    }

    #[test]
    fn a_key_that_systemd_does_not_know_is_said() {
        if Command::new("systemd-analyze").arg("--version").output().is_err() {
            eprintln!("SKIPPED: there is no systemd-analyze");
            return;
        }
        let folder = env::temp_dir().join(format!("xtask-units-{}", std::process::id()));
        empty_folder(&folder).expect("a folder");
        let unit = folder.join("wrong@.service");
        write(&unit, "[Service]\nExecStart=/usr/bin/env\nWatchdgSec=3\n").expect("a file");
        let said = said_of(&unit).expect("it runs");
        fs::remove_dir_all(&folder).expect("it can be removed");
        assert!(said.contains("WatchdgSec"), "{said}");
    }
}
