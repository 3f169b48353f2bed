//! Programs that steps of CI need and a machine may lack. They are installed in the user's cache folder, so that
//! another clone does not build them again.

use std::path::{Path, PathBuf};
use std::{ffi::OsString, process::Command};

use crate::project::{cache, cargo, forget_package, root, run as run_command, target_folder};

/// Returns the folder of installed programs: in the user's cache folder, or else in the target folder.
pub(crate) fn folder() -> PathBuf {
    cache("tools").unwrap_or_else(|_| target_folder().join("tools"))
}

/// A program that cargo can install.
pub(crate) struct Tool {
    /// Name of the program and of its package.
    pub(crate) name: &'static str,
    /// Version to install if the program is missing.
    pub(crate) version: &'static str,
    /// Beginning of the output of `--version` of all versions that are accepted.
    pub(crate) says: &'static str,
    /// Arguments of `cargo install`.
    pub(crate) features: &'static [&'static str],
}

impl Tool {
    /// Returns the program on the path, or else the one in [`folder`], where it is installed if it is missing. Returns
    /// `None` if that fails.
    ///
    /// The installed program is not optimised and has no debug information, so that the build takes only a minute,
    /// because the program runs only for seconds.
    pub(crate) fn find(&self) -> Option<OsString> {
        let tools = folder();
        let ours = tools.join("bin").join(self.name).into_os_string();
        if let Some(found) =
            [self.name.into(), ours.clone()].into_iter().find(|it| self.is_accepted(it))
        {
            return Some(found);
        }
        let mut install = cargo(["install", self.name, "--version", self.version]);
        install.args(["--locked", "--debug"]).args(self.features).arg("--root").arg(&tools);
        install.arg("--target-dir").arg(target_folder().join("tools"));
        install.env("CARGO_PROFILE_DEV_DEBUG", "false");
        (run_command(install).is_ok() && self.is_accepted(&ours)).then_some(ours)
    }

    fn is_accepted(&self, program: &OsString) -> bool {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| output.stdout.starts_with(self.says.as_bytes()))
    }
}

/// Returns a command of a Python package, from the path or from [`folder`], where pip installs the package. `None` if
/// neither has it.
pub(crate) fn python(program: &str, package: &str) -> Option<Command> {
    let folder = folder().join(package);
    let ours = folder.join("bin").join(program);
    let command = |program: &Path| {
        let mut command = Command::new(program);
        command.env("PYTHONPATH", &folder).current_dir(root());
        command
    };
    let runs = |program: &&Path| {
        let output = command(program).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    let find = || [Path::new(program), &ours].into_iter().find(runs).map(command);
    find().or_else(|| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(&folder).arg(package);
        pip.output().ok().and_then(|_| find())
    })
}

/// Returns whether the nightly toolchain is installed.
pub(crate) fn has_nightly() -> bool {
    nightly(["--version"]).output().is_ok_and(|output| output.status.success())
}

/// Returns a command that runs the cargo of the nightly toolchain in the workspace's folder.
pub(crate) fn nightly<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("rustup");
    // The current cargo has set these variables to its own toolchain.
    for variable in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        command.env_remove(variable);
    }
    forget_package(&mut command);
    command.args(["run", "nightly", "cargo"]).args(arguments).current_dir(root());
    command
}
