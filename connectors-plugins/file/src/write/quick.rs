//! Whether a write is made by the thread of the task, or handed to a thread that may block: that costs two
//! changes of threads, which is many times what the system takes to copy some lines.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How much is written by the task's thread at a time, at most, in bytes: the system copies that in some µs.
pub(super) const MOST: u64 = 16 << 10;
/// A write that takes so long has waited for the disk, in ns, or others had the processor: so many in a row have waited.
const SLOW_NS: u64 = 1_000_000;
const SLOW_IN_A_ROW: u32 = 3;
/// A write that takes so long has waited, in ns.
const VERY_SLOW_NS: u64 = 10_000_000;
/// How long every write is handed over after that, in ns.
const REST_NS: u64 = 1_000_000_000;

/// How the disk does: a write into the system's memory waits only where there is too much that the disk has
/// not taken yet. No call says so beforehand on every file system, so it is seen by the time.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// It is not trusted before that, by the host's monotonic clock.
    slow_until_ns: AtomicU64,
    slow_in_a_row: AtomicU32,
}

impl Disk {
    /// Whether a write of so many bytes is not expected to wait.
    pub(super) fn is_quick(&self, bytes: u64, now_ns: u64) -> bool {
        bytes <= MOST && now_ns >= self.slow_until_ns.load(Ordering::Relaxed)
    }

    /// A write by the task's thread took from here to there.
    pub(super) fn took(&self, from_ns: u64, to_ns: u64) {
        let took_ns = to_ns.saturating_sub(from_ns);
        if took_ns < SLOW_NS {
            self.slow_in_a_row.store(0, Ordering::Relaxed);
            return;
        }
        let slow = self.slow_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        if took_ns >= VERY_SLOW_NS || slow >= SLOW_IN_A_ROW {
            self.slow_in_a_row.store(0, Ordering::Relaxed);
            self.slow_until_ns.store(to_ns.saturating_add(REST_NS), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Disk, MOST, REST_NS, SLOW_NS, VERY_SLOW_NS};

    #[test]
    fn much_is_handed_over() {
        let disk = Disk::default();
        assert!(disk.is_quick(MOST, 0));
        assert!(!disk.is_quick(MOST + 1, 0));
    }

    #[test]
    fn after_a_write_that_waited_every_write_is_handed_over_for_a_while() {
        let disk = Disk::default();
        disk.took(5, 5 + VERY_SLOW_NS - 1);
        let end = 5 + VERY_SLOW_NS;
        assert!(disk.is_quick(1, end));
        disk.took(5, end);
        assert!(!disk.is_quick(1, end + REST_NS - 1));
        assert!(disk.is_quick(1, end + REST_NS));
    }

    #[test]
    fn after_three_slow_writes_in_a_row_every_write_is_handed_over_for_a_while() {
        let disk = Disk::default();
        for took_ns in [SLOW_NS, SLOW_NS, SLOW_NS - 1, SLOW_NS, SLOW_NS] {
            disk.took(0, took_ns);
            assert!(disk.is_quick(1, took_ns));
        }
        disk.took(0, SLOW_NS);
        assert!(!disk.is_quick(1, SLOW_NS + REST_NS - 1));
        assert!(disk.is_quick(1, SLOW_NS + REST_NS));
    }
}
