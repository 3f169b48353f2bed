//! Retries of sinks whose peer is full or slow.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use tremor_pdk::{Batch, Error, ErrorPolicy, Exception, Result};

use super::{
    AT_ONCE, Harness, LONG, Setup, attempts, both,
    doubles::{Pulls, ScriptedSink, SinkScript, Timed, exception},
    pulls, sorted,
};
use crate::{
    dynamic::{BoxFuture, DynSink},
    engine::{
        control::Phase,
        handle::connection::{Connection, End},
    },
    executor::{self, block_on},
    flow,
};

fn full<T>() -> Result<T> {
    Err(Error::full("no room"))
}

/// Returns a flow whose sink retries deliveries in this way.
fn retrying(retry: flow::Retry) -> Setup {
    Setup::default().set("sink", |it| it.retry = retry)
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

/// The dead letters contain the last error. All other events are delivered.
#[test]
fn events_left_after_the_last_attempt_go_to_err() {
    let part = vec![exception(1..3, Error::internal("busy").with_policy(ErrorPolicy::RETRY))];
    let script = [full(), Ok(part), full(), Err(Error::timeout("too slow"))];
    let outcome = retrying(attempts(1)).run(Pulls::numbers(2), &SinkScript::of(script));
    assert_eq!(outcome.messages(), ["0", "3", "4", "5"]);
    assert_eq!(outcome.letters.len(), 2);
    for (letter, original) in outcome.letters.iter().zip(["\"1\"", "\"2\""]) {
        assert!(letter.contains("not delivered after 2 attempts: too slow"), "{letter}");
        assert!(letter.contains("\"kind\":\"timeout\"") && letter.contains(original), "{letter}");
    }
    assert_eq!(outcome.reports, pulls(2, true), "dead letters are acknowledged");
    assert_eq!((outcome.counts.dead_lettered, outcome.counts.failed), (2, 0));
}

#[test]
fn error_and_exceptions_for_all_events_count_as_attempts() {
    let nothing = || {
        let all = vec![exception(0..3, Error::full("no room"))];
        Ok(all)
    };
    let script = [nothing(), full(), nothing()];
    let outcome = retrying(attempts(2)).run(Pulls::numbers(1), &SinkScript::of(script));
    assert_eq!((outcome.messages().len(), outcome.letters.len()), (0, 3));
    assert!(
        outcome.letters[0].contains("not delivered after 3 attempts"),
        "{}",
        outcome.letters[0]
    );
}

#[test]
fn rejected_delivery_goes_to_err_if_no_retry_is_allowed() {
    let outcome = retrying(attempts(0)).run(Pulls::numbers(1), &SinkScript::of([full()]));
    assert_eq!((outcome.messages().len(), outcome.letters.len()), (0, 3));
}

#[test]
fn source_is_closed_after_all_its_pulls_were_reported() {
    let source = Pulls::numbers(5);
    let closed = source.closed.clone();
    retrying(attempts(0)).run(source, &SinkScript::of([]));
    assert_eq!(*closed.lock().unwrap(), [5]);
}

#[test]
fn failed_pull_is_retried_and_counts_as_error() {
    let errors = [Error::timeout("no answer"), Error::full("quota"), Error::bad_data("no message")];
    let source = Pulls { errors: errors.into(), ..Pulls::numbers(2) };
    let setup = retrying(attempts(0));
    let control = setup.control.clone();
    let outcome = setup.run(source, &SinkScript::of([]));
    assert_eq!(outcome.messages(), numbers(6));
    assert_eq!((outcome.counts.events_in, outcome.counts.failed), (6, 0));
    let status = control.connector("source").unwrap().status();
    assert_eq!(status.errors.get("bad data"), Some(&1));
}

#[test]
fn retry_wait_ends_with_the_connection_or_the_flow() {
    for stops in [false, true] {
        let Harness { mut source, mut sink, .. } = retrying(LONG).harness();
        let (control, connection) = (sink.control.clone(), Arc::<Connection>::default());
        let (script, double) = (SinkScript::of([full()]), Pulls::numbers(1));
        let reports = double.reports.clone();
        let sink_runs = async {
            let end = sink.run(Box::new(ScriptedSink(script.clone())), &connection).await;
            assert!(matches!(end, End::Interrupted), "{end:?}");
            connection.restore();
            if !stops {
                // The remaining delivery is retried immediately on the next connection.
                let end = sink.run(Box::new(ScriptedSink(script.clone())), &connection).await;
                assert!(matches!(end, End::Finished), "{end:?}");
            }
            sink.abandon(false);
        };
        let source_runs = async {
            let acks = source.pull_until_end(Box::new(double), &Arc::default()).await;
            acks.expect("the source ends by itself or drains").run().await.unwrap();
        };
        let others = async {
            while !script.lock().unwrap().next.is_empty() {
                executor::yield_now().await;
            }
            if stops {
                control.advance(Phase::Stopped);
            } else {
                connection.break_off();
            }
        };
        block_on(both(sink_runs, both(source_runs, others)));
        assert_eq!(sorted(&reports), pulls(1, !stops));
    }
}

/// A sink that breaks its connection and then answers that its peer is full.
struct BreaksOff(Arc<Connection>);

impl DynSink for BreaksOff {
    fn poll_deliver(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        _: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        self.0.break_off();
        Poll::Ready(full())
    }
}

#[test]
fn lost_connection_ends_a_sink_whose_retry_is_due() {
    let Harness { mut source, mut sink, control, .. } = retrying(AT_ONCE).harness();
    let connection = Arc::<Connection>::default();
    let sink_runs = async {
        let mut runs = pin!(sink.run(Box::new(BreaksOff(connection.clone())), &connection));
        let mut polls = 0;
        let end = poll_fn(|context| {
            polls += 1;
            assert!(polls < 20, "the sink is still busy");
            runs.as_mut().poll(context)
        });
        let end = end.await;
        assert!(matches!(end, End::Interrupted), "{end:?}");
        // The sink is down, so the source would never be pulled to its end without the drain.
        control.advance(Phase::Draining);
    };
    let source_runs =
        async { _ = source.pull_until_end(Box::new(Pulls::numbers(1)), &Arc::default()).await };
    block_on(both(sink_runs, source_runs));
}

#[test]
fn due_operator_behind_err_is_called_while_a_sink_retries() {
    let was_called = Arc::new(AtomicBool::new(false));
    let timed = Timed { due: None, was_called: was_called.clone() };
    let setup = Setup::of("source -> main -> sink, sink/err -> late -> letters");
    let setup = setup.set("sink", |it| it.retry = LONG).operators("late", vec![Box::new(timed)]);
    let Harness { mut source, mut sink, letters: _letters, .. } = setup.harness();
    let (control, connection) = (sink.control.clone(), Arc::<Connection>::default());
    let refused =
        vec![exception(0..1, Error::bad_data("never")), exception(1..2, Error::full("no room"))];
    // The peer accepts one of three events, and then no more events.
    let script = SinkScript::of([Ok(refused), full(), full()]);
    let sink_runs = async {
        let end = sink.run(Box::new(ScriptedSink(script.clone())), &connection).await;
        assert!(matches!(end, End::Interrupted), "{end:?}");
    };
    let source_runs =
        async { _ = source.pull_until_end(Box::new(Pulls::numbers(1)), &Arc::default()).await };
    let others = async {
        while !was_called.load(Ordering::Relaxed) {
            executor::yield_now().await;
        }
        control.advance(Phase::Stopped);
    };
    block_on(both(sink_runs, both(source_runs, others)));
    assert_eq!(script.lock().unwrap().next.len(), 1, "the sink still waits for the last retry");
}

/// A sink whose first `full.len()` attempts to close it fail, because its peer is full.
struct Buffering {
    full: VecDeque<()>,
    drains: Arc<AtomicUsize>,
}

impl DynSink for Buffering {
    fn poll_deliver(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        _: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        Poll::Ready(Ok(Vec::new()))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        self.drains.fetch_add(1, Ordering::Relaxed);
        let result = self.full.pop_front().map_or(Ok(()), |()| full());
        Box::pin(async { result })
    }
}

#[test]
fn close_is_retried_while_the_peer_is_full() {
    let [drains, made] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
    let (own, count) = (drains.clone(), made.clone());
    let sink = move || {
        count.fetch_add(1, Ordering::Relaxed);
        Box::new(Buffering { full: [(); 20].into(), drains: own.clone() }) as _
    };
    retrying(AT_ONCE).run_into(Pulls::numbers(1), &SinkScript::of([]), sink);
    assert_eq!((made.load(Ordering::Relaxed), drains.load(Ordering::Relaxed)), (1, 21));
}
