//! Builds plugins with a changed `tremor-pdk`: with another version of the ABI, or with other changes of its source.
//!
//! Each plugin is a workspace of its own below the target folder. It consists of copies of `tremor-pdk` and of the
//! fixture `relay`, and has the same lock file and profiles as the original workspace, so that only the copied packages
//! have to be built. The copies are in a folder that is named after the plugin: cargo distinguishes packages with the
//! same name and version by their path within the workspace, and would otherwise confuse the builds of the copies with
//! those of the originals.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::{build, cached, target_folder, workspace};

const MANIFEST: &str = "Cargo.toml";
const LOCK: &str = "Cargo.lock";

/// A change of a file: its path, a text that occurs exactly once, and its replacement.
pub type Change<'c> = (&'c str, &'c str, &'c str);

/// Builds a plugin called `name` with a `tremor-pdk` that has these changes, and returns the library.
///
/// # Panics
/// A change does not apply, because the sources have changed, or the build fails.
pub fn plugin(name: &str, changes: &[Change<'_>]) -> PathBuf {
    cached(name, || {
        let folder = target_folder().join("abi-fixtures").join(name);
        let mut files = sources(name);
        // Give the package a unique name, so that the libraries do not overwrite each other.
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

/// Returns the changes that set the version of the ABI to `version` instead of 2.1.0.
pub fn abi_version(version: &str) -> [(&'static str, &'static str, String); 2] {
    let package = ("tremor-pdk/abi/Cargo.toml", "version = \"2.1.0\"");
    let dependency = (MANIFEST, "tremor-pdk/abi\", version = \"2.1.0\"");
    [package, dependency].map(|(file, old)| (file, old, old.replace("2.1.0", version)))
}

type Files = BTreeMap<PathBuf, String>;

/// Returns the files of the workspace, with a manifest whose packages are in the folder `inside`.
fn sources(inside: &str) -> Files {
    let mut files = Files::new();
    read(&workspace().join("tremor-pdk"), Path::new("tremor-pdk"), &mut files);
    read(&workspace().join("tests/fixtures/plugins/relay"), Path::new("plugin"), &mut files);
    for file in [MANIFEST, LOCK] {
        let text = fs::read_to_string(workspace().join(file)).expect("a file of the workspace");
        files.insert(file.into(), text);
    }
    // Keep the manifest except for its list of members.
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

/// Writes only the files that differ, because cargo rebuilds a package if any of its files was written.
fn write(folder: &Path, inside: &str, files: &Files) {
    for (name, text) in files {
        let is_root = [MANIFEST, LOCK].contains(&&*name.to_string_lossy());
        let file = if is_root { folder.join(name) } else { folder.join(inside).join(name) };
        // Do not overwrite an existing lock file, because cargo changes it.
        let is_current = file.exists() && name == Path::new(LOCK);
        if is_current || fs::read_to_string(&file).is_ok_and(|there| there == *text) {
            continue;
        }
        fs::create_dir_all(file.parent().expect("it lies in the folder")).expect("a folder");
        fs::write(&file, text).expect("a file of a copy");
    }
}
