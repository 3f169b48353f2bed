//! Workspaces of their own, which take minutes: they are built and tested when they, or what they stand
//! on, have changed, and before a release.
//!
//! What was tested last is known by a fingerprint, in a file of the workspace that is committed with it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use twox_hash::XxHash3_128;

use crate::project::root;

/// Where the fingerprint is kept, in the workspace's folder.
const TESTED: &str = "tested";

/// A workspace beside that of the project.
pub(crate) struct Workspace {
    pub(crate) folder: &'static str,
    /// The folders outside it that its code is built with or tested in.
    stands_on: &'static [&'static str],
    /// The pages of the book that are tested with it have this text.
    pages_with: &'static str,
}

/// The operator `vrl` and its linked form.
pub(crate) const VRL: Workspace = Workspace {
    folder: "operators-plugins/vrl",
    stands_on: &["bench/flows", "bench/vrl", "runtime/tests/binary/logging", "tremor-pdk"],
    pages_with: "type: vrl",
};

/// All of them.
const WORKSPACES: [Workspace; 1] = [VRL];

/// Fails unless all of them were tested as they are: what is released is.
pub(crate) fn all_tested() -> Result<()> {
    for workspace in WORKSPACES {
        let folder = workspace.folder;
        let advice = "`cargo xtask ci` tests it";
        ensure!(workspace.is_tested()?, "{folder} was not tested as it is: {advice}");
    }
    Ok(())
}

impl Workspace {
    /// Whether it was tested with the files and the compiler that there are.
    pub(crate) fn is_tested(&self) -> Result<bool> {
        // Without the file nothing was tested.
        let tested = fs::read_to_string(self.record()).unwrap_or_default();
        Ok(tested.trim_end() == self.fingerprint()?)
    }

    /// Keeps that it was tested as it is.
    pub(crate) fn keep_tested(&self) -> Result<()> {
        let path = self.record();
        fs::write(&path, self.fingerprint()? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn record(&self) -> std::path::PathBuf {
        root().join(self.folder).join(TESTED)
    }

    fn fingerprint(&self) -> Result<String> {
        let compiler = Command::new("rustc").arg("--version").current_dir(root()).output();
        let compiler = compiler.context("cannot ask rustc for its version")?.stdout;
        self.fingerprint_in(root(), &compiler)
    }

    /// A hash of all that it is made of and tested with, with the names, and of the compiler.
    fn fingerprint_in(&self, root: &Path, compiler: &[u8]) -> Result<String> {
        let mut hash = compiler.to_vec();
        let mut add = |file: &str, content: &[u8]| {
            hash.extend(XxHash3_128::oneshot(file.as_bytes()).to_le_bytes());
            hash.extend(XxHash3_128::oneshot(content).to_le_bytes());
        };
        for folder in [self.folder].iter().chain(self.stands_on) {
            for (file, content) in files(root, folder)? {
                add(&file, &content);
            }
        }
        for (file, content) in files(root, "docs")? {
            if String::from_utf8_lossy(&content).contains(self.pages_with) {
                add(&file, &content);
            }
        }
        Ok(format!("{:032x}", XxHash3_128::oneshot(&hash)))
    }
}

/// The files of a folder with their contents, in the order of their names.
fn files(root: &Path, folder: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    find_files(root, folder, &mut files)?;
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
    fn a_change_of_a_name_of_a_content_or_of_the_compiler_is_seen_and_what_was_built_is_not_looked_at()
     {
        let folder = env::temp_dir().join(format!("xtask-heavy-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        let workspace = Workspace { folder: "a", stands_on: &["b"], pages_with: "type: a" };
        let now = |compiler: &str| {
            workspace.fingerprint_in(&folder, compiler.as_bytes()).expect("they are there")
        };
        write("a/src/lib.rs", "1");
        write("b/lib.rs", "2");
        write("docs/a.md", "type: a");
        let first = now("rustc 1");
        write("a/tested", &first);
        write("a/target/debug/a.so", "3");
        write("c/lib.rs", "4");
        write("docs/other.md", "type: b");
        assert_eq!(now("rustc 1"), first);
        assert_ne!(now("rustc 2"), first);
        write("b/lib.rs", "3");
        let second = now("rustc 1");
        assert_ne!(second, first);
        fs::rename(folder.join("b/lib.rs"), folder.join("b/main.rs")).expect("it is renamed");
        let third = now("rustc 1");
        write("docs/other.md", "type: a");
        let fourth = now("rustc 1");
        fs::remove_dir_all(&folder).expect("it can be removed");
        assert!(third != first && third != second && fourth != third);
    }
}
