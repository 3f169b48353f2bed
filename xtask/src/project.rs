//! Where the project lies, and how its commands run programs.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// A call of the cargo that runs us, in the workspace's folder.
pub(crate) fn cargo<I, S>(arguments: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    forget_package(&mut command);
    command
}

/// Takes what cargo says of this package out of the environment of another cargo: where it differs from one
/// build to the next, build scripts that look at it run again, and what depends on them is built again.
pub(crate) fn forget_package(cargo: &mut Command) {
    for (variable, _) in env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_") {
            cargo.env_remove(&variable);
        }
    }
}

/// Runs a command to its end; its output goes where ours goes.
pub(crate) fn run(mut command: Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(&command)))?;
    if !status.success() {
        bail!("{} failed: {status}", shown(&command));
    }
    Ok(())
}

/// The command as one would type it, the program without its folder.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    format!("`{}`", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap_or_default();
        assert!(manifest.contains("[workspace]"));
    }

    #[test]
    fn another_cargo_is_not_told_of_this_package() {
        let removed =
            |(name, value): (&OsStr, Option<&OsStr>)| value.is_none().then(|| name.to_owned());
        let removed: Vec<_> = cargo(["build"]).get_envs().filter_map(removed).collect();
        // Cargo says so of every test that it runs.
        assert!(removed.iter().any(|name| name == "CARGO_MANIFEST_DIR"), "{removed:?}");
    }

    #[test]
    fn a_failing_program_is_named_with_its_arguments() {
        let error = run(cargo(["no-such-command"])).map_err(|error| error.to_string());
        let message = error.expect_err("cargo has no such command");
        assert!(message.starts_with("`cargo no-such-command` failed"), "{message}");
    }
}
