//! What the rules look at: the project's files and packages, read once.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::packages::{Package, read_packages};
use super::tokens::{Token, tokens};

/// Folders that hold what was built or downloaded, not what was written.
const SKIPPED: [&str; 5] = [".git", "target", "node_modules", "bench/out", "fuzz/corpus"];
const TEXT: [&str; 6] = ["md", "rs", "sh", "toml", "yaml", "yml"];

/// The project.
pub(super) struct Repository {
    pub(super) files: Vec<File>,
    pub(super) packages: Vec<Package>,
}

/// A file, its path relative to the root and with forward slashes.
pub(super) struct File {
    pub(super) path: String,
    /// Empty for data and other files that are not text.
    pub(super) text: String,
    /// Empty for what is not Rust. Comments and the insides of literals are in no token.
    pub(super) tokens: Vec<Token>,
    /// Whether it is a module of a crate's tests, or lies in one.
    is_for_tests: bool,
}

impl Repository {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self::new(files, read_packages()?))
    }

    fn new(mut files: Vec<File>, packages: Vec<Package>) -> Self {
        let modules: Vec<_> = files.iter().flat_map(File::test_modules).collect();
        for file in &mut files {
            file.is_for_tests = modules.iter().any(|module| {
                let rest = file.path.strip_prefix(module);
                rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            });
        }
        Self { files, packages }
    }

    /// A project of these files, each a path and a text, for the tests of the rules.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| {
            File::new((*path).to_owned(), (*text).to_owned()).expect("the test's Rust is Rust")
        });
        Self::new(files.collect(), Vec::new())
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.has_extension("rs"))
    }

    pub(super) fn markdown(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.has_extension("md"))
    }

    /// Whether a file or a folder of this path exists.
    pub(super) fn contains(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty()
            || self.files.iter().any(|file| {
                file.path
                    .strip_prefix(path)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
    }
}

impl File {
    fn new(path: String, text: String) -> Result<Self> {
        let is_rust = Path::new(&path).extension().is_some_and(|extension| extension == "rs");
        let tokens = if is_rust {
            tokens(&text).with_context(|| format!("{path} is no Rust"))?
        } else {
            Vec::new()
        };
        Ok(Self { path, text, tokens, is_for_tests: false })
    }

    pub(super) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// The lines, counted from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Whether this line is part of a test: in a folder of tests, in a module that only tests have, or in
    /// the test module that ends a source file.
    pub(super) fn is_test(&self, line: usize) -> bool {
        let in_folder = self.path.starts_with("tests/") || self.path.contains("/tests/");
        in_folder || self.is_for_tests || self.test_module().is_some_and(|start| start <= line)
    }

    /// The modules that only tests have and that are declared here: the paths of their files, without the
    /// extension.
    fn test_modules(&self) -> impl Iterator<Item = String> {
        let path = self.path.strip_suffix(".rs").unwrap_or_default();
        let folder = match path.rsplit_once('/') {
            Some((folder, "lib" | "main" | "mod")) => folder,
            _ => path,
        };
        let attribute = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
        let declarations = self.tokens.windows(attribute.len() + 2).filter(move |tokens| {
            attribute.iter().zip(*tokens).all(|(text, token)| token.is(text)) && tokens[9].is(";")
        });
        declarations.map(move |tokens| format!("{folder}/{}", tokens[8].text))
    }

    /// The line at which the test module of a source file starts.
    fn test_module(&self) -> Option<usize> {
        let mut lines = self.lines().zip(self.text.lines().skip(1));
        let found = lines.find(|((_, text), next)| {
            text.trim() == "#[cfg(test)]" && next.starts_with("mod ") && next.contains('{')
        });
        found.map(|((line, _), _)| line)
    }
}

fn read_folder(root: &Path, folder: &str, files: &mut Vec<File>) -> Result<()> {
    let full = root.join(folder);
    for entry in fs::read_dir(&full).with_context(|| format!("cannot list {}", full.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if SKIPPED.iter().any(|skipped| *skipped == path || *skipped == name) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            read_folder(root, &path, files)?;
        } else {
            let text = if is_text(&path) {
                // Fixtures may be anything; what is no text has nothing to tidy.
                let bytes =
                    fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
                String::from_utf8(bytes).unwrap_or_default()
            } else {
                String::new()
            };
            files.push(File::new(path, text)?);
        }
    }
    Ok(())
}

fn is_text(path: &str) -> bool {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    path.starts_with(".ci/") || extension.is_some_and(|extension| TEXT.contains(&extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_exists_where_a_file_lies_in_it() {
        let repository = Repository::of(&[("docs/abi/README.md", "")]);
        assert!(repository.contains("docs/abi"));
        assert!(repository.contains("docs/abi/"));
        assert!(!repository.contains("docs/ab"));
    }

    #[test]
    fn a_test_module_reaches_to_the_end_of_its_file() {
        let repository = Repository::of(&[("src/a.rs", "fn a() {}\n#[cfg(test)]\nmod tests {}")]);
        assert!(!repository.files[0].is_test(1));
        assert!(repository.files[0].is_test(3));
    }

    #[test]
    fn a_test_module_in_a_file_of_its_own_makes_no_test_of_its_parent() {
        let repository = Repository::of(&[("src/a.rs", "#[cfg(test)]\nmod tests;\nfn a() {}")]);
        assert!(!repository.files[0].is_test(3));
    }

    #[test]
    fn a_module_that_only_tests_have_is_one_of_tests_with_all_that_lies_in_it() {
        let repository = Repository::of(&[
            ("src/a/mod.rs", "mod inner;\n#[cfg(test)]\nmod bench;"),
            ("src/a/bench.rs", "mod deep;"),
            ("src/a/bench/deep.rs", "fn a() {}"),
            ("src/a/bench_of_users.rs", "fn a() {}"),
            ("src/a/inner.rs", "#[cfg(test)]\nmod checks;"),
            ("src/a/inner/checks.rs", "fn a() {}"),
        ]);
        let tests = repository.files.iter().filter(|file| file.is_test(1));
        let paths: Vec<_> = tests.map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["src/a/bench.rs", "src/a/bench/deep.rs", "src/a/inner/checks.rs"]);
    }
}
