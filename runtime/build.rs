//! Facts about the build: the compiler, the target and the profile, which a benchmark reports, and the file from which
//! `tremor --version` takes the commit.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().ok();
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
    set("RUSTC", version.unwrap_or_default().trim());
    for (name, variable) in [("TARGET", "TARGET"), ("PROFILE", "PROFILE"), ("OPT", "OPT_LEVEL")] {
        set(name, &env::var(variable).unwrap_or_default());
    }
    // Cargo separates flags by a character that none of them has.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    set("RUSTFLAGS", &flags.replace('\x1f', " "));
    // The compiler tracks this file, so the script need not run again when it changes.
    let log = log_of_head().unwrap_or_else(empty_file);
    set("HEAD_LOG", &log.to_string_lossy());
}

/// Returns the file to which git appends a line whenever `HEAD` changes; `None` if this is not a git repository.
fn log_of_head() -> Option<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR")?;
    let repository = Path::new(&package).parent()?;
    let git = repository.join(".git");
    let folder = if git.is_dir() {
        git
    } else {
        // A worktree has a file with the path of its folder.
        let text = fs::read_to_string(git).ok()?;
        repository.join(text.strip_prefix("gitdir: ")?.trim_end())
    };
    Some(folder.join("logs/HEAD")).filter(|log| log.is_file())
}

fn empty_file() -> PathBuf {
    let folder = env::var_os("OUT_DIR").map(PathBuf::from).expect("cargo sets OUT_DIR");
    let file = folder.join("no-commits");
    fs::write(&file, "").expect("the folder of the build is writable");
    file
}

fn set(name: &str, value: &str) {
    println!("cargo::rustc-env=TREMOR_BUILD_{name}={value}");
}
