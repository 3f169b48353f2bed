//! Facts about the build: the compiler, the target and the profile, which a benchmark reports, and the file from which
//! `tremor --version` takes the commit. And the files of plugins in Python, which `tremor plugin new` writes.

use std::{
    env,
    fmt::Write as _,
    fs,
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
    embed_python();
}

/// Writes a Rust file with the contents of the package for plugins in Python, and of the template of such a plugin.
fn embed_python() {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).expect("cargo sets it");
    let sdk = package.join("../sdk/python");
    let mut code = String::new();
    for (name, folder) in [("PACKAGE", "src/tremor"), ("TEMPLATE", "template")] {
        let root = sdk.join(folder);
        let mut files = Vec::new();
        find(&root, &mut files);
        files.sort();
        // Writing to a string cannot fail.
        _ = writeln!(code, "const {name}: &[(&str, &str)] = &[");
        for file in files {
            // Not the folder, which changes when Python compiles its files.
            println!("cargo::rerun-if-changed={}", file.display());
            let path = file.strip_prefix(&root).expect("it was found there");
            let [path, file] = [path, &file].map(|it| it.to_str().expect("names are in UTF-8"));
            _ = writeln!(code, "    ({path:?}, include_str!({file:?})),");
        }
        code.push_str("];\n");
    }
    let out = env::var_os("OUT_DIR").map(PathBuf::from).expect("cargo sets OUT_DIR");
    fs::write(out.join("python.rs"), code).expect("the folder of the build is writable");
}

/// Adds the files of a folder and its subfolders, except those that Python has compiled.
fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        if !path.is_dir() {
            files.push(path);
        } else if entry.file_name() != "__pycache__" {
            find(&path, files);
        }
    }
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
