//! Programs that steps of CI need and a machine may lack. They are installed in the user's cache folder, so that
//! another clone does not build them again.

use std::path::{Path, PathBuf};
use std::{ffi::OsString, fs, process::Command};

use anyhow::{Context, Result, ensure};

use crate::project::{
    cache, cargo, empty_folder, forget_package, is_on_path, limited, root, run as run_command,
    target_folder,
};

/// Maximum time to download and build a Go program.
const BUILD: &str = "30m";

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

/// A program that Go can build.
pub(crate) struct GoProgram {
    /// Name of the program.
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    /// Version of the package, without the `v` at its beginning.
    pub(crate) version: &'static str,
}

impl GoProgram {
    /// Returns the program if it was built before.
    pub(crate) fn built(&self) -> Option<PathBuf> {
        found(self.name, self.version).map(|folder| folder.join(self.name))
    }

    /// Returns the program, which is built if it was not built before.
    ///
    /// # Errors
    /// Go is missing, or cannot download or build the package.
    pub(crate) fn build(&self) -> Result<PathBuf> {
        let folder = fetched(self.name, self.version, |folder| {
            ensure!(is_on_path("go"), "missing: `go`; `apt-get install golang` provides it");
            eprintln!("building {} {}; this is done once", self.name, self.version);
            let mut go = Command::new("go");
            go.args(["install", &format!("{}@v{}", self.package, self.version)]);
            let mut go = limited(BUILD, go.env("GOBIN", folder));
            // Standard output of some callers is reserved for the description of a broker.
            go.stdout(std::io::stderr());
            run_command(go)
        })?;
        Ok(folder.join(self.name))
    }
}

/// Returns the folder of a tool in [`folder`] if it was fetched before.
pub(crate) fn found(name: &str, version: &str) -> Option<PathBuf> {
    Some(folder().join(name).join(version)).filter(|folder| folder.is_dir())
}

/// Returns the folder of a tool in [`folder`]. If it does not exist, `fetch` fills it.
pub(crate) fn fetched(
    name: &str,
    version: &str,
    fetch: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    if let Some(folder) = found(name, version) {
        return Ok(folder);
    }
    let tools = folder().join(name);
    let folder = tools.join(version);
    // The process with the lock fetches the tool, and the others wait for it: Maven fails if another Maven fills the same cache.
    fs::create_dir_all(&tools)?;
    let fetching = fs::File::create(tools.join(format!("{version}.lock")))?;
    fetching.lock().with_context(|| format!("cannot lock the folder {}", tools.display()))?;
    if folder.is_dir() {
        return Ok(folder);
    }
    // The folder gets its name once it is complete, because a process may be killed meanwhile.
    let part = tools.join(format!("{version}.new"));
    empty_folder(&part)?;
    fetch(&part)?;
    fs::rename(&part, &folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
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
