//! The search for the files of a pattern, in steps of bounded work.

use std::{collections::HashSet, fs, io, path::PathBuf};

use super::{
    finds::Finds,
    identity::{Place, place},
};

/// A component of a pattern.
#[derive(Clone, Debug)]
enum Part {
    Name(String),
    Pattern(glob::Pattern),
    /// `**`: any number of folders.
    Folders,
}

/// A folder that is to be read, and the index of the part that its entries have to match.
type Folder = (PathBuf, usize);

/// A search that goes on where its last step has ended.
///
/// The search reads each folder once for each part of the pattern, whichever links lead to it, so that the search ends.
#[derive(Debug)]
pub(super) struct Walk {
    parts: Vec<Part>,
    folders: Vec<Folder>,
    /// Folders that a link leads to. They are read last, so that files are found by their own names.
    linked: Vec<Folder>,
    visited: HashSet<(Place, usize)>,
    reading: Option<(fs::ReadDir, Folder)>,
    finds: Finds,
}

impl Walk {
    /// Begins a search for the files of a pattern, which starts with `/`.
    pub(super) fn new(pattern: &str) -> Self {
        let part = |text: &str| match glob::Pattern::new(text) {
            _ if text == "**" => Part::Folders,
            Ok(pattern) if text.contains(['*', '?', '[']) => Part::Pattern(pattern),
            _ => Part::Name(text.to_owned()),
        };
        let parts = pattern.split('/').filter(|text| !text.is_empty()).map(part).collect();
        Self {
            parts,
            folders: vec![(PathBuf::from("/"), 0)],
            linked: Vec::new(),
            visited: HashSet::new(),
            reading: None,
            finds: Finds::default(),
        }
    }

    /// Looks at `entries` entries at most. Returns the files, in the order of their names, once there are no more folders.
    pub(super) fn step(&mut self, entries: usize) -> Option<Finds> {
        for _ in 0..entries {
            let Some((reading, (folder, at))) = &mut self.reading else {
                let Some((folder, at)) = self.folders.pop().or_else(|| self.linked.pop()) else {
                    let mut finds = std::mem::take(&mut self.finds);
                    finds.files.sort_by(|one, other| one.path.cmp(&other.path));
                    return Some(finds);
                };
                self.enter(folder, at);
                continue;
            };
            match reading.next() {
                None => self.reading = None,
                Some(Ok(entry)) => {
                    let at = *at;
                    self.judge(&entry, at);
                }
                Some(Err(error)) => {
                    self.finds.errors.push((std::mem::take(folder), error));
                    self.reading = None;
                }
            }
        }
        None
    }

    /// Begins to read a folder. Names that are no patterns are looked up without that.
    fn enter(&mut self, mut folder: PathBuf, mut at: usize) {
        while let Some(Part::Name(name)) = self.parts.get(at) {
            folder.push(name);
            at += 1;
        }
        if at == self.parts.len() {
            return self.finds.add(folder, false);
        }
        let is_new = match fs::metadata(&folder) {
            Ok(metadata) => metadata.is_dir() && self.visited.insert((place(&metadata), at)),
            Err(error) => {
                self.unknown(folder, error);
                return;
            }
        };
        if !is_new {
            return;
        }
        // Without a folder in the place of `**`, what follows it is looked up here.
        let next = self.after_folders(at);
        if next > at && matches!(self.parts.get(next), Some(Part::Name(_))) {
            self.folders.push((folder.clone(), next));
        }
        match fs::read_dir(&folder) {
            Ok(reading) => self.reading = Some((reading, (folder, at))),
            Err(error) => self.unknown(folder, error),
        }
    }

    /// Takes in what an entry of a folder means for the part at `at`.
    fn judge(&mut self, entry: &fs::DirEntry, at: usize) {
        let next = self.after_folders(at);
        let name = entry.file_name();
        let fits = match self.parts.get(next) {
            // A name that is not UTF-8 has a replacement character for what is not.
            Some(Part::Pattern(pattern)) => pattern.matches(&name.to_string_lossy()),
            _ => false,
        };
        let is_last = next + 1 == self.parts.len();
        if fits && is_last {
            self.finds.add(entry.path(), false);
        }
        let descends = next > at;
        if !descends && (!fits || is_last) {
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
        if fits && !is_last {
            to.push((entry.path(), next + 1));
        }
    }

    /// Returns the index of the first part from `at` on that is not `**`.
    fn after_folders(&self, at: usize) -> usize {
        let others = self.parts[at..].iter().position(|part| !matches!(part, Part::Folders));
        others.map_or(self.parts.len(), |count| at + count)
    }

    fn unknown(&mut self, folder: PathBuf, error: io::Error) {
        let is_gone = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        if !is_gone.contains(&error.kind()) {
            self.finds.errors.push((folder, error));
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

    fn found(pattern: &Path) -> Vec<String> {
        let mut walk = Walk::new(pattern.to_str().unwrap());
        let finds = (0..10_000).find_map(|_| walk.step(1)).expect("the search ends");
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        finds.files.iter().map(|found| name(&found.path)).collect()
    }

    #[test]
    fn links_in_a_circle_are_searched_once() {
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
    fn name_that_is_not_utf_8_is_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(OsStr::from_bytes(b"\xff.log")), "").unwrap();
        assert_eq!(found(&folder.path().join("*.log")).len(), 1);
    }
}
