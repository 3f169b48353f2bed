//! A figure that a page or a comment quotes can be looked up: the run that it names is there.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

const RUNS: &str = "bench/runs/";

pub(super) fn cited_run_exists(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &repository.files {
        // Tests of this rule name runs that nobody keeps.
        for (line, text) in file.lines().filter(|(line, _)| !file.is_test(*line)) {
            for name in cited_runs(text) {
                let folder = format!("{RUNS}{name}");
                if !repository.contains(&folder) {
                    let message = format!("cites {folder}, which does not exist");
                    violations.push(Violation::at(&file.path, line, message));
                }
            }
        }
    }
    violations
}

/// The names behind each `bench/runs/` of a line. One that does not start with a letter or a digit
/// is a placeholder, and a lone `bench/runs/` names the folder of all runs.
fn cited_runs(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices(RUNS).filter_map(|(at, _)| {
        let rest = &line[at + RUNS.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
        let name = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
        (!name.is_empty()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_nobody_kept_is_found() {
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
    fn the_folder_of_all_runs_and_a_placeholder_cite_nothing() {
        let text = "Under `bench/runs/`, as `bench/runs/<date>-<host>`.";
        assert_eq!(cited_run_exists(&Repository::of(&[("a.md", text)])), []);
    }
}
