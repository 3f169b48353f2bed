//! A rule about the length of lines in pages.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

/// Maximum length of a line of prose in a page, in characters. Comments have the same width.
const WIDTH: usize = 120;
/// Beginnings of headings and of rows of tables, which cannot be wrapped.
const UNWRAPPABLE: [char; 2] = ['#', '|'];
/// Beginnings of lines that may consist of a single link or image.
const LINKS: [&str; 3] = ["[", "![", "- ["];
/// Folder of the reports of benchmarks, which a program writes.
const REPORTS: &str = "bench/runs/";

pub(super) fn prose_is_wrapped(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in repository.markdown().filter(|file| !file.path.starts_with(REPORTS)) {
        let mut in_fence = false;
        for (line, text) in file.lines() {
            let trimmed = text.trim();
            in_fence ^= trimmed.starts_with("```");
            let length = text.chars().count();
            if !in_fence && length > WIDTH && !is_whole(trimmed) {
                let message = format!("has {length} characters, the maximum is {WIDTH}: wrap it");
                violations.push(Violation::at(&file.path, line, message));
            }
        }
    }
    violations
}

/// Returns whether a line without its indentation is a row of a table, a heading, or a single image or link.
fn is_whole(line: &str) -> bool {
    let target = || line.split_once("](").filter(|_| LINKS.iter().any(|it| line.starts_with(it)));
    let is_link = || {
        target().is_some_and(|(_, target)| target.find(')').map(|at| at + 1) == Some(target.len()))
    };
    line.starts_with(UNWRAPPABLE) || is_link()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> Vec<Option<usize>> {
        let violations = prose_is_wrapped(&Repository::of(&[(path, text)]));
        violations.iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn prose_over_the_width_is_found() {
        let (full, over) = ("é".repeat(WIDTH), "a".repeat(WIDTH + 1));
        let text = format!("{full}\n{over}\n\n- [a](b) {over}\n```\n{over}\n```\n  {over}");
        assert_eq!(violations("docs/a.md", &text), [Some(2), Some(4), Some(8)]);
    }

    #[test]
    fn lines_that_cannot_be_wrapped_are_accepted() {
        let over = "a ".repeat(WIDTH);
        let text = format!("# {over}\n| {over} |\n- [{over}](a.md)\n![{over}](a.svg)");
        assert_eq!(violations("docs/a.md", &text), []);
    }

    #[test]
    fn report_of_a_benchmark_is_accepted() {
        assert_eq!(violations("bench/runs/a/report.md", &"a".repeat(WIDTH + 1)), []);
    }
}
