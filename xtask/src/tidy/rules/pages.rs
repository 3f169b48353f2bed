//! Rules about pages.

use crate::tidy::Violation;
use crate::tidy::repository::{File, Repository};

/// Headings that a decision record must have.
const HEADINGS: [&str; 4] = ["## Context", "## Decision", "## Consequences", "## How to leave"];
/// Beginning of the paths of records, whose names begin with a number.
const RECORDS: &str = "docs/decisions/0";
const BOOK: &str = "docs/";
const SUMMARY: &str = "docs/SUMMARY.md";
/// Maximum length of a line of prose, in characters. Comments have the same width.
const WIDTH: usize = 120;

pub(super) fn record_has_its_headings(repository: &Repository) -> Vec<Violation> {
    let records = repository.markdown().filter(|file| file.path.starts_with(RECORDS));
    let missing = records.flat_map(|record| {
        let lacks = |heading: &&str| !record.text.lines().any(|line| line == *heading);
        HEADINGS.into_iter().filter(lacks).map(move |heading| (record, heading))
    });
    let message = |heading| format!("the decision record has no heading `{heading}`");
    missing.map(|(file, heading)| Violation::in_file(&file.path, message(heading))).collect()
}

/// The summary of the book lists every page with its title. mdBook omits pages that the summary does not list.
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
            let message = format!("has the title `{title}`, but another one in {SUMMARY}");
            violations.push(Violation::at(&file.path, 1, message));
        }
    }
    violations
}

/// Prose is wrapped. Headings, rows of tables, and lines that are a single link or image cannot be wrapped. The reports
/// of benchmarks are written by a program.
pub(super) fn prose_is_wrapped(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in repository.markdown().filter(|file| !file.path.starts_with("bench/runs/")) {
        for (line, text) in prose(&file.text) {
            let (text, length) = (text.trim(), text.chars().count());
            let is_link =
                text.trim_start_matches("- ").starts_with(['[', '!']) && text.ends_with(')');
            if length > WIDTH && !is_link && !text.starts_with(['#', '|']) {
                let message = format!("has {length} characters, the maximum is {WIDTH}: wrap it");
                violations.push(Violation::at(&file.path, line, message));
            }
        }
    }
    violations
}

/// Links lead to a file of the project and, if they have an anchor, to a heading in it. Links of the book stay in the
/// book, because its site contains nothing else.
pub(super) fn link_resolves(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in repository.markdown() {
        for (line, target) in links(&file.text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
            let is_left = file.path.starts_with(BOOK) && !path.starts_with(BOOK);
            let page = repository.files.iter().find(|file| file.path == path);
            let has_anchor = anchor.is_empty() || page.is_some_and(|it| has_heading(it, anchor));
            if is_left || !has_anchor || !repository.contains(&path) {
                let message = format!("the target of the link does not exist: {target}");
                violations.push(Violation::at(&file.path, line, message));
            }
        }
    }
    violations
}

/// Returns whether a page has a heading with this anchor: its letters, digits, hyphens and underscores in lower case,
/// with hyphens for spaces.
fn has_heading(page: &File, anchor: &str) -> bool {
    let id = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().replace(' ', "-").to_lowercase();
        heading.replace(|it: char| !it.is_alphanumeric() && it != '-' && it != '_', "")
    };
    page.text.lines().any(|line| line.starts_with('#') && id(line) == anchor)
}

/// Returns the targets of links `[text](target)` to files, with their lines. Code is not searched.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        let targets = line.match_indices("](").filter(|(at, _)| !is_code(line, *at));
        let targets = targets.filter_map(|(at, open)| target(&line[at + open.len()..]));
        links.extend(targets.map(|target| (number, target)));
    }
    links
}

/// Returns the lines of a page outside of blocks of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_fence = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_fence ^= is_fence;
        !in_fence && !is_fence
    })
}

/// Returns whether a position of a line is between two backticks.
fn is_code(line: &str, at: usize) -> bool {
    line[..at].matches('`').count() % 2 == 1
}

/// Returns the target before the closing bracket; `None` for an address.
fn target(text: &str) -> Option<&str> {
    let target = text.split([')', ' ']).next()?;
    (!target.contains("://") && !target.starts_with("mailto:")).then_some(target)
}

