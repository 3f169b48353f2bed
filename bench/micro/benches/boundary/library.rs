//! The library that the benchmarks call: building it, and finding it.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

const PACKAGE: &str = "boundary-plugin";

/// The library as the product builds its plugins: built once a process, so that there is one file, and
/// one library of it, whoever opens it.
///
/// # Panics
/// Where it cannot be built; the message says by what command it is.
pub(crate) fn unwinding() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build(&folder(), PACKAGE, "unwind", &["build"])).clone()
}

/// The library as it is where a panic ends the process. The standard library in it still has its
/// tables for unwinding.
///
/// # Panics
/// As [`unwinding`].
pub(crate) fn aborting() -> PathBuf {
    build(&folder(), PACKAGE, "abort", &["rustc", "--", "-Cpanic=abort"])
}

/// Next to the benchmarks, or further up.
fn folder() -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut folders = folders.map(|folder| folder.join(PACKAGE));
    folders.find(|folder| folder.is_dir()).expect("the package is among the benchmarks")
}

/// Has cargo build the library of the package in `folder`, which does nothing where nothing has
/// changed, and sets it aside under the name of its variant: cargo has one place for all. The first of
/// `arguments` is cargo's command.
///
/// # Panics
/// As [`unwinding`].
pub(crate) fn build(folder: &Path, package: &str, variant: &str, arguments: &[&str]) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a folder in the target");
    let profile = profile();
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder).stderr(Stdio::inherit());
    cargo.args([arguments[0], "--package", package, "--lib", "--profile", &profile]);
    cargo.arg("--target-dir").arg(target).arg("--message-format=json-render-diagnostics");
    cargo.args(&arguments[1..]);
    let said = cargo.output().map_err(|error| error.to_string());
    let said = said.and_then(|output| {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(said) } else { Err(output.status.to_string()) }
    });
    let built = said.and_then(|said| {
        let lines = said.lines().filter_map(|line| serde_json::from_str(line).ok());
        let mut files = lines.filter_map(|message| library(&message, package));
        files.next_back().ok_or_else(|| "cargo names none".to_owned())
    });
    let built = built.unwrap_or_else(|why| {
        panic!(
            "no library of `{package}` ({why}); this builds it, or says what is wrong: {cargo:?}"
        )
    });
    let folder = target.join("boundary").join(profile).join(variant);
    let aside = folder.join(built.file_name().unwrap_or_default());
    fs::create_dir_all(&folder).expect("a folder in the target folder");
    // A file that is mapped is not written to, but replaced.
    let _ = fs::remove_file(&aside);
    fs::copy(&built, &aside).expect("a copy in the target folder");
    aside
}

/// The file of the package's library, where a message of cargo's is about that.
fn library(message: &serde_json::Value, package: &str) -> Option<PathBuf> {
    let ours = message["target"]["name"] == package.replace('-', "_");
    let files = message["filenames"].as_array().filter(|_| ours)?;
    let mut files = files.iter().filter_map(|file| file.as_str()).map(PathBuf::from);
    files.find(|file| file.extension() == Some(OsStr::new(env::consts::DLL_EXTENSION)))
}

/// The profile of this benchmark: the name of its folder, but for the one that differs.
fn profile() -> String {
    let this = env::current_exe().expect("a benchmark has a path");
    let folder = this.parent().and_then(Path::parent).and_then(Path::file_name);
    match folder.and_then(OsStr::to_str) {
        Some("debug") | None => "dev".to_owned(),
        Some(profile) => profile.to_owned(),
    }
}
