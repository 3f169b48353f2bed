//! Closing a queue whose disk fails.

use std::{
    io::{self, IoSlice},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Waker},
};

use rustix::io::Errno;
use tremor_log::{DiskFile, Layer, Layered, SystemDisk};

use super::{Folder, Pulls, append, batch, sink};
use crate::dynamic::DynSink;

/// A disk whose next writes fail.
#[derive(Default)]
struct Failing(AtomicU32);

impl Failing {
    fn fail(&self, writes: u32) {
        self.0.store(writes, Ordering::SeqCst);
    }
}

impl Layer for Failing {
    fn write_at(
        &self,
        file: &dyn DiskFile,
        buffers: &[IoSlice<'_>],
        offset: u64,
    ) -> io::Result<()> {
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |it| it.checked_sub(1));
        if left.is_ok() { Err(Errno::IO.into()) } else { file.write_at(buffers, offset) }
    }
}

fn folder() -> (Folder, Arc<Failing>) {
    let failing = Arc::new(Failing::default());
    let disk = Layered { disk: Arc::new(SystemDisk), layer: failing.clone() };
    (Folder { disk: Arc::new(disk), ..Folder::new() }, failing)
}

/// Delivers two of three events while writes fail, closes the queue, and opens it again when the disk works. Returns
/// the number of records that may return, and the number of events that did.
fn close_while_failing(writes: u32) -> (u64, u64) {
    let (folder, disk) = folder();
    let queue = folder.open();
    append(&queue, &[&["1"], &["2"], &["3"]]);
    let mut pulls = Pulls::of(&queue);
    assert_eq!([pulls.next(), pulls.next()].concat(), ["1", "2"]);
    disk.fail(writes);
    pulls.acks.ack(1).unwrap();
    pulls.acks.ack(2).unwrap();
    assert_eq!(folder.stored(), (0, 1));
    let may_return = queue.close("out");
    disk.fail(0);
    folder.open();
    (may_return, folder.counters.stored().at_start - 1)
}

#[test]
fn delivered_events_stay_ended_if_a_write_at_close_fails() {
    assert_eq!(close_while_failing(2), (0, 0));
}

/// The report says that nothing of them is stored, so the run has to say that they may return.
#[test]
fn disk_that_fails_at_close_returns_reported_records() {
    assert_eq!(close_while_failing(u32::MAX), (2, 2));
}

#[test]
fn records_that_wait_for_the_disk_do_not_keep_the_log_open() {
    let (folder, disk) = folder();
    let queue = folder.open();
    disk.fail(u32::MAX);
    let mut waiting = sink(&queue);
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.poll_deliver(&mut context, 0, &mut batch(&["1"])).is_pending());
    drop(waiting);
    queue.close("out");
    drop(queue);
    disk.fail(0);
    append(&folder.open(), &[&["2"]]);
}
