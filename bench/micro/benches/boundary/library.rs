//! Building and finding the library that the benchmarks call.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

const PACKAGE: &str = "boundary-plugin";

/// Builds the library as the product builds plugins, once per process, so that all callers open the
/// same file.
///
/// # Panics
/// If the build fails; the message contains the command.
pub(crate) fn unwinding() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build(&folder(), PACKAGE, "unwind", &["build"])).clone()
}

/// Builds the library with `panic=abort`. The standard library in it still has unwinding tables.
///
/// # Panics
/// Like [`unwinding`].
pub(crate) fn aborting() -> PathBuf {
    build(&folder(), PACKAGE, "abort", &["rustc", "--", "-Cpanic=abort"])
}

/// Returns the folder of the package, next to the benchmarks or above them.
fn folder() -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut folders = folders.map(|folder| folder.join(PACKAGE));
    folders.find(|folder| folder.is_dir()).expect("the package is among the benchmarks")
}

/// Builds the library of the package in `folder` with cargo, and copies it to a folder of its
/// variant, because cargo writes all variants to the same path. The first of `arguments` is the
/// command of cargo.
///
/// # Panics
/// Like [`unwinding`].
pub(crate) fn build(folder: &Path, package: &str, variant: &str, arguments: &[&str]) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("the folder is in the target folder");
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
        files.next_back().ok_or_else(|| "cargo printed no path of a library".to_owned())
    });
    let built = built.unwrap_or_else(|why| {
        panic!(
            "cannot build the library of `{package}`: {why}; run this command to see the error: {cargo:?}"
        )
    });
    let folder = target.join("boundary").join(profile).join(variant);
    let aside = folder.join(built.file_name().unwrap_or_default());
    fs::create_dir_all(&folder).expect("a folder in the target folder");
    // Replace the file instead of writing to it, because it may be mapped.
    let _ = fs::remove_file(&aside);
    fs::copy(&built, &aside).expect("a copy in the target folder");
    aside
}

/// Returns the file of the package's library, if the message of cargo is about it.
fn library(message: &serde_json::Value, package: &str) -> Option<PathBuf> {
    let ours = message["target"]["name"] == package.replace('-', "_");
    let files = message["filenames"].as_array().filter(|_| ours)?;
    let mut files = files.iter().filter_map(|file| file.as_str()).map(PathBuf::from);
    files.find(|file| file.extension() == Some(OsStr::new(env::consts::DLL_EXTENSION)))
}

/// Returns the profile of this benchmark, which is the name of its folder except for `dev`.
fn profile() -> String {
    let this = env::current_exe().expect("this program has a path");
    let folder = this.parent().and_then(Path::parent).and_then(Path::file_name);
    match folder.and_then(OsStr::to_str) {
        Some("debug") | None => "dev".to_owned(),
        Some(profile) => profile.to_owned(),
    }
}
