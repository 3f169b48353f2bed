//! The packages of the project's workspaces and their dependencies, as `cargo metadata` reports them.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use crate::project::{metadata, root};

/// Folders of the workspaces, relative to the root; empty for the main workspace.
pub(crate) const WORKSPACES: [&str; 4] = ["", "brokers", "models", "operators-plugins/vrl"];

/// A package of one of the workspaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Folder of the workspace: one of [`WORKSPACES`].
    pub(crate) workspace: String,
    /// Path of the manifest, relative to the root.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// A dependency that a manifest lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `true` for a package of this project.
    pub(crate) is_ours: bool,
    /// `true` if only tests, examples and benchmarks use the dependency.
    pub(crate) is_for_tests: bool,
    /// `true` if only a feature enables the dependency.
    pub(crate) is_optional: bool,
}

/// A crate that cargo builds from a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Kind of the target: `lib`, `bin`, `example`, `test`, `bench` or `custom-build`. `lib` stands for every type of
    /// library.
    pub(crate) kind: String,
    pub(crate) name: String,
    /// `true` if `cargo test` runs the test functions of the target.
    pub(crate) is_tested: bool,
}

impl Target {
    /// Reads a target as cargo prints it in its metadata and in messages about builds.
    pub(crate) fn parse(target: &Value) -> Self {
        let kind = text(&target["kind"][0]);
        let is_library = kind.ends_with("lib") || kind == "proc-macro";
        Self {
            kind: if is_library { "lib".to_owned() } else { kind },
            name: text(&target["name"]),
            is_tested: target["test"] == true,
        }
    }
}

impl Package {
    /// Returns the folder of the package, relative to the root, with a slash at its end; empty for the root.
    pub(crate) fn folder(&self) -> &str {
        self.manifest.strip_suffix("Cargo.toml").unwrap_or(&self.manifest)
    }

    /// Returns the dependencies on packages of this project, of every kind: normal, build and development.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &str> {
        self.dependencies.iter().filter(|it| it.is_ours).map(|it| it.name.as_str())
    }
}

pub(crate) fn read_packages() -> Result<Vec<Package>> {
    let read = |workspace| Ok(parse(workspace, &metadata(workspace, &["--no-deps", "--offline"])?));
    Ok(WORKSPACES.into_iter().map(read).collect::<Result<Vec<_>>>()?.concat())
}

fn parse(workspace: &str, metadata: &Value) -> Vec<Package> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let package = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        let manifest = manifest.strip_prefix(root()).unwrap_or(manifest);
        let all = |key: &str| package[key].as_array().cloned().unwrap_or_default();
        Some(Package {
            name: text(&package["name"]),
            workspace: workspace.to_owned(),
            manifest: manifest.to_string_lossy().into_owned(),
            dependencies: all("dependencies").iter().map(dependency).collect(),
            targets: all("targets").iter().map(Target::parse).collect(),
        })
    };
    packages.filter_map(package).collect()
}

fn dependency(dependency: &Value) -> Dependency {
    Dependency {
        name: text(&dependency["name"]),
        // Only dependencies on packages of this project have a path. All others are from a registry.
        is_ours: dependency["path"].is_string(),
        is_for_tests: dependency["kind"] == "dev",
        is_optional: dependency["optional"] == true,
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
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
                {"name": "serde", "path": null, "kind": "dev", "optional": true}
            ],
            "targets": [{"kind": ["cdylib", "rlib"], "name": "connector_null", "test": true}]
        }]}"#,
        );
        let package = parse("", &metadata.expect("JSON")).remove(0);
        assert_eq!(package.folder(), "connectors-plugins/null/");
        assert_eq!(package.ours().collect::<Vec<_>>(), ["tremor-pdk"]);
        assert!(package.dependencies[1].is_for_tests && package.dependencies[1].is_optional);
        assert_eq!((&*package.targets[0].kind, package.targets[0].is_tested), ("lib", true));
    }
}
