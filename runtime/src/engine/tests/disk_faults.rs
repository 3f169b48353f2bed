//! Queues on a disk that fails, has no space, or is slow.

use std::{
    io::{self, ErrorKind, IoSlice},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration,
};

use rustix::io::Errno;
use tremor_log::{DiskFile, Layer, Layered, SystemDisk};

use super::{
    Reports, Setup,
    beside::{Beside, down, numbers_at},
    doubles::{Gated, Pulls},
    peer::Peer,
    pulls, sorted,
    storing::{counts, flow, numbers, sink},
};
use crate::{
    clock::Clock,
    engine::{
        Counts, State,
        control::{Control, Phase},
        sink::TICK,
    },
    executor::yield_now,
    flow::WhenFull,
};

/// Name of the connector of the queue.
const QUEUE: &str = "sink/queue";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Writes return EIO.
    Writes,
    /// Syncs return EIO.
    Syncs,
    /// Writes beyond the end of a file return ENOSPC.
    Full,
}

/// A disk with a fault.
struct Faulty {
    fault: Mutex<Fault>,
    /// Number of syncs before the fault begins.
    good_syncs: AtomicUsize,
    /// Number of operations that failed.
    failed: AtomicUsize,
}

impl Faulty {
    fn new(fault: Fault, good_syncs: usize) -> Arc<Self> {
        let [good_syncs, failed] = [good_syncs, 0].map(AtomicUsize::new);
        Arc::new(Self { fault: Mutex::new(fault), good_syncs, failed })
    }

    fn end(&self) {
        *self.fault.lock().unwrap() = Fault::None;
    }

    fn has(&self, fault: Fault) -> bool {
        self.good_syncs.load(Ordering::Relaxed) == 0 && *self.fault.lock().unwrap() == fault
    }

    fn fail<T>(&self, error: impl Into<io::Error>) -> io::Result<T> {
        self.failed.fetch_add(1, Ordering::Relaxed);
        Err(error.into())
    }
}

impl Layer for Faulty {
    fn write_at(
        &self,
        file: &dyn DiskFile,
        buffers: &[IoSlice<'_>],
        offset: u64,
    ) -> io::Result<()> {
        let len: usize = buffers.iter().map(|it| it.len()).sum();
        if self.has(Fault::Writes) {
            return self.fail(Errno::IO);
        }
        if self.has(Fault::Full) && offset + len as u64 > file.size()? {
            return self.fail(ErrorKind::StorageFull);
        }
        file.write_at(buffers, offset)
    }

    fn sync(&self, file: &dyn DiskFile) -> io::Result<()> {
        if self.has(Fault::Syncs) {
            return self.fail(Errno::IO);
        }
        let _ = self
            .good_syncs
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1));
        file.sync()
    }
}

/// Returns a flow with these links, whose queue is in this folder, on a disk with this layer.
fn flow_on<L: Layer>(links: &str, folder: &Path, layer: &Arc<L>) -> Setup {
    let disk = Layered { disk: Arc::new(SystemDisk), layer: layer.clone() };
    let mut setup = flow(links, folder);
    setup.doubles.disk = Some(Arc::new(disk));
    setup
}

async fn until(is: impl Fn() -> bool) {
    while !is() {
        yield_now().await;
    }
}

fn count(reports: &Reports) -> usize {
    reports.lock().unwrap().len()
}

/// Lets the time pass until the queue reports an error. Returns the error.
async fn until_failing(control: &Control) -> String {
    let queue = control.connector(QUEUE).unwrap();
    while queue.status().state != State::Retrying {
        control.clock().advance(TICK);
        yield_now().await;
    }
    queue.status().error.unwrap()
}

/// Lets the time pass until the queue reports no error.
async fn until_working(control: &Control) {
    let queue = control.connector(QUEUE).unwrap();
    while queue.status().state == State::Retrying {
        control.clock().advance(TICK);
        yield_now().await;
    }
}

