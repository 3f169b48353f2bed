//! The project's files and packages, which the rules check.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result};

use super::tokens::{Token, tokens};
use crate::packages::{Package, read_packages};
use crate::project::{files, output, root, text};

const TEXT: [&str; 6] = ["md", "rs", "sh", "toml", "yaml", "yml"];

/// The files and packages of the project.
pub(super) struct Repository {
    pub(super) files: Vec<File>,
    pub(super) packages: Vec<Package>,
}

/// A file of the project.
pub(super) struct File {
    /// Path relative to the root, with forward slashes.
    pub(super) path: String,
    /// Text of the file. Empty for data and other files that are not text.
    pub(super) text: String,
    /// Tokens of a Rust file; empty for other files. Comments are not tokens, and a literal is one token.
    pub(super) tokens: Vec<Token>,
    /// `true` if the file is a test module of a crate, or is in the folder of one.
    is_for_tests: bool,
}

impl Repository {
    pub(super) fn read() -> Result<Self> {
        Ok(Self::new(read_files(root(), files()?)?, read_packages()?))
    }

    /// Reads the files of a commit, without the packages.
    pub(super) fn read_commit(commit: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let archive = folder.path().join("archive.tar");
        let mut git = Command::new("git");
        git.args(["archive", "--output"]).arg(&archive).arg(commit).current_dir(root());
        output(&mut git)?;
        output(Command::new("tar").arg("-xf").arg(&archive).current_dir(folder.path()))?;
        let paths = text(Command::new("tar").arg("-tf").arg(&archive))?;
        let files = read_files(folder.path(), paths.lines().map(str::to_owned).collect())?;
        Ok(Self::new(files, Vec::new()))
    }

    fn new(mut files: Vec<File>, packages: Vec<Package>) -> Self {
        let modules: Vec<_> = files.iter().flat_map(File::test_modules).collect();
        for file in &mut files {
            file.is_for_tests = modules.iter().any(|module| {
                let end = file.path.strip_prefix(module);
                end.is_some_and(|end| end == ".rs" || end.starts_with('/'))
            });
        }
        Self { files, packages }
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is("rs"))
    }

    pub(super) fn markdown(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is("md"))
    }

    /// Returns each token of the Rust files with its file and the token that follows.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&File, &Token, &Token)> {
        let pairs = self.rust().map(|file| (file, file.tokens.windows(2)));
        pairs.flat_map(|(file, pairs)| pairs.map(move |pair| (file, &pair[0], &pair[1])))
    }

    /// Returns all lines of text with their files and their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&File, usize, &str)> {
        let lines = |file| File::lines(file).map(move |(line, text)| (file, line, text));
        self.files.iter().flat_map(lines)
    }

    /// Returns whether a file or a folder with this path exists.
    pub(super) fn contains(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let is_within = |file: &File| {
            let end = file.path.strip_prefix(path);
            end.is_some_and(|end| end.is_empty() || end.starts_with('/'))
        };
        path.is_empty() || self.files.iter().any(is_within)
    }
}

/// Reads the files with these paths in a folder.
fn read_files(root: &Path, paths: Vec<String>) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for path in paths {
        let has_text = path.starts_with(".ci/") || TEXT.iter().any(|it| has_extension(&path, it));
        let full = root.join(&path);
        if !full.is_file() {
            continue; // a folder, or a deleted file, which is in git's list until the deletion is staged
        }
        let bytes = if has_text { fs::read(full)? } else { Vec::new() };
        // Fixtures may contain any bytes. A file that is not UTF-8 is not checked.
        files.push(File::new(path, String::from_utf8(bytes).unwrap_or_default())?);
    }
    Ok(files)
}

impl File {
    fn new(path: String, text: String) -> Result<Self> {
        let rust = if has_extension(&path, "rs") { &*text } else { "" };
        let tokens = tokens(rust).with_context(|| format!("cannot parse {path} as Rust"))?;
        Ok(Self { path, text, tokens, is_for_tests: false })
    }

    /// Returns whether the file has this extension.
    pub(super) fn is(&self, extension: &str) -> bool {
        has_extension(&self.path, extension)
    }

    /// Returns the lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Returns whether a line is part of a test: in a folder of tests, in a test module with its own file, or in the
    /// test module at the end of a source file.
    pub(super) fn is_test(&self, line: usize) -> bool {
        let in_folder = self.path.starts_with("tests/") || self.path.contains("/tests/");
        in_folder || self.is_for_tests || self.last_module().is_some_and(|start| start <= line)
    }

