//! Measures of a queue's files: the time of each sync, and the bytes that were read.

use std::{
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tremor_log::{DiskFile, Layer};

use crate::{clock::Clock, engine::tracking::stored::StoredCounters};

/// Measures the files of a queue.
pub(super) struct Meter {
    clock: Clock,
    counters: Arc<StoredCounters>,
    /// Bytes that were read.
    read: AtomicU64,
    /// Bytes of all files before they were opened.
    size: AtomicU64,
    /// `true` until the queue is open.
    is_opening: AtomicBool,
    /// `true` if nobody waits for the opening any more, so that it has to end.
    is_given_up: AtomicBool,
}

impl Meter {
    pub(super) fn new(clock: Clock, counters: Arc<StoredCounters>) -> Self {
        let (read, size) = (AtomicU64::new(0), AtomicU64::new(0));
        let (is_opening, is_given_up) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { clock, counters, read, size, is_opening, is_given_up }
    }

    /// Determines the bytes of all files of a folder.
    pub(super) fn measure(&self, folder: &Path) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let bytes = entries.filter_map(|it| it.metadata().ok()).map(|it| it.len());
        self.size.store(bytes.sum(), Ordering::Relaxed);
    }

    /// Records that the queue is open.
    pub(super) fn opened(&self) {
        self.is_opening.store(false, Ordering::SeqCst);
    }

    /// Lets an opening that is in progress end with an error of the disk.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::SeqCst);
    }

    /// Returns whether an opening is in progress that has to end.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed) && self.is_opening.load(Ordering::Relaxed)
    }

    /// Returns the bytes that were read, and the bytes of all files.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.size.load(Ordering::Relaxed))
    }
}

impl Layer for Meter {
    fn read_at(&self, file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.is_given_up() {
            return Err(io::Error::other("the flow ended before the queue was open"));
        }
        let count = file.read_at(buffer, offset)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn sync(&self, file: &dyn DiskFile) -> io::Result<()> {
        let start = self.clock.now();
        let synced = file.sync();
        self.counters.synced(self.clock.elapsed(start));
        synced
    }
}
