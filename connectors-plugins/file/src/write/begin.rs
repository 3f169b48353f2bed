//! How the file is when it is begun, and when another one takes its place.

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
use crate::{Mode, folder, open};

impl Output {
    /// Sees to it that what is there at the beginning is as was asked for.
    pub(super) fn begin(&self) -> Result<()> {
        let mut current = self.current();
        let file = current.file.clone();
        if self.syncing.is_asked_for() {
            self.expect_regular(&file, "sync")?;
        }
        self.take(&file)?;
        if self.syncing.is_asked_for() {
            current.may_be_torn = self.mode == Mode::Append && !self.message_end.is_empty();
        }
        if self.rotation.is_some() {
            self.expect_regular(&file, "rotate")?;
            let metadata = file.metadata().map_err(|error| self.error(&error))?;
            current.length = metadata.len();
            let made = metadata.created().ok().filter(|_| current.length > 0);
            let made = made.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let made = made.and_then(|at| u64::try_from(at.as_nanos()).ok());
            // Both are stamps. From here on the clock may be set.
            let age_ns = made.map_or(0, |made| self.host.now_ns().saturating_sub(made));
            current.since_ns = self.host.monotonic_ns().wrapping_sub(age_ns);
        }
        Ok(())
    }

    /// Has the file for itself where `sync` asks for that, and empty where `mode` does.
    fn take(&self, file: &File) -> Result<()> {
        if self.syncing.is_asked_for() {
            self.secure(file)?;
        }
        let is_to_go = self.mode == Mode::Truncate
            && file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
        if is_to_go { file.set_len(0).map_err(|error| self.error(&error)) } else { Ok(()) }
    }

    /// Has the file itself on the disk, and no other process of ours write to it.
    pub(super) fn secure(&self, file: &File) -> Result<()> {
        match file.try_lock() {
            Ok(()) => {}
            // An instance that has just ended may still hold it.
            Err(TryLockError::WouldBlock) => {
                return Err(Error::connection_refused(format!(
                    "`{}` is locked: another process, or another connector, writes to it with `sync`; \
                     choose another `path`, or end that one",
                    self.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(self.error(&error)),
        }
        // What is in it is put there with the first delivery.
        folder::sync_parent(&self.path).map_err(|error| self.error(&error))
    }

    /// What is no file keeps nothing.
    fn expect_regular(&self, file: &File, key: &str) -> Result<()> {
        let metadata = file.metadata().map_err(|error| self.error(&error))?;
        if metadata.is_file() {
            return Ok(());
        }
        Err(Error::configuration(format!(
            "`{}` is no regular file, and keeps nothing: `{key}` has no meaning there, leave it out",
            self.display()
        )))
    }

    /// What follows the last whole message was never acknowledged: it goes, to a file of its own. That waits
    /// for the first messages: they show whether the file is of this framing at all.
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
            let message = "cannot look for a message that was not written in whole";
            self.error(&error).context(message)
        })?;
        current.may_be_torn = false;
        if let Some((end, torn, aside)) = cut {
            current.length = end;
            warn!(
                self.host,
                "`{}` ended in {torn} bytes of a message that was not written in whole and was not \
                 acknowledged: they were cut off and are in `{}`, and it has {end} bytes now",
                self.display(),
                aside.display()
            );
        }
        Ok(())
    }

    /// Sets the file aside, where that is due before so much more is written, and begins a new one. What
    /// is set aside is on the disk then.
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
            // An earlier attempt has set it aside, or others have renamed or deleted it.
            return self.reopen(current);
        }
        let aside = rotation.set_aside(self.host.now_ns());
        aside.map_err(|error| self.error(&error).context("cannot set the file aside"))?;
        let file = open::open(&self.path, self.mode)?;
        self.take(&file)?;
        let metadata = file.metadata().map_err(|error| self.error(&error))?;
        current.replace(file, &metadata, now_ns);
        match rotation.prune() {
            Ok(failed) => failed.iter().for_each(|(path, error)| {
                warn!(self.host, "cannot delete `{}`: {error}", path.display());
            }),
            Err(error) => {
                warn!(self.host, "cannot look for old files of `{}`: {error}", self.display());
            }
        }
        Ok(())
    }
}
