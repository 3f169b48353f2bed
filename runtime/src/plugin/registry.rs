//! Which library offers which artefact.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use super::{Error, ErrorKind, Library, library::unreadable};

/// A folder or file to look for plugins in, and where it was named, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    /// The folder or file.
    pub path: PathBuf,
    /// Who named it: "`--plugin-path`", "`plugins` of flow.yaml".
    pub origin: String,
}

impl SearchPath {
    /// `path`, named by `origin`.
    pub fn new(path: impl Into<PathBuf>, origin: impl Into<String>) -> Self {
        Self { path: path.into(), origin: origin.into() }
    }
}

/// A library or folder that cannot be used. The scan goes on: only flows that need it fail.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What is wrong.
    pub error: Error,
    /// Who named the folder or file that it was found in.
    pub origin: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (from {})", self.error, self.origin)
    }
}

/// The plugin libraries in a search path. Nothing of them was loaded or run.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    libraries: Vec<Library>,
    searched: Vec<PathBuf>,
}

impl Registry {
    /// Looks through folders (not through folders in them) and files, in order. In folders,
    /// libraries that are no plugins are passed over.
    ///
    /// The same file found twice counts once, and so do two files with the same contents, as cargo
    /// leaves them in `target/release` and `target/release/deps`: the first is the one.
    pub fn scan(paths: &[SearchPath]) -> (Self, Vec<Problem>) {
        let mut registry = Self::default();
        let mut problems = Vec::new();
        for SearchPath { path, origin } in paths {
            registry.searched.push(path.clone());
            let found = match candidates(path) {
                Ok(found) => found,
                Err(error) => {
                    let error = unreadable(path, &error);
                    problems.push(Problem { error, origin: origin.clone() });
                    continue;
                }
            };
            for file in found.files {
                match Library::inspect(&file) {
                    Ok(library) => registry.add(library),
                    Err(error) if found.in_folder && error.kind() == ErrorKind::NotAPlugin => {}
                    Err(error) => problems.push(Problem { error, origin: origin.clone() }),
                }
            }
        }
        problems.extend(registry.conflicts());
        (registry, problems)
    }

    /// Plugins that are linked into this program.
    pub fn of(libraries: Vec<Library>) -> Self {
        Self { libraries, searched: Vec::new() }
    }

    fn add(&mut self, library: Library) {
        let same = |known: &Library| {
            known.canonical() == library.canonical() || known.is_copy_of(&library)
        };
        if !self.libraries.iter().any(same) {
            self.libraries.push(library);
        }
    }

    fn conflicts(&self) -> Vec<Problem> {
        let mut taken: Vec<(&str, &str)> = Vec::new();
        let mut problems = Vec::new();
        for library in &self.libraries {
            for artefact in &library.metadata().artefacts {
                let artefact = (artefact.kind.as_str(), artefact.name.as_str());
                if taken.contains(&artefact) {
                    continue;
                }
                taken.push(artefact);
                if let Err(error) = self.find(artefact.0, artefact.1) {
                    problems.push(Problem { error, origin: "the plugin path".to_owned() });
                }
            }
        }
        problems
    }

    /// The library that offers the artefact of this kind (in the words of metadata: `connector`,
    /// …) and name; none where no library does.
    ///
    /// # Errors
    /// Kind [`NameTaken`](ErrorKind::NameTaken), where more than one does.
    pub fn find(&self, kind: &str, name: &str) -> Result<Option<&Library>, Error> {
        let mut offering = self.libraries.iter().filter(|it| it.artefact(kind, name).is_some());
        let (Some(first), second) = (offering.next(), offering.next()) else { return Ok(None) };
        let Some(second) = second else { return Ok(Some(first)) };
        let describe = |library: &Library| {
            let metadata = library.metadata();
            format!("{} ({} {})", library.path().display(), metadata.name, metadata.version)
        };
        Err(Error::new(
            ErrorKind::NameTaken,
            second.path(),
            format!(
                "two plugins offer the {kind} `{name}`:\n    {}\n    {}",
                describe(first),
                describe(second)
            ),
        )
        .help("remove one of them from the plugin path"))
    }

    /// The names of all artefacts of a kind, in order of the search, each once.
    pub fn names(&self, kind: &str) -> Vec<&str> {
        let mut names = Vec::new();
        for library in &self.libraries {
            for artefact in library.metadata().artefacts.iter().filter(|a| a.kind == kind) {
                if !names.contains(&artefact.name.as_str()) {
                    names.push(artefact.name.as_str());
                }
            }
        }
        names
    }

    /// All libraries, in order of the search.
    pub fn libraries(&self) -> &[Library] {
        &self.libraries
    }

    /// The folders and files that were searched, in order.
    pub fn searched(&self) -> &[PathBuf] {
        &self.searched
    }
}

struct Candidates {
    files: Vec<PathBuf>,
    in_folder: bool,
}

/// The files that a search path stands for.
fn candidates(path: &Path) -> io::Result<Candidates> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(Candidates { files: vec![path.to_owned()], in_folder: false });
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        if is_library_name(&file) && file.is_file() {
            files.push(file);
        }
    }
    // The file system's order is no order.
    files.sort();
    Ok(Candidates { files, in_folder: true })
}

fn is_library_name(file: &Path) -> bool {
    file.extension() == Some(OsStr::new(std::env::consts::DLL_EXTENSION))
}

#[cfg(test)]
mod tests {
    use super::{Registry, SearchPath};
    use crate::plugin::ErrorKind;

    #[test]
    fn a_path_that_does_not_exist_is_a_problem_that_names_it_and_who_named_it() {
        let (registry, problems) = Registry::scan(&[SearchPath::new("nowhere", "`--plugin-path`")]);
        assert!(registry.libraries().is_empty());
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(problem.error.kind(), ErrorKind::NotFound);
        let text = problem.to_string();
        assert!(text.starts_with("nowhere: ") && text.contains("`--plugin-path`"), "{text}");
    }

    #[test]
    fn what_is_no_library_is_a_problem_where_it_was_named_and_in_folders_where_it_says_it_is_one() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("notes.txt"), "not looked at").unwrap();
        let named = folder.path().join(format!("x.{}", std::env::consts::DLL_EXTENSION));
        std::fs::write(&named, "not a library").unwrap();
        for path in [folder.path(), &named] {
            let (registry, problems) = Registry::scan(&[SearchPath::new(path, "test")]);
            assert!(registry.libraries().is_empty());
            let [problem] = &problems[..] else { panic!("{problems:?}") };
            assert_eq!(problem.error.kind(), ErrorKind::NotALibrary);
            assert_eq!(registry.searched(), [path]);
        }
    }
}
