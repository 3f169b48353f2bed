//! Preparation of the file when the sink starts, and replacement of the file by rotation.

use std::{
    fs::{File, TryLockError},
    io,
    time::UNIX_EPOCH,
};

use tremor_pdk::{Error, Result, warn};

use super::{
    output::{Current, Output},
    syncing::sync_data,
    torn,
};
use crate::{Mode, folder, locking::lock_file, open};

impl Output {
    /// Prepares the file: checks that it suits the configuration, locks it, and truncates it if
    /// `mode` requires that.
    pub(super) fn begin(&self) -> Result<()> {
        let mut current = self.current();
        let file = current.file.clone();
        if self.syncing.is_enabled() {
            self.expect_regular(&file, "sync")?;
        }
        self.take(&file)?;
        if self.syncing.is_enabled() {
            current.may_be_torn = self.mode == Mode::Append && !self.message_end.is_empty();
        }
        if self.rotation.is_some() {
            self.expect_regular(&file, "rotate")?;
            let metadata = file.metadata().map_err(|error| self.error(&error))?;
            current.length = metadata.len();
            let made = metadata.created().ok().filter(|_| current.length > 0);
            let made = made.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let made = made.and_then(|at| u64::try_from(at.as_nanos()).ok());
            // The time of the file's creation is a wall clock time, so compute the age with the
            // wall clock. After that the age is measured with the monotonic clock, because the wall
            // clock may be set.
            let age_ns = made.map_or(0, |made| self.host.now_ns().saturating_sub(made));
            current.since_ns = self.host.monotonic_ns().wrapping_sub(age_ns);
        }
        Ok(())
    }

    /// Locks the file if `sync` is set, and truncates it if `mode` requires that.
    fn take(&self, file: &File) -> Result<()> {
        if self.syncing.is_enabled() {
            self.secure(file)?;
        }
        let is_to_go = self.mode == Mode::Truncate
            && file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
        if is_to_go { file.set_len(0).map_err(|error| self.error(&error)) } else { Ok(()) }
    }

    /// Locks the file against other processes that use `sync`, and makes its folder entry durable.
    pub(super) fn secure(&self, file: &File) -> Result<()> {
        match lock_file(file) {
            Ok(()) => {}
            // The error is not final, because an instance that has just ended may still have the
            // lock.
            Err(TryLockError::WouldBlock) => {
                return Err(Error::connection_refused(format!(
                    "cannot lock `{}`: another process or connector writes to it with `sync`; choose another \
                     `path`, or stop the other writer",
                    self.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(self.error(&error)),
        }
        // Sync only the folder here. The first delivery syncs the contents.
        folder::sync_parent(&self.path).map_err(|error| self.error(&error))
    }

    /// Returns an error if the file is not a regular file, because `key` requires a file that keeps
    /// its data.
    fn expect_regular(&self, file: &File, key: &str) -> Result<()> {
        let metadata = file.metadata().map_err(|error| self.error(&error))?;
        if metadata.is_file() {
            return Ok(());
        }
        Err(Error::configuration(format!(
            "`{}` is not a regular file: `{key}` has no effect there, remove it",
            self.display()
        )))
    }

    /// Removes the bytes after the last whole message and saves them in another file. These bytes
    /// are from a delivery that was never acknowledged. Runs at the first delivery, because only
    /// its messages show that the configured terminator is in use.
    pub(super) fn cut_torn(&self, current: &mut Current) -> Result<()> {
        let cut = || {
            let length = current.file.metadata()?.len();
            let readable = File::open(&self.path)?;
            let end = torn::end_of_last_message(&readable, length, &self.message_end)?;
            if end == length {
                return Ok(None);
            }
            let aside = torn::set_aside(&readable, end..length, &self.path, self.host.now_ns())?;
            current.file.set_len(end)?;
            current.file.sync_all()?;
            io::Result::Ok(Some((end, length - end, aside)))
        };
        let cut = cut().map_err(|error| {
            let message = "cannot search for an incomplete message at the end";
            self.error(&error).context(message)
        })?;
        current.may_be_torn = false;
        if let Some((end, torn, aside)) = cut {
            current.length = end;
            warn!(
                self.host,
                "`{}` ended in {torn} bytes of a message that was written only in part and not \
                 acknowledged: these bytes were moved to `{}`; {end} bytes remain",
                self.display(),
                aside.display()
            );
        }
        Ok(())
    }

    /// If rotation is due before `more` bytes are written, makes the file durable, renames it and
    /// starts a new file.
    pub(super) fn rotate(&self, current: &mut Current, more: u64) -> Result<()> {
        let Some(rotation) = &self.rotation else { return Ok(()) };
        let now_ns = self.host.monotonic_ns();
        if current.length == 0 {
            current.since_ns = now_ns;
        }
        let age_ns = now_ns.wrapping_sub(current.since_ns);
        if !rotation.is_due(current.length, more, age_ns) {
            return Ok(());
        }
        sync_data(&current.file).map_err(|error| {
            self.syncing.fail();
            self.not_on_disk(&error)
        })?;
        if !folder::has(&self.path, &current.file) {
            // An earlier attempt or another process has renamed the file, or another process has
            // deleted it.
            return self.reopen(current);
        }
        let aside = rotation.set_aside(self.host.now_ns());
        aside.map_err(|error| self.error(&error).context("cannot set the file aside"))?;
        let file = open::open(&self.path, self.mode)?;
        self.take(&file)?;
        let metadata = file.metadata().map_err(|error| self.error(&error))?;
        current.replace(file, &metadata, now_ns);
        let pruned = rotation.prune().map_err(|error| {
            open::transient(&error)
                .context(format_args!("cannot list the old files of `{}`", self.display()))
        });
        let pruned = pruned.and_then(|failed| {
            failed.first().map_or(Ok(()), |(path, error)| {
                Err(open::transient(error)
                    .context(format_args!("cannot delete the old file `{}`", path.display())))
            })
        });
        if let Err(error) = &pruned {
            warn!(self.host, "{error}; it is tried again at the next rotation");
        }
        rotation.problem.update(&pruned);
        Ok(())
    }
}
