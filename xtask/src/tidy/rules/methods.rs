//! Every method of the kit that authors call or implement is shown: in a page of the book or in an example.

use std::collections::BTreeSet;

use crate::tidy::Violation;
use crate::tidy::repository::{File, Repository};

/// What authors use: files, and folders.
const KIT: [&str; 22] = [
    "tremor-pdk/src/chunk.rs",
    "tremor-pdk/src/codec.rs",
    "tremor-pdk/src/component.rs",
    "tremor-pdk/src/connector.rs",
    "tremor-pdk/src/descriptors.rs",
    "tremor-pdk/src/host.rs",
    "tremor-pdk/src/net/",
    "tremor-pdk/src/operator.rs",
    "tremor-pdk/src/processor.rs",
    "tremor-pdk/src/runs.rs",
    "tremor-pdk/src/sink.rs",
    "tremor-pdk/src/source.rs",
    "tremor-pdk/src/testing/connection.rs",
    "tremor-pdk/src/testing/mod.rs",
    "tremor-pdk/src/tickets.rs",
    "tremor-pdk/src/tickets/",
    "tremor-pdk/src/watermarks.rs",
    "tremor-pdk/src/watermarks/",
    "tremor-pdk/abi/src/batch/",
    "tremor-pdk/abi/src/error.rs",
    "tremor-pdk/abi/src/value/macros.rs",
    "tremor-pdk/abi/src/value/path.rs",
];

/// Where a host works on batches.
const OF_HOSTS: [&str; 2] =
    ["tremor-pdk/abi/src/batch/host.rs", "tremor-pdk/abi/src/batch/storage.rs"];

pub(super) fn method_is_shown(repository: &Repository) -> Vec<Violation> {
    let is_shown = |file: &&File| {
        let is_page = file.path.starts_with("docs/") && file.has_extension("md");
        is_page || (file.path.starts_with("examples/") && file.has_extension("rs"))
    };
    let texts = repository.files.iter().filter(is_shown).map(|file| file.text.as_str());
    let shown: BTreeSet<&str> = texts.flat_map(words).collect();
    let mut violations = Vec::new();
    let is_kit = |file: &&File| {
        KIT.iter().any(|path| file.path.starts_with(path))
            && !OF_HOSTS.contains(&file.path.as_str())
            && !file.path.ends_with("/tests.rs")
    };
    for file in repository.rust().filter(is_kit) {
        for (line, name) in methods(&file.text) {
            if !shown.contains(name) {
                let message = format!("`{name}` is in no page of the book and in no example");
                violations.push(Violation::at(&file.path, line, message));
            }
        }
    }
    violations
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|it: char| !it.is_alphanumeric() && it != '_').filter(|word| !word.is_empty())
}

/// The public methods of a file, with their lines, as far as they are documented for all.
fn methods(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut is_hidden, mut is_in_trait) = (Vec::new(), false, false);
    for (position, line) in text.lines().enumerate() {
        if line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test") {
            break;
        }
        if !line.starts_with([' ', '}', ')']) {
            is_in_trait = line.starts_with("pub trait ");
        }
        if line.trim_start().starts_with("#[doc(hidden)]") {
            is_hidden = true;
        }
        let Some(declared) = line.strip_prefix("    ") else { continue };
        let is_public = declared.starts_with("pub ") || is_in_trait;
        let declared = declared.strip_prefix("pub ").unwrap_or(declared);
        let declared = ["async ", "const "]
            .iter()
            .fold(declared, |declared, word| declared.strip_prefix(word).unwrap_or(declared));
        let Some(name) = declared.strip_prefix("fn ").and_then(|rest| words(rest).next()) else {
            continue;
        };
        if is_public && !std::mem::take(&mut is_hidden) {
            found.push((position + 1, name));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_nothing_shows_is_found() {
        let source = "impl Source {
    pub fn shown(&self) {}
    pub async fn forgotten(&self) {}
    #[doc(hidden)]
    pub fn for_hosts(&self) {}
    fn private(&self) {}
}
pub trait Pulls {
    fn pull(&mut self);
    fn close(&mut self);
}
#[cfg(test)]
mod tests {
    pub fn helper() {}
}";
        let repository = Repository::of(&[
            ("tremor-pdk/src/source.rs", source),
            ("docs/plugins/source.md", "Call `source.shown()`."),
            ("examples/a/src/lib.rs", "fn close() {}"),
            ("README.md", "`pull` and `forgotten`"),
        ]);
        let lines: Vec<_> = method_is_shown(&repository).iter().map(|it| it.line).collect();
        assert_eq!(lines, [Some(3), Some(9)]);
    }
}
