//! Work on the files that must not wait for the next pull.

use std::{
    fs::{File, Metadata},
    os::unix::fs::MetadataExt,
    time::Duration,
};

use tremor_pdk::{Result, info};

use super::{
    clock::nanoseconds,
    files::{Files, cannot_read},
    gauges::INTERVAL_NS,
    input::{Contents, Input, Stage},
    losses::{Cause, Limits},
    positions::Positions,
};

/// Maximum time of a search between two pulls, so that a pull does not wait longer.
const SEARCH: Duration = Duration::from_millis(300);

impl Files {
    /// Begins to read a chunk. `waiting` contains the streams of earlier pulls that were not returned yet.
    pub(super) fn begin_chunk(&mut self, waiting: Vec<u64>) {
        self.waiting = waiting;
        self.read_at_ns = self.host.monotonic_ns();
        self.update_pull_bytes();
    }

    /// Searches for files, secures the data of files that may disappear, and updates the metrics. Called periodically,
    /// whether or not the source is pulled.
    pub(super) fn upkeep(&mut self) -> Result<()> {
        let now_ns = self.host.monotonic_ns();
        let searched = self.search_between_pulls(now_ns);
        // Pulls check each file when it is due.
        let is_pulled = now_ns.saturating_sub(self.read_at_ns) < INTERVAL_NS;
        let checked = if is_pulled { Ok(()) } else { self.check(now_ns) };
        self.release_deleted();
        if self.positions.as_ref().is_some_and(Positions::is_due) {
            // The problem of the checkpoint reports an error, and the task of the checkpoint writes it again.
            let _ = self.commit();
        }
        self.publish_changes();
        self.summary.refresh(&self.inputs);
        self.gauges.update(&self.summary, &self.open, now_ns);
        self.report_losses(now_ns);
        searched.and(checked)
    }

    /// Searches for files if a search is due, and continues a search that has not ended.
    fn search_between_pulls(&mut self, now_ns: u64) -> Result<()> {
        if !self.options.follow || now_ns < self.search_at_ns {
            return Ok(());
        }
        let until_ns = now_ns + nanoseconds(SEARCH);
        loop {
            self.search(now_ns)?;
            if self.searching.is_none() || self.host.monotonic_ns() >= until_ns {
                return Ok(());
            }
        }
    }

    pub(super) fn report_losses(&mut self, now_ns: u64) {
        let limits = Limits { max_open: self.max_open, max_deleted: self.max_deleted };
        self.losses.report(now_ns, &limits);
    }

    /// Checks the length of each file, and opens closed files with unread data, so that the data can be read even if the
    /// file is deleted.
    fn check(&mut self, now_ns: u64) -> Result<()> {
        self.is_full = false;
        for at in 0..self.inputs.len() {
            let input = &mut self.inputs[at];
            if matches!(input.stage, Stage::Finished | Stage::Lost) {
                continue;
            }
            if input.is_open() && !input.is_compressed() && self.options.follow {
                self.check_contents(at, now_ns)?;
                continue;
            }
            let unread = input.unread();
            let has_path = input.update_length();
            if input.is_open() {
                continue;
            }
            // While files are followed, a search finds out whether a path leads to the file.
            let is_gone =
                if self.options.follow { input.gone_since_ns.is_some() } else { !has_path };
            if is_gone {
                self.open_gone(at);
            } else if input.unread() > 0 && self.has_capacity() {
                self.open_closed(at, unread, now_ns)?;
            }
        }
        self.summary.clear();
        Ok(())
    }

    /// Starts a new stream for a file that was truncated or rewritten, so that its unread data can be read from a copy,
    /// and its new data is not lost with the next truncation.
    fn check_contents(&mut self, at: usize, now_ns: u64) -> Result<()> {
        let input = &mut self.inputs[at];
        let compared = input.compare().map_err(|error| cannot_read(&input.path, &error))?;
        let lost = match compared {
            Contents::Same => {
                // Ignore an error: the next read of the file reports it.
                let _ = input.grow();
                return Ok(());
            }
            Contents::Shorter(bytes) => bytes,
            Contents::Replaced => input.unread(),
        };
        let path = input.path.clone();
        let has_copy = self.has_copy(&self.inputs[at]);
        if compared == Contents::Replaced {
            self.restart(at, now_ns)?;
        }
        if !has_copy {
            self.losses.add(Cause::Truncated, &path, lost);
        }
        Ok(())
    }

