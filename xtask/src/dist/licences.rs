//! The licence texts of all linked packages, each text once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use walkdir::WalkDir;

use super::packages::Package;

/// Beginnings of the names of licence files, in capitals.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];
const RULE: &str =
    "--------------------------------------------------------------------------------";

/// Returns a text with the licences of all third-party packages, and each licence file once.
///
/// # Errors
/// A tenth of the packages or more contain no licence text.
pub(super) fn text(packages: &[Package]) -> Result<String> {
    let mut text = String::from(
        "Licences of the packages that the program and the plugins contain.\n\nPackages with their licences and \
         authors:\n\n",
    );
    let mut without = Vec::new();
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages.iter().filter(|it| !it.is_ours()) {
        let Package { name, version, license, authors, .. } = package;
        let licence = license.iter().chain(authors).map(String::as_str).collect::<Vec<_>>();
        writeln!(text, "  {name} {version}: {}", licence.join(", "))?;
        let files = files(package.folder())?;
        without.extend(files.is_empty().then_some(name));
        for file in files {
            let licence = String::from_utf8_lossy(&fs::read(&file)?).trim().to_owned();
            let inside = file.strip_prefix(package.folder())?.display();
            users.entry(licence).or_default().push(format!("{name} {version}, {inside}"));
        }
    }
    ensure!(
        without.len() * 10 < packages.len(),
        "too many packages without a licence text: {without:?}"
    );
    for (licence, users) in users {
        write!(text, "\n{RULE}\n{}\n{RULE}\n\n{licence}\n", users.join("\n"))?;
    }
    Ok(text)
}

/// Returns the licence files of a package: those in its folder, and those of bundled sources of other languages, which
/// may be up to two folders below.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = WalkDir::new(folder).min_depth(1).max_depth(3).sort_by_file_name();
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.into_path();
        if path.is_file() && is_licence(&path) {
            files.push(path);
        }
    }
    Ok(files)
}

fn is_licence(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_uppercase());
    let is_code = path.extension().is_some_and(|it| it == "rs" || it == "c" || it == "h");
    !is_code && name.is_some_and(|name| NAMES.iter().any(|known| name.starts_with(known)))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::{env, fs, process};

    use super::{files, text};
    use crate::dist::packages::{Package, linked};

    /// Returns the packages that this workspace links. Packages of other workspaces may not be downloaded in a test.
    fn linked_here() -> Vec<Package> {
        let roots = ["tremor-runtime", "connector-file", "connector-http"];
        linked(&roots.map(str::to_owned), &["."], "x86_64-unknown-linux-gnu").unwrap()
    }

    #[test]
    fn packages_are_named_and_bundled_c_has_its_licence() {
        let packages = linked_here();
        let text = text(&packages).unwrap();
        for package in packages.iter().filter(|it| !it.is_ours()) {
            assert!(text.contains(&format!("  {} {}: ", package.name, package.version)));
        }
        for (name, licence) in [("zstd-sys", "zstd/LICENSE"), ("liblzma-sys", "COPYING")] {
            let package = packages.iter().find(|it| it.name == name).unwrap();
            let files = files(package.folder()).unwrap();
            assert!(files.iter().any(|file| file.ends_with(licence)), "{name}: {files:?}");
        }
    }

    #[test]
    fn many_packages_without_licence_text_are_refused() {
        let root = folder("none");
        let mut packages = linked_here();
        for package in &mut packages[..100] {
            package.manifest_path = root.join("Cargo.toml");
        }
        let refused = text(&packages).unwrap_err().to_string();
        fs::remove_dir_all(&root).unwrap();
        let bare = packages.iter().find(|it| !it.is_ours()).unwrap();
        assert!(refused.contains(&bare.name), "{refused}");
    }

    #[test]
    fn licence_of_bundled_sources_is_found_two_folders_down() {
        let root = folder("deep");
        fs::create_dir_all(root.join("src/zlib/tests")).unwrap();
        fs::write(root.join("src/zlib/LICENSE"), "zlib").unwrap();
        fs::write(root.join("src/zlib/tests/LICENSE"), "a licence of something else").unwrap();
        let found = files(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [root.join("src/zlib/LICENSE")]);
    }

    /// Creates an empty folder for a test.
    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("xtask-licences-{name}-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }
}
