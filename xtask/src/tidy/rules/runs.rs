//! Rules about the runs in `bench/runs`.

use std::collections::BTreeMap;

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

const RUNS: &str = "bench/runs/";
/// Maximum number of files of a run, because samples are packed into one archive.
const MAX_FILES: usize = 7;

/// Runs that a page or a comment cites exist.
pub(super) fn cited_run_exists(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (file, line, text) in repository.lines() {
        for folder in cited_runs(text).map(|name| format!("{RUNS}{name}")) {
            // The tests of this rule name runs that do not exist.
            if !repository.contains(&folder) && !file.is_test(line) {
                let message = format!("cites {folder}, which does not exist");
                violations.push(Violation::at(&file.path, line, message));
            }
        }
    }
    violations
}

/// Returns the name after each `bench/runs/` of a line. Names that do not start with a letter or a digit are
/// placeholders, and `bench/runs/` alone is the folder of all runs.
fn cited_runs(line: &str) -> impl Iterator<Item = &str> {
    let names = line.split(RUNS).skip(1).map(|name| {
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
        name[..end.unwrap_or(name.len())].trim_end_matches('.')
    });
    names.filter(|name| !name.is_empty())
}

pub(super) fn run_is_packed(repository: &Repository) -> Vec<Violation> {
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    for file in repository.files.iter().filter_map(|file| file.path.strip_prefix(RUNS)) {
        if let Some((name, _)) = file.split_once('/') {
            *runs.entry(name).or_default() += 1;
        }
    }
    let message = |files| {
        format!(
            "has {files} files, the maximum is {MAX_FILES}: pack a run of scripts/bench.sh with scripts/pack-run.sh"
        )
    };
    let large = runs.into_iter().filter(|(_, files)| *files > MAX_FILES);
    large
        .map(|(name, files)| Violation::in_file(&format!("{RUNS}{name}"), message(files)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_run_is_found() {
        let repository = Repository::of(&[
            ("bench/runs/2026-05-01-json/raw.csv", ""),
            (
                "docs/benchmarks.md",
                "As in `bench/runs/2026-05-01-json`.\nSee bench/runs/lost/a.csv.",
            ),
            ("src/a.rs", "/// As `bench/runs/lost` shows.\nfn a() {}"),
        ]);
        let violations = cited_run_exists(&repository);
        let lines: Vec<_> = violations.iter().map(|it| (it.path.as_str(), it.line)).collect();
        assert_eq!(lines, [("docs/benchmarks.md", Some(2)), ("src/a.rs", Some(1))]);
    }

    #[test]
    fn folder_of_all_runs_and_placeholder_are_accepted() {
        let text = "Under `bench/runs/`, as `bench/runs/<date>-<host>`.";
        assert_eq!(cited_run_exists(&Repository::of(&[("a.md", text)])), []);
    }

    #[test]
    fn run_of_many_files_is_found() {
        let names: Vec<_> =
            (0..8).map(|at| format!("bench/runs/loose/samples/{at}.json")).collect();
        let mut files: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        files.push(("bench/runs/packed/samples.tar.xz", ""));
        let violations = run_is_packed(&Repository::of(&files));
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "bench/runs/loose");
    }
}
