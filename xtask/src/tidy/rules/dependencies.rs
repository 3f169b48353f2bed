//! Rules about dependencies: plugins depend only on the kit, and the kit does not depend on the runtime.

use std::collections::{BTreeMap, BTreeSet};

use crate::packages::Package;
use crate::tidy::Violation;
use crate::tidy::repository::Repository;

const KIT: &str = "tremor-pdk";
const RUNTIME: &str = "tremor-runtime";
const PLUGINS: [&str; 4] =
    ["codecs-plugins/", "connectors-plugins/", "operators-plugins/", "examples/"];

pub(super) fn plugin_depends_only_on_the_pdk(repository: &Repository) -> Vec<Violation> {
    let is_plugin = |package: &&Package| PLUGINS.iter().any(|it| package.manifest.starts_with(it));
    let plugins = repository.packages.iter().filter(is_plugin);
    let used = plugins.flat_map(|plugin| plugin.ours().map(move |name| (plugin, name)));
    let message = |name| format!("a plugin may only depend on {KIT}, and not on {name}");
    let others = used.filter(|(_, name)| *name != KIT);
    others.map(|(plugin, name)| Violation::in_file(&plugin.manifest, message(name))).collect()
}

pub(super) fn pdk_is_free_of_the_runtime(repository: &Repository) -> Vec<Violation> {
    let by_name: BTreeMap<_, _> =
        repository.packages.iter().map(|package| (package.name.as_str(), package)).collect();
    let Some(kit) = by_name.get(KIT) else { return Vec::new() };
    let mut violations = Vec::new();
    let mut seen = BTreeSet::new();
    let mut open: Vec<&Package> = vec![kit];
    while let Some(package) = open.pop() {
        for name in package.ours() {
            if name == RUNTIME {
                let message = format!("{KIT} depends on {RUNTIME} through {}", package.name);
                violations.push(Violation::in_file(&package.manifest, message));
            } else if seen.insert(name) {
                open.extend(by_name.get(name));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::Dependency;

    fn ours_named(name: &str) -> Dependency {
        Dependency { name: name.to_owned(), is_ours: true, ..Dependency::default() }
    }

    fn project(packages: &[(&str, &str, &[&str])]) -> Repository {
        let packages = packages.iter().map(|(name, folder, ours)| Package {
            name: (*name).to_owned(),
            manifest: format!("{folder}/Cargo.toml"),
            dependencies: ours.iter().map(|name| ours_named(name)).collect(),
            ..Package::default()
        });
        Repository { files: Vec::new(), packages: packages.collect() }
    }

    #[test]
    fn plugin_with_another_dependency_is_found() {
        let repository = project(&[
            ("connector-file", "connectors-plugins/file", &["tremor-pdk"]),
            ("connector-null", "connectors-plugins/null", &["tremor-pdk", "tremor-abi"]),
        ]);
        let violations = plugin_depends_only_on_the_pdk(&repository);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "connectors-plugins/null/Cargo.toml");
    }

    #[test]
    fn indirect_dependency_on_the_runtime_is_found() {
        let repository = project(&[
            ("tremor-pdk", "tremor-pdk", &["tremor-abi"]),
            ("tremor-abi", "tremor-pdk/abi", &["tremor-runtime", "tremor-pdk"]),
        ]);
        let violations = pdk_is_free_of_the_runtime(&repository);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "tremor-pdk/abi/Cargo.toml");
    }

    #[test]
    fn runtime_may_depend_on_the_kit() {
        let repository = project(&[
            ("tremor-runtime", "runtime", &["tremor-pdk"]),
            ("tremor-pdk", "tremor-pdk", &[]),
        ]);
        assert_eq!(pdk_is_free_of_the_runtime(&repository), []);
    }
}
