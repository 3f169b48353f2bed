//! Sinks that stop no source, because they give up what they have taken out of their queues.

use std::{
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tremor_pdk::{Batch, Demand, Error, Exception};

use super::{
    Setup,
    doubles::{Pulls, ScriptedSink, SinkScript},
    peer::Peer,
    pulls, settled, sorted,
};
use crate::{
    dynamic::{BoxFuture, DynSink},
    engine::{Report, control::Phase},
    flow::WhenFull,
};

/// Number of pulls of the source, with three events each.
const PULLS: usize = 20;

/// A sink that answers no delivery. It may gather deliveries, and then waits without end when it is flushed.
#[derive(Clone, Default)]
struct Silent {
    gathers: bool,
}

impl DynSink for Silent {
    fn demand(&mut self) -> Demand {
        if self.gathers { Demand::gather(1) } else { Demand::new() }
    }

    fn poll_deliver(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        _: &mut Batch,
    ) -> Poll<Result<Vec<Exception>, Error>> {
        Poll::Pending
    }

    fn flush(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(std::future::pending())
    }
}

/// Returns a sink whose instances are clones of `sink`.
fn peer_of(sink: impl DynSink + Clone + Sync + 'static) -> Arc<Peer> {
    Arc::new(Peer::of_sink(Box::new(move |_| Ok(Box::new(sink.clone())))))
}

/// Returns a flow whose sink has a queue for 1,000 events, and joins events to deliveries of up to `joined` events if
/// that is not 0.
fn flow(joined: u64) -> Setup {
    Setup::of("source -> sink, source -> peer, sink/err -> letters").set("sink", |it| {
        it.queue.max_events = NonZeroU64::new(1_000);
        it.queue.when_full = WhenFull::DeadLetter;
        it.reconnect.backoff = Some(Duration::from_secs(1));
        if joined > 0 {
            it.batch = Some(crate::flow::Batch {
                max_events: NonZeroU64::new(joined),
                max_bytes: NonZeroU64::new(1 << 20),
                linger: Some(Duration::from_hours(1)),
            });
        }
    })
}

/// Runs a flow from a source that may have `most` events in flight. After an hour in which `work` runs, the source must
/// have read everything, and the flow drains. Returns the report and the sorted events that reached `letters`.
fn run(
    setup: Setup,
    most: usize,
    sink: &Arc<Peer>,
    work: impl AsyncFnOnce(&super::Control),
) -> (Report, Vec<u64>) {
    let mut source = Pulls::numbers(PULLS);
    source.most_in_flight = most;
    let (double, letters) = (source.clone(), ScriptedSink(SinkScript::of([])));
    let other = ScriptedSink(SinkScript::of([]));
    let peer = Arc::new(Peer::of_source(Box::new(move |_| Ok(Box::new(double.clone())))));
    let setup = setup.connect("source", &peer).connect("sink", sink);
    let setup = setup.connect("letters", &letters.peer()).connect("peer", &other.peer());
    let control = setup.control.clone();
    let has_read = AtomicBool::new(false);
    let report = setup.plan().run_with(async {
        work(&control).await;
        control.clock().sleep(Duration::from_hours(1)).await;
        has_read.store(source.ended.load(Ordering::Relaxed), Ordering::Relaxed);
        control.advance(Phase::Draining);
    });
    assert!(has_read.into_inner(), "the source waits for the sink");
    assert!(report.failure.is_none() && !report.cut_off, "{report:?}");
    assert_eq!(other.0.lock().unwrap().delivered.concat().len(), 3 * PULLS);
    assert_eq!(sorted(&source.reports), pulls(PULLS as u64, true));
    settled(&report.components);
    let letters = letters.0.lock().unwrap().delivered.concat();
    let mut letters: Vec<u64> = letters.iter().map(|it| it.parse().unwrap()).collect();
    letters.sort_unstable();
    (report, letters)
}

/// Returns the numbers of all events.
fn all() -> Vec<u64> {
    (0..3 * PULLS as u64).collect()
}

/// The source may have three pulls in flight. The plugin has one of them without end.
#[test]
fn silent_sink_gives_up_what_waits_for_source_at_limit() {
    for (joined, gathers) in [(0, false), (3, false), (5, false), (3, true)] {
        let sink = peer_of(Silent { gathers });
        let (report, letters) = run(flow(joined), 9, &sink, async |_| {});
        assert_eq!(letters, all(), "{joined} {gathers}");
        let counts = settled(&report.components);
        assert_eq!((counts.dropped, counts.failed), (0, 0), "{joined} {gathers}");
    }
}

/// The answers come after the silence, so the deliveries that the plugin has count as delivered.
#[test]
fn sink_that_answers_late_delivers_what_its_plugin_has() {
    let is_open = Arc::<AtomicBool>::default();
    let scripted = ScriptedSink(SinkScript::of([]));
    let sink = Waits { scripted: scripted.clone(), is_open: is_open.clone() };
    let (_, letters) = run(flow(3), 9, &peer_of(sink), async |control| {
        control.clock().sleep(Duration::from_mins(30)).await;
        is_open.store(true, Ordering::Relaxed);
    });
    let delivered = scripted.0.lock().unwrap().delivered.concat();
    let mut both: Vec<u64> = delivered.iter().map(|it| it.parse().unwrap()).collect();
    assert!(!both.is_empty() && !letters.is_empty());
    both.extend(letters);
    both.sort_unstable();
    assert_eq!(both, all(), "each event is delivered once, here or there");
}

/// A sink that answers nothing before `is_open` is set. Ticks of the runtime wake the task that polls it.
#[derive(Clone)]
struct Waits {
    scripted: ScriptedSink,
    is_open: Arc<AtomicBool>,
}

impl DynSink for Waits {
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>, Error>> {
        if !self.is_open.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        self.scripted.poll_deliver(context, slot, batch)
    }
}

/// The only pull that the source may have in flight was returned by the sink and waits for its retry.
#[test]
fn delivery_that_waits_for_its_retry_is_given_up() {
    for joined in [0, 3] {
        let later = || Err(Error::full("later").retry_after(Duration::from_hours(9)));
        let sink = ScriptedSink(SinkScript::of((0..2 * PULLS).map(|_| later()))).peer();
        let (_, letters) = run(flow(joined), 3, &sink, async |_| {});
        assert_eq!(letters, all(), "{joined}");
    }
}

/// The first delivery loses the connection, and no further connection succeeds.
#[test]
fn lost_connection_gives_up_what_the_sink_had() {
    for joined in [0, 3] {
        let sink = ScriptedSink(SinkScript::of([Err(Error::connection_lost("down"))])).peer();
        let down = || Err(Error::connection_lost("down"));
        sink.connects.lock().unwrap().extend([Ok(())]);
        sink.connects.lock().unwrap().extend((0..10_000).map(|_| down()));
        let (_, letters) = run(flow(joined), 3, &sink, async |_| {});
        assert_eq!(letters, all(), "{joined}");
    }
}

/// The sink is paused while it has joined events that do not fill a delivery.
#[test]
fn paused_sink_gives_up_what_it_has_joined() {
    let sink = ScriptedSink(SinkScript::of([]));
    let (_, letters) = run(flow(100), 9, &sink.peer(), async |control| {
        let sink = control.connector("sink").unwrap();
        sink.gate.pause();
        control.clock().sleep(Duration::from_mins(30)).await;
    });
    let delivered = sink.0.lock().unwrap().delivered.concat();
    let mut both: Vec<u64> = delivered.iter().map(|it| it.parse().unwrap()).collect();
    both.extend(letters);
    both.sort_unstable();
    assert_eq!(both, all(), "each event is delivered once, here or there");
}

/// A sink that does not answer the delivery in its first slot, and rejects the others for five seconds each.
#[derive(Clone)]
struct HalfSilent;

impl DynSink for HalfSilent {
    fn demand(&mut self) -> Demand {
        Demand::new().at_most(2)
    }

    fn poll_deliver(
        &mut self,
        _: &mut Context<'_>,
        slot: usize,
        _: &mut Batch,
    ) -> Poll<Result<Vec<Exception>, Error>> {
        let later = Error::full("later").retry_after(Duration::from_secs(5));
        if slot == 0 { Poll::Pending } else { Poll::Ready(Err(later)) }
    }
}

#[test]
fn rejected_deliveries_do_not_end_the_silence_of_another() {
    let setup = flow(3).set("sink", |it| {
        it.in_flight = NonZeroU64::new(2);
        it.ordered = Some(false);
    });
    let (_, letters) = run(setup, 9, &peer_of(HalfSilent), async |_| {});
    assert_eq!(letters, all());
}
