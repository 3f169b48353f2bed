//! The files on which the result of a step of CI depends, and a hash of them.
//!
//! The files are derived: from cargo's graph of packages, from the lock files, from the modules of `xtask` that a step
//! uses, and from the string literals of these modules and of tests, which name the files, folders and packages that
//! the code uses when it runs.

mod lock;
mod modules;
mod names;
mod tests_folder;

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, io::ErrorKind, process::Command};

use anyhow::{Context, Result};
use twox_hash::XxHash3_128;

use self::lock::Lock;
use self::tests_folder::Tests;
use crate::packages::{Package, Target, WORKSPACES, read_packages};
use crate::project::{files, is_on_path, root};
use crate::servers;

/// Files that every build reads, besides those of its packages and of its workspace.
const BUILD: [&str; 2] = [".cargo/config.toml", "clippy.toml"];

/// Compilers whose versions are part of the hash.
const COMPILERS: [&[&str]; 3] = [
    &["rustc", "-vV"],
    &["rustup", "run", "nightly", "rustc", "-vV"],
    &["rustup", "run", "nightly", "cargo", "miri", "--version"],
];
/// Programs without which a part of a step is skipped.
const PROGRAMS: [&str; 7] =
    ["go", "java", "mvn", "valgrind", "shellcheck", "systemd-analyze", "mdbook"];
/// Environment variables with flags for compilers, and those that select the inputs of tests. With them, a test may pass
/// that has run only a part.
const VARIABLES: [&str; 8] = [
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "PROPTEST_CASES",
    "PROPTEST_RNG_SEED",
    "TREMOR_BOMBS",
    "TREMOR_RANDOM_SECONDS",
    "TREMOR_SEED",
];

/// The inputs of a step, from which all its files follow.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reads {
    /// Modules of `xtask` with the step. The modules that these use are included, and the packages and files that all
    /// of them name.
    pub(crate) modules: &'static [&'static str],
    /// Names of packages that the step builds. Their dependencies are included, except for those of tests.
    pub(crate) packages: &'static [&'static str],
    /// Workspaces of which the step builds and tests all packages.
    pub(crate) workspaces: &'static [&'static str],
    /// Paths of further files. A path with a slash at its end is a folder, and `**/NAME` is each file with that name.
    pub(crate) files: &'static [&'static str],
    /// Files, and folders with a slash at the end, that the step does not read although the rest names them.
    pub(crate) except: &'static [&'static str],
}

/// The files and packages of the project.
pub(crate) struct Sources {
    root: PathBuf,
    /// Paths of all files, sorted.
    files: Vec<String>,
    packages: Vec<Package>,
    /// The lock files, in the order of [`WORKSPACES`].
    locks: Vec<Lock>,
    /// Versions of the tools, whose change invalidates all results. Read when a hash needs them.
    tools: Tools,
}

/// Versions and flags, each as a text.
type Tools = LazyCell<Vec<Vec<u8>>, Box<dyn FnOnce() -> Vec<Vec<u8>>>>;

/// Paths of files, and locked packages of registries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Inputs {
    pub(crate) files: BTreeSet<String>,
    /// Entries of lock files.
    locked: BTreeSet<String>,
}

impl Sources {
    /// Reads the lists of files and packages, and the lock files.
    ///
    /// # Errors
    /// git does not list the files of the project, or cargo not its packages.
    pub(crate) fn read() -> Result<Self> {
        Self::of(root().to_owned(), files()?, read_packages()?, tools)
    }

    fn of(
        root: PathBuf,
        files: Vec<String>,
        packages: Vec<Package>,
        tools: impl FnOnce() -> Vec<Vec<u8>> + 'static,
    ) -> Result<Self> {
        let lock = |workspace: &str| {
            let path = within(workspace, "Cargo.lock");
            let text = fs::read_to_string(root.join(&path));
            Ok(Lock::parse(&text.with_context(|| format!("cannot read {path}"))?))
        };
        let locks = WORKSPACES.iter().copied().map(lock).collect::<Result<_>>()?;
        Ok(Self { root, files, packages, locks, tools: Tools::new(Box::new(tools)) })
    }

