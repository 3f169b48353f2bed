//! Results of a search for files.

use std::{
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::identity::{Changed, FileId, changed, file_id, is_settled};

/// A file that matches the pattern now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) file_id: FileId,
    pub(super) stamp: Stamp,
    /// Time of the last modification, if the system has it.
    pub(super) modified: Option<SystemTime>,
}

/// Length of a file, and the time of its last change. Both stay the same while nothing is written to
/// the file.
pub(super) type Stamp = (u64, Changed);

pub(super) fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.len(), changed(metadata))
}

/// Files that were found, and paths that could not be checked.
#[derive(Debug, Default)]
pub(super) struct SearchResults {
    pub(super) files: Vec<Found>,
    pub(super) errors: Vec<(PathBuf, io::Error)>,
    /// Folders that were read, and those that do not exist (`None`).
    pub(super) folders: Vec<(PathBuf, Option<(FileId, Changed)>)>,
    /// `true` if a file may be replaced by another one without a change of `folders`.
    pub(super) has_links: bool,
}

/// Folders of a search. The next search finds the same files if none of the folders has changed.
pub(super) struct Snapshot {
    folders: Vec<(PathBuf, Option<(FileId, Changed)>)>,
    /// Time of the next search that reads the folders in any case.
    read_at_ns: u64,
}

/// Maximum time between two searches that read the folders, in ns. A file may have to be read
/// although its folder has not changed, for example an old file that was modified.
const READ_FOLDERS_NS: u64 = 10_000_000_000;

impl Snapshot {
    /// Creates the snapshot of a search. Returns `None` if the next search may find other files
    /// although no folder has changed.
    pub(super) fn new(results: &SearchResults, now_ns: u64) -> Option<Self> {
        let is_settled = |(_, stamp): &(PathBuf, Option<(FileId, Changed)>)| {
            stamp.is_none_or(|(_, changed)| is_settled(changed))
        };
        let SearchResults { files: _, errors, folders, has_links } = results;
        let may_differ = *has_links || !errors.is_empty() || folders.is_empty();
        let is_valid = !may_differ && folders.iter().all(is_settled);
        let folders = folders.clone();
        is_valid.then(|| Self { folders, read_at_ns: now_ns + READ_FOLDERS_NS })
    }

    /// Returns whether a search would find the same files.
    pub(super) fn is_current(&self, now_ns: u64) -> bool {
        let is_same = |(path, was): &(PathBuf, Option<(FileId, Changed)>)| {
            let is = fs::metadata(path).ok().map(|it| (file_id(&it), changed(&it)));
            is == *was
        };
        now_ns < self.read_at_ns && self.folders.iter().all(is_same)
    }
}

impl SearchResults {
    /// Adds the file at `path`. A file that no longer exists is ignored, because another process
    /// may rename a file while its folder is read. A path that is not a regular file is ignored
    /// too, unless `is_required` is set: then it is recorded as an error.
    pub(super) fn add(&mut self, path: PathBuf, is_required: bool) {
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {
                let (file_id, stamp) = (file_id(&metadata), stamp(&metadata));
                self.files.push(Found { path, file_id, stamp, modified: metadata.modified().ok() });
            }
            Ok(_) if is_required => {
                self.errors.push((path, io::Error::other("it is not a regular file")));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.errors.push((path, error)),
        }
    }
}

/// Returns whether `path` is below a path that could not be checked, so that its existence is
/// unknown.
pub(super) fn is_unknown(path: &Path, errors: &[(PathBuf, io::Error)]) -> bool {
    errors.iter().any(|(unknown, _)| path.starts_with(unknown))
}
