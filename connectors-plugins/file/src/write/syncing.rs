//! Tracks which deliveries are durable on the disk, and decides when the other deliveries are
//! synced.

use std::{io, sync::Mutex};

use tremor_pdk::lock;

use crate::{Config, SyncMode};

/// Tracks which deliveries are durable. Deliveries are numbered in the order in which they were
/// written.
#[derive(Debug)]
pub(super) struct Syncing {
    mode: SyncMode,
    interval_ns: u64,
    done: Mutex<Done>,
    /// Locked during a sync. A delivery that has waited for this lock is often durable already,
    /// because the other sync included it.
    working: Mutex<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Done {
    /// Number of the last durable delivery.
    delivery: u64,
    /// Time of the last sync, by the host's monotonic clock.
    at_ns: Option<u64>,
    /// `true` if a sync failed. The system may have discarded the data after the failed sync, and a
    /// later sync would still report success.
    has_failed: bool,
}

/// Time at which a delivery has to be synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// No sync is necessary: the delivery is durable, or `sync` is `never`.
    Never,
    Now,
    /// After this time, in ns.
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

    /// Returns whether acknowledgements wait for a sync.
    pub(super) fn is_enabled(&self) -> bool {
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

    /// Makes a delivery durable, and everything that was written before it. `sync` returns the
    /// number of the last delivery that it made durable.
    pub(super) fn sync(
        &self,
        delivery: u64,
        now_ns: u64,
        sync: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<()> {
        let _working = lock(&self.working);
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
        let mut state = lock(&self.done);
        *state = Done { has_failed: state.has_failed || done.has_failed, ..done };
        synced.map(drop)
    }

    /// Makes everything that was written durable, also with `sync: never`.
    pub(super) fn finish(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _working = lock(&self.working);
        if self.done().has_failed {
            return Err(failed_before());
        }
        sync().inspect_err(|_| self.fail())
    }

    /// Returns whether a sync has failed. Later syncs fail as well.
    pub(super) fn has_failed(&self) -> bool {
        self.done().has_failed
    }

    /// Records that a sync failed outside of [`Syncing::sync`].
    pub(super) fn fail(&self) {
        lock(&self.done).has_failed = true;
    }

    fn done(&self) -> Done {
        *lock(&self.done)
    }
}

fn failed_before() -> io::Error {
    io::Error::other("an earlier sync to the disk failed")
}

/// Syncs the data of a file. A pipe or a device that does not support a sync counts as synced.
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
    fn one_sync_covers_all_deliveries_before_it() {
        let syncing = syncing(SyncMode::Batch);
        assert_eq!(syncing.due(1, 7), Due::Now);
        syncing.sync(1, 7, || Ok(3)).unwrap();
        for delivery in 1..=3 {
            assert_eq!(syncing.due(delivery, 7), Due::Never);
            syncing.sync(delivery, 7, || panic!("{delivery} is durable")).unwrap();
        }
        assert_eq!(syncing.due(4, 7), Due::Now);
    }

    #[test]
    fn next_sync_is_due_after_the_interval() {
        let syncing = syncing(SyncMode::Interval);
        let start = 1_000_000_000;
        assert_eq!(syncing.due(1, start), Due::Now, "the interval is over");
        syncing.sync(1, start, || Ok(1)).unwrap();
        assert_eq!(syncing.due(2, start + 40_000_000), Due::In(60_000_000));
        assert_eq!(syncing.due(2, start + 100_000_000), Due::Now);
    }

    #[test]
    fn failed_sync_fails_all_later_deliveries() {
        let syncing = syncing(SyncMode::Batch);
        syncing.sync(1, 0, || Ok(1)).unwrap();
        syncing.sync(2, 0, || Err(io::Error::other("gone"))).unwrap_err();
        assert_eq!(syncing.due(2, 0), Due::Now);
        let error =
            syncing.sync(3, 0, || panic!("the file is synced again after an error")).unwrap_err();
        assert!(error.to_string().contains("an earlier sync"), "{error}");
    }

    #[test]
    fn failed_finish_fails_later_finish_and_sync() {
        for mode in [SyncMode::Never, SyncMode::Batch] {
            let syncing = syncing(mode);
            syncing.finish(|| Ok(())).unwrap();
            syncing.finish(|| Err(io::Error::other("gone"))).unwrap_err();
            let error =
                syncing.finish(|| panic!("the file is synced again after an error")).unwrap_err();
            assert!(error.to_string().contains("an earlier sync"), "{error}");
            syncing.sync(1, 0, || panic!("the file is synced again after an error")).unwrap_err();
        }
    }

    #[test]
    fn without_sync_deliveries_do_not_wait() {
        assert_eq!(syncing(SyncMode::Never).due(1, 0), Due::Never);
        assert!(!syncing(SyncMode::Never).is_enabled());
    }
}