    /// Opens a file that has new data. Before, it had `unread` bytes that were not read.
    fn open_closed(&mut self, at: usize, unread: u64, now_ns: u64) -> Result<()> {
        let input = &mut self.inputs[at];
        // A pull reports that the file cannot be opened.
        let is_same = input.open().is_err() || input.is_same().unwrap_or(true);
        if !is_same && !self.restart(at, now_ns)? {
            self.losses.add(Cause::Truncated, &self.inputs[at].path, unread);
        }
        Ok(())
    }

    /// Opens a closed file to which its path no longer leads. If the file cannot be found under any name, its unread
    /// data is lost.
    pub(super) fn open_gone(&mut self, at: usize) {
        let input = &mut self.inputs[at];
        if input.open().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            if input.unread() == 0 {
                info!(
                    self.host,
                    "`{}` was deleted or moved while it was closed: its first {} bytes were read, which were all at \
                     the last check",
                    input.path.display(),
                    input.read_to()
                );
            }
            self.lose(at, Cause::Closed);
        } else if self.open.get() > self.max_open {
            self.inputs[at].close();
        }
    }

    /// Closes files after a new file was opened beyond the maximum number of open files: others without unread data, or
    /// the new file.
    pub(super) fn close_for_new(&mut self) {
        if !self.close_read()
            && let Some(input) = self.inputs.last_mut()
        {
            input.close();
        }
    }

    /// Gives up the unread data of a file.
    fn lose(&mut self, at: usize, cause: Cause) {
        let input = &mut self.inputs[at];
        let bytes = input.lose();
        self.losses.add(cause, &input.path, bytes);
        self.summary.clear();
    }

    /// Closes deleted files if they take more than `max_deleted_bytes` on the disk: first those of which everything was
    /// read, then those that were deleted first, and then those that may be copies.
    fn release_deleted(&mut self) {
        if !self.has_gone && self.deferred.is_empty() {
            self.gauges.set_deleted(0);
            return;
        }
        let inputs = self.inputs.iter().enumerate();
        let inputs = inputs.filter_map(|(at, it)| {
            let order = (it.unread() > 0, it.gone_since_ns?);
            Some((order, at, space(&deleted(it.file()?)?)))
        });
        let mut inputs: Vec<_> = inputs.collect();
        inputs.sort_unstable();
        let deferred = self.deferred.iter();
        let deferred =
            deferred.filter_map(|(id, it)| Some((*id, deleted(it.file.as_ref()?.file())?)));
        let deferred: Vec<_> = deferred.map(|(id, it)| (id, it.len(), space(&it))).collect();
        let of_inputs: u64 = inputs.iter().map(|(.., bytes)| bytes).sum();
        let mut total = of_inputs + deferred.iter().map(|(.., bytes)| bytes).sum::<u64>();
        for (_, at, bytes) in inputs {
            if total > self.max_deleted {
                self.lose(at, Cause::Released);
                total -= bytes;
            }
        }
        for (id, length, bytes) in deferred {
            if total > self.max_deleted
                && let Some(it) = self.deferred.remove(&id)
            {
                self.losses.add(Cause::Released, &it.path, length);
                total -= bytes;
            }
        }
        self.gauges.set_deleted(total);
    }

    /// Returns whether another file may be opened. If the maximum number of files is open, closes files without unread
    /// data, those first that were not used for the longest time.
    pub(super) fn has_capacity(&mut self) -> bool {
        self.open.get() < self.max_open || self.close_read()
    }

    /// Closes files without unread data. Returns `false` if there are none.
    fn close_read(&mut self) -> bool {
        // If there are none, the files are not compared again for each file of the same search or check.
        self.is_full = self.is_full || !self.close_files(|input| input.unread() == 0);
        !self.is_full
    }

    /// Closes an eighth of the maximum number of files, so that few files are compared if many are opened. Returns
    /// `false` if no file that `is_chosen` selects can be closed.
    pub(super) fn close_files(&mut self, is_chosen: impl Fn(&Input) -> bool) -> bool {
        let Self { inputs, options, .. } = self;
        let closable =
            inputs.iter_mut().filter(|input| input.may_close(options) && is_chosen(input));
        let mut closable: Vec<_> = closable.collect();
        closable.sort_unstable_by_key(|input| input.used);
        let count = self.max_open.div_ceil(8);
        closable.into_iter().take(count).map(Input::close).count() > 0
    }
}

/// Returns the metadata of a file that has no name any more.
fn deleted(file: &File) -> Option<Metadata> {
    file.metadata().ok().filter(|it| it.nlink() == 0)
}

/// Returns the number of bytes that a file takes on the disk.
fn space(metadata: &Metadata) -> u64 {
    metadata.blocks().saturating_mul(512)
}
