//! Rust that a page shows is compiled: it stands in a crate below `examples/`.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

pub(super) fn shown_rust_is_compiled(repository: &Repository) -> Vec<Violation> {
    let examples = repository.rust().filter(|file| file.path.starts_with("examples/"));
    let compiled: Vec<_> = examples.map(|file| flush_left(&file.text)).collect();
    let mut violations = Vec::new();
    for file in repository.markdown() {
        for (line, block) in rust_blocks(&file.text) {
            if !compiled.iter().any(|source| source.contains(&flush_left(block))) {
                let message = "shows Rust that stands in no crate below examples/";
                violations.push(Violation::at(&file.path, line, message));
            }
        }
    }
    violations
}

/// A page shows a method without what it stands in: its indentation is another.
fn flush_left(text: &str) -> String {
    text.lines().flat_map(|line| [line.trim_start(), "\n"]).collect()
}

/// The insides of the fenced blocks of Rust, with the line that each starts at.
fn rust_blocks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    const OPEN: &str = "```rust\n";
    text.match_indices(OPEN).map(|(at, open)| {
        let rest = &text[at + open.len()..];
        let block = &rest[..rest.find("```").unwrap_or(rest.len())];
        (text[..at].lines().count() + 2, block)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! Docs.\n\nimpl A {\n    fn new() {\n        a()\n    }\n}\n";

    fn violations(page: &str) -> Vec<Violation> {
        let files = [("examples/a/src/lib.rs", SOURCE), ("README.md", page)];
        shown_rust_is_compiled(&Repository::of(&files))
    }

    #[test]
    fn code_that_has_moved_on_is_found() {
        let violations = violations("# Title\n```rust\nfn old() {\n    a()\n}\n```\n");
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].line, Some(3));
    }

    #[test]
    fn a_whole_item_and_a_part_of_one_may_be_shown() {
        let page = "```rust\nimpl A {\n    fn new() {\n```\n```rust\nfn new() {\n    a()\n}\n```\n";
        assert_eq!(violations(page), []);
    }
}
