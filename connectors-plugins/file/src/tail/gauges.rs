//! Metrics of the files of a source.

use tremor_pdk::{Gauge, Host};

use super::{open::OpenCount, summary::Summary};

/// Time between two updates of the metrics, in ns.
pub(super) const INTERVAL_NS: u64 = 1_000_000_000;

pub(super) struct Gauges {
    known: Gauge,
    open: Gauge,
    unread: Gauge,
    max_unread: Gauge,
    deleted: Gauge,
    update_at_ns: u64,
}

impl Gauges {
    pub(super) fn new(host: &Host) -> Self {
        Self {
            known: host.gauge("files", "Files that are read or followed."),
            open: host.gauge("files_open", "Files that are open."),
            unread: host.gauge("unread_bytes", "Unread bytes of all files."),
            max_unread: host
                .gauge("unread_bytes_max", "Unread bytes of the file with the most unread bytes."),
            deleted: host
                .gauge("deleted_bytes", "Bytes on the disk of deleted files that are open."),
            update_at_ns: 0,
        }
    }

    /// Sets the number of bytes that deleted files take on the disk.
    pub(super) fn set_deleted(&self, bytes: u64) {
        self.deleted.set_integer(bytes);
    }

    /// Updates the metrics, at most once in [`INTERVAL_NS`].
    pub(super) fn update(&mut self, summary: &Summary, open: &OpenCount, now_ns: u64) {
        if now_ns < self.update_at_ns {
            return;
        }
        self.update_at_ns = now_ns + INTERVAL_NS;
        let (sum, max) = summary.unread();
        self.known.set_integer(summary.count() as u64);
        self.open.set_integer(open.get() as u64);
        self.unread.set_integer(sum);
        self.max_unread.set_integer(max);
    }
}
