//! Sinks that stop no source, because their queues give events up.

use std::{
    num::NonZeroU64,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tremor_pdk::{Batch, Error, Exception};

use super::{
    Setup, attempts,
    beside::{Beside, down},
    doubles::{Pulls, ScriptedSink, Shared, SinkScript, exception},
    peer::Peer,
    pulls, settled, sorted,
};
use crate::{
    dynamic::DynSink,
    engine::{Kind, Report, control::Phase},
    flow::WhenFull,
};

/// A sink that answers each `every`th poll of its deliveries; 0 for never.
#[derive(Clone)]
struct Slow {
    scripted: ScriptedSink,
    every: usize,
    polls: usize,
}

impl DynSink for Slow {
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>, Error>> {
        if self.every == 0 {
            return Poll::Pending;
        }
        self.polls += 1;
        if self.polls.is_multiple_of(self.every) {
            return self.scripted.poll_deliver(context, slot, batch);
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Slow {
    fn peer(script: &Shared<SinkScript>, every: usize) -> Arc<Peer> {
        let sink = Self { scripted: ScriptedSink(script.clone()), every, polls: 0 };
        Arc::new(Peer::of_sink(Box::new(move |_| Ok(Box::new(sink.clone())))))
    }
}

/// Returns a flow with these links, in which the queue of `sink` holds six events. The time advances only while all
/// tasks wait, so `sink` waits between attempts to connect.
fn flow(links: &str, when_full: WhenFull) -> Setup {
    Setup::of(links).set("sink", |it| {
        it.queue.max_events = NonZeroU64::new(6);
        it.queue.when_full = when_full;
        it.reconnect.backoff = Some(Duration::from_secs(1));
    })
}

/// Returns the numbers of events that the sink delivered and dropped, and that it dropped at the end.
fn of_sink(report: &Report) -> [u64; 3] {
    let mut components = report.components.iter();
    let sink = components.find(|it| it.name == "sink" && it.kind == Kind::Sink).unwrap().counts;
    [sink.delivered, sink.dropped, sink.dropped_at_end]
}

fn numbers(count: u64) -> Vec<u64> {
    (0..count).collect()
}

/// The source waits neither for deliveries nor for acknowledgements, of which it may lack only one pull.
#[test]
fn slow_sink_delivers_or_drops_and_source_gets_all_acks() {
    for when_full in [WhenFull::DropNewest, WhenFull::DropOldest] {
        let (script, mut source) = (SinkScript::of([]), Pulls::numbers(5_000));
        source.most_in_flight = 3;
        let sink = Slow::peer(&script, 10);
        let beside = Beside::new(source, sink);
        let report = beside.run(flow("source -> sink", when_full));
        let [delivered, dropped, at_end] = of_sink(&report);
        assert_eq!((delivered + dropped, at_end), (15_000, 0));
        assert!(delivered > 0 && dropped > 0, "{delivered} delivered, {dropped} dropped");
        assert_eq!(sorted(&beside.source.reports), pulls(5_000, true));
        assert_eq!(settled(&report.components).dropped, dropped);
        let delivered = script.lock().unwrap().delivered.concat();
        let order: Vec<u64> = delivered.iter().map(|it| it.parse().unwrap()).collect();
        assert!(order.is_sorted(), "{when_full:?}: {order:?}");
        // The newest event is kept only if older ones are dropped.
        assert_eq!(order.last() == Some(&14_999), when_full == WhenFull::DropOldest);
    }
}

#[test]
fn sink_that_never_answers_delays_the_end_by_a_drain_only() {
    for when_full in [WhenFull::DropNewest, WhenFull::DropOldest] {
        let sink = Slow::peer(&SinkScript::of([]), 0);
        let beside = Beside::new(Pulls::numbers(5), sink);
        let report = beside.run(flow("source -> sink", when_full));
        // The queue has capacity for two pulls. The sink took one of them and had both at the end.
        assert_eq!(of_sink(&report), [0, 15, 6], "{when_full:?}");
        assert!(!report.cut_off && !report.is_incomplete && report.unfinished.is_empty());
        assert_eq!(sorted(&beside.source.reports), pulls(5, true));
        settled(&report.components);
    }
}

#[test]
fn sink_that_never_connects_stops_no_source_and_no_sink() {
    for when_full in [WhenFull::DropNewest, WhenFull::DropOldest] {
        let beside = Beside::new(Pulls::numbers(5), down());
        let report = beside.run(flow("source -> sink, source -> letters", when_full));
        assert_eq!(beside.letters(), numbers(15));
        assert_eq!(of_sink(&report), [0, 15, 6], "{when_full:?}");
        assert!(!report.cut_off && !report.is_incomplete && report.unfinished.is_empty());
        assert_eq!(sorted(&beside.source.reports), pulls(5, true));
        settled(&report.components);
    }
}

/// The events are those of the source, and not dead letters.
#[test]
fn overflow_and_what_is_left_at_the_end_go_to_err_unchanged() {
    for links in [
        "source -> sink, sink/err -> letters",
        "source -> main -> sink, sink/err -> late -> letters",
        "source -> sink, source -> main, sink/err -> main, main -> letters",
    ] {
        let sink = Slow::peer(&SinkScript::of([]), 0);
        let beside = Beside::new(Pulls::numbers(5), sink);
        let report = beside.run(flow(links, WhenFull::DeadLetter));
        let mut letters = beside.letters();
        letters.dedup();
        assert_eq!(letters, numbers(15), "{links}");
        let counts = settled(&report.components);
        assert_eq!((counts.dead_lettered, counts.dropped, counts.failed), (15, 0, 0), "{links}");
        assert!(!report.cut_off && !report.is_incomplete, "{links}");
        assert_eq!(sorted(&beside.source.reports), pulls(5, true), "{links}");
    }
}

/// The queue has capacity for all events, but the source may have only three events in flight.
#[test]
fn source_at_its_limit_is_relieved_while_the_sink_is_down() {
    let mut source = Pulls::numbers(5);
    source.most_in_flight = 3;
    let setup = flow("source -> sink, sink/err -> letters", WhenFull::DeadLetter);
    let setup = setup.set("sink", |it| it.queue.max_events = NonZeroU64::new(1_000));
    let beside = Beside::new(source, down());
    let report = beside.run(setup);
    assert_eq!(beside.letters(), numbers(15));
    assert_eq!(sorted(&beside.source.reports), pulls(5, true));
    assert_eq!(settled(&report.components).dead_lettered, 15);
}

/// The only delivery of `sink` fails three hours after the end of the source. A drain may take one hour.
#[test]
fn sink_that_another_sink_still_feeds_is_not_given_up() {
    let later = Error::full("later").retry_after(Duration::from_hours(3));
    let rejects = vec![exception(0..3, Error::bad_data("rejected"))];
    let sink = ScriptedSink(SinkScript::of([Err(later), Ok(rejects)])).peer();
    let setup = Setup::of("source -> sink, sink/err -> letters");
    let setup = setup.set("letters", |it| it.queue.when_full = WhenFull::DropOldest);
    let beside = Beside::new(Pulls::numbers(1), sink);
    let report = beside.run(setup);
    let counts = settled(&report.components);
    let letters = beside.letters.0.lock().unwrap().delivered.concat().len();
    assert_eq!((letters, counts.dead_lettered, counts.dropped), (3, 3, 0));
}

/// The drain may take an hour. The sink `letters` delivers its first events after ten minutes, and it drops none,
/// although its queue would.
#[test]
fn drain_leaves_time_for_what_a_sink_passes_on_to_err() {
    for when_full in [WhenFull::Block, WhenFull::DropOldest] {
        let later = Error::full("later").retry_after(Duration::from_mins(10));
        let mut source = Pulls::numbers(5);
        source.until = Some(Arc::default());
        let mut beside = Beside::new(source, down());
        beside.letters = ScriptedSink(SinkScript::of([Err(later)]));
        let setup = flow("source -> sink, sink/err -> letters", WhenFull::DeadLetter)
            .set("letters", |it| it.queue.when_full = when_full);
        let report = beside.run_during(setup, async |control| {
            control.clock().sleep(Duration::from_secs(1)).await;
            control.advance(Phase::Draining);
        });
        assert!(!report.cut_off && report.failure.is_none(), "{when_full:?}: {report:?}");
        let counts = settled(&report.components);
        // While `letters` retries, it stops the source if its queue blocks.
        let read = if when_full.blocks() { 3 } else { 5 };
        let (events, found) = (3 * read, (counts.dead_lettered, counts.dropped, counts.failed));
        assert_eq!(found, (events, 0, 0), "{when_full:?}");
        assert_eq!(beside.letters().len() as u64, events, "{when_full:?}");
        assert_eq!(sorted(&beside.source.reports), pulls(read, true));
    }
}

/// The drain may take an hour, and a stopped flow has two seconds more.
#[test]
fn connector_that_hangs_in_close_delays_the_end_as_others_do() {
    for when_full in [WhenFull::Block, WhenFull::DropOldest, WhenFull::DeadLetter] {
        let sink = ScriptedSink(SinkScript::of([])).peer();
        let mut source = Pulls::numbers(5);
        source.until = Some(Arc::default());
        let setup = flow("source -> sink, sink/err -> letters", when_full);
        let clock = setup.control.clock().clone();
        *sink.close_takes.lock().unwrap() = Some((clock.clone(), Duration::from_hours(100)));
        let start = clock.now();
        let report = Beside::new(source, sink).run_during(setup, async |control| {
            control.clock().sleep(Duration::from_mins(59)).await;
            control.drain_within(Duration::from_secs(1));
        });
        let took = clock.elapsed(start);
        assert!(report.cut_off, "{when_full:?}: {report:?}");
        assert!(took < Duration::from_mins(59) + Duration::from_secs(4), "{when_full:?}: {took:?}");
        // A queue that stops no source may be full before the sink takes the next batch.
        let counts = settled(&report.components);
        let ended = counts.events_out + counts.dropped;
        assert_eq!((ended, counts.failed), (15, 0), "{when_full:?}: {report:?}");
    }
}

/// The connector `peer` begins to close only when `sink`, which never answers, gives up its events.
#[test]
fn sink_after_err_of_one_that_gives_up_has_time_to_close() {
    let peer = ScriptedSink(SinkScript::of([])).peer();
    let setup = flow("source -> sink, sink/err -> peer", WhenFull::DropOldest);
    let clock = setup.control.clock().clone();
    *peer.close_takes.lock().unwrap() = Some((clock, Duration::from_millis(100)));
    let mut source = Pulls::numbers(5);
    source.until = Some(Arc::default());
    let sink = Slow::peer(&SinkScript::of([]), 0);
    let beside = Beside { down: Some(peer), ..Beside::new(source, sink) };
    let report = beside.run_during(setup, async |control| {
        control.clock().sleep(Duration::from_secs(1)).await;
        control.advance(Phase::Draining);
    });
    assert!(!report.cut_off && report.unfinished.is_empty(), "{report:?}");
    assert_eq!(of_sink(&report)[1], 15);
}

#[test]
fn sink_that_fails_permanently_passes_its_events_on_to_err() {
    let beside = Beside::new(Pulls::numbers(5), down());
    let setup = flow("source -> sink, sink/err -> letters", WhenFull::DeadLetter);
    let setup = setup.set("sink", |it| it.reconnect.attempts = Some(1));
    let report = beside.run_during(setup, async |_| {});
    assert_eq!(report.failure.map(|it| it.component), Some("sink".to_owned()));
    let delivered = beside.letters().len();
    assert_eq!(settled(&report.components).failed, 0);
    let reports = sorted(&beside.source.reports);
    let acknowledged = reports.iter().filter(|(_, acked)| *acked).count();
    assert_eq!(delivered, 3 * acknowledged);
    assert!(delivered > 0);
}

/// A sink that fails permanently fails the flow, whatever its queue does.
#[test]
fn sink_without_attempts_fails_the_flow() {
    let setup = flow("source -> sink", WhenFull::DropOldest);
    let setup = setup.set("sink", |it| it.reconnect = attempts(1));
    let report = Beside::new(Pulls::numbers(1), down()).run_during(setup, async |_| {});
    assert_eq!(report.failure.map(|it| it.component), Some("sink".to_owned()));
}
