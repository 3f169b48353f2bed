//! The files and tools that decide the result of a step, and a hash of them.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use twox_hash::XxHash3_128;

use crate::project::root;

/// Everything that a step reads. Only a step whose result follows from that can be remembered: one with
/// random moments, or with a limit on time, runs always.
#[derive(Clone, Copy)]
pub(super) struct Inputs {
    /// Returns whether the step reads this file of the project; a folder ends with `/`. Modules of xtask
    /// do not come here.
    reads: fn(&str) -> bool,
    /// Modules of xtask that the step runs, besides `ci` and `project`.
    code: &'static [&'static str],
    /// Texts of the pages of the book that the step reads besides.
    pages_with: &'static [&'static str],
    /// Commands whose output, or failure to start, is a part of the hash, because they decide which parts
    /// of the step are left out; `None` if that is not known, so that only a whole pass is remembered.
    tools: Option<&'static [&'static [&'static str]]>,
}

/// The licences and the sources of dependencies.
pub(super) const DENY: Inputs = Inputs::new(
    |path| ["Cargo.toml", "Cargo.lock", "deny.toml"].iter().any(|it| path.ends_with(it)),
    &["tools"],
)
.tools(&[]);

/// The lints, and the documentation, of the workspace.
pub(super) const WORKSPACE: Inputs = Inputs::new(
    |path| within(path, &["xtask/"]) || is_source(path, &[CLIENTS, FUZZ, CHECKS, VRL_PLUGIN]),
    &[],
);

/// New plugins of each kind.
pub(super) const NEW_PLUGIN: Inputs = Inputs::new(
    |path| is_source(path, &[BENCH, CLIENTS, EXAMPLES, FUZZ, CHECKS, TESTS, VRL_PLUGIN]),
    &["built", "new_plugin"],
);

/// The operator `vrl` and its linked form, a workspace of their own, and the tests that load it.
pub(super) const VRL: Inputs =
    Inputs::new(|path| is_source(path, &[CLIENTS, FUZZ, CHECKS]), &[]).pages_with(&["type: vrl"]);

/// The clients of brokers, a workspace of their own, with tests against real brokers.
pub(super) const BROKERS: Inputs = Inputs::new(
    |path| is_source(path, &[FUZZ, CHECKS, VRL_PLUGIN]),
    &["broker", "built", "process", "running"],
)
.pages_with(&["type: kafka_", "type: nats_"])
.tools(&[&["java", "-version"], &["mvn", "--version"], &["go", "version"]]);

/// The models of concurrency protocols, which have the product's sources.
pub(super) const MODELS: Inputs = Inputs::new(
    |path| within(path, &[CHECKS, "runtime/src/", "tremor-pdk/", "Cargo."]),
    &["models", "nightly"],
)
.tools(&[NIGHTLY, &["rustup", "run", "nightly", "cargo", "miri", "--version"]]);

/// The tests of the scripts, manifests and units.
pub(super) const SCRIPTS: Inputs = Inputs::new(
    |path| within(path, &[".ci/", "bench/report/", "Cargo.", "dist/", EXAMPLES, "scripts/"]),
    &["built", "manifests", "running", "scripts"],
);

/// The tests of the boundary with the nightly compiler.
pub(super) const BOUNDARY: Inputs = Inputs::new(
    |path| path == "scripts/fixed-layouts.sh" || is_source(path, &[CLIENTS, CHECKS, VRL_PLUGIN]),
    &["boundary", "nightly"],
)
.tools(&[NIGHTLY]);

/// The book as a site, and the chart of the README.
pub(super) const BOOK: Inputs = Inputs::new(
    |path| within(path, &["bench/report/", "bench/runs/", "docs/", "Cargo."]),
    &["book", "demo", "pictures", "terminal", "tools"],
);

/// The demo, and its picture.
pub(super) const DEMO: Inputs = Inputs::new(
    |path| {
        let is_picture = path.starts_with("docs/images/");
        is_picture || is_source(path, &[BENCH, CLIENTS, FUZZ, CHECKS, TESTS, VRL_PLUGIN])
    },
    &["demo", "terminal"],
);

