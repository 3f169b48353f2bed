//! The licences of all that is linked: the texts that packages come with, each once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::packages::Package;

/// What a file with a licence is called, in capitals.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];
const RULE: &str =
    "--------------------------------------------------------------------------------";

/// One text for all foreign packages. Where several have the same licence file, it is there once.
///
/// # Errors
/// A tenth of the packages or more come without the text of their licence.
pub(super) fn text(packages: &[Package]) -> Result<String> {
    let without = without_text(packages)?;
    ensure!(without.len() * 10 < packages.len(), "no text of a licence is in {without:?}");
    let mut text = String::from(
        "Licences of the packages that the program and the plugins contain.\n\nPackages, and the licences \
         under which their authors give them:\n\n",
    );
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages.iter().filter(|it| !it.is_ours) {
        let Package { name, version, licence, authors, folder, .. } = package;
        let by =
            if authors.is_empty() { String::new() } else { format!(", {}", authors.join(", ")) };
        writeln!(text, "  {name} {version}: {licence}{by}")?;
        for file in files(folder)? {
            let licence = fs::read(&file).with_context(|| format!("no {}", file.display()))?;
            let licence = String::from_utf8_lossy(&licence).trim().to_owned();
            let inside = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
            users.entry(licence).or_default().push(format!("{name} {version}, {inside}"));
        }
    }
    for (licence, users) in users {
        write!(text, "\n{RULE}\n")?;
        users.iter().try_for_each(|user| writeln!(text, "{user}"))?;
        write!(text, "{RULE}\n\n{licence}\n")?;
    }
    Ok(text)
}

/// The foreign packages that come without the text of their licence.
fn without_text(packages: &[Package]) -> Result<Vec<&str>> {
    let mut without = Vec::new();
    for package in packages.iter().filter(|it| !it.is_ours) {
        if files(&package.folder)?.is_empty() {
            without.push(&*package.name);
        }
    }
    Ok(without)
}

/// The files of a package with licences: at its top, and at the top of what it brings of other languages, which may lie in
/// a folder for that.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut level) = (Vec::new(), vec![folder.to_owned()]);
    for _ in 0..3 {
        let all = level.iter().map(|folder| entries(folder)).collect::<Result<Vec<_>>>()?;
        let (folders, files): (Vec<_>, Vec<_>) =
            all.concat().into_iter().partition(|it| it.is_dir());
        found.extend(files.into_iter().filter(|file| is_licence(file)));
        level = folders;
    }
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    Ok(entries)
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

    use super::{files, text, without_text};
    use crate::dist::packages::{Package, linked};

    /// What the workspace of the program links: a test does not fetch what the others do.
    fn linked_here() -> Vec<Package> {
        let roots = ["tremor-runtime", "connector-file", "connector-http-server"];
        linked(&roots.map(str::to_owned), &["."], "x86_64-unknown-linux-gnu").unwrap()
    }

    #[test]
    fn every_package_is_named_and_those_in_c_have_their_own_licence() {
        let packages = linked_here();
        let text = text(&packages).unwrap();
        for package in packages.iter().filter(|it| !it.is_ours) {
            assert!(text.contains(&format!("  {} {}: ", package.name, package.version)));
        }
        for (name, licence) in [("zstd-sys", "zstd/LICENSE"), ("liblzma-sys", "COPYING")] {
            let package = packages.iter().find(|it| it.name == name).unwrap();
            let files = files(&package.folder).unwrap();
            assert!(files.iter().any(|file| file.ends_with(licence)), "{name}: {files:?}");
        }
    }

    #[test]
    fn packages_without_the_text_of_their_licence_are_refused_where_they_are_many() {
        let packages = linked_here();
        assert!(without_text(&packages).unwrap().len() * 10 < packages.len());
        let root = folder("none");
        let bare = |number| Package {
            name: format!("bare-{number}"),
            folder: root.clone(),
            ..Package::default()
        };
        let refused = text(&(0..9).map(bare).collect::<Vec<_>>()).unwrap_err().to_string();
        fs::remove_dir_all(&root).unwrap();
        assert!(refused.contains("bare-3"), "{refused}");
    }

    #[test]
    fn the_licence_of_what_a_package_brings_of_another_language_is_found_two_folders_down() {
        let root = folder("deep");
        fs::create_dir_all(root.join("src/zlib/tests")).unwrap();
        fs::write(root.join("src/zlib/LICENSE"), "zlib").unwrap();
        fs::write(root.join("src/zlib/tests/LICENSE"), "that of something else").unwrap();
        let found = files(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [root.join("src/zlib/LICENSE")]);
    }

    /// An empty folder of this test.
    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("xtask-licences-{name}-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }
}
