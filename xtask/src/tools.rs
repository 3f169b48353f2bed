//! Programs that steps of CI need and a machine may lack.

use std::ffi::OsString;
use std::process::Command;

use crate::project::{cargo, root, run as run_command};

/// A program that cargo can install.
pub(crate) struct Tool {
    /// The name of the program and of its package.
    pub(crate) name: &'static str,
    /// The version to install where there is none.
    pub(crate) version: &'static str,
    /// What a version that will do says of itself starts with.
    pub(crate) says: &'static str,
    /// Arguments of `cargo install`.
    pub(crate) features: &'static [&'static str],
}

impl Tool {
    /// The one on the path, or one that cargo puts into the target folder. That one is not optimised: it
    /// runs for seconds, and is built in a minute. None where neither can be had.
    pub(crate) fn find(&self) -> Option<OsString> {
        let tools = root().join("target/tools");
        let ours = tools.join("bin").join(self.name).into_os_string();
        if let Some(found) =
            [self.name.into(), ours.clone()].into_iter().find(|it| self.will_do(it))
        {
            return Some(found);
        }
        let mut install = cargo(["install", self.name, "--version", self.version]);
        install.args(["--locked", "--debug"]).args(self.features).arg("--root").arg(&tools);
        install.arg("--target-dir").arg(tools.join("build"));
        (run_command(install).is_ok() && self.will_do(&ours)).then_some(ours)
    }

    fn will_do(&self, program: &OsString) -> bool {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| output.stdout.starts_with(self.says.as_bytes()))
    }
}
