//! A software bill of materials: `CycloneDX` 1.6, in JSON.
//!
//! <https://cyclonedx.org/docs/1.6/json/>

use serde_json::{Value, json};

use super::packages::{Package, STANDARD, identity};

/// Returns the bill of materials of the program with this version and its packages. The shipped packages are the
/// program's direct dependencies.
pub(super) fn of(packages: &[Package], version: &str, shipped: &[String]) -> Value {
    let own = identity("tremor", version);
    let parts = packages.iter().filter(|it| it.is_ours() && shipped.contains(&it.name));
    let parts: Vec<String> = parts.map(Package::identity).collect();
    let mut dependencies = vec![json!({ "ref": own, "dependsOn": parts })];
    let links = |it: &Package| json!({ "ref": it.identity(), "dependsOn": it.links });
    dependencies.extend(packages.iter().map(links));
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "lifecycles": [{ "phase": "build" }],
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "tremor",
                "version": version,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            },
        },
        "components": packages.iter().map(component).collect::<Vec<_>>(),
        "dependencies": dependencies,
    })
}

fn component(package: &Package) -> Value {
    let Package { name, version, license, repository, checksum, .. } = package;
    let mut component = json!({
        "type": "library",
        "bom-ref": package.identity(),
        "name": name,
        "version": version,
        "scope": "required",
        // Old packages separate licences by `/` instead of `OR`.
        "licenses": [{ "expression": license.as_deref().unwrap_or_default().replace('/', " OR ") }],
    });
    if name == STANDARD {
        component["purl"] = format!("pkg:github/rust-lang/rust@{version}").into();
    } else if !package.is_ours() {
        component["purl"] = format!("pkg:cargo/{name}@{version}").into();
    }
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(repository) = repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::of;
    use crate::dist::packages::linked;

    #[test]
    fn linked_crates_are_named_once_with_their_dependencies() {
        // Packages of other workspaces may not be downloaded in a test.
        let shipped = ["tremor-runtime", "connector-file", "codec-otlp"].map(str::to_owned);
        let packages = linked(&shipped, &["."], "x86_64-unknown-linux-gnu").unwrap();
        let sbom = of(&packages, "0.1.0", &shipped);
        assert_eq!(
            (&sbom["bomFormat"], &sbom["specVersion"]),
            (&"CycloneDX".into(), &"1.6".into())
        );
        let parts = sbom["dependencies"][0]["dependsOn"].as_array().unwrap();
        assert_eq!(parts.len(), shipped.len(), "{parts:?}");
        let components = sbom["components"].as_array().unwrap();
        assert_eq!(components.len(), packages.len());
        let mut named = BTreeSet::from(["tremor@0.1.0"]);
        for component in components {
            let reference = component["bom-ref"].as_str().unwrap();
            assert!(named.insert(reference), "{reference} twice");
            if let Some(hashes) = component["hashes"].as_array() {
                let hash = hashes[0]["content"].as_str().unwrap();
                assert!(hash.len() == 64 && hash.bytes().all(|it| it.is_ascii_hexdigit()));
                assert_eq!(component["purl"], format!("pkg:cargo/{reference}"));
            }
            let licence = component["licenses"][0]["expression"].as_str().unwrap();
            assert!(!licence.is_empty() && !licence.contains('/'), "{reference}: {licence}");
        }
        for dependency in sbom["dependencies"].as_array().unwrap() {
            assert!(named.contains(dependency["ref"].as_str().unwrap()));
            for link in dependency["dependsOn"].as_array().unwrap() {
                assert!(named.contains(link.as_str().unwrap()), "{link}");
            }
        }
    }
}
