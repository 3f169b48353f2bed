//! The open file of an input.

use std::{
    fs::{self, File, Metadata},
    io,
    path::Path,
    sync::Arc,
};

use tremor_pdk::ErrorKind;

use super::{Content, Input, ReadOptions, Stage};
use crate::tail::{identity::file_id, open::Open, pattern::renamed};

/// State of the contents of a file that is not read at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tail) enum Contents {
    /// The file has the contents that were seen last, and may have more.
    Same,
    /// The file became shorter, but has the contents that were read. Contains the number of bytes by which it did.
    Shorter(u64),
    /// The file was truncated or rewritten.
    Replaced,
}

impl Input {
    pub(in crate::tail) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Returns whether the file can be closed and reopened later without reading anything twice. A
    /// file that no path leads to cannot be reopened, and a compressed file can only be reopened
    /// before it is read and after its end.
    pub(in crate::tail) fn may_close(&self, options: &ReadOptions) -> bool {
        let is_between = match &self.content {
            Content::Compressed(packed) => !packed.is_open(),
            Content::Plain | Content::Unknown => true,
        };
        let is_named = self.gone_since_ns.is_none();
        self.is_open() && is_named && is_between && (options.follow || self.is_finished())
    }

    pub(in crate::tail) fn file(&self) -> Option<&Arc<File>> {
        self.file.as_ref().map(Open::file)
    }

    pub(in crate::tail) fn close(&mut self) {
        self.file = None;
    }

    /// Returns whether the open file is the one that was closed before; the inode of a closed file
    /// may have been reused.
    pub(in crate::tail) fn is_same(&self) -> io::Result<bool> {
        self.file.as_ref().map_or(Ok(true), |open| self.identity.is_of(open.file()))
    }

    /// Returns the file, and opens it if it was closed. A renamed file is searched for in its
    /// folder.
    ///
    /// # Errors
    /// Kind `NotFound` if the file was deleted or moved to another folder; otherwise the error of
    /// the system, such as that of a file which may not be read.
    pub(in crate::tail) fn open(&mut self) -> io::Result<Arc<File>> {
        if let Some(open) = &self.file {
            return Ok(open.file().clone());
        }
        let ours = self.file_id();
        let opened = match File::open(&self.path) {
            Ok(file) if file_id(&file.metadata()?) == ours => file,
            Err(error) if ErrorKind::of_shortage(&error).is_some() => return Err(error),
            Err(error) if fs::metadata(&self.path).is_ok_and(|it| file_id(&it) == ours) => {
                return Err(error);
            }
            _ => {
                // The inode of a deleted file may belong to a new file.
                let is_same =
                    |path: &Path| File::open(path).and_then(|file| self.identity.is_of(&file));
                let is_ours = |path: &Path, found| found == ours && is_same(path).unwrap_or(false);
                match renamed(&self.path, is_ours) {
                    Some(path) => File::open(path)?,
                    None => return Err(io::ErrorKind::NotFound.into()),
                }
            }
        };
        Ok(self.file.insert(self.open.open(opened.into())).file().clone())
    }

    /// Sets the length to the present length of the file, if the file is open or found under its path. Returns whether
    /// it is.
    pub(in crate::tail) fn update_length(&mut self) -> bool {
        let metadata = match &self.file {
            Some(open) => open.file().metadata(),
            None => fs::metadata(&self.path),
        };
        let metadata = metadata.ok().filter(|metadata| file_id(metadata) == self.file_id());
        self.length = metadata.as_ref().map_or(self.length, Metadata::len);
        metadata.is_some()
    }

    /// Closes the file permanently. Returns the number of its unread bytes.
    pub(in crate::tail) fn lose(&mut self) -> u64 {
        let unread = self.unread();
        if !self.is_finished() {
            (self.stage, self.length, self.poll_at_ns) = (Stage::Lost, self.read, 0);
        }
        if let Content::Compressed(packed) = &mut self.content {
            packed.close();
        }
        self.close();
        unread
    }

    /// Returns whether the file was deleted and closed, so that its inode may belong to another file.
    pub(in crate::tail) fn is_released(&self) -> bool {
        let is_over = matches!(self.stage, Stage::Finished | Stage::Lost);
        is_over && !self.is_open() && self.gone_since_ns.is_some()
    }

    /// Compares an open file that is not compressed with what is known of its contents, and updates its length unless
    /// the contents were replaced.
    pub(in crate::tail) fn compare(&mut self) -> io::Result<Contents> {
        let Some(open) = &self.file else { return Ok(Contents::Same) };
        let file = open.file().clone();
        let metadata = file.metadata()?;
        let length = metadata.len();
        if length < self.read || !self.has_same_contents(&file, &metadata)? {
            return Ok(Contents::Replaced);
        }
        let before = std::mem::replace(&mut self.length, length);
        Ok(if length < before { Contents::Shorter(before - length) } else { Contents::Same })
    }
}
