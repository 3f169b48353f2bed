//! The step `python`: the tests of the package for connectors in Python, and its wheel.

use std::process::Command;

use anyhow::Result;

use crate::project::{Skipped, limited, root, run, target_folder};

/// Folder of the package.
const PACKAGE: &str = "sdk/python";

/// Folder of the modules, for the search path of Python.
const SOURCES: &str = "sdk/python/src";

const TESTS: &str = "sdk/python/tests";

/// Maximum time of the tests, which take less than a minute.
const LIMIT: &str = "10m";

/// Fails if the version of Python is too old for the package.
const VERSION: &str = "import sys; sys.exit(sys.version_info < (3, 9))";

/// Runs the step. Returns what this machine cannot check.
pub(crate) fn check() -> Result<Skipped> {
    if !succeeds(&["-c", VERSION]) {
        return Ok(Some(
            "all tests (there is no `python3` of version 3.9 or later; `apt-get install python3` provides it)".into(),
        ));
    }
    run(limited(LIMIT, &python(&["-m", "compileall", "-q", SOURCES, TESTS])))?;
    run(limited(LIMIT, &python(&["-m", "unittest", "discover", "-s", TESTS])))?;
    if !succeeds(&["-m", "pip", "--version"]) {
        return Ok(Some(
            "the wheel (pip is not installed; `apt-get install python3-pip` provides it)".into(),
        ));
    }
    // Without an index, because a machine without a network has to be able to install the package.
    let mut wheel = python(&["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]);
    wheel.arg("--no-index").arg("--wheel-dir").arg(target_folder().join("python"));
    wheel.arg(root().join(PACKAGE)).env_remove("PYTHONWARNINGS");
    run(limited(LIMIT, &wheel))?;
    Ok(None)
}

/// Returns a command that runs Python. Warnings are errors, and compiled files are written to the target folder.
fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command
        .current_dir(root())
        .env("PYTHONPATH", root().join(SOURCES))
        .env("PYTHONPYCACHEPREFIX", target_folder().join("python/cache"))
        .env("PYTHONWARNINGS", "error")
        .args(arguments);
    command
}

/// Returns whether a command of Python succeeds.
fn succeeds(arguments: &[&str]) -> bool {
    python(arguments).output().is_ok_and(|output| output.status.success())
}
