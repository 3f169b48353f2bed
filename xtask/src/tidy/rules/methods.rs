//! Every method of the kit that authors call or implement is shown in a page of the book or in an example.

use std::collections::BTreeSet;

use crate::tidy::Violation;
use crate::tidy::repository::{File, Repository};

/// Beginnings of the paths of files with methods that authors use, below the folder of the kit.
const KIT: &str = "src/codec.rs src/component.rs src/connector.rs src/descriptors.rs src/host.rs src/net/ \
    src/operator.rs src/processor.rs src/runs.rs src/sink.rs src/source.rs src/testing/connection.rs \
    src/testing/mod.rs src/tickets src/watermarks abi/src/batch/ abi/src/error.rs abi/src/value/macros.rs \
    abi/src/value/path.rs";

/// Files and folders with methods that only a host uses.
const OF_HOSTS: [&str; 4] = [
    "abi/src/batch/assemble.rs",
    "abi/src/batch/frame/",
    "abi/src/batch/host.rs",
    "abi/src/batch/storage.rs",
];

pub(super) fn method_is_shown(repository: &Repository) -> Vec<Violation> {
    let is_shown = |file: &&File| {
        let is_page = file.path.starts_with("docs/") && file.is("md");
        is_page || (file.path.starts_with("examples/") && file.is("rs"))
    };
    let texts = repository.files.iter().filter(is_shown).map(|file| file.text.as_str());
    let shown: BTreeSet<&str> = texts.flat_map(words).collect();
    let is_kit = |file: &&File| {
        file.path.strip_prefix("tremor-pdk/").is_some_and(|path| {
            let is_listed = KIT.split(' ').any(|start| path.starts_with(start));
            let is_of_hosts = OF_HOSTS.iter().any(|start| path.starts_with(start));
            is_listed && !is_of_hosts && !path.ends_with("/tests.rs")
        })
    };
    let methods = repository.rust().filter(is_kit).flat_map(|file| {
        methods(&file.text).into_iter().map(move |(line, name)| (file, line, name))
    });
    let message = |name| format!("`{name}` is not shown in the book or in an example");
    let hidden = methods.filter(|(_, _, name)| !shown.contains(name));
    hidden.map(|(file, line, name)| Violation::at(&file.path, line, message(name))).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|it: char| !it.is_alphanumeric() && it != '_').filter(|word| !word.is_empty())
}

/// Returns the public methods of a file with their lines, except for those with `#[doc(hidden)]`.
fn methods(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut is_hidden, mut is_in_trait) = (Vec::new(), false, false);
    let starts_tests =
        |line: &str| line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
    for (position, line) in text.lines().enumerate().take_while(|it| !starts_tests(it.1)) {
        if !line.starts_with([' ', '}', ')']) {
            is_in_trait = line.starts_with("pub trait ");
        }
        is_hidden |= line.trim_start().starts_with("#[doc(hidden)]");
        let Some(declared) = line.strip_prefix("    ") else { continue };
        let is_public = declared.starts_with("pub ") || is_in_trait;
        let declared = ["pub ", "async ", "const "]
            .iter()
            .fold(declared, |declared, word| declared.strip_prefix(word).unwrap_or(declared));
        let name = declared.strip_prefix("fn ").and_then(|rest| words(rest).next());
        if let Some(name) = name.filter(|_| is_public && !std::mem::take(&mut is_hidden)) {
            found.push((position + 1, name));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_that_is_not_shown_is_found() {
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
