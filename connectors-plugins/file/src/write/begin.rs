//! Preparation of the file when the sink starts, and replacement of the file by rotation.

use std::{
    fs::{File, TryLockError},
    io,
    time::{SystemTime, UNIX_EPOCH},
};

use tremor_pdk::{Error, Result, lock_file, warn};

use super::{
    output::{Current, Output},
    rotation::Rotation,
    torn,
};
use crate::{Mode, config::Midnights, folder, open};

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
        if let Some(rotation) = &self.rotation {
            self.expect_regular(&file, "rotate")?;
            let metadata = file.metadata().map_err(|error| self.error(&error))?;
            let length = metadata.len();
            current.length = length;
            let ns = |at: io::Result<SystemTime>| {
                let at = at.ok().filter(|_| length > 0)?.duration_since(UNIX_EPOCH).ok()?;
                u64::try_from(at.as_nanos()).ok()
            };
            let made = ns(metadata.created());
            // The time of the file's creation is a wall clock time, so compute the age with the
            // wall clock. After that the age is measured with the monotonic clock, because the wall
            // clock may be set.
            let age_ns = made.map_or(0, |made| self.host.now_ns().saturating_sub(made));
            current.since_ns = self.host.monotonic_ns().wrapping_sub(age_ns);
            if rotation.is_daily() {
                // Without a time of creation, the time of the last write has to be before midnight.
                let now_ns = self.host.now_ns();
                let begun_ns = made.or_else(|| ns(metadata.modified())).unwrap_or(now_ns);
                current.until_ns = rotation.end_of(begun_ns.min(now_ns));
            }
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
        self.location.sync_folder().map_err(|error| self.error(&error))
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
            if length == 0 {
                return Ok(None);
            }
            let folder = self.location.folder()?;
            let readable = folder.read()?;
            let end = torn::end_of_last_message(&readable, length, &self.message_end)?;
            if end == length {
                return Ok(None);
            }
            let aside = torn::set_aside(&readable, end..length, &folder, self.host.now_ns())?;
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
            self.begin_file(current, now_ns);
        }
        if !self.must_rotate(rotation, current, more, now_ns) {
            return Ok(());
        }
        self.sync_before_leaving(&current.file)?;
        if !folder::has(self.location.path(), &current.file) {
            // An earlier attempt or another process has renamed the file, or another process has
            // deleted it.
            return self.reopen(current);
        }
        let folder = self.location.folder().map_err(|error| self.error(&error))?;
        let aside = Rotation::set_aside(&folder, self.host.now_ns());
        aside.map_err(|error| self.error(&error).context("cannot set the file aside"))?;
        let file = self.location.open(self.mode, self.syncing.is_enabled())?;
        self.take(&file)?;
        let metadata = file.metadata().map_err(|error| self.error(&error))?;
        self.replace(current, file, &metadata, now_ns);
        let pruned = rotation.prune(&folder).map_err(|error| {
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
        rotation.report(&pruned);
        Ok(())
    }

    /// Returns whether the file has to be renamed before `more` bytes are written.
    pub(super) fn must_rotate(
        &self,
        rotation: &Rotation,
        current: &mut Current,
        more: u64,
        now_ns: u64,
    ) -> bool {
        let age_ns = now_ns.wrapping_sub(current.since_ns);
        if rotation.is_due(current.length, more, age_ns) {
            return true;
        }
        if !rotation.is_daily() || current.length == 0 {
            return false;
        }
        let now_ns = self.host.now_ns();
        if Midnights::is_from_wrong_clock(current.until_ns, now_ns) {
            current.until_ns = rotation.end_of(now_ns);
        }
        now_ns >= current.until_ns
    }

    /// Begins the age of a file.
    pub(super) fn begin_file(&self, current: &mut Current, now_ns: u64) {
        current.since_ns = now_ns;
        if let Some(rotation) = self.rotation.as_ref().filter(|it| it.is_daily()) {
            current.until_ns = rotation.end_of(self.host.now_ns());
        }
    }
}
