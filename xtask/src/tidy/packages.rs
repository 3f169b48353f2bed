//! The packages of the workspaces and what they depend on, as cargo tells it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::project::{cargo, root, shown};

/// A package of one of the workspaces.
#[derive(Clone)]
pub(super) struct Package {
    pub(super) name: String,
    /// The manifest's path relative to the root, with forward slashes.
    pub(super) manifest: String,
    /// The dependencies that are ours, of every kind: normal, build and development.
    pub(super) ours: Vec<String>,
}

pub(super) fn read_packages() -> Result<Vec<Package>> {
    let workspaces = ["Cargo.toml", "brokers/Cargo.toml", "operators-plugins/vrl/Cargo.toml"];
    Ok(workspaces.map(read).into_iter().collect::<Result<Vec<_>>>()?.concat())
}

fn read(manifest: &str) -> Result<Vec<Package>> {
    let manifest = format!("--manifest-path={manifest}");
    let asked = ["metadata", &manifest, "--no-deps", "--offline", "--format-version=1"];
    let mut command = cargo(asked);
    let out = command.output().context("cannot start cargo")?;
    let error = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{} failed: {error}", shown(&command));
    parse(&out.stdout)
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    manifest_path: String,
    dependencies: Vec<MetadataDependency>,
}

/// Only what is ours has a path: everything else comes from a registry.
#[derive(Deserialize)]
struct MetadataDependency {
    name: String,
    path: Option<String>,
}

fn parse(metadata: &[u8]) -> Result<Vec<Package>> {
    let metadata: Metadata =
        serde_json::from_slice(metadata).context("cannot read what cargo metadata printed")?;
    Ok(metadata.packages.into_iter().map(Package::from).collect())
}

impl From<MetadataPackage> for Package {
    fn from(package: MetadataPackage) -> Self {
        let manifest = Path::new(&package.manifest_path);
        let manifest = manifest.strip_prefix(root()).unwrap_or(manifest);
        let ours = package.dependencies.into_iter().filter(|dependency| dependency.path.is_some());
        Self {
            name: package.name,
            manifest: manifest.to_string_lossy().replace('\\', "/"),
            ours: ours.map(|dependency| dependency.name).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_with_a_path_is_ours() {
        let metadata = br#"{"packages": [{
            "name": "connector-null",
            "manifest_path": "connectors-plugins/null/Cargo.toml",
            "dependencies": [
                {"name": "tremor-pdk", "path": "tremor-pdk"},
                {"name": "serde", "path": null}
            ]
        }]}"#;
        let packages = parse(metadata).expect("this is what cargo prints");
        assert_eq!(packages[0].manifest, "connectors-plugins/null/Cargo.toml");
        assert_eq!(packages[0].ours, ["tremor-pdk"]);
    }
}
