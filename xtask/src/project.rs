//! The project's folders and files, and functions that run programs in them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{borrow::Cow, collections::BTreeSet, env, ffi::OsStr, fs};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;

/// The part of a check that cannot run on this machine, if any.
pub(crate) type Skipped = Option<Cow<'static, str>>;

/// Returns the folder of the workspace.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// Returns the target folder, which contains the folders of all profiles.
pub(crate) fn target_folder() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from))
}

/// Returns the folder into which cargo builds a profile.
pub(crate) fn profile_folder(release: bool) -> PathBuf {
    target_folder().join(if release { "release" } else { "debug" })
}

/// Creates and returns a folder of this project in the user's cache folder, which is kept when a clone is removed.
///
/// # Errors
/// The environment does not name a folder, or the folder cannot be created.
pub(crate) fn cache(name: &str) -> Result<PathBuf> {
    let folder = |name| env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let caches = caches.context("neither `XDG_CACHE_HOME` nor `HOME` is an absolute path")?;
    let folder = caches.join("tremor").join(name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// Returns a command that runs the current cargo in the workspace's folder.
pub(crate) fn cargo(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    forget_package(&mut command);
    command
}

/// Removes the variables that describe this package from the environment of another cargo. If they changed from one
/// build to the next, build scripts that read them would run again, and packages that depend on these would be rebuilt.
pub(crate) fn forget_package(cargo: &mut Command) {
    for (variable, _) in env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_") {
            cargo.env_remove(&variable);
        }
    }
}

/// Exit status of `timeout` if it has ended the command.
pub(crate) const TIMED_OUT: i32 = 124;

/// Wraps a command so that it and its child processes end after `limit`, which is a duration as `timeout` reads it, and
/// when this thread ends.
pub(crate) fn limited(limit: &str, command: &Command) -> Command {
    let mut limited = Command::new("setpriv");
    limited.args(["--pdeathsig", "TERM", "timeout", "--kill-after=10s", limit]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.current_dir(command.get_current_dir().unwrap_or(root()));
    forget_package(&mut limited);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

/// Runs a command to its end. The command inherits standard output and standard error.
pub(crate) fn run(mut command: Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(&command)))?;
    if !status.success() {
        bail!("{} failed: {status}", shown(&command));
    }
    Ok(())
}

/// Runs a command to its end, and returns its output.
///
/// # Errors
/// The command fails. The error contains its output.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("cannot start {}", shown(command)))?;
    let printed = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it)).concat();
    ensure!(output.status.success(), "{} failed: {}\n{printed}", shown(command), output.status);
    Ok(output)
}

/// Runs a command to its end, and returns what it wrote to standard output.
pub(crate) fn text(command: &mut Command) -> Result<String> {
    let text = String::from_utf8(output(command)?.stdout);
    text.with_context(|| format!("the output of {} is not UTF-8", shown(command)))
}

/// Returns whether a folder of `PATH` contains the program.
pub(crate) fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Creates a folder, or removes all its files if it exists.
pub(crate) fn empty_folder(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Writes a file, and creates its folder if it does not exist.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the files of the project that git does not ignore, in the order of their names.
pub(crate) fn files() -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let text = text(&mut git)?;
    let files: BTreeSet<_> = text.split_terminator('\0').map(str::to_owned).collect();
    Ok(files.into_iter().collect())
}

/// Returns what `cargo metadata` prints of the workspace in a folder.
pub(crate) fn metadata<T: DeserializeOwned>(workspace: &str, options: &[&str]) -> Result<T> {
    let mut command = cargo(["metadata", "--format-version=1", "--manifest-path"]);
    command.arg(root().join(workspace).join("Cargo.toml")).args(options);
    let printed = output(&mut command)?.stdout;
    serde_json::from_slice(&printed).context("cannot read what `cargo metadata` prints")
}

/// Returns a line of `rustc -vV`, such as `release`.
pub(crate) fn rustc(field: &str) -> Result<String> {
    let printed = text(Command::new("rustc").arg("-vV"))?;
    let line = printed.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(": "));
    Ok(line.with_context(|| format!("rustc does not print its {field}"))?.to_owned())
}

/// Returns the command as a user would type it, with the program's name instead of its path.
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
    fn root_contains_the_workspace_manifest() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap_or_default();
        assert!(manifest.contains("[workspace]"));
    }

    #[test]
    fn variables_of_this_package_are_removed() {
        let removed =
            |(name, value): (&OsStr, Option<&OsStr>)| value.is_none().then(|| name.to_owned());
        let removed: Vec<_> = cargo(["build"]).get_envs().filter_map(removed).collect();
        // Cargo sets this variable for every test that it runs.
        assert!(removed.iter().any(|name| name == "CARGO_MANIFEST_DIR"), "{removed:?}");
    }

    #[test]
    fn failing_program_is_named_with_its_arguments() {
        let error = run(cargo(["no-such-command"])).map_err(|error| error.to_string());
        let message = error.expect_err("cargo has no such command");
        assert!(message.starts_with("`cargo no-such-command` failed"), "{message}");
    }
    #[test]
    fn command_beyond_its_limit_is_ended_with_its_children() {
        let mut hangs = Command::new("sh");
        hangs.args(["-c", "sleep 86399 & sleep 86399"]).env("NAME", "value").current_dir("/");
        let ended = limited("0.1", &hangs).output().expect("the command starts");
        assert_eq!(ended.status.code(), Some(TIMED_OUT), "{}", ended.status);
    }

    #[test]
    fn limited_command_has_its_folder_and_variables() {
        let mut shows = Command::new("sh");
        shows.args(["-c", "echo $NAME; pwd"]).env("NAME", "value").current_dir("/");
        let printed = text(&mut limited("1m", &shows)).expect("the command runs");
        assert_eq!(printed, "value\n/\n");
    }
}
