//! Every page is in the book, and has one name there.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

const BOOK: &str = "docs/";
const SUMMARY: &str = "docs/SUMMARY.md";

/// A page that the summary does not name is left out when the book is built.
pub(super) fn page_is_in_the_summary(repository: &Repository) -> Vec<Violation> {
    let Some(summary) = repository.files.iter().find(|file| file.path == SUMMARY) else {
        return Vec::new();
    };
    let mut violations = Vec::new();
    for file in repository.markdown().filter(|file| file.path != SUMMARY) {
        let Some(page) = file.path.strip_prefix(BOOK) else { continue };
        let title = file.text.lines().next().unwrap_or_default().trim_start_matches("# ");
        if !summary.text.contains(&format!("({page})")) {
            violations.push(Violation::in_file(&file.path, format!("is not in {SUMMARY}")));
        } else if !summary.text.contains(&format!("[{title}]({page})")) {
            let message = format!("is called `{title}`, and otherwise in {SUMMARY}");
            violations.push(Violation::at(&file.path, 1, message));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_outside_the_summary_and_one_of_another_name_are_found() {
        let repository = Repository::of(&[
            ("docs/SUMMARY.md", "- [A](a.md)\n- [B](guide/b.md)"),
            ("docs/a.md", "# A\n"),
            ("docs/guide/b.md", "# Not b\n"),
            ("docs/guide/c.md", "# C\n"),
        ]);
        let violations = page_is_in_the_summary(&repository);
        let places: Vec<_> = violations.iter().map(|found| (&*found.path, found.line)).collect();
        assert_eq!(places, [("docs/guide/b.md", Some(1)), ("docs/guide/c.md", None)]);
    }
}
