//! A decision record tells what it decides between and how to leave; a page of the book is in the
//! book.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

const HEADINGS: [&str; 4] = ["## Context", "## Decision", "## Consequences", "## How to leave"];
const RECORDS: &str = "docs/decisions/";
const BOOK: &str = "docs/";
const SUMMARY: &str = "docs/SUMMARY.md";

pub(super) fn record_has_its_headings(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for record in repository.markdown().filter(|file| is_record(&file.path)) {
        for heading in HEADINGS {
            if !record.text.lines().any(|line| line == heading) {
                let message = format!("a decision record has a heading `{heading}`");
                violations.push(Violation::in_file(&record.path, message));
            }
        }
    }
    violations
}

/// Records are numbered; the page that lists them is not.
fn is_record(path: &str) -> bool {
    path.strip_prefix(RECORDS)
        .is_some_and(|name| name.starts_with(|first: char| first.is_ascii_digit()))
}

/// A page that the summary does not name is left out when the book is built.
pub(super) fn page_is_in_the_summary(repository: &Repository) -> Vec<Violation> {
    let Some(summary) = repository.files.iter().find(|file| file.path == SUMMARY) else {
        return Vec::new();
    };
    let pages = repository.markdown().filter_map(|file| file.path.strip_prefix(BOOK));
    let missing =
        pages.filter(|page| *page != "SUMMARY.md" && !summary.text.contains(&format!("({page})")));
    missing
        .map(|page| Violation::in_file(&format!("{BOOK}{page}"), format!("is not in {SUMMARY}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_without_a_way_out_is_found() {
        let text = "# A\n## Context\n## Decision\n## Consequences\n";
        let repository = Repository::of(&[
            ("docs/decisions/0001-a.md", text),
            ("docs/decisions/README.md", "# Decisions"),
        ]);
        let violations = record_has_its_headings(&repository);
        assert_eq!(violations.len(), 1);
        assert!(violations[0].message.contains("How to leave"));
    }

    #[test]
    fn a_page_outside_the_summary_is_found() {
        let repository = Repository::of(&[
            ("docs/SUMMARY.md", "- [A](a.md)\n- [B](guide/b.md)"),
            ("docs/a.md", ""),
            ("docs/guide/b.md", ""),
            ("docs/guide/c.md", ""),
        ]);
        let violations = page_is_in_the_summary(&repository);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "docs/guide/c.md");
    }
}
