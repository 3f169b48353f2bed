//! Flow files of the command line: files, and folders with files.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::Failure;

/// Extensions of flow files in folders.
const EXTENSIONS: [&str; 2] = ["yaml", "yml"];

/// Returns the given files, and the flow files in the given folders: those that end in `.yaml` or `.yml` and do not begin
/// with a dot, in the order of their names. Folders in these folders are not searched.
pub(super) fn expanded(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let (mut files, mut failure) = (Vec::new(), Failure::default());
    for path in given {
        match path.is_dir().then(|| of_folder(path)) {
            None => files.push(path.clone()),
            Some(Ok(found)) if found.is_empty() => failure.usage(&format_args!(
                "error: {}: there is no flow file in this folder\n  help: flow files end in `.yaml` or `.yml`",
                path.display()
            )),
            Some(Ok(found)) => files.extend(found),
            Some(Err(error)) => {
                failure.usage(&format_args!("error: {}: cannot read the folder: {error}", path.display()));
            }
        }
    }
    failure.or(files)
}

fn of_folder(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|it| it.as_encoded_bytes().starts_with(b"."));
        let has_extension =
            EXTENSIONS.iter().any(|it| path.extension().is_some_and(|own| own == *it));
        if has_extension && !is_hidden && path.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Returns a value that changes when a flow file of the command line is added, removed, replaced or written.
pub(super) fn state(given: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for path in expanded(given).unwrap_or_default() {
        path.hash(&mut hasher);
        let about = fs::metadata(&path).ok();
        let about = about.map(|it| (it.dev(), it.ino(), it.size(), it.mtime(), it.mtime_nsec()));
        about.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{expanded, state};

    #[test]
    fn folder_stands_for_its_flow_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a.yml", ".c.yaml", "d.yaml~", "e.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("f.yaml")).unwrap();
        let given = [folder.path().join("missing.yaml"), folder.path().to_owned()];
        let expected = ["missing.yaml", "a.yml", "b.yaml"].map(|name| folder.path().join(name));
        assert_eq!(expanded(&given).unwrap(), expected);
    }

    #[test]
    fn folder_without_flow_files_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = expanded(&[folder.path().to_owned()]).unwrap_err().to_string();
        assert!(error.contains("there is no flow file in this folder"), "{error}");
    }

    #[test]
    fn state_changes_with_each_file() {
        let folder = tempfile::tempdir().unwrap();
        let (given, file) = ([folder.path().to_owned()], folder.path().join("a.yaml"));
        let empty = state(&given);
        fs::write(&file, "1").unwrap();
        let (one, again) = (state(&given), state(&given));
        fs::write(&file, "23").unwrap();
        let two = state(&given);
        fs::remove_file(&file).unwrap();
        assert_eq!((one, empty), (again, state(&given)));
        assert!(empty != one && one != two && two != empty);
    }
}