    /// Returns the packages of a workspace.
    pub(crate) fn packages(&self, workspace: &str) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(move |it| it.workspace == workspace)
    }

    /// Returns the inputs of a step.
    pub(crate) fn of_step(&self, reads: &Reads) -> Inputs {
        let mut inputs = Inputs::default();
        for module in modules::closure(self, reads.modules) {
            self.add_named(&module, &mut inputs);
            inputs.files.insert(module);
        }
        for name in reads.packages {
            self.add_build(self.package(name), false, &mut inputs);
        }
        for package in reads.workspaces.iter().flat_map(|it| self.packages(it)) {
            self.add_tested(package, &mut inputs);
        }
        self.add_files(reads.files, &mut inputs);
        inputs.files.retain(|file| !is_in(file, reads.except));
        inputs
    }

    /// Returns the inputs of checks that compile all targets of a package, such as lints.
    pub(crate) fn of_package(&self, package: &Package) -> Inputs {
        let mut inputs = Inputs::default();
        self.add_build(Some(package), true, &mut inputs);
        inputs
    }

    /// Returns the inputs of the examples in the documentation of the packages of a workspace.
    pub(crate) fn of_documentation(&self, workspace: &str) -> Inputs {
        let mut inputs = Inputs::default();
        let has_example = |file: &String| {
            let text = self.text(file);
            is_rust(file) && ["/// ```", "//! ```"].iter().any(|it| text.contains(it))
        };
        for package in self.packages(workspace) {
            if self.own_files(package).any(has_example) {
                self.add_build(Some(package), true, &mut inputs);
            }
        }
        inputs
    }

    /// Returns the inputs of the tests in one target of a package, with the files and packages that its code names.
    pub(crate) fn of_target(&self, package: &Package, target: &Target) -> Inputs {
        let mut inputs = self.of_package(package);
        let tests = Tests::new(self, package, target);
        inputs.files.retain(|file| !tests.is_of_another(file));
        let files = self.own_files(package).filter(|file| tests.may_name_inputs(file));
        files.for_each(|file| self.add_named(file, &mut inputs));
        inputs
    }

    /// Returns a hash of the names and contents of the files, of the locked packages, of the tools and of [`VARIABLES`].
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn hash(&self, inputs: &Inputs) -> Result<String> {
        let mut hashes = Vec::new();
        let mut add = |part: &[u8]| hashes.extend(XxHash3_128::oneshot(part).to_le_bytes());
        self.tools.iter().for_each(|tool| add(tool));
        inputs.locked.iter().for_each(|entry| add(entry.as_bytes()));
        for file in &inputs.files {
            match fs::read(self.root.join(file)) {
                Ok(content) => [file.as_bytes(), &content].into_iter().for_each(&mut add),
                // A deleted file is in git's list until the deletion is staged.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| format!("cannot read {file}")),
            }
        }
        Ok(format!("{:032x}", XxHash3_128::oneshot(&hashes)))
    }

    fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// Adds the inputs of all tests of a package.
    fn add_tested(&self, package: &Package, inputs: &mut Inputs) {
        self.add_build(Some(package), true, inputs);
        self.own_files(package).for_each(|file| self.add_named(file, inputs));
    }

    /// Adds the files of a package and of the packages on which it depends. `with_tests` adds the dependencies of its
    /// tests.
    fn add_build(&self, package: Option<&Package>, with_tests: bool, inputs: &mut Inputs) {
        let Some(root) = package else { return };
        let mut open = vec![root];
        let mut seen = BTreeSet::from([root.name.as_str()]);
        while let Some(package) = open.pop() {
            inputs.files.extend(self.own_files(package).cloned());
            // A package inherits keys and versions from the manifest of its own workspace.
            inputs.files.insert(within(&package.workspace, "Cargo.toml"));
            let is_used = |it: &&crate::packages::Dependency| {
                let is_for_root = with_tests && package.name == root.name;
                (is_for_root || !it.is_for_tests) && !(it.is_ours && it.is_optional)
            };
            let used: Vec<_> = package.dependencies.iter().filter(is_used).collect();
            let names: BTreeSet<_> = used.iter().map(|it| it.name.as_str()).collect();
            let workspace = WORKSPACES.iter().position(|it| *it == root.workspace);
            let lock = workspace.and_then(|at| self.locks.get(at));
            inputs.locked.extend(lock.iter().flat_map(|it| it.closure(&package.name, &names)));
            let ours = used.iter().filter(|it| it.is_ours && seen.insert(&it.name));
            open.extend(ours.filter_map(|it| self.package(&it.name)));
        }
        inputs.files.extend(BUILD.map(str::to_owned));
    }

    /// Adds the files, folders and packages that a Rust file names.
    fn add_named(&self, file: &str, inputs: &mut Inputs) {
        if !is_rust(file) {
            return;
        }
        for name in names::names(&self.text(file)) {
            // The modules of `xtask` that a step reads are in its list already.
            let package = self.package(name.text).filter(|package| package.name != "xtask");
            self.add_build(package, false, inputs);
            inputs.files.extend(name.files(file, &self.files).cloned());
        }
    }

    /// Returns the text of a file; empty if the file was deleted or is not text, so that it names nothing.
    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.root.join(file)).unwrap_or_default()
    }

    fn add_files(&self, wanted: &[&str], inputs: &mut Inputs) {
        inputs.files.extend(self.files.iter().filter(|file| is_in(file, wanted)).cloned());
    }

    /// Returns the files of a package without those of packages in its subfolders.
    fn own_files<'s>(&'s self, package: &'s Package) -> impl Iterator<Item = &'s String> {
        let folder = package.folder();
        let is_nested = move |file: &str| {
            let mut others = self.packages.iter().map(Package::folder);
            others
                .any(|it| it.len() > folder.len() && it.starts_with(folder) && file.starts_with(it))
        };
        let start = self.files.partition_point(|file| file.as_str() < folder);
        let files = self.files[start..].iter().take_while(move |file| file.starts_with(folder));
        files.filter(move |file| !is_nested(file))
    }
}

