//! A file system that measures the time of each sync.

use std::{
    io::{self, IoSlice},
    path::Path,
    sync::Arc,
};

use tremor_log::{Disk, DiskFile, Open};

use crate::{clock::Clock, engine::tracking::stored::StoredCounters};

/// A file system whose syncs are counted.
pub(super) struct TimedDisk<D> {
    pub(super) disk: D,
    pub(super) clock: Clock,
    pub(super) counters: Arc<StoredCounters>,
}

struct TimedFile {
    file: Arc<dyn DiskFile>,
    clock: Clock,
    counters: Arc<StoredCounters>,
}

impl<D: Disk> Disk for TimedDisk<D> {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        self.disk.is_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk.list(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }

    fn open(&self, path: &Path, open: Open) -> io::Result<Arc<dyn DiskFile>> {
        let (clock, counters) = (self.clock.clone(), self.counters.clone());
        Ok(Arc::new(TimedFile { file: self.disk.open(path, open)?, clock, counters }))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open_to_read(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Arc<dyn DiskFile>>> {
        self.disk.lock(path)
    }

    fn holder(&self, path: &Path) -> io::Result<Option<u32>> {
        self.disk.holder(path)
    }

    fn random(&self) -> io::Result<u64> {
        self.disk.random()
    }
}

impl DiskFile for TimedFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.file.write_at(buffers, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        let start = self.clock.now();
        let synced = self.file.sync();
        self.counters.synced(self.clock.elapsed(start));
        synced
    }
}
