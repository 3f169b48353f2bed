//! A plugin that a page shows is one that is compiled: it stands in a crate below `examples/`.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

/// What every plugin has, and no fragment of one.
const MARK: &str = "tremor_pdk::export!";

pub(super) fn shown_plugin_is_compiled(repository: &Repository) -> Vec<Violation> {
    let compiled: Vec<_> =
        repository.rust().filter(|file| file.path.starts_with("examples/")).collect();
    let mut violations = Vec::new();
    for file in repository.markdown() {
        for (line, block) in rust_blocks(&file.text) {
            let is_plugin = block.contains(MARK);
            if is_plugin && !compiled.iter().any(|source| source.text.contains(block)) {
                let message = "shows a plugin that differs from every one below examples/";
                violations.push(Violation::at(&file.path, line, message));
            }
        }
    }
    violations
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

    const SOURCE: &str = "//! Docs.\n\nfn new() {}\ntremor_pdk::export! { connectors: [A] }\n";

    #[test]
    fn a_plugin_that_has_moved_on_is_found() {
        let page = "# Title\n```rust\nfn old() {}\ntremor_pdk::export! { connectors: [A] }\n```\n";
        let repository = Repository::of(&[("examples/a/src/lib.rs", SOURCE), ("README.md", page)]);
        let violations = shown_plugin_is_compiled(&repository);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].line, Some(3));
    }

    #[test]
    fn the_plugin_itself_and_a_fragment_may_be_shown() {
        let page = "```rust\nfn new() {}\ntremor_pdk::export! { connectors: [A] }\n```\n```rust\nfn b() {}\n```\n";
        let repository = Repository::of(&[("examples/a/src/lib.rs", SOURCE), ("README.md", page)]);
        assert_eq!(shown_plugin_is_compiled(&repository), []);
    }
}