/// Checks that an error of the queue names a file in its folder, and a remedy.
#[track_caller]
fn expect_error(error: &str, folder: &Path, cause: &str) {
    for part in [folder.join("queue").to_str().unwrap(), cause, "; check the disk"] {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

#[test]
fn disk_that_fails_for_a_while_loses_no_acknowledged_event() {
    const PULLS: usize = 60;
    for fault in [Fault::Writes, Fault::Syncs] {
        let (folder, disk) = (tempfile::tempdir().unwrap(), Faulty::new(fault, PULLS / 2));
        let mut source = Pulls::numbers(PULLS);
        // With one pull at a time, each has a sync.
        source.most_in_flight = 3;
        let reports = source.reports.clone();
        let beside = Beside::new(source, down());
        let setup = flow_on("source -> sink", folder.path(), &disk);
        let report = beside.run_during(setup, async |control| {
            let error = until_failing(control).await;
            expect_error(&error, folder.path(), "Input/output error");
            let acknowledged = count(&reports);
            until(|| disk.failed.load(Ordering::Relaxed) >= 4).await;
            assert_eq!(count(&reports), acknowledged, "{fault:?}");
            assert!((1..PULLS).contains(&acknowledged), "{acknowledged}");
            disk.end();
            until(|| count(&reports) == PULLS).await;
            // The input of the queue has ended, and its source is not pulled, because the sink is down.
            until_working(control).await;
            control.advance(Phase::Draining);
        });
        assert_eq!(sorted(&reports), pulls(PULLS as u64, true));
        assert_eq!(counts(&report).stored, 3 * PULLS as u64, "{fault:?}");
        let (sink, peer) = sink();
        Beside::new(Pulls::numbers(0), peer).run(flow("source -> sink", folder.path()));
        assert_eq!(numbers_at(&sink), numbers(3 * PULLS as u64), "{fault:?}");
    }
}

/// Number of pulls, of three events each, that need more segments than a queue has at its start.
const MANY: usize = 4_000;

#[test]
fn full_disk_drops_events_as_a_full_queue_does() {
    for when_full in [WhenFull::DropNewest, WhenFull::DropOldest] {
        let (folder, disk) = (tempfile::tempdir().unwrap(), Faulty::new(Fault::Full, 10));
        let source = Pulls::numbers(MANY);
        let reports = source.reports.clone();
        let setup = flow_on("source -> sink", folder.path(), &disk)
            .set("sink", |it| it.queue.when_full = when_full);
        let report = Beside::new(source, down()).run_during(setup, async |control| {
            until(|| count(&reports) == MANY).await;
            control.advance(Phase::Draining);
        });
        assert_eq!(sorted(&reports), pulls(MANY as u64, true));
        let Counts { events_in, dropped, stored, failed, .. } = counts(&report);
        assert_eq!((events_in, dropped + stored, failed), (events_in, events_in, 0));
        assert!(dropped > 0 && stored > 0, "{when_full:?}: {dropped} dropped, {stored} stored");
    }
}

#[test]
fn full_disk_stops_sources_until_it_has_space_again() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), Faulty::new(Fault::Full, 10));
    let source = Pulls::numbers(MANY);
    let reports = source.reports.clone();
    let (scripted, _) = sink();
    let gated = Gated { scripted: scripted.clone(), is_open: Arc::new(AtomicBool::new(false)) };
    let is_open = gated.is_open.clone();
    let peer = Arc::new(Peer::of_sink(Box::new(move |_| Ok(Box::new(gated.clone())))));
    let setup = flow_on("source -> sink", folder.path(), &disk);
    let report = Beside::new(source, peer).run_during(setup, async |control| {
        let error = until_failing(control).await;
        expect_error(&error, folder.path(), "no storage space");
        assert!(count(&reports) < MANY);
        disk.end();
        is_open.store(true, Ordering::Relaxed);
    });
    assert_eq!(counts(&report).stored, 0);
    assert_eq!(numbers_at(&scripted), numbers(3 * MANY as u64));
}

/// A disk whose first read takes longer than a plan waits, and then until the test lets it end.
struct Slow {
    clock: Clock,
    is_first: AtomicBool,
    ends: Mutex<Receiver<()>>,
}

impl Layer for Slow {
    fn read_at(&self, file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.is_first.swap(false, Ordering::Relaxed) {
            // The plan begins to wait on another thread.
            while self.clock.next_timer().is_none() {
                thread::yield_now();
            }
            self.clock.advance(Duration::from_secs(1));
            self.ends.lock().unwrap().recv().unwrap();
        }
        file.read_at(buffer, offset)
    }
}

#[test]
fn queue_that_opens_slowly_delays_neither_plan_nor_start() {
    let folder = tempfile::tempdir().unwrap();
    let source = Pulls::numbers(10);
    let reports = source.reports.clone();
    Beside::new(source, down()).run_during(flow("source -> sink", folder.path()), async |it| {
        until(|| count(&reports) == 10).await;
        it.advance(Phase::Draining);
    });
    let (end, ends) = mpsc::channel();
    let (sink, peer) = sink();
    let mut setup = flow("source -> sink", folder.path());
    let clock = setup.control.clock().clone();
    let slow = Slow { clock, is_first: AtomicBool::new(true), ends: Mutex::new(ends) };
    let disk = Layered { disk: Arc::new(SystemDisk), layer: Arc::new(slow) };
    setup.doubles.disk = Some(Arc::new(disk));
    let report = Beside::new(Pulls::numbers(1), peer).run_during(setup, async |control| {
        let queue = control.connector(QUEUE).unwrap();
        until(|| queue.status().state == State::Connecting).await;
        assert_eq!(numbers_at(&sink), [0; 0]);
        end.send(()).unwrap();
    });
    let Counts { stored_at_start, events_in, events_out, .. } = counts(&report);
    assert_eq!((stored_at_start, events_in, events_out), (30, 3, 33));
}
