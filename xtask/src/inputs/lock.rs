//! The locked versions of dependencies, as `Cargo.lock` lists them.

use std::collections::{BTreeMap, BTreeSet};

/// A lock file.
#[derive(Debug, Default)]
pub(super) struct Lock {
    /// The entries of each package name, one for each version.
    entries: BTreeMap<String, Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    version: String,
    /// The whole entry, with version and checksum.
    text: String,
    /// The dependencies: a name, followed by the version if the lock file has several.
    dependencies: Vec<String>,
    /// `true` for a package of a registry.
    is_external: bool,
}

impl Lock {
    /// Parses a lock file. Cargo writes these files, one key or list element per line.
    pub(super) fn parse(text: &str) -> Self {
        let mut entries: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for entry in text.split("\n[[package]]\n").skip(1) {
            let value = |key: &str| {
                let mut lines = entry.lines();
                let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
                value.map(|it| it.trim_matches('"').to_owned())
            };
            let element = |line: &str| {
                let name = line.strip_prefix(" \"")?.trim_end_matches(['"', ',']);
                Some(name.to_owned())
            };
            entries.entry(value("name").unwrap_or_default()).or_default().push(Entry {
                version: value("version").unwrap_or_default(),
                text: entry.trim_end().to_owned(),
                dependencies: entry.lines().filter_map(element).collect(),
                is_external: value("source").is_some(),
            });
        }
        Self { entries }
    }

    /// Returns the entries of those dependencies of a package of the project whose names are in `used`, and of
    /// everything that they depend on, except for packages of the project.
    pub(super) fn closure(&self, package: &str, used: &BTreeSet<&str>) -> BTreeSet<String> {
        let direct = self.entries.get(package).into_iter().flatten();
        let direct = direct.flat_map(|entry| &entry.dependencies);
        let is_used = |it: &&String| it.split(' ').next().is_some_and(|name| used.contains(name));
        let mut open: Vec<_> = direct.filter(is_used).collect();
        let mut closure = BTreeSet::new();
        while let Some(dependency) = open.pop() {
            for entry in self.find(dependency).filter(|entry| entry.is_external) {
                if closure.insert(entry.text.clone()) {
                    open.extend(&entry.dependencies);
                }
            }
        }
        closure
    }

    fn find(&self, dependency: &str) -> impl Iterator<Item = &Entry> {
        let mut words = dependency.split(' ');
        let entries = words.next().and_then(|name| self.entries.get(name));
        let version = words.next().map(str::to_owned);
        let is_wanted =
            move |it: &&Entry| version.as_ref().is_none_or(|it_is| it.version == *it_is);
        entries.into_iter().flatten().filter(is_wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"# A comment.
version = 4

[[package]]
name = "ours"
version = "0.1.0"
dependencies = [
 "a",
 "other",
 "tests",
]

[[package]]
name = "other"
version = "0.1.0"
dependencies = [
 "tests",
]

[[package]]
name = "a"
version = "1.0.0"
source = "registry"
checksum = "1"
dependencies = [
 "b 2.0.0",
]

[[package]]
name = "b"
version = "1.0.0"
source = "registry"
checksum = "2"

[[package]]
name = "b"
version = "2.0.0"
source = "registry"
checksum = "3"

[[package]]
name = "tests"
version = "1.0.0"
source = "registry"
checksum = "4"
"#;

    fn checksums(used: &[&str]) -> Vec<String> {
        let closure = Lock::parse(LOCK).closure("ours", &used.iter().copied().collect());
        let checksum = |entry: String| {
            let line = entry.lines().find(|line| line.starts_with("checksum"));
            line.expect("a checksum").to_owned()
        };
        closure.into_iter().map(checksum).collect()
    }

    #[test]
    fn dependencies_are_followed_by_version() {
        assert_eq!(checksums(&["a"]), [r#"checksum = "1""#, r#"checksum = "3""#]);
    }

    #[test]
    fn unused_dependencies_and_own_packages_are_left_out() {
        assert_eq!(checksums(&["tests"]), [r#"checksum = "4""#]);
        assert_eq!(checksums(&["other"]), [""; 0]);
    }
}
