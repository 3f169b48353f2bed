//! The configured path: one file, or a pattern of paths.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tremor_pdk::{Error, Result};

use super::{
    identity::{FileId, file_id},
    many::Many,
    results::SearchResults,
    walk::Walk,
};

/// Maximum number of folder entries that a search checks before known files are read again.
const STEP: usize = 1_024;

/// A path, or a pattern of paths.
#[derive(Debug)]
pub(crate) enum Pattern {
    One(PathBuf),
    Many(Many),
}

impl Pattern {
    /// Returns whether a path contains pattern characters.
    pub(crate) fn is_pattern(path: &Path) -> bool {
        path.to_string_lossy().contains(['*', '?', '['])
    }

    /// Creates the pattern of an absolute path. A path with pattern characters that names an
    /// existing file is not a pattern.
    ///
    /// # Errors
    /// An error of the kind configuration if the pattern is invalid.
    pub(super) fn new(path: &Path, exclude: &[String]) -> Result<Self> {
        if !Self::is_pattern(path) || path.exists() {
            return Ok(Self::One(path.to_owned()));
        }
        let text = path.to_str().ok_or_else(|| {
            let message = format!("invalid `path` `{}`: a pattern has to be UTF-8", path.display());
            Error::configuration(message)
        })?;
        glob::Pattern::new(text).map_err(|error| {
            Error::configuration(format!(
                "invalid `path` `{text}`: the pattern is invalid: {error}"
            ))
        })?;
        Ok(Self::Many(Many::new(text, exclude)?))
    }

    /// Returns whether the pattern matches the path `name`. The file need not exist.
    pub(super) fn matches(&self, name: &Path) -> bool {
        match self {
            Self::One(path) => path == name,
            Self::Many(many) => {
                let text = name.to_string_lossy();
                let matches = |pattern: glob::Pattern| pattern.matches(&text);
                glob::Pattern::new(&many.text).is_ok_and(matches) && !many.excludes(name)
            }
        }
    }

    /// Finds all regular files, sorted by path.
    pub(super) fn find(&self) -> SearchResults {
        let mut search = None;
        loop {
            if let Some(results) = self.find_some(&mut search) {
                return results;
            }
        }
    }

    /// Performs one step of a search for regular files. Returns the files, sorted by path, when the
    /// search has ended.
    pub(super) fn find_some(&self, search: &mut Option<Walk>) -> Option<SearchResults> {
        let results = match self {
            Self::One(path) => {
                let mut results = SearchResults::default();
                results.add(path.clone(), true);
                results
            }
            Self::Many(pattern) => search.get_or_insert_with(|| Walk::new(pattern)).step(STEP)?,
        };
        *search = None;
        Some(results)
    }
}

/// Returns the files of the folder of a file, with the identifier of each.
pub(super) fn neighbours(path: &Path) -> Vec<(FileId, PathBuf)> {
    let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok());
    let files = entries.into_iter().flatten().flatten().filter_map(|entry| {
        let metadata = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_file)?;
        Some((file_id(&metadata), entry.path()))
    });
    files.collect()
}

/// Searches the folder of a renamed file for its new path.
pub(super) fn renamed(was: &Path, is: impl Fn(&Path, FileId) -> bool) -> Option<PathBuf> {
    let folder = was.parent()?;
    let entries = fs::read_dir(folder).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file);
        metadata.is_some_and(|metadata| is(path, file_id(&metadata)))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Pattern;

    #[test]
    fn pattern_matches_existing_files() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.log", "a.log", "c.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("d.log")).unwrap();
        let names = |pattern: &str| {
            let results = Pattern::new(&folder.path().join(pattern), &[]).unwrap().find();
            assert!(results.errors.is_empty());
            let name = |path: &std::path::Path| path.file_name().unwrap().to_owned();
            results.files.iter().map(|found| name(&found.path)).collect::<Vec<_>>()
        };
        assert_eq!(names("*.log"), ["a.log", "b.log"]);
        assert_eq!(names("[bc].*"), ["b.log", "c.txt"]);
        assert_eq!(names("c.txt"), ["c.txt"]);
        assert!(names("none").is_empty());
        let matches = |pattern: &str, name: &str| {
            Pattern::new(&folder.path().join(pattern), &[])
                .unwrap()
                .matches(&folder.path().join(name))
        };
        assert!(matches("*.log", "gone.log") && matches("c.txt", "c.txt"));
        assert!(!matches("*.log", "c.txt") && !matches("c.txt", "a.log"));
        fs::write(folder.path().join("what?.log"), "").unwrap();
        assert_eq!(names("what?.log"), ["what?.log"], "a file whose name equals the pattern");
    }

    #[test]
    fn excluded_files_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.log", "a.log.gz", "old/b.log", "old/deep/c.log", "new/d.log"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let names = |exclude: &[&str]| {
            let at = |text: &&str| {
                let path = folder.path().join(text).to_str().unwrap().to_owned();
                if text.contains('/') { path } else { (*text).to_owned() }
            };
            let exclude: Vec<_> = exclude.iter().map(at).collect();
            let pattern = Pattern::new(&folder.path().join("**/*.log*"), &exclude).unwrap();
            assert!(!pattern.matches(&folder.path().join("x.log.gz")));
            let files = pattern.find().files;
            let name = |path: &std::path::Path| path.file_name().unwrap().to_owned();
            files.iter().map(|found| name(&found.path)).collect::<Vec<_>>()
        };
        assert_eq!(names(&["*.gz"]), ["a.log", "d.log", "b.log", "c.log"]);
        assert_eq!(names(&["*.gz", "old/*"]), ["a.log", "d.log", "c.log"]);
        assert_eq!(names(&["*.gz", "a*", "old/**/*"]), ["d.log"]);
    }

    #[test]
    fn invalid_pattern_and_folder_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let error = Pattern::new(&folder.path().join("a[.log"), &[]).unwrap_err();
        assert!(error.to_string().contains("the pattern is invalid"), "{error}");
        let results = Pattern::new(folder.path(), &[]).unwrap().find();
        assert!(results.errors[0].1.to_string().contains("not a regular file"));
    }
}
