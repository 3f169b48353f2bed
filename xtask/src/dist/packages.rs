//! What the shipped files are made of: our crates, and all that they link.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::project::{cargo, root};

/// What `cargo metadata` says, as far as it matters here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Described>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Described {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    #[serde(default)]
    authors: Vec<String>,
    repository: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// None is the usual one: neither for builds nor for tests.
    kind: Option<String>,
}

/// A crate that is linked.
#[derive(Clone, Debug, Default)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression.
    pub(super) licence: String,
    pub(super) authors: Vec<String>,
    pub(super) repository: Option<String>,
    /// None: it is ours.
    pub(super) checksum: Option<String>,
    pub(super) is_ours: bool,
    pub(super) folder: PathBuf,
    /// Positions of those that it links.
    pub(super) links: Vec<usize>,
}

/// The packages with these names and all that they link on this target, by their names and versions.
pub(super) fn linked(roots: &[&str], target: &str) -> Result<Vec<Package>> {
    let mut command = cargo(["metadata", "--format-version=1", "--locked", "--offline"]);
    let output = command.args(["--filter-platform", target]).output().context("no cargo")?;
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).context("`cargo metadata` gives no JSON")?;
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("no Cargo.lock")?;
    Ok(of(&metadata, roots, &checksums(&lock)))
}

fn of(
    metadata: &Metadata,
    roots: &[&str],
    checksums: &BTreeMap<(String, String), String>,
) -> Vec<Package> {
    let packages: BTreeMap<&str, &Described> =
        metadata.packages.iter().map(|it| (&*it.id, it)).collect();
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|it| (&*it.id, it)).collect();
    // Macros run in the compiler, and leave nothing of themselves.
    let is_linked = |id: &str| {
        let is_macro = |it: &&Described| {
            it.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "proc-macro"))
        };
        !packages.get(id).is_some_and(is_macro)
    };
    let links = |id: &str| -> Vec<&str> {
        let dependencies = nodes.get(id).map_or(&[][..], |node| &node.deps);
        let usual = |it: &&Dependency| it.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let all = dependencies.iter().filter(usual).map(|it| &*it.pkg);
        all.filter(|id| is_linked(id)).collect()
    };
    let mut open: Vec<&str> = metadata
        .packages
        .iter()
        .filter(|it| it.source.is_none() && roots.contains(&&*it.name))
        .map(|it| &*it.id)
        .collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            open.extend(links(id));
        }
    }
    let mut found: Vec<&Described> =
        seen.iter().filter_map(|id| packages.get(id).copied()).collect();
    found.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    let position: BTreeMap<&str, usize> =
        found.iter().enumerate().map(|(position, it)| (&*it.id, position)).collect();
    let package = |it: &&Described| Package {
        name: it.name.clone(),
        version: it.version.clone(),
        licence: it.license.clone().unwrap_or_default(),
        authors: it.authors.clone(),
        repository: it.repository.clone(),
        checksum: checksums.get(&(it.name.clone(), it.version.clone())).cloned(),
        is_ours: it.source.is_none(),
        folder: it.manifest_path.parent().map(PathBuf::from).unwrap_or_default(),
        links: links(&it.id).iter().filter_map(|id| position.get(id).copied()).collect(),
    };
    found.iter().map(package).collect()
}

/// The checksums of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut checksums = BTreeMap::new();
    let (mut name, mut version) = (String::new(), String::new());
    for line in lock.lines() {
        let Some((key, value)) = line.split_once(" = ") else { continue };
        let value = value.trim_matches('"').to_owned();
        match key {
            "name" => name = value,
            "version" => version = value,
            "checksum" => _ = checksums.insert((name.clone(), version.clone()), value),
            _ => {}
        }
    }
    checksums
}

#[cfg(test)]
mod tests {
    use super::{checksums, linked};

    #[test]
    fn what_is_linked_is_of_the_program_and_not_of_its_build_or_its_tests() {
        let packages = linked(&["tremor-runtime"], "x86_64-unknown-linux-gnu").unwrap();
        let has = |name: &str| packages.iter().any(|it| it.name == name);
        assert!(has("tremor-pdk") && has("hyper") && has("zstd-sys"));
        // A macro, a compiler of C, a library for tests, a plugin.
        assert!(!has("serde_derive") && !has("cc") && !has("proptest") && !has("connector-file"));
        for package in &packages {
            let foreign = !package.is_ours;
            let name = &package.name;
            assert!(!package.licence.is_empty(), "{name} has no licence");
            assert_eq!(package.checksum.is_some(), foreign, "{name}");
        }
    }

    #[test]
    fn a_checksum_is_that_of_its_name_and_version() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1\"\n\n[[package]]\nname = \"a\"\nversion = \"2\"\n\
                    checksum = \"ff\"\n";
        let found = checksums(lock);
        assert_eq!(found.len(), 1);
        assert_eq!(found[&("a".to_owned(), "2".to_owned())], "ff");
    }
}