    /// Returns the test modules that this file declares and that have their own files, as paths without extension.
    fn test_modules(&self) -> impl Iterator<Item = String> {
        let path = self.path.strip_suffix(".rs").unwrap_or_default();
        let folder = match path.rsplit_once('/') {
            Some((folder, "lib" | "main" | "mod")) => folder,
            _ => path,
        };
        let starts = (0..self.tokens.len()).filter_map(|at| test_module(&self.tokens[at..]));
        starts.map(move |name| format!("{folder}/{name}"))
    }

    /// The line at which the test module of a source file starts.
    fn last_module(&self) -> Option<usize> {
        let mut lines = self.lines().zip(self.text.lines().skip(1));
        let found = lines.find(|((_, text), next)| {
            text.trim() == "#[cfg(test)]" && next.starts_with("mod ") && next.contains('{')
        });
        found.map(|((line, _), _)| line)
    }
}

/// Returns the name of the module if `tokens` start with the declaration of a module for tests.
fn test_module(tokens: &[Token]) -> Option<&str> {
    let condition = after(tokens, &["#", "[", "cfg", "("])?;
    let test = after(condition, &["all", "("]).unwrap_or(condition);
    let item =
        test.first().is_some_and(|word| word.is("test") || word.is("doctest")).then_some(test)?;
    // Other attributes and the visibility precede the keyword.
    let keyword = item.iter().position(|it| it.is("mod") || it.is("{") || it.is(";"))?;
    match after(&item[keyword..], &["mod"])? {
        [name, sign, ..] if sign.is(";") => Some(&name.text),
        _ => None,
    }
}

/// Returns the tokens after `words`, if `tokens` start with them.
fn after<'t>(tokens: &'t [Token], words: &[&str]) -> Option<&'t [Token]> {
    let (start, rest) = tokens.split_at_checked(words.len())?;
    start.iter().zip(words).all(|(token, word)| token.is(word)).then_some(rest)
}

/// Returns whether a file belongs to a library of the product, apart from the plugins for brokers.
pub(super) fn is_library(path: &str) -> bool {
    let (folder, _) = path.split_once('/').unwrap_or_default();
    folder.ends_with("-plugins") || folder == "tremor-pdk" || path.starts_with("runtime/src/")
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

#[cfg(test)]
impl Repository {
    /// Creates a project of files with these paths and texts, for the tests of the rules.
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| {
            File::new((*path).to_owned(), (*text).to_owned())
                .expect("the test's file is valid Rust")
        });
        Self::new(files.collect(), Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_with_a_file_exists() {
        let repository = Repository::of(&[("docs/abi/README.md", "")]);
        assert!(repository.contains("docs/abi"));
        assert!(repository.contains("docs/abi/"));
        assert!(!repository.contains("docs/ab"));
    }

    #[test]
    fn test_module_extends_to_the_end_of_its_file() {
        let repository = Repository::of(&[("src/a.rs", "fn a() {}\n#[cfg(test)]\nmod tests {}")]);
        assert!(!repository.files[0].is_test(1));
        assert!(repository.files[0].is_test(3));
    }

    #[test]
    fn test_module_with_its_own_file_does_not_mark_the_parent() {
        let repository = Repository::of(&[("src/a.rs", "#[cfg(test)]\nmod tests;\nfn a() {}")]);
        assert!(!repository.files[0].is_test(3));
    }

    #[test]
    fn modules_within_a_test_module_are_tests() {
        let repository = Repository::of(&[
            ("src/a/mod.rs", "#[cfg(unix)]\nmod inner;\n#[cfg(test)]\nmod bench;"),
            ("src/a/bench.rs", "mod deep;"),
            ("src/a/bench/deep.rs", "fn a() {}"),
            ("src/a/bench_of_users.rs", "fn a() {}"),
            ("src/a/inner.rs", "#[cfg(all(test, unix))]\n#[macro_use]\npub(super) mod checks;"),
            ("src/a/inner/checks.rs", "fn a() {}"),
        ]);
        let tests = repository.files.iter().filter(|file| file.is_test(1));
        let paths: Vec<_> = tests.map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["src/a/bench.rs", "src/a/bench/deep.rs", "src/a/inner/checks.rs"]);
    }
}
