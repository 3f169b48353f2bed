//! Steps that take minutes and depend on little: they run when that has changed, and before a release.
//!
//! What passed last is known by a fingerprint, in a file that is committed with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use twox_hash::XxHash3_128;

use crate::project::root;

/// The name of files with a fingerprint.
const TESTED: &str = "tested";

/// A step and all that it depends on.
pub(crate) struct Heavy {
    /// The folder of the file with its fingerprint.
    folder: &'static str,
    /// Files and folders.
    inputs: &'static [&'static str],
    /// And the pages of the book that have one of these texts.
    pages_with: &'static [&'static str],
}

/// The licences and the sources of dependencies: mostly building the program that looks at them.
pub(crate) const DENY: Heavy = Heavy {
    folder: "xtask",
    inputs: &[
        "Cargo.lock",
        "Cargo.toml",
        "brokers/Cargo.lock",
        "brokers/Cargo.toml",
        "brokers/deny.toml",
        "brokers/kafka/Cargo.toml",
        "brokers/nats/Cargo.toml",
        "brokers/tests/Cargo.toml",
        "deny.toml",
        "operators-plugins/vrl/Cargo.lock",
        "operators-plugins/vrl/Cargo.toml",
        "operators-plugins/vrl/deny.toml",
    ],
    pages_with: &[],
};

/// The operator `vrl` and its linked form, a workspace of their own.
pub(crate) const VRL: Heavy = Heavy {
    folder: "operators-plugins/vrl",
    inputs: &[
        "bench/flows",
        "bench/vrl",
        "operators-plugins/vrl",
        "runtime/tests/binary/logging",
        "tremor-pdk",
    ],
    pages_with: &["type: vrl"],
};

/// The clients of brokers, which real brokers test, a workspace of their own.
pub(crate) const BROKERS: Heavy = Heavy {
    folder: "brokers",
    inputs: &[
        "brokers",
        "connectors-plugins/file",
        "connectors-plugins/http_client",
        "connectors-plugins/metronome",
        "connectors-plugins/stdio",
        "examples/kafka-producer.yaml",
        "examples/kafka.yaml",
        "examples/nats.yaml",
        "examples/scale-out",
        "runtime/src",
        "tremor-pdk",
        "xtask/src/broker",
        "xtask/src/process.rs",
    ],
    pages_with: &["type: kafka_", "type: nats_"],
};

/// Fails unless all of them passed as they are: what is released has.
pub(crate) fn all_passed() -> Result<()> {
    for heavy in [DENY, VRL, BROKERS] {
        let file = heavy.record();
        ensure!(
            heavy.has_passed()?,
            "{} is older than what it is about: run `cargo xtask ci`",
            file.display()
        );
    }
    Ok(())
}

impl Heavy {
    /// Whether it passed with the files and the compiler that there are.
    pub(crate) fn has_passed(&self) -> Result<bool> {
        // Without the file it did not.
        let passed = fs::read_to_string(root().join(self.record())).unwrap_or_default();
        Ok(passed.trim_end() == self.fingerprint()?)
    }

    /// Keeps that it passed as it is.
    pub(crate) fn keep(&self) -> Result<()> {
        let path = self.record();
        fs::write(root().join(&path), self.fingerprint()? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn record(&self) -> PathBuf {
        Path::new(self.folder).join(TESTED)
    }

    fn fingerprint(&self) -> Result<String> {
        let compiler = Command::new("rustc").arg("--version").current_dir(root()).output();
        let compiler = compiler.context("cannot ask rustc for its version")?.stdout;
        self.fingerprint_in(root(), &compiler)
    }

    /// A hash of all that it depends on, with the names, and of the compiler.
    fn fingerprint_in(&self, root: &Path, compiler: &[u8]) -> Result<String> {
        let mut hash = compiler.to_vec();
        let mut add = |file: &str, content: &[u8]| {
            hash.extend(XxHash3_128::oneshot(file.as_bytes()).to_le_bytes());
            hash.extend(XxHash3_128::oneshot(content).to_le_bytes());
        };
        for input in self.inputs {
            for (file, content) in files(root, input)? {
                add(&file, &content);
            }
        }
        if !self.pages_with.is_empty() {
            for (file, content) in files(root, "docs")? {
                let page = String::from_utf8_lossy(&content);
                if self.pages_with.iter().any(|text| page.contains(text)) {
                    add(&file, &content);
                }
            }
        }
        Ok(format!("{:032x}", XxHash3_128::oneshot(&hash)))
    }
}

/// The file, or those of the folder in the order of their names, with their contents.
fn files(root: &Path, input: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    if root.join(input).is_dir() {
        find_files(root, input, &mut files)?;
    } else {
        files.push(input.to_owned());
    }
    files.sort();
    let read = |file: String| {
        let content = fs::read(root.join(&file)).with_context(|| format!("cannot read {file}"))?;
        Ok((file, content))
    };
    files.into_iter().map(read).collect()
}

/// The files of a folder, but for what was built and what tells that it was tested.
fn find_files(root: &Path, folder: &str, files: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join(folder)).with_context(|| format!("cannot list {folder}"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        if entry.file_type()?.is_dir() {
            if name != "target" {
                find_files(root, &path, files)?;
            }
        } else if name != TESTED {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn a_change_of_a_name_a_content_or_the_compiler_is_seen_and_what_was_built_is_not_looked_at() {
        let folder = env::temp_dir().join(format!("xtask-heavy-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        let heavy = Heavy { folder: "a", inputs: &["a", "b/lib.rs"], pages_with: &["type: a"] };
        let now = |compiler: &str| {
            heavy.fingerprint_in(&folder, compiler.as_bytes()).expect("they are there")
        };
        write("a/src/lib.rs", "1");
        write("b/lib.rs", "2");
        write("docs/a.md", "type: a");
        let first = now("rustc 1");
        write("a/tested", &first);
        write("a/target/debug/a.so", "3");
        write("b/other.rs", "4");
        write("docs/other.md", "type: b");
        assert_eq!(now("rustc 1"), first);
        assert_ne!(now("rustc 2"), first);
        write("b/lib.rs", "3");
        let second = now("rustc 1");
        assert_ne!(second, first);
        fs::rename(folder.join("a/src/lib.rs"), folder.join("a/src/main.rs")).expect("it is there");
        let third = now("rustc 1");
        write("docs/other.md", "type: a");
        let fourth = now("rustc 1");
        fs::remove_dir_all(&folder).expect("it can be removed");
        assert!(third != first && third != second && fourth != third);
    }
}
