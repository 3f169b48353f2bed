//! Which files a path stands for.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tremor_pdk::{Error, Result};

use super::{
    finds::Finds,
    identity::{Place, place},
    walk::Walk,
};

/// Maximum number of entries of folders that a search looks at before known files are read on.
const STEP: usize = 1_024;

/// A path, or a pattern of paths.
#[derive(Debug)]
pub(super) enum Pattern {
    One(PathBuf),
    Many(String),
}

impl Pattern {
    /// Whether a path is a pattern. That of a file that is there is none.
    pub(super) fn is_pattern(path: &Path) -> bool {
        path.to_string_lossy().contains(['*', '?', '['])
    }

    /// # Errors
    /// Kind configuration, where it is no correct pattern.
    pub(super) fn new(path: &Path) -> Result<Self> {
        if !Self::is_pattern(path) || path.exists() {
            return Ok(Self::One(path.to_owned()));
        }
        let text = path.to_str().ok_or_else(|| {
            let message = format!("`path`: the pattern `{}` is no UTF-8", path.display());
            Error::configuration(message)
        })?;
        glob::Pattern::new(text).map_err(|error| {
            Error::configuration(format!("`path`: `{text}` is no pattern: {error}"))
        })?;
        Ok(Self::Many(text.to_owned()))
    }

    /// Whether it stands for a file of this name, if there is one.
    pub(super) fn fits(&self, name: &Path) -> bool {
        match self {
            Self::One(path) => path == name,
            Self::Many(pattern) => {
                let name = name.to_string_lossy();
                glob::Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(&name))
            }
        }
    }

    /// Finds all regular files, in the order of their names.
    pub(super) fn find(&self) -> Finds {
        let mut search = None;
        loop {
            if let Some(finds) = self.find_some(&mut search) {
                return finds;
            }
        }
    }

    /// Takes one step of a search for regular files, and returns them, in the order of their names, once it has ended.
    pub(super) fn find_some(&self, search: &mut Option<Walk>) -> Option<Finds> {
        let finds = match self {
            Self::One(path) => {
                let mut finds = Finds::default();
                finds.add(path.clone(), true);
                finds
            }
            Self::Many(pattern) => search.get_or_insert_with(|| Walk::new(pattern)).step(STEP)?,
        };
        *search = None;
        Some(finds)
    }
}

/// Looks for a file that was renamed, in the folder that it was in.
pub(super) fn renamed(was: &Path, is: impl Fn(&Path, Place) -> bool) -> Option<PathBuf> {
    let folder = was.parent()?;
    let entries = fs::read_dir(folder).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file);
        metadata.is_some_and(|metadata| is(path, place(&metadata)))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Pattern;

    #[test]
    fn a_pattern_stands_for_the_files_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.log", "a.log", "c.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("d.log")).unwrap();
        let names = |pattern: &str| {
            let finds = Pattern::new(&folder.path().join(pattern)).unwrap().find();
            assert!(finds.errors.is_empty());
            let name = |path: &std::path::Path| path.file_name().unwrap().to_owned();
            finds.files.iter().map(|found| name(&found.path)).collect::<Vec<_>>()
        };
        assert_eq!(names("*.log"), ["a.log", "b.log"]);
        assert_eq!(names("[bc].*"), ["b.log", "c.txt"]);
        assert_eq!(names("c.txt"), ["c.txt"]);
        assert!(names("none").is_empty());
        let fits = |pattern: &str, name: &str| {
            Pattern::new(&folder.path().join(pattern)).unwrap().fits(&folder.path().join(name))
        };
        assert!(fits("*.log", "gone.log") && fits("c.txt", "c.txt"));
        assert!(!fits("*.log", "c.txt") && !fits("c.txt", "a.log"));
        fs::write(folder.path().join("what?.log"), "").unwrap();
        assert_eq!(names("what?.log"), ["what?.log"], "a file of that very name");
    }

    #[test]
    fn what_is_no_pattern_or_no_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = Pattern::new(&folder.path().join("a[.log")).unwrap_err();
        assert!(error.to_string().contains("is no pattern"), "{error}");
        let finds = Pattern::new(folder.path()).unwrap().find();
        assert!(finds.errors[0].1.to_string().contains("no regular file"));
    }
}
