//! Search for the files of a pattern, divided into steps of bounded work.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    identity::{FileId, changed, file_id},
    many::Many,
    results::SearchResults,
};

/// A component of a pattern.
#[derive(Clone, Debug)]
enum Part {
    Name(String),
    Pattern(glob::Pattern),
    /// `**`: any number of nested folders.
    Folders,
}

/// A folder to read, and the index of the pattern's component that the folder's entries have to
/// match.
type Folder = (PathBuf, usize);

/// A search that continues where its last step ended.
///
/// A folder is read at most once for each component of the pattern, even if several links lead to
/// the folder. Otherwise a cycle of links would make the search endless.
#[derive(Debug)]
pub(super) struct Walk {
    many: Many,
    parts: Vec<Part>,
    folders: Vec<Folder>,
    /// Folders reached by a symbolic link. They are read last, so that a file is found by the path
    /// without links if there is one.
    linked: Vec<Folder>,
    visited: HashSet<(FileId, usize)>,
    reading: Option<(fs::ReadDir, Folder)>,
    results: SearchResults,
}

impl Walk {
    /// Starts a search for the files of `pattern`. The pattern has to start with `/`.
    pub(super) fn new(many: &Many) -> Self {
        let part = |text: &str| match glob::Pattern::new(text) {
            _ if text == "**" => Part::Folders,
            Ok(pattern) if text.contains(['*', '?', '[']) => Part::Pattern(pattern),
            _ => Part::Name(text.to_owned()),
        };
        let parts = many.text.split('/').filter(|text| !text.is_empty()).map(part).collect();
        Self {
            many: many.clone(),
            parts,
            folders: vec![(PathBuf::from("/"), 0)],
            linked: Vec::new(),
            visited: HashSet::new(),
            reading: None,
            results: SearchResults::default(),
        }
    }

    /// Checks at most `entries` folder entries. Returns the files, sorted by path, once no folder
    /// is left.
    pub(super) fn step(&mut self, entries: usize) -> Option<SearchResults> {
        for _ in 0..entries {
            let Some((reading, (folder, at))) = &mut self.reading else {
                let Some((folder, at)) = self.folders.pop().or_else(|| self.linked.pop()) else {
                    let mut results = std::mem::take(&mut self.results);
                    results.files.sort_by(|one, other| one.path.cmp(&other.path));
                    return Some(results);
                };
                self.enter(folder, at);
                continue;
            };
            match reading.next() {
                None => self.reading = None,
                Some(Ok(entry)) => {
                    let at = *at;
                    self.match_entry(&entry, at);
                }
                Some(Err(error)) => {
                    self.results.errors.push((std::mem::take(folder), error));
                    self.reading = None;
                }
            }
        }
        None
    }

    /// Starts to read a folder. Components of the pattern without pattern characters are appended
    /// to the path without reading the folders on the way.
    fn enter(&mut self, mut folder: PathBuf, mut at: usize) {
        while let Some(Part::Name(name)) = self.parts.get(at) {
            folder.push(name);
            at += 1;
        }
        if at == self.parts.len() {
            self.add(&folder);
            // The folder of the file is not read, so its changes are unknown.
            self.results.has_links = true;
            return;
        }
        let is_new = match fs::metadata(&folder) {
            Ok(metadata) => {
                let stamp = (file_id(&metadata), changed(&metadata));
                self.results.folders.push((folder.clone(), Some(stamp)));
                metadata.is_dir() && self.visited.insert((file_id(&metadata), at))
            }
            Err(error) => {
                self.results.folders.push((folder.clone(), None));
                self.unknown(folder, error);
                return;
            }
        };
        if !is_new {
            return;
        }
        // `**` also matches zero folders, so check whether this folder contains the next name.
        let next = self.after_folders(at);
        if next > at && matches!(self.parts.get(next), Some(Part::Name(_))) {
            self.folders.push((folder.clone(), next));
        }
        match fs::read_dir(&folder) {
            Ok(reading) => self.reading = Some((reading, (folder, at))),
            Err(error) => self.unknown(folder, error),
        }
    }

    /// Matches an entry of a folder with the pattern's component at index `at`.
    fn match_entry(&mut self, entry: &fs::DirEntry, at: usize) {
        let next = self.after_folders(at);
        let name = entry.file_name();
        let matches = match self.parts.get(next) {
            // The lossy conversion replaces invalid UTF-8, so that `*` matches such names as well.
            Some(Part::Pattern(pattern)) => pattern.matches(&name.to_string_lossy()),
            _ => false,
        };
        let is_last = next + 1 == self.parts.len();
        if matches && is_last {
            self.add(&entry.path());
            // A link may lead to another file although its folder has not changed.
            self.results.has_links |= entry.file_type().is_ok_and(|kind| kind.is_symlink());
        }
        let descends = next > at;
        if !descends && (!matches || is_last) {
            return;
        }
        let Ok(kind) = entry.file_type() else { return };
        let is_folder = kind.is_dir()
            || (kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|it| it.is_dir()));
        if !is_folder {
            return;
        }
        let to = if kind.is_symlink() { &mut self.linked } else { &mut self.folders };
        if descends {
            to.push((entry.path(), at));
        }
        if matches && !is_last {
            to.push((entry.path(), next + 1));
        }
    }

    fn add(&mut self, path: &Path) {
        if !self.many.excludes(path) {
            self.results.add(path.to_owned(), false);
        }
    }

    /// Returns the index of the first component of the pattern from `at` on that is not `**`.
    fn after_folders(&self, at: usize) -> usize {
        let others = self.parts[at..].iter().position(|part| !matches!(part, Part::Folders));
        others.map_or(self.parts.len(), |count| at + count)
    }

    fn unknown(&mut self, folder: PathBuf, error: io::Error) {
        let is_gone = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        if !is_gone.contains(&error.kind()) {
            self.results.errors.push((folder, error));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::OsStr,
        fs,
        os::unix::{ffi::OsStrExt, fs::symlink},
        path::Path,
    };

    use super::Walk;
    use crate::tail::Pattern;

    fn found(pattern: &Path) -> Vec<String> {
        let Pattern::Many(many) = Pattern::new(pattern, &[]).unwrap() else {
            panic!("expected a pattern")
        };
        let mut walk = Walk::new(&many);
        let results = (0..10_000).find_map(|_| walk.step(1)).expect("the search ends");
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        results.files.iter().map(|found| name(&found.path)).collect()
    }

    #[test]
    fn link_cycle_is_searched_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/x.log"), "").unwrap();
        fs::write(at("y.log"), "").unwrap();
        symlink("..", at("a/up")).unwrap();
        symlink("../../a", at("a/b/again")).unwrap();
        symlink("itself", at("itself")).unwrap();
        assert_eq!(found(&at("**/*.log")), ["x.log", "y.log"]);
        assert_eq!(found(&at("**/b/x.log")), ["x.log"]);
        assert_eq!(found(&at("*/b/*")), ["x.log"]);
        assert!(found(&at("**")).is_empty());
    }

    #[test]
    fn file_name_that_is_not_utf_8_is_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(OsStr::from_bytes(b"\xff.log")), "").unwrap();
        assert_eq!(found(&folder.path().join("*.log")).len(), 1);
    }
}