/// Resolves a link of the file `from` to a path relative to the root. A path that leaves the project starts with `..`.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in target.split('/').filter(|part| !["", "."].contains(part)) {
        match parts.last() {
            Some(last) if part == ".." && *last != ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Rust code in a page is a part of a crate below `examples/`, so that it is compiled.
pub(super) fn shown_rust_is_compiled(repository: &Repository) -> Vec<Violation> {
    let examples = repository.rust().filter(|file| file.path.starts_with("examples/"));
    let compiled: Vec<_> = examples.map(|file| flush_left(&file.text)).collect();
    let mut violations = Vec::new();
    for file in repository.markdown() {
        for (line, block) in rust_blocks(&file.text) {
            if !compiled.iter().any(|source| source.contains(&flush_left(block))) {
                let message = "shows Rust code that is not a part of a crate below examples/";
                violations.push(Violation::at(&file.path, line, message));
            }
        }
    }
    violations
}

/// Removes indentation, because a page may show a method without the enclosing block.
fn flush_left(text: &str) -> String {
    text.lines().flat_map(|line| [line.trim_start(), "\n"]).collect()
}

/// Returns the contents of the fenced blocks of Rust, with their first lines.
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

    #[test]
    fn record_without_a_heading_is_found() {
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
    fn unlisted_page_and_different_title_are_found() {
        let repository = Repository::of(&[
            ("docs/SUMMARY.md", "- [A](a.md)\n- [B](guide/b.md)"),
            ("docs/a.md", "# A\n"),
            ("docs/guide/b.md", "# Not b\n"),
            ("docs/guide/c.md", "# C\n"),
        ]);
        let violations = page_is_in_the_summary(&repository);
        let found: Vec<_> = violations.iter().map(|it| (&*it.path, it.line)).collect();
        assert_eq!(found, [("docs/guide/b.md", Some(1)), ("docs/guide/c.md", None)]);
    }

    #[test]
    fn link_without_a_target_is_found() {
        let repository = Repository::of(&[
            ("README.md", "[a](docs/a.md#a-part_2) [b](docs/b.md)\n[c](../c.md) [d](docs/a.md#b)"),
            ("docs/a.md", "# `A` part_2!\n[up](../README.md) [self](#a-part_2) [none](#a)"),
        ]);
        let violations = link_resolves(&repository);
        let found: Vec<_> = violations.iter().map(|violation| violation.message.as_str()).collect();
        let expected = ["docs/b.md", "../c.md", "docs/a.md#b", "../README.md", "#a"];
        let expected = expected.map(|it| format!("the target of the link does not exist: {it}"));
        assert_eq!(found, expected);
    }

    #[test]
    fn addresses_and_code_are_not_links_to_files() {
        let text =
            "[a](https://example.com/x) `[b](c)`\n```\n[d](e)\n```\n[f](mailto:g@example.com)";
        assert_eq!(link_resolves(&Repository::of(&[("a.md", text)])), []);
    }

    const SOURCE: &str = "//! Docs.\n\nimpl A {\n    fn new() {\n        a()\n    }\n}\n";

    fn violations(page: &str) -> Vec<Violation> {
        let files = [("examples/a/src/lib.rs", SOURCE), ("README.md", page)];
        shown_rust_is_compiled(&Repository::of(&files))
    }

    #[test]
    fn outdated_code_is_found() {
        let violations = violations("# Title\n```rust\nfn old() {\n    a()\n}\n```\n");
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].line, Some(3));
    }

    #[test]
    fn item_and_part_of_an_item_are_accepted() {
        let page = "```rust\nimpl A {\n    fn new() {\n```\n```rust\nfn new() {\n    a()\n}\n```\n";
        assert_eq!(violations(page), []);
    }

    fn too_wide(path: &str, text: &str) -> Vec<Option<usize>> {
        let violations = prose_is_wrapped(&Repository::of(&[(path, text)]));
        violations.iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn prose_over_the_width_is_found() {
        let (full, over) = ("é".repeat(WIDTH), "a".repeat(WIDTH + 1));
        let text = format!("{full}\n{over}\n\n- [a](b) {over}\n```\n{over}\n```\n  {over}");
        assert_eq!(too_wide("docs/a.md", &text), [Some(2), Some(4), Some(8)]);
    }

    #[test]
    fn lines_that_cannot_be_wrapped_are_accepted() {
        let over = "a ".repeat(WIDTH);
        let text = format!("# {over}\n| {over} |\n- [{over}](a.md)\n![{over}](a.svg)");
        assert_eq!(too_wide("docs/a.md", &text), []);
    }

    #[test]
    fn report_of_a_benchmark_is_accepted() {
        assert_eq!(too_wide("bench/runs/a/report.md", &"a".repeat(WIDTH + 1)), []);
    }
}
