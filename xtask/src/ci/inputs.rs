//! The files and tools on which the result of a step depends, and a hash of them.

use std::{env, fs, io::ErrorKind, path::Path, process::Command};

use anyhow::{Context, Result};
use twox_hash::XxHash3_128;

use crate::project::{files, is_on_path, root};

pub(super) const BENCH: &str = "bench/";
pub(super) const CLIENTS: &str = "brokers/";
pub(super) const EXAMPLES: &str = "examples/";
pub(super) const FUZZ: &str = "fuzz/";
pub(super) const CHECKS: &str = "models/";
pub(super) const TESTS: &str = "tests/";
pub(super) const VRL_PLUGIN: &str = "operators-plugins/vrl/";

/// Compilers whose output is part of the hash.
const COMPILERS: [&[&str]; 3] = [
    &["rustc", "-vV"],
    &["rustup", "run", "nightly", "rustc", "-vV"],
    &["rustup", "run", "nightly", "cargo", "miri", "--version"],
];
/// Programs without which a part of a step is skipped.
const PROGRAMS: [&str; 7] =
    ["go", "java", "mvn", "valgrind", "shellcheck", "systemd-analyze", "mdbook"];
/// Environment variables with flags for compilers.
const FLAGS: [&str; 3] = ["RUSTFLAGS", "RUSTDOCFLAGS", "CARGO_ENCODED_RUSTFLAGS"];

/// Returns whether a build may read the file `path`; `false` for files in the folders `but`. The
/// result is `true` for files of unknown use, so that a step may run unnecessarily, but no fault is
/// missed.
pub(super) fn is_source(path: &str, but: &[&str]) -> bool {
    let prose = [".ci/", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "bench/runs/", "docs/"];
    !within(path, but) && !within(path, &prose) && !within(path, &["dist/", "scripts/"])
}

pub(super) fn within(path: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| path.starts_with(start))
}

/// Returns a hash of the names and contents of the files that a step reads, of the tasks in `xtask/src`, of the compilers
/// with their flags, and of which [`PROGRAMS`] are installed.
///
/// # Errors
/// git does not list the files of the project, or one of them cannot be read.
pub(super) fn hash(reads: fn(&str) -> bool) -> Result<String> {
    let mut tools: Vec<_> = COMPILERS.into_iter().map(output).collect();
    tools.extend(FLAGS.map(|name| env::var(name).unwrap_or_default().into_bytes()));
    tools.push(PROGRAMS.map(|program| u8::from(is_on_path(program))).to_vec());
    hash_of(root(), &files()?, &tools, reads)
}

fn hash_of(
    root: &Path,
    files: &[String],
    tools: &[Vec<u8>],
    reads: fn(&str) -> bool,
) -> Result<String> {
    let mut hashes = Vec::new();
    let mut add = |part: &[u8]| hashes.extend(XxHash3_128::oneshot(part).to_le_bytes());
    tools.iter().for_each(|tool| add(tool));
    for file in files.iter().filter(|file| file.starts_with("xtask/src/") || reads(file)) {
        match fs::read(root.join(file)) {
            Ok(content) => [file.as_bytes(), &content].into_iter().for_each(&mut add),
            // A deleted file is in git's list until the deletion is staged.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {file}")),
        }
    }
    Ok(format!("{:032x}", XxHash3_128::oneshot(&hashes)))
}

/// Returns the output of a command; empty if the command cannot be started.
fn output(command: &[&str]) -> Vec<u8> {
    let output = Command::new(command[0]).args(&command[1..]).current_dir(root()).output();
    output.map_or_else(|_| Vec::new(), |output| [output.stdout, output.stderr].concat())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn hash_changes_with_names_contents_tasks_and_tools() {
        let folder = env::temp_dir().join(format!("xtask-inputs-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("the file is in a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        let names = ["a/lib.rs", "a/main.rs", "b/lib.rs", "xtask/src/a_step.rs"];
        let now = |tool: &str| {
            let files = names.map(str::to_owned);
            let reads = |path: &str| path.starts_with("a/");
            hash_of(&folder, &files, &[tool.into()], reads).expect("the files can be read")
        };
        write("a/lib.rs", "1");
        write("b/lib.rs", "2");
        let mut hashes = vec![now("rustc 1")];
        write("b/lib.rs", "3");
        assert_eq!(now("rustc 1"), hashes[0]);
        hashes.push(now("rustc 2"));
        write("a/lib.rs", "3");
        hashes.push(now("rustc 1"));
        fs::rename(folder.join("a/lib.rs"), folder.join("a/main.rs")).expect("the file exists");
        hashes.push(now("rustc 1"));
        write("xtask/src/a_step.rs", "4");
        hashes.push(now("rustc 1"));
        fs::remove_dir_all(&folder).expect("the folder can be removed");
        let different: BTreeSet<_> = hashes.iter().collect();
        assert_eq!(different.len(), hashes.len());
    }
}
