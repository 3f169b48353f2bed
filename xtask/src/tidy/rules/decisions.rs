//! A decision record tells what it decides between and how to leave.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

const HEADINGS: [&str; 4] = ["## Context", "## Decision", "## Consequences", "## How to leave"];
const RECORDS: &str = "docs/decisions/";

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
}
