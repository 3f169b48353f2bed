//! Number of files of a source that are open.

use std::{
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::process::{Resource, getrlimit};

/// Counts the open files of a source.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenCount(Arc<AtomicUsize>);

/// An open file, which is counted until this value is dropped.
pub(super) struct Open {
    file: Arc<File>,
    count: OpenCount,
}

impl OpenCount {
    pub(super) fn open(&self, file: Arc<File>) -> Open {
        self.0.fetch_add(1, Ordering::Relaxed);
        Open { file, count: self.clone() }
    }

    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Open {
    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.count.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the maximum number of open files: a quarter of the process's descriptor limit, at most
/// 256, because other components need descriptors as well.
pub(super) fn max_open() -> usize {
    const MAX: u64 = if cfg!(test) { 8 } else { 256 };
    default_max_open(MAX)
}

/// Returns a quarter of the process's descriptor limit, at most `max`.
pub(crate) fn default_max_open(max: u64) -> usize {
    let limit = getrlimit(Resource::Nofile).current.map_or(max, |limit| limit / 4);
    usize::try_from(limit.clamp(1, max)).unwrap_or(1)
}
