//! Plugins for tests, built when a test asks for them: `cargo test` does not build the `cdylib`s of
//! other packages by itself.

// Each test binary uses what it needs of this.
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

/// The folder of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the runtime is a folder of the workspace")
}

/// The target folder that this test was built in.
pub fn target_folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("cargo's folder for tests is in `target`")
}

/// The path of the plugin library of this package of the workspace, built if it has to be: in the
/// profile and target folder of this test.
///
/// All plugins of the workspace are built together, with what tests take: cargo joins the features that the
/// packages of a build ask of their dependencies, so this finds what `cargo test --workspace` has built. With
/// [`FLAGS`] of their own nothing is built yet, and only fixtures are.
pub fn library(package: &str) -> PathBuf {
    if package == "operator-vrl" {
        let arguments = ["build", "--package", package, "--lib"];
        let folder = workspace().join("operators-plugins/vrl");
        return cached(package, || build(&folder, &arguments, package));
    }
    of(&ALL, package)
}

static ALL: LazyLock<HashMap<String, PathBuf>> = LazyLock::new(|| {
    let fixtures = if env::var_os(FLAGS).is_some() { fixtures() } else { Vec::new() };
    let selected = match &fixtures[..] {
        [] => vec!["--workspace", "--lib"],
        fixtures => fixtures.iter().flat_map(|fixture| ["--package", fixture]).collect(),
    };
    let arguments = [&["build", "--examples"], &selected[..]].concat();
    built_libraries(in_target(&arguments).current_dir(workspace()))
});

/// Has flags for the compiler of plugins, so that they can be built otherwise than the test that loads them.
const FLAGS: &str = "TREMOR_TEST_PLUGIN_RUSTFLAGS";

/// The packages of all fixtures. They are examples, so that none of them ever lies where people keep their
/// plugins.
fn fixtures() -> Vec<String> {
    let folder = workspace().join("tests/fixtures/plugins");
    let entries = fs::read_dir(folder).expect("the folder of the fixtures");
    let entries = entries.map(|entry| entry.expect("an entry of the folder of the fixtures"));
    let packages = entries.filter(|entry| entry.path().join("Cargo.toml").exists());
    packages.map(|entry| format!("fixture-{}", entry.file_name().display())).collect()
}

/// The library of a fixture, with further flags for the compiler of that one crate.
pub fn library_with_flags(package: &str, flags: &[&str]) -> PathBuf {
    // It takes the place of the one without them.
    LazyLock::force(&ALL);
    let selected = ["rustc", "--package", package, "--example", package, "--"];
    cached(package, || build(workspace(), &[&selected, flags].concat(), package))
}

/// Builds each thing once a process, one after the other.
pub fn cached(what: &str, make: impl FnOnce() -> PathBuf) -> PathBuf {
    static BUILT: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let built = built.get_or_insert_default();
    built.entry(what.to_owned()).or_insert_with(make).clone()
}

/// Runs cargo in `folder` and says where the library of `package` is: in the profile and target
/// folder of this test.
///
/// # Panics
/// Where the build fails: the compiler's messages are on stderr.
pub fn build(folder: &Path, arguments: &[&str], package: &str) -> PathBuf {
    built_library(in_target(arguments).current_dir(folder), package)
}

/// A call of cargo in the profile and target folder of this test.
fn in_target(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    if let Some(flags) = env::var_os(FLAGS) {
        cargo.env("RUSTFLAGS", flags);
    }
    // What cargo says of the package of this test: where it differs from one build to the next, build scripts
    // that look at it run again, and what depends on them is built again.
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
        .arg(target_folder())
        .args(["--profile", &profile(), JSON])
        .args(&arguments[1..]);
    cargo
}

/// What makes cargo say what it built, and leaves what the compiler says to people.
pub const JSON: &str = "--message-format=json-render-diagnostics";

/// Runs a cargo that is set up for that, with [`JSON`], and says where the library of `package`
/// is.
///
/// # Panics
/// As [`build`].
pub fn built_library(cargo: &mut Command, package: &str) -> PathBuf {
    of(&built_libraries(cargo), package)
}

fn of(libraries: &HashMap<String, PathBuf>, package: &str) -> PathBuf {
    let library = libraries.get(&package.replace('-', "_"));
    library.unwrap_or_else(|| panic!("`{package}` has no library")).clone()
}

/// The same of all packages that are built, by their names.
fn built_libraries(cargo: &mut Command) -> HashMap<String, PathBuf> {
    let output = cargo.stderr(Stdio::inherit()).output().expect("cargo can be run");
    assert!(output.status.success(), "{cargo:?} failed; see the compiler's messages above");
    let messages = String::from_utf8(output.stdout).expect("cargo speaks UTF-8");
    let library = |message: serde_json::Value| {
        // The name of a library has no dashes, that of an example has.
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

/// The profile that this test was built in: its folder's name, but for the one that differs.
fn profile() -> String {
    let test = env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent).and_then(Path::file_name);
    match folder.and_then(OsStr::to_str) {
        Some("debug") | None => "dev".to_owned(),
        Some(profile) => profile.to_owned(),
    }
}
