//! Decides whether a write runs on the thread of the task or on a thread that may block. Moving a
//! write to another thread and waiting for it takes longer than the copy to the page cache.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Maximum number of bytes of a write on the thread of the task: the messages of a chunk that a
/// source has read from a file, after they became longer. The system copies them to the page cache
/// in about 0.1 ms. From file to file, reads and writes on other threads took more processor time
/// and made a second thread of the runtime a loss (`bench/runs/2026-11-28-file-to-file`).
pub(super) const MAX_INLINE_BYTES: u64 = 512 << 10;
/// Minimum duration of a slow write, in ns. A write is slow because it waited for the disk, or
/// because the system ran another process meanwhile. Therefore the disk is considered slow only
/// after [`SLOW_IN_A_ROW`] slow writes in a row.
const SLOW_NS: u64 = 1_000_000;
const SLOW_IN_A_ROW: u32 = 3;
/// Duration of a single write after which the disk is considered slow, in ns. Such a long write has
/// almost certainly waited for the disk.
const VERY_SLOW_NS: u64 = 10_000_000;
/// Time for which all writes run on other threads once the disk is considered slow, in ns.
const BACK_OFF_NS: u64 = 1_000_000_000;

/// Speed of the disk, judged by the duration of writes, because not every file system has a call
/// that predicts whether a write blocks. A write to the page cache blocks only while the page cache
/// has too much data that is not on the disk yet.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// End of the time for which all writes run on other threads, by the host's monotonic clock.
    slow_until_ns: AtomicU64,
    slow_in_a_row: AtomicU32,
}

impl Disk {
    /// Returns whether a write of `bytes` bytes is expected not to block.
    pub(super) fn is_fast(&self, bytes: u64, now_ns: u64) -> bool {
        bytes <= MAX_INLINE_BYTES && now_ns >= self.slow_until_ns.load(Ordering::Relaxed)
    }

    /// Records a write on the thread of the task that took from `from_ns` to `to_ns`.
    pub(super) fn record(&self, from_ns: u64, to_ns: u64) {
        let took_ns = to_ns.saturating_sub(from_ns);
        if took_ns < SLOW_NS {
            self.slow_in_a_row.store(0, Ordering::Relaxed);
            return;
        }
        let slow = self.slow_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        if took_ns >= VERY_SLOW_NS || slow >= SLOW_IN_A_ROW {
            self.slow_in_a_row.store(0, Ordering::Relaxed);
            self.slow_until_ns.store(to_ns.saturating_add(BACK_OFF_NS), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BACK_OFF_NS, Disk, MAX_INLINE_BYTES, SLOW_NS, VERY_SLOW_NS};

    #[test]
    fn write_above_the_inline_limit_runs_on_another_thread() {
        let disk = Disk::default();
        assert!(disk.is_fast(MAX_INLINE_BYTES, 0));
        assert!(!disk.is_fast(MAX_INLINE_BYTES + 1, 0));
    }

    #[test]
    fn very_slow_write_moves_later_writes_to_other_threads() {
        let disk = Disk::default();
        disk.record(5, 5 + VERY_SLOW_NS - 1);
        let end = 5 + VERY_SLOW_NS;
        assert!(disk.is_fast(1, end));
        disk.record(5, end);
        assert!(!disk.is_fast(1, end + BACK_OFF_NS - 1));
        assert!(disk.is_fast(1, end + BACK_OFF_NS));
    }

    #[test]
    fn three_slow_writes_move_later_writes_to_other_threads() {
        let disk = Disk::default();
        for took_ns in [SLOW_NS, SLOW_NS, SLOW_NS - 1, SLOW_NS, SLOW_NS] {
            disk.record(0, took_ns);
            assert!(disk.is_fast(1, took_ns));
        }
        disk.record(0, SLOW_NS);
        assert!(!disk.is_fast(1, SLOW_NS + BACK_OFF_NS - 1));
        assert!(disk.is_fast(1, SLOW_NS + BACK_OFF_NS));
    }
}