fn is_rust(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|it| it == "rs")
}

/// Returns whether `file` is one of these files, or in one of these folders, whose paths end with a slash. A path that
/// begins with `**/` is that of files with this name in all folders.
fn is_in(file: &str, paths: &[&str]) -> bool {
    let name = file.rsplit_once('/').map_or(file, |(_, name)| name);
    paths.iter().any(|path| match path.strip_prefix("**/") {
        Some(wanted) => name == wanted,
        None => file == *path || (path.ends_with('/') && file.starts_with(path)),
    })
}

/// Returns the path of a file in a folder, which may be empty.
fn within(folder: &str, file: &str) -> String {
    if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") }
}

/// Returns the versions of the compilers, the values of [`VARIABLES`], and which [`PROGRAMS`] and servers are installed.
fn tools() -> Vec<Vec<u8>> {
    let mut tools: Vec<_> = COMPILERS.into_iter().map(output).collect();
    tools.extend(VARIABLES.map(|name| env::var(name).unwrap_or_default().into_bytes()));
    tools.push(PROGRAMS.map(|program| u8::from(is_on_path(program))).to_vec());
    tools.push(servers::present().map(u8::from).to_vec());
    tools
}

/// Returns the output of a command; empty if the command cannot be started.
fn output(command: &[&str]) -> Vec<u8> {
    let output = Command::new(command[0]).args(&command[1..]).current_dir(root()).output();
    output.map_or_else(|_| Vec::new(), |output| [output.stdout, output.stderr].concat())
}

#[cfg(test)]
mod tests;
