//! Measures of a queue's files: the time of each sync, and the bytes that were read.

use std::{
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
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
}

impl Meter {
    pub(super) fn new(clock: Clock, counters: Arc<StoredCounters>) -> Self {
        Self { clock, counters, read: AtomicU64::new(0), size: AtomicU64::new(0) }
    }

    /// Determines the bytes of all files of a folder.
    pub(super) fn measure(&self, folder: &Path) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let bytes = entries.filter_map(|it| it.metadata().ok()).map(|it| it.len());
        self.size.store(bytes.sum(), Ordering::Relaxed);
    }

    /// Returns the bytes that were read, and the bytes of all files.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.size.load(Ordering::Relaxed))
    }
}

impl Layer for Meter {
    fn read_at(&self, file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
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
