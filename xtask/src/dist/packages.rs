//! What the shipped files are made of: our crates, and all that they link.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
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
    /// Those that it links, by their [`Package::identity`].
    pub(super) links: BTreeSet<String>,
}

impl Package {
    /// What no other package has.
    pub(super) fn identity(&self) -> String {
        identity(&self.name, &self.version)
    }
}

pub(super) fn identity(name: &str, version: &str) -> String {
    format!("{name}@{version}")
}

/// The packages with these names, which are in these workspaces, and all that they link on this target, by
/// their names and versions; and the standard library.
pub(super) fn linked(roots: &[String], workspaces: &[&str], target: &str) -> Result<Vec<Package>> {
    let mut all: BTreeMap<(String, String), Package> = BTreeMap::new();
    for workspace in workspaces {
        let folder = root().join(workspace);
        let mut command = cargo(["metadata", "--format-version=1", "--locked"]);
        command.args(["--filter-platform", target, "--manifest-path"]);
        let output = command.arg(folder.join("Cargo.toml")).output().context("no cargo")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metadata: Metadata =
            serde_json::from_slice(&output.stdout).context("`cargo metadata` gives no JSON")?;
        let lock = fs::read_to_string(folder.join("Cargo.lock")).context("no Cargo.lock")?;
        for package in of(&metadata, roots, &checksums(&lock)) {
            // What two workspaces have may link more in one of them.
            let key = (package.name.clone(), package.version.clone());
            let links = package.links.clone();
            all.entry(key).or_insert(package).links.extend(links);
        }
    }
    let standard = standard_library()?;
    let identity = standard.identity();
    all.values_mut().for_each(|package| _ = package.links.insert(identity.clone()));
    all.insert((standard.name.clone(), standard.version.clone()), standard);
    Ok(all.into_values().collect())
}

/// What every crate links that is in no lock file. The licences of its own dependencies come with it.
fn standard_library() -> Result<Package> {
    let ask = |argument: &[&str]| -> Result<String> {
        let program = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(program).args(argument).output().context("no rustc")?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let version = ask(&["-vV"])?;
    let version = version.lines().find_map(|line| line.strip_prefix("release: "));
    Ok(Package {
        name: STANDARD.to_owned(),
        version: version.context("rustc does not say its version")?.to_owned(),
        licence: "MIT OR Apache-2.0".to_owned(),
        authors: vec!["The Rust Project Developers".to_owned()],
        repository: Some("https://github.com/rust-lang/rust".to_owned()),
        folder: Path::new(&ask(&["--print", "sysroot"])?).join("share/doc/rust"),
        ..Package::default()
    })
}

/// The name of the standard library.
pub(super) const STANDARD: &str = "rust-std";

fn of(
    metadata: &Metadata,
    roots: &[String],
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
    // By convention, a package such as `openssl-src` has sources in C, which the build script of another one compiles:
    // they are linked, and what the package needs for that is not.
    let is_source =
        |id: &str| packages.get(id).is_some_and(|package| package.name.ends_with("-src"));
    let links = |id: &str| -> Vec<&str> {
        let node = nodes.get(id).filter(|_| !is_source(id));
        let dependencies = node.map_or(&[][..], |node| &node.deps);
        let is_usual = |it: &Dependency| it.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let all = dependencies.iter().filter(|it| is_usual(it) || is_source(&it.pkg));
        all.map(|it| &*it.pkg).filter(|id| is_linked(id)).collect()
    };
    let mut open: Vec<&str> = metadata
        .packages
        .iter()
        .filter(|it| it.source.is_none() && roots.contains(&it.name))
        .map(|it| &*it.id)
        .collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            open.extend(links(id));
        }
    }
    let found = seen.iter().filter_map(|id| packages.get(id).copied());
    let linked = |id: &&str| packages.get(id).map(|it| identity(&it.name, &it.version));
    let package = |it: &Described| Package {
        name: it.name.clone(),
        version: it.version.clone(),
        licence: it.license.clone().unwrap_or_default(),
        authors: it.authors.clone(),
        repository: it.repository.clone(),
        checksum: checksums.get(&(it.name.clone(), it.version.clone())).cloned(),
        is_ours: it.source.is_none(),
        folder: it.manifest_path.parent().map(PathBuf::from).unwrap_or_default(),
        links: links(&it.id).iter().filter_map(linked).collect(),
    };
    found.map(package).collect()
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
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::{STANDARD, checksums, linked, of};

    #[test]
    fn what_is_linked_is_of_the_program_and_not_of_its_build_or_its_tests() {
        let roots = ["tremor-runtime".to_owned()];
        let packages = linked(&roots, &["."], "x86_64-unknown-linux-gnu").unwrap();
        let has = |name: &str| packages.iter().any(|it| it.name == name);
        assert!(has("tremor-pdk") && has("hyper") && has("zstd-sys"));
        // A macro, a compiler of C, a library for tests, a plugin.
        assert!(!has("serde_derive") && !has("cc") && !has("proptest") && !has("connector-file"));
        for package in &packages {
            let foreign = !package.is_ours;
            let name = &package.name;
            assert!(!package.licence.is_empty(), "{name} has no licence");
            assert_eq!(package.checksum.is_some(), foreign && name != STANDARD, "{name}");
        }
    }

    #[test]
    fn sources_that_a_build_script_compiles_are_linked_and_the_compiler_is_not() {
        let described = |name: &str, source: Option<&str>| {
            json!({
                "id": name, "name": name, "version": "1.0.0", "license": "MIT", "repository": null, "source": source,
                "manifest_path": "Cargo.toml", "targets": [{ "kind": ["lib"] }]
            })
        };
        let on = |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [
                described("ours", None),
                described("tls-sys", Some("registry")),
                described("tls-src", Some("registry")),
                described("cc", Some("registry")),
            ],
            "resolve": { "nodes": [
                { "id": "ours", "deps": [on("tls-sys", None)] },
                { "id": "tls-sys", "deps": [on("tls-src", Some("build")), on("cc", Some("build"))] },
                { "id": "tls-src", "deps": [on("cc", None)] },
                { "id": "cc", "deps": [] },
            ] },
        });
        let metadata = serde_json::from_value(metadata).unwrap();
        let linked = of(&metadata, &["ours".to_owned()], &BTreeMap::new());
        let names: Vec<&str> = linked.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["ours", "tls-src", "tls-sys"]);
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
