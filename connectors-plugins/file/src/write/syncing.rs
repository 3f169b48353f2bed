//! What of a file is on the disk, and when the rest is put there.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use crate::{Config, SyncMode};

/// Which deliveries are on the disk. They are counted in the order in which they were written.
#[derive(Debug)]
pub(super) struct Syncing {
    mode: SyncMode,
    interval_ns: u64,
    done: Mutex<Done>,
    /// Held by whatever puts data on the disk: a delivery that waits for it finds its own there.
    working: Mutex<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Done {
    /// The last delivery of those that are on the disk.
    delivery: u64,
    /// When they were put there, by the host's monotonic clock.
    at_ns: Option<u64>,
    /// The system could not put something on the disk, and may have forgotten it since: after that it
    /// says of the same data that all is well.
    has_failed: bool,
}

/// When a delivery is to be put on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// It is there, or need not be.
    Never,
    Now,
    /// In so many ns.
    In(u64),
}

impl Syncing {
    pub(super) fn new(config: &Config) -> Self {
        let interval = config.sync_interval.get().as_nanos();
        Self {
            mode: config.sync,
            interval_ns: u64::try_from(interval).unwrap_or(u64::MAX),
            done: Mutex::default(),
            working: Mutex::default(),
        }
    }

    /// Whether events wait for the disk at all.
    pub(super) fn is_asked_for(&self) -> bool {
        self.mode != SyncMode::Never
    }

    pub(super) fn due(&self, delivery: u64, now_ns: u64) -> Due {
        let done = self.done();
        if self.mode == SyncMode::Never || (done.delivery >= delivery && !done.has_failed) {
            return Due::Never;
        }
        let passed = done.at_ns.map_or(self.interval_ns, |at_ns| now_ns.saturating_sub(at_ns));
        match self.mode {
            SyncMode::Interval if passed < self.interval_ns && !done.has_failed => {
                Due::In(self.interval_ns - passed)
            }
            _ => Due::Now,
        }
    }

    /// Has this delivery on the disk, with all that was written by then. `sync` gives the number of the
    /// last of these.
    pub(super) fn sync(
        &self,
        delivery: u64,
        now_ns: u64,
        sync: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<()> {
        let _working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        let done = self.done();
        if done.has_failed {
            return Err(failed_before());
        }
        if done.delivery >= delivery {
            return Ok(());
        }
        let synced = sync();
        let done = match synced {
            Ok(delivery) => Done { delivery, at_ns: Some(now_ns), has_failed: false },
            Err(_) => Done { has_failed: true, ..done },
        };
        let mut kept = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Done { has_failed: kept.has_failed || done.has_failed, ..done };
        synced.map(drop)
    }

    /// Has all that was written on the disk, with every mode.
    pub(super) fn finish(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        if self.done().has_failed {
            return Err(failed_before());
        }
        sync().inspect_err(|_| self.fail())
    }

    /// The system could not put something on the disk that was to be there by now.
    pub(super) fn fail(&self) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).has_failed = true;
    }

    fn done(&self) -> Done {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed_before() -> io::Error {
    io::Error::other("the disk has failed to take what was written before")
}

/// Has what was written put on the disk. A pipe or a device has nothing that could be.
pub(super) fn sync_data(file: &std::fs::File) -> io::Result<()> {
    match file.sync_data() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Mutex, time::Duration};

    use super::{Due, SyncMode, Syncing};

    fn syncing(mode: SyncMode) -> Syncing {
        let interval_ns = u64::try_from(Duration::from_millis(100).as_nanos()).unwrap();
        Syncing { mode, interval_ns, done: Mutex::default(), working: Mutex::default() }
    }

    #[test]
    fn deliveries_wait_for_the_disk_together() {
        let syncing = syncing(SyncMode::Batch);
        assert_eq!(syncing.due(1, 7), Due::Now);
        syncing.sync(1, 7, || Ok(3)).unwrap();
        for delivery in 1..=3 {
            assert_eq!(syncing.due(delivery, 7), Due::Never);
            syncing.sync(delivery, 7, || panic!("{delivery} is there")).unwrap();
        }
        assert_eq!(syncing.due(4, 7), Due::Now);
    }

    #[test]
    fn an_interval_lies_between_one_time_and_the_next() {
        let syncing = syncing(SyncMode::Interval);
        let start = 1_000_000_000;
        assert_eq!(syncing.due(1, start), Due::Now, "nothing was written for long");
        syncing.sync(1, start, || Ok(1)).unwrap();
        assert_eq!(syncing.due(2, start + 40_000_000), Due::In(60_000_000));
        assert_eq!(syncing.due(2, start + 100_000_000), Due::Now);
    }

    #[test]
    fn once_the_disk_has_failed_nothing_is_taken_for_safe() {
        let syncing = syncing(SyncMode::Batch);
        syncing.sync(1, 0, || Ok(1)).unwrap();
        syncing.sync(2, 0, || Err(io::Error::other("gone"))).unwrap_err();
        assert_eq!(syncing.due(2, 0), Due::Now);
        let error = syncing.sync(3, 0, || panic!("it is not asked again")).unwrap_err();
        assert!(error.to_string().contains("failed to take"), "{error}");
    }

    #[test]
    fn a_drain_that_has_failed_is_not_made_good_by_another() {
        for mode in [SyncMode::Never, SyncMode::Batch] {
            let syncing = syncing(mode);
            syncing.finish(|| Ok(())).unwrap();
            syncing.finish(|| Err(io::Error::other("gone"))).unwrap_err();
            let error = syncing.finish(|| panic!("it is not asked again")).unwrap_err();
            assert!(error.to_string().contains("failed to take"), "{error}");
            syncing.sync(1, 0, || panic!("nor here")).unwrap_err();
        }
    }

    #[test]
    fn who_does_not_ask_waits_for_nothing() {
        assert_eq!(syncing(SyncMode::Never).due(1, 0), Due::Never);
        assert!(!syncing(SyncMode::Never).is_asked_for());
    }
}
