//! Rules about all files.

use crate::tidy::Violation;
use crate::tidy::repository::{File, Repository};

const MARKS: [&str; 3] = ["<<<<<<< ", "||||||| ", ">>>>>>> "];
/// Maximum number of lines of a source file, because longer files tend to have several subjects.
const LINES: usize = 500;
/// Folders below `/` that differ from machine to machine. They are written without slashes, so that this file does not
/// violate its own rule.
const FOLDERS: [&str; 4] = ["home", "root", "tmp", "work"];

/// No file contains conflict markers of a merge.
pub(super) fn merge_is_finished(repository: &Repository) -> Vec<Violation> {
    let is_mark = |text: &str| MARKS.iter().any(|mark| text.starts_with(mark));
    let message = "unresolved merge conflict: keep one side, or both";
    let marked = repository.lines().filter(|(_, _, text)| is_mark(text));
    marked.map(|(file, line, _)| Violation::at(&file.path, line, message)).collect()
}

/// A crate begins with documentation of its purpose.
pub(super) fn crate_has_docs(repository: &Repository) -> Vec<Violation> {
    let is_root = |path: &str| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let bare = repository.rust().filter(|it| is_root(&it.path) && !it.text.starts_with("//! "));
    bare.map(|file| Violation::in_file(&file.path, "does not begin with `//!` documentation"))
        .collect()
}

pub(super) fn source_is_short(repository: &Repository) -> Vec<Violation> {
    let counted = repository.rust().map(|file| (file, file.text.lines().count()));
    let long = counted.filter(|(_, count)| *count > LINES);
    let message = |count| format!("has {count} lines, the maximum is {LINES}: split it");
    long.map(|(file, count)| Violation::in_file(&file.path, message(count))).collect()
}

/// No committed text contains a path that exists only on the author's machine.
pub(super) fn path_exists_on_every_machine(repository: &Repository) -> Vec<Violation> {
    let violation = |(file, line, text): (&File, usize, &str)| {
        let path = machine_path(text).filter(|_| !file.is_test(line))?;
        let message = format!("{path} is a path of one machine: use a relative path");
        Some(Violation::at(&file.path, line, message))
    };
    repository.lines().filter_map(violation).collect()
}

/// Returns the first path in the line that exists only on one machine. Parts of longer paths and of addresses do not
/// count.
fn machine_path(line: &str) -> Option<String> {
    FOLDERS.iter().map(|folder| format!("/{folder}/")).find(|path| {
        line.match_indices(path.as_str()).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            before.is_none_or(|before| !before.is_alphanumeric() && !"._-/~})".contains(before))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_conflict_marker_is_found() {
        let text = format!("a\n{}HEAD\nb\n=======\nc\n{}other\n", MARKS[0], MARKS[2]);
        let repository = Repository::of(&[("CHANGELOG.md", &text), ("a.rs", "// <<<<<<< is text")]);
        let found = merge_is_finished(&repository);
        assert_eq!(found.iter().map(|it| it.line).collect::<Vec<_>>(), [Some(2), Some(6)]);
    }

    #[test]
    fn crate_without_documentation_is_found() {
        let repository = Repository::of(&[
            ("good/src/lib.rs", "//! The purpose.\n\nmod a;"),
            ("bad/src/lib.rs", "mod a;\n"),
            ("good/src/a.rs", "fn a() {}"),
        ]);
        let violations = crate_has_docs(&repository);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "bad/src/lib.rs");
    }

    #[test]
    fn file_over_the_limit_is_found() {
        let (full, over) = ("\n".repeat(LINES), "\n".repeat(LINES + 1));
        let repository = Repository::of(&[("full.rs", &full), ("over.rs", &over), ("a.md", &over)]);
        let violations = source_is_short(&repository);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "over.rs");
    }

    #[test]
    fn path_of_one_machine_is_found_in_any_text() {
        let repository = Repository::of(&[
            ("a.rs", "const A: &str = \"/home/me/logs.json\";"),
            ("b.md", "Look\nat `/tmp/result`."),
        ]);
        let violations = path_exists_on_every_machine(&repository);
        let lines: Vec<_> = violations.iter().map(|it| (&*it.path, it.line)).collect();
        assert_eq!(lines, [("a.rs", Some(1)), ("b.md", Some(2))]);
        assert!(violations[0].message.starts_with("/home/"), "{}", violations[0].message);
    }

    #[test]
    fn part_of_a_longer_path_is_accepted() {
        let text = "target/tmp/a https://example.com/home/ ${ROOT}/work/ ../root/ ~/work/";
        assert_eq!(path_exists_on_every_machine(&Repository::of(&[("a.md", text)])), []);
    }

    #[test]
    fn test_may_name_any_path() {
        let source = "#[cfg(test)]\nmod tests { const A: &str = \"/tmp/a\"; }";
        assert_eq!(path_exists_on_every_machine(&Repository::of(&[("a.rs", source)])), []);
    }
}
