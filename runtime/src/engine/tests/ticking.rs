//! Calls of `on_tick`.

use std::{
    num::NonZeroU64,
    sync::{Arc, Mutex},
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
use crate::{
    clock::{Alarm, Clock},
    dynamic::{BoxFuture, DynSink},
};

/// The calls of a sink.
struct Calls {
    said: Vec<&'static str>,
    /// Time at which a sequential sink answers the delivery in flight.
    until: Option<Instant>,
    clock: Clock,
    alarm: Alarm,
    waker: Option<Waker>,
}

/// A sink with one of two behaviours. It either supports several deliveries in flight and answers each after a tick, or
/// it supports one delivery and answers it after several tick intervals.
#[derive(Clone)]
struct Ticked {
    most: usize,
    calls: Shared<Calls>,
}

impl DynSink for Ticked {
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
        if calls.until.is_none() {
            calls.said.push("begins");
        }
        let until = *calls.until.get_or_insert_with(|| calls.clock.now() + 5 * TICK);
        let ends = match self.most {
            1 => calls.alarm.poll(context, until).is_ready(),
            _ => calls.said.ends_with(&["tick"]),
        };
        if !ends {
            calls.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        calls.said.push("ends");
        calls.until = None;
        Poll::Ready(Ok(Vec::new()))
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
    let setup = Setup::of("source -> main -> sink");
    let clock = setup.control.clock().clone();
    let (said, until, alarm, waker) = (Vec::new(), None, clock.alarm(), None);
    let calls = Arc::new(Mutex::new(Calls { said, until, clock, alarm, waker }));
    let double = Ticked { most, calls: calls.clone() };
    let source = Pulls::numbers(3);
    let reports = source.reports.clone();
    let source = Arc::new(Peer::of_source(Box::new(move |_| Ok(Box::new(source.clone())))));
    let sink = Arc::new(Peer::of_sink(Box::new(move |_| Ok(Box::new(double.clone())))));
    let setup = setup.connect("source", &source);
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
    assert_eq!(run(8), ["begins", "tick", "ends"].repeat(3));
}

#[test]
fn sequential_sink_gets_ticks_between_deliveries() {
    // Every delivery takes several tick intervals, so a tick is due when it ends. Missed ticks are skipped.
    assert_eq!(run(1), ["begins", "ends", "tick"].repeat(3));
}
