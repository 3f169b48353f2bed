//! A link to another file of the project leads somewhere.

use crate::tidy::Violation;
use crate::tidy::repository::Repository;

pub(super) fn link_resolves(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in repository.markdown() {
        for (line, target) in links(&file.text) {
            let resolved = resolve(&file.path, target);
            if !resolved.is_some_and(|path| repository.contains(&path)) {
                let message = format!("the link to {target} leads nowhere");
                violations.push(Violation::at(&file.path, line, message));
            }
        }
    }
    violations
}

/// The targets of `[text](target)` that name files, with their lines. Code is not searched.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            let targets = line.match_indices("](").filter(|(at, _)| !is_code(line, *at));
            let targets = targets.filter_map(|(at, open)| target(&line[at + open.len()..]));
            links.extend(targets.map(|target| (index + 1, target)));
        }
    }
    links
}

/// Whether a position of a line lies between two backticks.
fn is_code(line: &str, at: usize) -> bool {
    line[..at].matches('`').count() % 2 == 1
}

/// The path in front of the closing bracket, without its anchor; `None` for an address and for an
/// anchor in the same file.
fn target(rest: &str) -> Option<&str> {
    let target = rest.split([')', ' ']).next()?;
    let path = target.split('#').next()?;
    (!path.is_empty() && !target.contains("://") && !target.starts_with("mailto:")).then_some(path)
}

/// A path relative to the root; `None` where it leaves the project.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let repository = Repository::of(&[
            ("README.md", "[a](docs/a.md#part) [b](docs/b.md)\n[c](../c.md)"),
            ("docs/a.md", "[up](../README.md) [here](.) [self](#part)"),
        ]);
        let violations = link_resolves(&repository);
        let found: Vec<_> = violations.iter().map(|violation| violation.message.as_str()).collect();
        assert_eq!(
            found,
            ["the link to docs/b.md leads nowhere", "the link to ../c.md leads nowhere"]
        );
    }

    #[test]
    fn addresses_and_code_are_no_links_to_files() {
        let text =
            "[a](https://example.com/x) `[b](c)`\n```\n[d](e)\n```\n[f](mailto:g@example.com)";
        assert_eq!(link_resolves(&Repository::of(&[("a.md", text)])), []);
    }
}
