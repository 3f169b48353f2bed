//! The crates in the shipped files: those of this project, and all crates that they link.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use serde::Deserialize;
use serde_json::Value;

use crate::project::{metadata, root, rustc, text};

/// The part of `cargo metadata` that is used here.
#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
    resolve: Value,
}

/// A crate.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Package {
    id: String,
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression.
    pub(super) license: Option<String>,
    pub(super) authors: Vec<String>,
    pub(super) repository: Option<String>,
    source: Option<String>,
    pub(super) manifest_path: PathBuf,
    targets: Vec<Value>,
    #[serde(skip)]
    pub(super) checksum: Option<String>,
    /// Crates that the crate links, by their [`Package::identity`].
    #[serde(skip)]
    pub(super) links: BTreeSet<String>,
}

impl Package {
    /// Returns a name with version, which is unique among packages.
    pub(super) fn identity(&self) -> String {
        identity(&self.name, &self.version)
    }

    pub(super) fn is_ours(&self) -> bool {
        self.source.is_none()
    }

    pub(super) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }

    /// Returns whether the package has a library of a kind, such as `cdylib`.
    pub(super) fn has(&self, kind: &str) -> bool {
        let kinds = self.targets.iter().filter_map(|target| target["kind"].as_array());
        kinds.flatten().any(|it| it == kind)
    }
}

pub(super) fn identity(name: &str, version: &str) -> String {
    format!("{name}@{version}")
}

/// Returns the packages with the names `roots` in these workspaces, all packages that they link on this target, and the
/// standard library.
pub(super) fn linked(roots: &[String], workspaces: &[&str], target: &str) -> Result<Vec<Package>> {
    let mut all: BTreeMap<String, Package> = BTreeMap::new();
    for workspace in workspaces {
        let metadata = metadata(workspace, &["--locked", "--filter-platform", target])?;
        let lock = fs::read_to_string(root().join(workspace).join("Cargo.lock"))?;
        for package in of(metadata, roots, &checksums(&lock)) {
            // A package that is in two workspaces may link more packages in one of them.
            let links = package.links.clone();
            all.entry(package.identity()).or_insert(package).links.extend(links);
        }
    }
    let standard = standard_library()?;
    all.values_mut().for_each(|package| _ = package.links.insert(standard.identity()));
    all.insert(standard.identity(), standard);
    Ok(all.into_values().collect())
}

/// Returns the standard library, which every crate links but no lock file lists. The toolchain has the licences of its
/// dependencies.
fn standard_library() -> Result<Package> {
    let sysroot = text(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok(Package {
        name: STANDARD.to_owned(),
        version: rustc("release")?,
        license: Some("MIT OR Apache-2.0".to_owned()),
        authors: vec!["The Rust Project Developers".to_owned()],
        repository: Some("https://github.com/rust-lang/rust".to_owned()),
        source: Some("rustup".to_owned()),
        manifest_path: Path::new(sysroot.trim()).join("share/doc/rust/Cargo.toml"),
        ..Package::default()
    })
}

/// Name of the standard library's package.
pub(super) const STANDARD: &str = "rust-std";

/// Returns the packages of a workspace that the packages `roots` link, with the `roots` themselves.
fn of(metadata: Metadata, roots: &[String], checksums: &BTreeMap<String, String>) -> Vec<Package> {
    let Metadata { packages, resolve } = metadata;
    let find = |id: &str| packages.iter().find(|package| package.id == id);
    // By convention, a package such as `openssl-src` contains C sources, which the build script of another package
    // compiles. The sources are linked, but the dependencies of the package are not.
    let is_source = |id: &str| find(id).is_some_and(|package| package.name.ends_with("-src"));
    let links = |id: &str| -> Vec<&str> {
        let nodes = resolve["nodes"].as_array().into_iter().flatten();
        let node = nodes.filter(|node| node["id"] == *id && !is_source(id));
        let all = node.filter_map(|node| node["deps"].as_array()).flatten();
        all.filter_map(|dependency| {
            let id = dependency["pkg"].as_str()?;
            // `null` stands for neither build nor development dependencies.
            let is_usual = |kind: &Value| kind["kind"].is_null();
            let is_usual = dependency["dep_kinds"].as_array()?.iter().any(is_usual);
            // Procedural macros run in the compiler, so they are not linked.
            let is_linked = !find(id)?.has("proc-macro");
            ((is_usual || is_source(id)) && is_linked).then_some(id)
        })
        .collect()
    };
    let ours = packages.iter().filter(|it| it.is_ours() && roots.contains(&it.name));
    let mut open: Vec<&str> = ours.map(|package| &*package.id).collect();
    let mut seen = BTreeMap::new();
    while let Some(id) = open.pop() {
        if !seen.contains_key(id) {
            open.extend(links(id));
            seen.insert(id, links(id));
        }
    }
    let package = |(id, links): (&&str, &Vec<&str>)| {
        let package = find(id)?.clone();
        let checksum = checksums.get(&package.identity()).cloned();
        let links = links.iter().filter_map(|id| Some(find(id)?.identity())).collect();
        Some(Package { checksum, links, ..package })
    };
    seen.iter().filter_map(package).collect()
}

/// Returns the checksums of a lock file by the [`identity`] of their packages.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let packages = lock.split("[[package]]").filter_map(|package| {
        let value = |key: &str| {
            let value = |line: &str| Some(line.strip_prefix(key)?.strip_prefix(" = ")?.to_owned());
            package.lines().find_map(value).map(|value| value.replace('"', ""))
        };
        Some((identity(&value("name")?, &value("version")?), value("checksum")?))
    });
    packages.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::{STANDARD, checksums, linked, of};

    #[test]
    fn build_and_test_dependencies_are_not_linked() {
        let roots = ["tremor-runtime".to_owned()];
        let packages = linked(&roots, &["."], "x86_64-unknown-linux-gnu").unwrap();
        let has = |name: &str| packages.iter().any(|it| it.name == name);
        assert!(has("tremor-pdk") && has("hyper") && has("zstd-sys"));
        // A macro, a crate that compiles C, a library for tests, and a plugin.
        assert!(!has("serde_derive") && !has("cc") && !has("proptest") && !has("connector-file"));
        for package in &packages {
            let foreign = !package.is_ours();
            let name = &package.name;
            assert!(package.license.is_some(), "{name} has no licence");
            assert_eq!(package.checksum.is_some(), foreign && name != STANDARD, "{name}");
        }
    }

    #[test]
    fn sources_of_build_scripts_are_linked() {
        let described = |name: &str, source: Option<&str>| {
            json!({
                "id": name, "name": name, "version": "1.0.0", "license": "MIT", "repository": null, "source": source, "authors": [],
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
        let linked = of(metadata, &["ours".to_owned()], &BTreeMap::new());
        let names: Vec<&str> = linked.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["ours", "tls-src", "tls-sys"]);
    }

    #[test]
    fn checksum_is_found_by_name_and_version() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1\"\n\n[[package]]\nname = \"a\"\nversion = \"2\"\n\
                    checksum = \"ff\"\n";
        let found = checksums(lock);
        assert_eq!(found.len(), 1);
        assert_eq!(found["a@2"], "ff");
    }
}
