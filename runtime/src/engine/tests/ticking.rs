//! When a sink is told the time.

use std::{
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use tremor_pdk::{Batch, Demand, Exception, Result};

use super::{Setup, doubles::Shared, pulls};
use crate::dynamic::{BoxFuture, DynSink};
use crate::engine::tests::doubles::{Pulls, Takes};

/// What a sink was asked to do, in order.
#[derive(Default)]
struct Calls {
    said: Vec<&'static str>,
    /// Since when there is a delivery.
    begun: Option<Instant>,
    waker: Option<Waker>,
}

/// A sink that takes several deliveries at a time, and has one once it was told the time; or one that takes one at
/// a time, and has it after several ticks.
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
        assert_eq!(slot, 0, "the flow wants one delivery at a time");
        let calls = &mut *self.calls.lock().unwrap();
        if calls.begun.is_none() {
            calls.said.push("begins");
        }
        let begun = *calls.begun.get_or_insert_with(Instant::now);
        let is_told = calls.said.ends_with(&["tick"]);
        if is_told || (self.most == 1 && begun.elapsed() > 5 * TICK) {
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

/// What was said to a sink of three deliveries.
fn run(most: usize) -> Vec<&'static str> {
    let calls = Shared::default();
    let clock = Clock { most, calls: Arc::clone(&calls) };
    let mut harness = Setup::default().harness();
    harness.sink.tick = TICK;
    let takes = Arc::new(Mutex::new(Takes::default()));
    let outcome = harness
        .run_into(Pulls::numbers(3), &takes, move || Box::new(clock.clone()) as Box<dyn DynSink>);
    assert_eq!(outcome.heard, pulls(3, true));
    std::mem::take(&mut calls.lock().unwrap().said)
}

#[test]
fn a_sink_that_takes_several_hears_of_time_beside_a_delivery_also_where_the_flow_wants_one() {
    let said = run(8);
    assert_eq!(said.iter().filter(|it| **it == "ends").count(), 3);
    assert!(said.windows(2).any(|two| two == ["begins", "tick"]), "{said:?}");
}

#[test]
fn a_sink_that_takes_one_delivery_at_a_time_hears_of_time_between_deliveries() {
    let said = run(1);
    assert_eq!(said.iter().filter(|it| **it == "ends").count(), 3);
    let begins = said.iter().enumerate().filter(|(_, it)| **it == "begins");
    let next: Vec<_> = begins.map(|(at, _)| said[at + 1]).collect();
    assert_eq!(next, ["ends"; 3], "{said:?}");
    assert!(said.contains(&"tick"), "{said:?}");
}
