//! No file has the marks of a merge that was not finished.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

const MARKS: [&str; 3] = ["<<<<<<< ", "||||||| ", ">>>>>>> "];

pub(super) fn merge_is_finished(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &repository.files {
        let marked = |(_, line): &(usize, &str)| MARKS.iter().any(|mark| line.starts_with(mark));
        for (position, _) in file.text.lines().enumerate().filter(marked) {
            let message = "a merge is not finished here: keep one side, or both";
            violations.push(Violation::at(&file.path, position + 1, message));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_is_found() {
        let text = format!("a\n{}HEAD\nb\n=======\nc\n{}other\n", MARKS[0], MARKS[2]);
        let repository = Repository::of(&[("CHANGELOG.md", &text), ("a.rs", "// <<<<<<< is text")]);
        let found = merge_is_finished(&repository);
        assert_eq!(found.iter().map(|it| it.line).collect::<Vec<_>>(), [Some(2), Some(6)]);
    }
}
