//! Detects that another process has changed the path of the file: tools for log rotation rename,
//! truncate and delete files.

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt,
};

use tremor_pdk::{Error, ErrorPolicy, LogLevel, Result};

use super::output::{Current, MAX_FILES, Output};
use crate::{Mode, folder};

impl Output {
    /// Compares the file at the configured path with the file that was written. If they differ, the
    /// next write opens the path again. Returns `true` if the written file was deleted, so that
    /// nobody can read it. Call this after a write and before the write is acknowledged.
    pub(super) fn check_name(&self, current: &mut Current) -> bool {
        if !self.is_regular {
            return false;
        }
        let named = fs::metadata(self.location.path());
        if let Ok(named) = &named
            && folder::identity(named) == current.identity
        {
            // Other processes may have truncated the file, or written to it.
            current.length = named.len();
            return false;
        }
        if current.file.metadata().is_ok_and(|file| file.nlink() == 0) {
            current.is_moved = true;
            return true;
        }
        // With any other error, such as missing permission to search a folder, the file may still
        // be at the path.
        let is_moved_away = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        };
        current.is_moved = named.as_ref().err().is_none_or(is_moved_away);
        false
    }

    /// Opens the configured path again, after [`Output::check_name`] found no file or another file
    /// there. The contents of that file are kept in every mode, because they were written during
    /// this run.
    pub(super) fn reopen(&self, current: &mut Current) -> Result<()> {
        let old = current.file.metadata().map_err(|error| self.error(&error))?;
        if old.nlink() > 0 {
            self.sync_before_leaving(&current.file)?;
        }
        let file = self.location.open(Mode::Append, self.syncing.is_enabled())?;
        if self.syncing.is_enabled() {
            self.secure(&file)?;
        }
        let metadata = file.metadata().map_err(|error| self.error(&error))?;
        self.replace(current, file, &metadata, self.host.monotonic_ns());
        let change = if old.nlink() > 0 { "renamed or replaced" } else { "deleted" };
        // Thousands of files may be renamed at the same time.
        let level = if self.location.is_below() { LogLevel::DEBUG } else { LogLevel::INFO };
        if self.host.log_enabled(level) {
            let message = format!("`{}` was {change}; opened the path again", self.display());
            self.host.log(level, &message);
        }
        Ok(())
    }

    /// Returns the error of a delivery whose file was deleted each time it was written.
    pub(super) fn deleted_again(&self) -> Error {
        let error = Error::connection_lost(format_args!(
            "cannot write `{}`: the file was deleted {MAX_FILES} times while one delivery was written; \
             stop the process that deletes it",
            self.display()
        ));
        error.with_policy(ErrorPolicy::RETRY)
    }
}

impl Output {
    /// Continues with another file.
    pub(super) fn replace(
        &self,
        current: &mut Current,
        file: File,
        metadata: &Metadata,
        now_ns: u64,
    ) {
        current.identity = folder::identity(metadata);
        current.file = file.into();
        current.length = metadata.len();
        (current.may_be_torn, current.is_moved) = (false, false);
        self.begin_file(current, now_ns);
    }
}

#[cfg(test)]
mod tests;
