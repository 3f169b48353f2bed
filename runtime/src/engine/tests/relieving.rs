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
    Control, START_NS, Setup,
    beside::{Beside, down, numbers_at},
    doubles::{Pulls, ScriptedSink, SinkScript, exception},
    peer::Peer,
    pulls, settled, sorted,
};
use crate::{
    clock::Clock,
    dynamic::{BoxFuture, DynSink},
    engine::{Processors, Report, control::Phase},
    flow::WhenFull,
    memory::MemoryBudget,
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
    work: impl AsyncFnOnce(&Control),
) -> (Report, Vec<u64>) {
    let mut source = Pulls::numbers(PULLS);
    source.most_in_flight = most;
    let beside = Beside::new(source, sink.clone());
    let report = run_for_an_hour(&beside, setup, work);
    assert_eq!(beside.peer.0.lock().unwrap().delivered.concat().len(), 3 * PULLS);
    assert_eq!(sorted(&beside.source.reports), pulls(PULLS as u64, true));
    (report, beside.letters())
}

/// Runs a flow. After an hour in which `work` runs, the source must have read everything, and the flow drains.
fn run_for_an_hour(beside: &Beside, setup: Setup, work: impl AsyncFnOnce(&Control)) -> Report {
    let has_read = AtomicBool::new(false);
    let report = beside.run_during(setup, async |control| {
        work(control).await;
        control.clock().sleep(Duration::from_hours(1)).await;
        has_read.store(beside.source.ended.load(Ordering::Relaxed), Ordering::Relaxed);
        control.advance(Phase::Draining);
    });
    assert!(has_read.into_inner(), "the source waits for the sink");
    assert!(report.failure.is_none() && !report.cut_off, "{report:?}");
    settled(&report.components);
    report
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
    let mut both = numbers_at(&scripted);
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

/// The sink has joined all events that the source may have in flight, which do not fill a delivery, and is paused then.
#[test]
fn paused_sink_gives_up_what_it_has_joined() {
    let sink = ScriptedSink(SinkScript::of([]));
    let (_, letters) = run(flow(100), 9, &sink.peer(), async |control| {
        control.clock().sleep(Duration::from_mins(1)).await;
        let connector = control.connector("sink").unwrap();
        assert_eq!((connector.in_flight(), connector.queued()), (9, 0));
        connector.gate.pause();
    });
    assert_eq!(letters[..9], all()[..9]);
    // The drain ends the pause.
    let mut both = numbers_at(&sink);
    both.extend(letters);
    both.sort_unstable();
    assert_eq!(both, all(), "each event is delivered once, here or there");
}

/// The sink has joined events when it is paused and resumed. The source reaches its limit afterwards, and waits for
/// `linger`, as for each sink that works.
#[test]
fn resumed_sink_with_joined_events_gives_up_nothing() {
    let sink = ScriptedSink(SinkScript::of([]));
    let setup = flow(100).set("sink", |it| {
        it.batch.as_mut().unwrap().linger = Some(Duration::from_mins(5));
    });
    let mut source = Pulls::numbers(PULLS);
    (source.most_in_flight, source.rest) = (9, Some(Duration::from_mins(3)));
    let beside = Beside::new(source, sink.peer());
    run_for_an_hour(&beside, setup, async |control| {
        let connector = control.connector("sink").unwrap();
        control.clock().sleep(Duration::from_mins(1)).await;
        assert_eq!((connector.in_flight(), connector.queued()), (3, 0));
        connector.gate.pause();
        control.clock().sleep(Duration::from_mins(1)).await;
        connector.gate.resume();
    });
    assert_eq!(numbers_at(&sink), all());
    assert!(beside.letters().is_empty());
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

/// Returns a flow that may use this much memory, in bytes.
fn within(setup: Setup, bytes: usize) -> Setup {
    let budget = MemoryBudget::new(bytes);
    let control = Control::new(Clock::simulated(START_NS));
    let memory = budget.flow("");
    let control = Arc::new(control.of_run(Arc::default(), Processors::new(1), memory));
    // The flow has as many components as the test links.
    for component in ["source", "sink", "peer"] {
        control.memory().account(component);
    }
    budget.divide();
    Setup { control, ..setup }
}

/// The sink takes more out of its queue than the flow may use, and no delivery succeeds. Nothing else ends the wait of
/// the source for memory, because a sink that drops has no acknowledgements to wait for.
#[test]
fn sink_that_drops_gives_up_deliveries_if_memory_is_short() {
    let text = format!("\"{}\"", "x".repeat(100 << 10));
    let messages = vec![[text.as_str()]; 60];
    let messages: Vec<&[&str]> = messages.iter().map(|it| &it[..]).collect();
    for when_full in [WhenFull::DropNewest, WhenFull::DropOldest] {
        let later = || Err(Error::full("later").retry_after(Duration::from_hours(9)));
        let sink = ScriptedSink(SinkScript::of((0..200).map(|_| later()))).peer();
        let setup = Setup::of("source -> sink, source -> peer").set("sink", |it| {
            it.queue.max_bytes = NonZeroU64::new(64 << 20);
            it.queue.when_full = when_full;
            it.batch = Some(crate::flow::Batch {
                max_events: NonZeroU64::new(30),
                max_bytes: NonZeroU64::new(64 << 20),
                linger: Some(Duration::from_hours(1)),
            });
        });
        let beside = Beside::new(Pulls::of(&messages), sink);
        let report = run_for_an_hour(&beside, within(setup, 2 << 20), async |_| {});
        let components = &report.components;
        let sink = components.iter().find(|it| it.name == "sink").unwrap().counts;
        assert_eq!((sink.taken, sink.delivered, sink.dropped), (60, 0, 60), "{when_full:?}");
        assert!(sink.dropped_at_end < sink.dropped, "{when_full:?}: {sink:?}");
        assert_eq!(beside.peer.0.lock().unwrap().delivered.concat().len(), 60);
    }
}

/// A sink whose first `on_tick` never returns. It answers all deliveries.
#[derive(Clone)]
struct HangsInTick(ScriptedSink);

impl DynSink for HangsInTick {
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>, Error>> {
        self.0.poll_deliver(context, slot, batch)
    }

    fn on_tick(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(std::future::pending())
    }
}

/// The sink has no delivery when its call begins to hang, and the source reads only afterwards.
#[test]
fn sink_that_hangs_in_a_call_without_deliveries_is_down() {
    let sink = ScriptedSink(SinkScript::of([]));
    let mut source = Pulls::numbers(PULLS);
    source.most_in_flight = 9;
    source.errors = [Error::full("later").retry_after(Duration::from_mins(1))].into();
    let beside = Beside::new(source, peer_of(HangsInTick(sink.clone())));
    run_for_an_hour(&beside, flow(0), async |_| {});
    assert_eq!(beside.letters(), all());
    assert!(numbers_at(&sink).is_empty());
}

/// `sink` rejects all events. Its dead letters are in the queue of `peer`, which is down and which the source does not
/// feed.
#[test]
fn sink_relieves_sources_of_what_it_has_sent_to_err() {
    let rejects = || Ok(vec![exception(0..3, Error::bad_data("rejected"))]);
    let sink = ScriptedSink(SinkScript::of((0..PULLS).map(|_| rejects()))).peer();
    let setup = Setup::of("source -> sink, sink/err -> peer, peer/err -> letters");
    let setup = setup.set("peer", |it| {
        it.queue.when_full = WhenFull::DeadLetter;
        it.reconnect.backoff = Some(Duration::from_secs(1));
    });
    let mut source = Pulls::numbers(PULLS);
    source.most_in_flight = 9;
    let beside = Beside { down: Some(down()), ..Beside::new(source, sink) };
    let report = run_for_an_hour(&beside, setup, async |_| {});
    assert_eq!(beside.letters.0.lock().unwrap().delivered.concat().len(), 3 * PULLS);
    assert_eq!(settled(&report.components).failed, 0);
    assert_eq!(sorted(&beside.source.reports), pulls(PULLS as u64, true));
}
