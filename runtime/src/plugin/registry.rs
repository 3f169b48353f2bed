//! Registry of the libraries and executables that provide artefacts.

use std::{
    ffi::OsStr,
    fs, io, iter,
    path::{Path, PathBuf},
};

use super::{Error, ErrorKind, Library, executable::is_manifest, library::unreadable};

/// A folder or file that is searched for plugins, and the setting that named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    /// Path of the folder or file.
    pub path: PathBuf,
    /// Setting that named the path, for messages, such as "`--plugin-path`" or "`plugins` of flow.yaml".
    pub origin: String,
    /// `true` for a folder that no setting named. It may be missing, and the artefacts of earlier paths take
    /// precedence over those in it.
    pub is_fallback: bool,
}

impl SearchPath {
    /// Creates the search path `path` that `origin` named.
    pub fn new(path: impl Into<PathBuf>, origin: impl Into<String>) -> Self {
        Self { path: path.into(), origin: origin.into(), is_fallback: false }
    }

    /// Creates the search path of a folder that no setting named. Pass such paths to [`Registry::scan`] after all
    /// others.
    pub fn fallback(path: impl Into<PathBuf>) -> Self {
        let origin = "the installed plugins".to_owned();
        Self { path: path.into(), origin, is_fallback: true }
    }
}

/// An error of a library or folder. The scan continues, and only flows that need the library fail.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Error of the library or folder.
    pub error: Error,
    /// Setting that named the folder or file.
    pub origin: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (from {})", self.error, self.origin)
    }
}

/// Plugin libraries that were found in search paths. None of their code was loaded or run.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    libraries: Vec<Library>,
    searched: Vec<PathBuf>,
    /// Positions in `libraries` at which the libraries of a fallback path begin.
    fallbacks: Vec<usize>,
}

impl Registry {
    /// Scans files and folders in order, without subfolders. Libraries in folders are skipped if they are not plugins.
    ///
    /// A file that is found twice is used once. Of two files with the same contents, only the first one is used,
    /// because cargo creates such files in `target/release` and `target/release/deps`. This does not apply to manifests.
    ///
    /// An artefact of a [fallback path](SearchPath::fallback) is used only if no earlier path provides it. A fallback
    /// path that does not exist is ignored.
    pub fn scan(paths: &[SearchPath]) -> (Self, Vec<Problem>) {
        let mut registry = Self::default();
        let mut problems = Vec::new();
        for SearchPath { path, origin, is_fallback } in paths {
            registry.searched.push(path.clone());
            registry.fallbacks.extend(is_fallback.then_some(registry.libraries.len()));
            let found = match candidates(path) {
                Ok(found) => found,
                Err(error) if *is_fallback && error.kind() == io::ErrorKind::NotFound => continue,
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

    /// Creates a registry of plugins that are linked into this program.
    pub fn of(libraries: Vec<Library>) -> Self {
        Self { libraries, ..Self::default() }
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

    /// Returns the library that provides the artefact with this kind and name, or `None` if there is none. `kind` is
    /// the name of the kind in metadata, such as `connector`.
    ///
    /// # Errors
    /// Kind [`NameTaken`](ErrorKind::NameTaken) if more than one library provides the artefact, and the paths of
    /// both libraries have the same precedence.
    pub fn find(&self, kind: &str, name: &str) -> Result<Option<&Library>, Error> {
        let offers = |library: &&Library| library.artefact(kind, name).is_some();
        let mut groups = self.groups().map(|group| group.iter().filter(offers).peekable());
        let Some(mut offering) =
            groups.find_map(|mut group| group.peek().is_some().then_some(group))
        else {
            return Ok(None);
        };
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
                "two plugins provide the {kind} `{name}`:\n    {}\n    {}",
                describe(first),
                describe(second)
            ),
        )
        .help("remove one of them from the plugin path"))
    }

    /// Returns the libraries in the order of their precedence: those of the named paths, and then those of each
    /// fallback path.
    fn groups(&self) -> impl Iterator<Item = &[Library]> {
        let starts = iter::once(0).chain(self.fallbacks.iter().copied());
        let ends = self.fallbacks.iter().copied().chain([self.libraries.len()]);
        starts.zip(ends).map(|(start, end)| &self.libraries[start..end])
    }

    /// Returns the names of all artefacts of a kind, in the order of the search, each once.
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

    /// Returns all libraries in the order of the search.
    pub fn libraries(&self) -> &[Library] {
        &self.libraries
    }

    /// Returns the folders and files that were searched, in order.
    pub fn searched(&self) -> &[PathBuf] {
        &self.searched
    }
}

struct Candidates {
    files: Vec<PathBuf>,
    in_folder: bool,
}

/// Returns the files that a search path refers to.
fn candidates(path: &Path) -> io::Result<Candidates> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(Candidates { files: vec![path.to_owned()], in_folder: false });
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        if (is_library_name(&file) || is_manifest(&file)) && file.is_file() {
            files.push(file);
        }
    }
    // Files are sorted, because a file system may return them in any order.
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
    fn problem_of_missing_path_names_path_and_origin() {
        let (registry, problems) = Registry::scan(&[SearchPath::new("nowhere", "`--plugin-path`")]);
        assert!(registry.libraries().is_empty());
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(problem.error.kind(), ErrorKind::NotFound);
        let text = problem.to_string();
        assert!(text.starts_with("nowhere: ") && text.contains("`--plugin-path`"), "{text}");
    }

    #[test]
    fn invalid_library_is_a_problem_if_named_or_by_extension() {
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

    /// The programs of equal manifests in two folders may differ.
    #[test]
    fn equal_manifests_in_two_folders_are_a_conflict() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let manifest = r#"{"protocol": 1, "name": "x", "version": "1", "command": ["sh"],
            "connectors": [{"name": "numbers"}]}"#;
        for folder in &folders {
            std::fs::write(folder.path().join("x.plugin.json"), manifest).unwrap();
        }
        let paths = folders.each_ref().map(|it| SearchPath::new(it.path(), "test"));
        let (registry, problems) = Registry::scan(&paths);
        assert_eq!(registry.names("connector"), ["numbers"]);
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(problem.error.kind(), ErrorKind::NameTaken);
        assert!(problem.to_string().contains("two plugins provide the connector `numbers`"));
    }

    #[test]
    fn invalid_manifest_in_a_folder_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x.plugin.json"), "{}").unwrap();
        let (registry, problems) = Registry::scan(&[SearchPath::new(folder.path(), "test")]);
        assert!(registry.libraries().is_empty());
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(problem.error.kind(), ErrorKind::BadMetadata);
        assert!(problem.to_string().contains("`protocol` is missing"), "{problem}");
    }
}
