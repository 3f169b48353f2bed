//! Plugins built against an altered `tremor-pdk`: those of another version of the ABI, and those
//! that were built from changed sources.
//!
//! Each is a workspace of its own below the target folder, made of copies of `tremor-pdk` and of
//! the fixture `relay`, with the same lock file and profiles, so that everything but those three
//! packages is built already. The copies lie in a folder that is named after the fixture: cargo
//! tells packages of one name and version apart by their path within their workspace, and would
//! take the copies' builds for those of the originals.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::{build, cached, target_folder, workspace};

const MANIFEST: &str = "Cargo.toml";
const LOCK: &str = "Cargo.lock";

/// A change to a file: its path, what stands there exactly once, and what is to stand there
/// instead.
pub type Change<'c> = (&'c str, &'c str, &'c str);

/// The library of a plugin called `name`, built against a `tremor-pdk` with these changes.
///
/// # Panics
/// Where a change does not apply, which says that the sources have moved on without it, and where
/// the build fails.
pub fn plugin(name: &str, changes: &[Change<'_>]) -> PathBuf {
    cached(name, || {
        let folder = target_folder().join("abi-fixtures").join(name);
        let mut files = sources(name);
        // A name of its own, so that the libraries do not overwrite each other.
        let named = |what: &str, name: &str| format!("[{what}]\nname = \"{name}\"");
        let renamed =
            ["package", "[example]"].map(|what| (named(what, "fixture-relay"), named(what, name)));
        let renamed = renamed.iter().map(|(old, new)| ("plugin/Cargo.toml", &**old, &**new));
        for change in changes.iter().copied().chain(renamed) {
            apply(&mut files, &change);
        }
        write(&folder, name, &files);
        let arguments = ["build", "--offline", "--package", name, "--example", name];
        build(&folder, &arguments, name)
    })
}

/// The changes that make the ABI `version` of the one that is version 2.0.0.
pub fn abi_version(version: &str) -> [(&'static str, &'static str, String); 2] {
    let package = ("tremor-pdk/abi/Cargo.toml", "version = \"2.0.0\"");
    let dependency = (MANIFEST, "tremor-pdk/abi\", version = \"2.0.0\"");
    [package, dependency].map(|(file, old)| (file, old, old.replace("2.0.0", version)))
}

type Files = BTreeMap<PathBuf, String>;

/// The files of the workspace as they are, but for the manifest, which has the packages in the
/// folder `inside`.
fn sources(inside: &str) -> Files {
    let mut files = Files::new();
    read(&workspace().join("tremor-pdk"), Path::new("tremor-pdk"), &mut files);
    read(&workspace().join("tests/fixtures/plugins/relay"), Path::new("plugin"), &mut files);
    for file in [MANIFEST, LOCK] {
        let text = fs::read_to_string(workspace().join(file)).expect("a file of the workspace");
        files.insert(file.into(), text);
    }
    // Of the manifest, all but the list of members.
    let manifest = files.get_mut(Path::new(MANIFEST)).expect("it was read just now");
    let rest = manifest.find("[workspace.package]").expect("the manifest has a part to inherit");
    let rest = manifest[rest..].replace("path = \"", &format!("path = \"{inside}/"));
    let members = ["plugin", "tremor-pdk", "tremor-pdk/abi"];
    let members = members.map(|member| format!("\"{inside}/{member}\"")).join(", ");
    *manifest = format!("[workspace]\nresolver = \"3\"\nmembers = [{members}]\n\n{rest}");
    files
}

fn read(from: &Path, to: &Path, files: &mut Files) {
    for entry in fs::read_dir(from).expect("a folder of the workspace") {
        let path = entry.expect("an entry of it").path();
        let to = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            read(&path, &to, files);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "toml")
        {
            files.insert(to, fs::read_to_string(&path).expect("a source file"));
        }
    }
}

fn apply(files: &mut Files, (file, old, new): &Change<'_>) {
    let text = files.get_mut(Path::new(file)).unwrap_or_else(|| panic!("there is no {file}"));
    assert_eq!(text.matches(old).count(), 1, "to be changed exactly once in {file}: {old}");
    *text = text.replace(old, new);
}

/// Writes what differs: cargo builds again what was written again.
fn write(folder: &Path, inside: &str, files: &Files) {
    for (name, text) in files {
        let is_root = [MANIFEST, LOCK].contains(&&*name.to_string_lossy());
        let file = if is_root { folder.join(name) } else { folder.join(inside).join(name) };
        // The lock file is cargo's once it is there.
        let is_current = file.exists() && name == Path::new(LOCK);
        if is_current || fs::read_to_string(&file).is_ok_and(|there| there == *text) {
            continue;
        }
        fs::create_dir_all(file.parent().expect("it lies in the folder")).expect("a folder");
        fs::write(&file, text).expect("a file of a copy");
    }
}
