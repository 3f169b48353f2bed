//! No committed text names a folder that only its author's machine has.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

/// Folders below `/` that differ from machine to machine; without slashes, lest this file break its
/// own rule.
const FOLDERS: [&str; 4] = ["home", "root", "tmp", "work"];

pub(super) fn path_is_no_machines_own(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &repository.files {
        for (line, text) in file.lines() {
            let Some(path) = machine_path(text) else { continue };
            if !file.is_test(line) {
                let message =
                    format!("{path} is a path of one machine; name it relative to a file");
                violations.push(Violation::at(&file.path, line, message));
            }
        }
    }
    violations
}

/// The first such path in the line. Within a longer path or an address it is none.
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
    fn a_path_of_one_machine_is_found_in_any_text() {
        let repository = Repository::of(&[
            ("a.rs", "const A: &str = \"/home/me/logs.json\";"),
            ("b.md", "Look\nat `/tmp/result`."),
        ]);
        let violations = path_is_no_machines_own(&repository);
        let places: Vec<_> = violations.iter().map(ToString::to_string).collect();
        assert!(places[0].starts_with("a.rs:1: /home/"), "{places:?}");
        assert!(places[1].starts_with("b.md:2: /tmp/"), "{places:?}");
    }

    #[test]
    fn a_part_of_a_longer_path_is_not_meant() {
        let text = "target/tmp/a https://example.com/home/ ${ROOT}/work/ ../root/ ~/work/";
        assert_eq!(path_is_no_machines_own(&Repository::of(&[("a.md", text)])), []);
    }

    #[test]
    fn a_test_may_name_any_path() {
        let source = "#[cfg(test)]\nmod tests { const A: &str = \"/tmp/a\"; }";
        assert_eq!(path_is_no_machines_own(&Repository::of(&[("a.rs", source)])), []);
    }
}
