//! Sinks whose queues are on disk.

use std::{num::NonZeroU64, path::Path, sync::Arc};

use tremor_pdk::Error;

use super::{
    LONG, Setup,
    beside::{Beside, down, numbers_at},
    doubles::{Pulls, ScriptedSink, SinkScript, exception},
    peer::Peer,
    pulls, settled, sorted,
};
use crate::{
    engine::{Counts, Report, control::Phase},
    executor::yield_now,
    flow::{Disk, Located, Span, WhenFull},
};

/// Returns a flow with these links, in which the queue of `sink` is in this folder.
pub(super) fn flow(links: &str, folder: &Path) -> Setup {
    let disk = Disk {
        path: Located::new(folder.join("queue"), Span::START),
        max_bytes: NonZeroU64::new(1 << 20).unwrap(),
        identify: false,
    };
    // The thread of the log is none of the executor for tests.
    Setup::of(links).helpers(1).set("sink", |it| {
        it.queue.disk = Some(disk);
        // The clock stands still, so a sink that is down does not connect again.
        it.reconnect = LONG;
    })
}

pub(super) fn sink() -> (ScriptedSink, Arc<Peer>) {
    let sink = ScriptedSink(SinkScript::of([]));
    let peer = sink.peer();
    (sink, peer)
}

pub(super) fn numbers(count: u64) -> Vec<u64> {
    (0..count).collect()
}

/// Runs a flow to a sink that is down, until all events are stored, and then drains it.
fn store(source: Pulls, folder: &Path) -> Report {
    let reports = source.reports.clone();
    let count = source.left.len();
    let beside = Beside::new(source, down());
    beside.run_during(flow("source -> sink, source -> letters", folder), async |control| {
        while reports.lock().unwrap().len() < count {
            yield_now().await;
        }
        control.advance(Phase::Draining);
    })
}

pub(super) fn counts(report: &Report) -> Counts {
    assert!(report.failure.is_none() && !report.cut_off, "{report:?}");
    settled(&report.components)
}

#[test]
fn events_that_pass_a_queue_on_disk_count_once() {
    let folder = tempfile::tempdir().unwrap();
    let (sink, peer) = sink();
    let beside = Beside::new(Pulls::numbers(50), peer);
    let counts = counts(&beside.run(flow("source -> sink", folder.path())));
    let expected = Counts { events_in: 150, events_out: 150, ..Counts::default() };
    assert_eq!(counts, expected);
    assert_eq!(numbers_at(&sink), numbers(150));
    assert_eq!(sorted(&beside.source.reports), pulls(50, true));
}

#[test]
fn next_run_delivers_what_a_sink_that_was_down_has_not() {
    let folder = tempfile::tempdir().unwrap();
    // The other sink gets everything.
    let expected = Counts { events_in: 150, events_out: 150, stored: 150, ..Counts::default() };
    assert_eq!(counts(&store(Pulls::numbers(50), folder.path())), expected);
    let (sink, peer) = sink();
    let report = Beside::new(Pulls::numbers(0), peer).run(flow("source -> sink", folder.path()));
    let expected = Counts { events_out: 150, stored_at_start: 150, ..Counts::default() };
    assert_eq!(counts(&report), expected);
    let delivered = sink.0.lock().unwrap().delivered.concat();
    let delivered: Vec<u64> = delivered.iter().map(|it| it.parse().unwrap()).collect();
    assert_eq!(delivered, numbers(150), "in order");
}

#[test]
fn refused_events_reach_err_and_leave_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let refused = vec![exception(1..2, Error::bad_data("no"))];
    let sink = ScriptedSink(SinkScript::of([Ok(refused)]));
    let beside = Beside::new(Pulls::numbers(1), sink.peer());
    let report = beside.run(flow("source -> sink, sink/err -> letters", folder.path()));
    let counts = counts(&report);
    assert_eq!((counts.events_in, counts.events_out, counts.dead_lettered), (3, 2, 1));
    assert_eq!(counts.stored, 0);
    assert_eq!(numbers_at(&sink), [0, 2]);
}

#[test]
fn refused_events_without_a_link_are_kept_beside_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let refused = vec![exception(1..2, Error::bad_data("no"))];
    let sink = ScriptedSink(SinkScript::of([Ok(refused)]));
    let beside = Beside::new(Pulls::numbers(2), sink.peer());
    let report = beside.run(flow("source -> sink", folder.path()));
    let counts = counts(&report);
    assert_eq!((counts.events_in, counts.events_out, counts.failed), (6, 5, 1));
    assert_eq!((counts.stored, counts.unrecoverable), (0, 0));
    assert_eq!(numbers_at(&sink), [0, 2, 3, 4, 5]);
    let kept = std::fs::read_dir(folder.path().join("queue/rejected")).unwrap();
    let kept: Vec<_> =
        kept.map(|it| std::fs::read_to_string(it.unwrap().path()).unwrap()).collect();
    assert_eq!(kept.len(), 1);
    assert!(kept[0].contains(r#""event":1}"#) && kept[0].lines().count() == 1, "{kept:?}");
}

/// Number of pulls, of three events each, that fill a queue of 1 MiB several times.
const PULLS: usize = 4_000;

const MANY: u64 = PULLS as u64;

/// Runs a flow with these links to a sink that is down, until all events are stored, dropped or at `err`, and then drains
/// it. Returns the report and the sorted numbers at `letters`.
fn overflow(links: &str, when_full: WhenFull, folder: &Path) -> (Report, Vec<u64>) {
    let source = Pulls::numbers(PULLS);
    let reports = source.reports.clone();
    let beside = Beside::new(source, down());
    let setup = flow(links, folder).set("sink", |it| it.queue.when_full = when_full);
    let report = beside.run_during(setup, async |control| {
        while (reports.lock().unwrap().len() as u64) < MANY {
            yield_now().await;
        }
        control.advance(Phase::Draining);
    });
    assert_eq!(sorted(&reports), pulls(MANY, true));
    (report, beside.letters())
}

#[test]
fn full_queue_on_disk_drops_events_and_stops_no_source() {
    for when_full in [WhenFull::DropNewest, WhenFull::DropOldest] {
        let folder = tempfile::tempdir().unwrap();
        let (report, _) = overflow("source -> sink", when_full, folder.path());
        let Counts { events_in, dropped, stored, .. } = counts(&report);
        assert_eq!((events_in, dropped + stored), (3 * MANY, 3 * MANY), "{when_full:?}");
        assert!(dropped > 0 && stored > 0, "{when_full:?}: {dropped} dropped, {stored} stored");
        let (sink, peer) = sink();
        Beside::new(Pulls::numbers(0), peer).run(flow("source -> sink", folder.path()));
        let numbers = numbers_at(&sink);
        assert_eq!(numbers.len() as u64, stored);
        let has_last = numbers.last() == Some(&(3 * MANY - 1));
        assert_eq!(has_last, when_full == WhenFull::DropOldest, "{numbers:?}");
    }
}

#[test]
fn full_queue_on_disk_sends_new_events_to_err() {
    let folder = tempfile::tempdir().unwrap();
    let links = "source -> sink, sink/err -> letters";
    let (report, letters) = overflow(links, WhenFull::DeadLetter, folder.path());
    let counts = counts(&report);
    assert_eq!((counts.dropped, counts.dead_lettered), (0, letters.len() as u64));
    assert_eq!((counts.stored + counts.dead_lettered, counts.failed), (3 * MANY, 0));
    assert!(!letters.is_empty() && counts.stored > 0);
}