/// The instructions of the benchmark's flows.
pub(super) const PERF: Inputs = Inputs::new(
    |path| is_source(path, &[CLIENTS, EXAMPLES, FUZZ, CHECKS, TESTS, VRL_PLUGIN]),
    &["built", "demo", "generate_logs", "perf_gate", "process", "terminal"],
)
.tools(&[&["valgrind", "--version"]]);

const NIGHTLY: &[&str] = &["rustup", "run", "nightly", "rustc", "-vV"];

const BENCH: &str = "bench/";
const CLIENTS: &str = "brokers/";
const EXAMPLES: &str = "examples/";
const FUZZ: &str = "fuzz/";
const CHECKS: &str = "models/";
const TESTS: &str = "tests/";
const VRL_PLUGIN: &str = "operators-plugins/vrl/";

/// Returns whether something may be built from the file, which is in none of these folders. What is not
/// known is read: a forgotten exception costs time, and no fault is missed.
fn is_source(path: &str, but: &[&str]) -> bool {
    let prose = [".ci/", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "bench/runs/", "docs/"];
    !within(path, but) && !within(path, &prose) && !within(path, &["dist/", "scripts/", "xtask/"])
}

fn within(path: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| path.starts_with(start))
}

impl Inputs {
    const fn new(reads: fn(&str) -> bool, code: &'static [&'static str]) -> Self {
        Self { reads, code, pages_with: &[], tools: None }
    }

    const fn pages_with(self, pages_with: &'static [&'static str]) -> Self {
        Self { pages_with, ..self }
    }

    const fn tools(self, tools: &'static [&'static [&'static str]]) -> Self {
        Self { tools: Some(tools), ..self }
    }

    /// Returns `true` if a pass without a part is remembered.
    pub(super) fn partly(&self) -> bool {
        self.tools.is_some()
    }

    /// Returns a hash of the files with their names, of the compiler, the other tools, and the compiler's flags.
    ///
    /// # Errors
    /// git does not list the files of the project, one of them cannot be read, or there is no compiler.
    pub(super) fn hash(&self) -> Result<String> {
        let compiler = said(&["rustc", "-vV"]).context("cannot start rustc")?;
        let mut tools = vec![compiler];
        let asked = self.tools.unwrap_or_default();
        tools.extend(asked.iter().map(|tool| said(tool).unwrap_or_default()));
        for variable in ["RUSTFLAGS", "RUSTDOCFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
            tools.push(env::var(variable).unwrap_or_default().into_bytes());
        }
        self.hash_of(root(), &files()?, &tools)
    }

    fn hash_of(&self, root: &Path, files: &[String], tools: &[Vec<u8>]) -> Result<String> {
        let mut hashes = Vec::new();
        let mut add = |part: &[u8]| hashes.extend(XxHash3_128::oneshot(part).to_le_bytes());
        tools.iter().for_each(|tool| add(tool));
        for file in files {
            let reads = self.reads(file);
            let page = !reads && !self.pages_with.is_empty() && file.starts_with("docs/");
            if !reads && !page {
                continue;
            }
            // One that is deleted is in git's list until that is staged.
            let content = match fs::read(root.join(file)) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                read => read.with_context(|| format!("cannot read {file}"))?,
            };
            let text = String::from_utf8_lossy(&content);
            if reads || self.pages_with.iter().any(|part| text.contains(part)) {
                add(file.as_bytes());
                add(&content);
            }
        }
        Ok(format!("{:032x}", XxHash3_128::oneshot(&hashes)))
    }

    fn reads(&self, file: &str) -> bool {
        let is_module = |name: &&str| {
            let path = file.strip_prefix("xtask/src/").and_then(|path| path.strip_prefix(*name));
            path.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        ["ci", "project"].iter().chain(self.code).any(is_module) || (self.reads)(file)
    }
}

