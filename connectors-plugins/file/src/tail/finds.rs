//! What a search for files has found.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::identity::{Place, place};

/// A file that a pattern stands for now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) place: Place,
}

/// What is there, and what could not be looked at.
#[derive(Debug, Default)]
pub(super) struct Finds {
    pub(super) files: Vec<Found>,
    pub(super) errors: Vec<(PathBuf, io::Error)>,
}

impl Finds {
    /// A file that is renamed while the folder is read is not there any more. One of a name that was asked
    /// for and is no file is an error.
    pub(super) fn add(&mut self, path: PathBuf, is_asked_for: bool) {
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {
                self.files.push(Found { place: place(&metadata), path });
            }
            Ok(_) if is_asked_for => {
                self.errors.push((path, io::Error::other("it is no regular file")));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.errors.push((path, error)),
        }
    }
}

/// Returns whether a path is below one that could not be looked at, so that nothing is known of it.
pub(super) fn is_unknown(path: &Path, errors: &[(PathBuf, io::Error)]) -> bool {
    errors.iter().any(|(unknown, _)| path.starts_with(unknown))
}
