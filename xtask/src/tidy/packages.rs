//! The packages of the workspaces and their dependencies.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use crate::project::{metadata, root};

/// A package of one of the workspaces.
#[derive(Clone)]
pub(super) struct Package {
    pub(super) name: String,
    /// Path of the manifest, relative to the root.
    pub(super) manifest: String,
    /// Dependencies on packages of this project, of every kind: normal, build and development.
    pub(super) ours: Vec<String>,
}

pub(super) fn read_packages() -> Result<Vec<Package>> {
    let read = |workspace| Ok(parse(&metadata(workspace, &["--no-deps", "--offline"])?));
    let workspaces = [".", "brokers", "operators-plugins/vrl"].into_iter().map(read);
    Ok(workspaces.collect::<Result<Vec<_>>>()?.concat())
}

fn parse(metadata: &Value) -> Vec<Package> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let package = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        let manifest = manifest.strip_prefix(root()).unwrap_or(manifest);
        // Only dependencies on packages of this project have a path. All others are from a registry.
        let ours = package["dependencies"].as_array()?.iter().filter(|it| it["path"].is_string());
        Some(Package {
            name: package["name"].as_str()?.to_owned(),
            manifest: manifest.to_string_lossy().into_owned(),
            ours: ours.filter_map(|it| it["name"].as_str()).map(str::to_owned).collect(),
        })
    };
    packages.filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependency_with_a_path_belongs_to_the_project() {
        let metadata = serde_json::from_str(
            r#"{"packages": [{
            "name": "connector-null",
            "manifest_path": "connectors-plugins/null/Cargo.toml",
            "dependencies": [
                {"name": "tremor-pdk", "path": "tremor-pdk"},
                {"name": "serde", "path": null}
            ]
        }]}"#,
        );
        let packages = parse(&metadata.expect("JSON"));
        assert_eq!(packages[0].manifest, "connectors-plugins/null/Cargo.toml");
        assert_eq!(packages[0].ours, ["tremor-pdk"]);
    }
}
