//! The licences of all that is linked: the texts that packages come with, each once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::packages::Package;

/// What a file with a licence is called, in capitals.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];
const RULE: &str =
    "--------------------------------------------------------------------------------";

/// One text for all foreign packages. Where several have the same licence file, it is there once.
pub(super) fn text(packages: &[Package]) -> Result<String> {
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

/// The files of a package with licences: at its top, and at the top of what it brings of other languages.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    for entry in entries(folder)? {
        if entry.is_dir() {
            folders.push(entry);
        }
    }
    for folder in folders {
        found.extend(
            entries(&folder)?.into_iter().filter(|path| path.is_file() && is_licence(path)),
        );
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
    use super::{files, text};
    use crate::dist::{WORKSPACES, packages, shipped};

    fn linked() -> Vec<packages::Package> {
        packages::linked(&shipped().unwrap(), &WORKSPACES, "x86_64-unknown-linux-gnu").unwrap()
    }

    #[test]
    fn every_package_is_named_and_those_in_c_have_their_own_licence() {
        let packages = linked();
        let text = text(&packages).unwrap();
        for package in packages.iter().filter(|it| !it.is_ours) {
            assert!(text.contains(&format!("  {} {}: ", package.name, package.version)));
        }
        for (name, licence) in
            [("zstd-sys", "zstd/LICENSE"), ("liblzma-sys", "COPYING"), ("vrl", "LICENSE")]
        {
            let package = packages.iter().find(|it| it.name == name).unwrap();
            let files = files(&package.folder).unwrap();
            assert!(files.iter().any(|file| file.ends_with(licence)), "{name}: {files:?}");
        }
    }

    #[test]
    fn most_packages_come_with_the_text_of_their_licence() {
        let packages = linked();
        let foreign = packages.iter().filter(|it| !it.is_ours);
        let without = foreign.clone().filter(|it| files(&it.folder).unwrap().is_empty());
        let without: Vec<&str> = without.map(|it| &*it.name).collect();
        assert!(without.len() * 10 < foreign.count(), "{without:?}");
    }
}
