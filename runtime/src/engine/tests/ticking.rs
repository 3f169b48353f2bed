//! Calls of `on_tick`.

use std::{
    num::NonZeroU64,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use tremor_pdk::{Batch, Demand, Exception, Result};

use super::{
    Setup,
    doubles::{Pulls, Shared},
    peer::Peer,
    pulls, sorted,
};
use crate::dynamic::{BoxFuture, DynSink};

/// The calls of a sink.
#[derive(Default)]
struct Calls {
    said: Vec<&'static str>,
    /// Start of the delivery in flight.
    begun: Option<Instant>,
    waker: Option<Waker>,
}

/// A sink with one of two behaviours. It either supports several deliveries in flight and answers each after a tick, or
/// it supports one delivery and answers it after several tick intervals.
#[derive(Clone)]
struct Clock {
    most: usize,
    calls: Shared<Calls>,
}

impl DynSink for Clock {
    fn demand(&mut self) -> Demand {
        Demand::new().at_most(self.most)
    }

    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        _: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        assert_eq!(slot, 0, "the flow allows one delivery at a time");
        let calls = &mut *self.calls.lock().unwrap();
        if calls.begun.is_none() {
            calls.said.push("begins");
        }
        let begun = *calls.begun.get_or_insert_with(Instant::now);
        let has_ticked = calls.said.ends_with(&["tick"]);
        if has_ticked || (self.most == 1 && begun.elapsed() > 5 * TICK) {
            calls.said.push("ends");
            calls.begun = None;
            return Poll::Ready(Ok(Vec::new()));
        }
        if self.most == 1 {
            context.waker().wake_by_ref();
        } else {
            calls.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    fn on_tick(&mut self) -> BoxFuture<'_, Result<()>> {
        let calls = &mut *self.calls.lock().unwrap();
        calls.said.push("tick");
        calls.waker.take().into_iter().for_each(Waker::wake);
        Box::pin(async { Ok(()) })
    }
}

const TICK: Duration = Duration::from_millis(1);

/// Returns the calls of a sink that gets three deliveries.
fn run(most: usize) -> Vec<&'static str> {
    let calls = Shared::default();
    let clock = Clock { most, calls: Arc::clone(&calls) };
    let source = Pulls::numbers(3);
    let reports = source.reports.clone();
    let source = Arc::new(Peer::of_source(Box::new(move |_| Ok(Box::new(source.clone())))));
    let sink = Arc::new(Peer::of_sink(Box::new(move |_| Ok(Box::new(clock.clone())))));
    let setup = Setup::of("source -> main -> sink").connect("source", &source);
    let mut planned =
        setup.set("sink", |it| it.in_flight = NonZeroU64::new(1)).connect("sink", &sink).plan();
    for task in &mut planned.tasks.connectors {
        task.sink.iter_mut().for_each(|sink| sink.tick = TICK);
    }
    planned.run_with(async {});
    assert_eq!(sorted(&reports), pulls(3, true));
    std::mem::take(&mut calls.lock().unwrap().said)
}

/// The flow allows only one delivery at a time.
#[test]
fn parallel_sink_gets_ticks_during_a_delivery() {
    let said = run(8);
    assert_eq!(said.iter().filter(|it| **it == "ends").count(), 3);
    assert!(said.windows(2).any(|two| two == ["begins", "tick"]), "{said:?}");
}

#[test]
fn sequential_sink_gets_ticks_between_deliveries() {
    let said = run(1);
    assert_eq!(said.iter().filter(|it| **it == "ends").count(), 3);
    let begins = said.iter().enumerate().filter(|(_, it)| **it == "begins");
    let next: Vec<_> = begins.map(|(at, _)| said[at + 1]).collect();
    assert_eq!(next, ["ends"; 3], "{said:?}");
    assert!(said.contains(&"tick"), "{said:?}");
}