/// Returns the files of the project that git does not ignore, in the order of their names.
fn files() -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let output = git.output().context("cannot start git")?;
    ensure!(output.status.success(), "git does not list the files of the project");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut files: Vec<_> = text.split_terminator('\0').map(str::to_owned).collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// Returns what a command prints, if it can be started.
fn said(command: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new(command[0]).args(&command[1..]).current_dir(root()).output().ok()?;
    Some([output.stdout, output.stderr].concat())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ALL: [&Inputs; 11] = [
        &DENY,
        &WORKSPACE,
        &NEW_PLUGIN,
        &VRL,
        &BROKERS,
        &MODELS,
        &SCRIPTS,
        &BOUNDARY,
        &BOOK,
        &DEMO,
        &PERF,
    ];

    #[test]
    fn hash_follows_names_contents_pages_and_tools() {
        let folder = env::temp_dir().join(format!("xtask-inputs-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        let inputs =
            Inputs::new(|path| path.starts_with("a/"), &["a_step"]).pages_with(&["type: a"]);
        let names = ["a/lib.rs", "a/main.rs", "b/lib.rs", "docs/a.md", "xtask/src/a_step.rs"];
        let now = |tool: &str| {
            let files = names.map(str::to_owned);
            inputs.hash_of(&folder, &files, &[tool.into()]).expect("they are read")
        };
        write("a/lib.rs", "1");
        write("b/lib.rs", "2");
        write("docs/a.md", "type: b");
        let mut hashes = vec![now("rustc 1")];
        write("b/lib.rs", "3");
        write("docs/a.md", "type: c");
        assert_eq!(now("rustc 1"), hashes[0]);
        hashes.push(now("rustc 2"));
        write("a/lib.rs", "3");
        hashes.push(now("rustc 1"));
        fs::rename(folder.join("a/lib.rs"), folder.join("a/main.rs")).expect("it is there");
        hashes.push(now("rustc 1"));
        write("docs/a.md", "type: a");
        hashes.push(now("rustc 1"));
        write("xtask/src/a_step.rs", "4");
        hashes.push(now("rustc 1"));
        fs::remove_dir_all(&folder).expect("it can be removed");
        let different: BTreeSet<_> = hashes.iter().collect();
        assert_eq!(different.len(), hashes.len());
    }

    #[test]
    fn every_step_reads_its_own_code_and_the_lock_file() {
        for inputs in ALL {
            assert!(inputs.reads("xtask/src/ci/mod.rs") && inputs.reads("Cargo.lock"));
            assert!(!inputs.reads("CHANGELOG.md"));
        }
    }

    /// The modules of xtask that the code of a step uses are code of the step.
    #[test]
    fn code_of_a_step_is_complete() {
        let files = files().expect("git lists them");
        let is_module = |name: &str| {
            let [file, folder] = [format!("xtask/src/{name}.rs"), format!("xtask/src/{name}/")];
            files.iter().any(|it| *it == file || it.starts_with(&folder))
        };
        for inputs in ALL {
            assert!(inputs.code.iter().all(|name| is_module(name)), "{:?}", inputs.code);
            let is_code = |file: &&String| {
                inputs.code.iter().any(|name| file.starts_with(&format!("xtask/src/{name}")))
            };
            for file in files.iter().filter(is_code) {
                let text = fs::read_to_string(root().join(file)).expect("it is read");
                // A path, or all that a group of them names.
                for used in text.split("crate::").skip(1) {
                    let end = if used.starts_with('{') { "};" } else { ":;,)" };
                    let end = if used.starts_with('{') {
                        used.find(end)
                    } else {
                        used.find(|it| end.contains(it))
                    };
                    let words = used[..end.expect("it ends")]
                        .split(|it: char| it != '_' && !it.is_alphanumeric());
                    for name in words.filter(|name| is_module(name)) {
                        let known =
                            ["ci", "project"].contains(&name) || inputs.code.contains(&name);
                        assert!(known, "{file} uses {name}, which is no code of {:?}", inputs.code);
                    }
                }
            }
        }
    }
}
