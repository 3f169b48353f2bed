//! Builds plugins for tests on demand, because `cargo test` does not build the `cdylib`s of other packages.

// Each test binary uses only a part of this module.
#![allow(dead_code, unreachable_pub)]

pub mod derive;

use std::{
    collections::HashMap,
    env::{self, consts::DLL_EXTENSION},
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{LazyLock, Mutex, PoisonError},
};

/// Returns the root folder of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the runtime is a folder of the workspace")
}

/// Returns the target folder in which this test was built.
pub fn target_folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("cargo's folder for tests is in `target`")
}

/// Returns the path of the plugin library of a package of the workspace. Builds the library if necessary, in the
/// profile and the target folder of this test.
///
/// All plugins of the workspace are built together with the plugins of tests: cargo unifies the features of the
/// packages in a build, so this build reuses the results of `cargo test --workspace`. If [`FLAGS`] is set, no results
/// can be reused, and only the fixtures are built.
pub fn library(package: &str) -> PathBuf {
    if package == "operator-vrl" {
        let arguments = ["build", "--workspace", "--lib", "--examples"];
        let folder = workspace().join("operators-plugins/vrl");
        return cached(package, || build(&folder, &arguments, package));
    }
    of(&ALL, package)
}

static ALL: LazyLock<HashMap<String, PathBuf>> = LazyLock::new(|| {
    if let Some(messages) = env::var_os(BUILT) {
        return libraries(&fs::read_to_string(messages).expect("the messages of the build"));
    }
    let fixtures = if env::var_os(FLAGS).is_some() { fixtures() } else { Vec::new() };
    let selected = match &fixtures[..] {
        [] => vec!["--workspace", "--lib"],
        fixtures => fixtures.iter().flat_map(|fixture| ["--package", fixture]).collect(),
    };
    let arguments = [&["build", "--examples"], &selected[..]].concat();
    built_libraries(in_target(&arguments).current_dir(workspace()))
});

/// Name of the environment variable with the path of a file. The file has the messages ([`JSON`]) of the build of all
/// plugins, with which `cargo xtask ci` prepares the tests.
const BUILT: &str = "TREMOR_TEST_BUILT";

/// Name of the environment variable with compiler flags for plugins. The variable allows plugins to be built with other
/// flags than the test that loads them.
const FLAGS: &str = "TREMOR_TEST_PLUGIN_RUSTFLAGS";

/// Returns the packages of all fixtures. Their libraries are examples of cargo, so that no build puts them into a
/// folder in which users search for plugins.
fn fixtures() -> Vec<String> {
    let folder = workspace().join("tests/fixtures/plugins");
    let entries = fs::read_dir(folder).expect("the folder of the fixtures");
    let entries = entries.map(|entry| entry.expect("an entry of the folder of the fixtures"));
    let packages = entries.filter(|entry| entry.path().join("Cargo.toml").exists());
    packages.map(|entry| format!("fixture-{}", entry.file_name().display())).collect()
}

/// Builds the library of a fixture with further compiler flags, which apply only to this crate. The target folder is
/// another one: cargo locks a target folder during a build, and steps of `cargo xtask ci` that run beside the tests may
/// build for longer than a test program may take.
pub fn library_with_flags(package: &str, flags: &[&str]) -> PathBuf {
    let selected = ["rustc", "--package", package, "--example", package, "--"];
    let arguments = [&selected, flags].concat();
    let folder = target_folder().join("with-flags");
    let mut cargo = cargo_in(&folder, &arguments);
    cached(package, || built_library(cargo.current_dir(workspace()), package))
}

/// Returns the library `what`, which `make` builds at the first call in this process. Only one library is built at a
/// time.
pub fn cached(what: &str, make: impl FnOnce() -> PathBuf) -> PathBuf {
    static BUILT: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let built = built.get_or_insert_default();
    built.entry(what.to_owned()).or_insert_with(make).clone()
}

/// Runs cargo in `folder`, and returns the path of the library of `package`, in the profile and target folder
/// of this test.
///
/// # Panics
/// The build fails. The messages of the compiler are on stderr.
pub fn build(folder: &Path, arguments: &[&str], package: &str) -> PathBuf {
    built_library(in_target(arguments).current_dir(folder), package)
}

/// Returns a cargo command that uses the profile and the target folder of this test.
fn in_target(arguments: &[&str]) -> Command {
    cargo_in(target_folder(), arguments)
}

/// Returns a cargo command that uses the profile of this test and a target folder.
fn cargo_in(target: &Path, arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    if let Some(flags) = env::var_os(FLAGS) {
        cargo.env("RUSTFLAGS", flags);
    }
    // Remove the variables that cargo sets for the package of this test. If they differed between builds, build scripts
    // that read them would run again, and dependent packages would be rebuilt.
    for (variable, _) in env::vars_os() {
        let name = variable.to_string_lossy();
        let is_of_package = ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|it| name.starts_with(it));
        if is_of_package || name == "OUT_DIR" {
            cargo.env_remove(&variable);
        }
    }
    cargo
        .arg(arguments[0])
        .arg("--target-dir")
        .arg(target)
        .args(["--profile", &profile(), JSON])
        .args(&arguments[1..]);
    cargo
}

/// Argument that makes cargo report the built files as JSON and the compiler's messages as text.
pub const JSON: &str = "--message-format=json-render-diagnostics";

/// Runs a cargo command with [`JSON`], and returns the path of the library of `package`.
///
/// # Panics
/// The build fails, as for [`build`].
pub fn built_library(cargo: &mut Command, package: &str) -> PathBuf {
    of(&built_libraries(cargo), package)
}

fn of(libraries: &HashMap<String, PathBuf>, package: &str) -> PathBuf {
    let library = libraries.get(&package.replace('-', "_"));
    library.unwrap_or_else(|| panic!("`{package}` has no library")).clone()
}

/// Runs a cargo command with [`JSON`], and returns the paths of all libraries by package.
fn built_libraries(cargo: &mut Command) -> HashMap<String, PathBuf> {
    let output = cargo.stderr(Stdio::inherit()).output().expect("cargo can be run");
    assert!(output.status.success(), "{cargo:?} failed; see the compiler's messages above");
    libraries(&String::from_utf8(output.stdout).expect("cargo speaks UTF-8"))
}

/// Returns the paths of all libraries by package, as cargo's messages report them.
fn libraries(messages: &str) -> HashMap<String, PathBuf> {
    let library = |message: serde_json::Value| {
        // The target name of an example has dashes, and that of a library has underscores.
        let name = message["target"]["name"].as_str()?.replace('-', "_");
        let files = message["filenames"].as_array()?;
        let mut files = files.iter().filter_map(|file| file.as_str()).map(PathBuf::from);
        let is_library = |file: &PathBuf| file.extension() == Some(DLL_EXTENSION.as_ref());
        Some((name, files.find(is_library)?))
    };
    messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter_map(library)
        .collect()
}

/// Returns the profile that this test was built in: the name of its folder, except for `debug`.
fn profile() -> String {
    let test = env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent).and_then(Path::file_name);
    match folder.and_then(OsStr::to_str) {
        Some("debug") | None => "dev".to_owned(),
        Some(profile) => profile.to_owned(),
    }
}
