//! A source file has at most 500 lines: more is more than one subject.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

const LINES: usize = 500;

pub(super) fn source_is_short(repository: &Repository) -> Vec<Violation> {
    let long = repository.rust().filter(|file| file.text.lines().count() > LINES);
    long.map(|file| {
        let count = file.text.lines().count();
        Violation::in_file(&file.path, format!("has {count} lines; split it, {LINES} is the limit"))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_after_the_limit_is_one_too_many() {
        let (full, over) = ("\n".repeat(LINES), "\n".repeat(LINES + 1));
        let repository = Repository::of(&[("full.rs", &full), ("over.rs", &over), ("a.md", &over)]);
        let violations = source_is_short(&repository);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "over.rs");
    }
}
