//! Sinks whose peer is full or slow.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tremor_abi::batch::HostBatch;
use tremor_pdk::{Batch, Error, ErrorPolicy, Exception, Operator, Result};

use super::{
    AT_ONCE, Harness, Setup, both,
    doubles::{Pulls, Shared, Takes, Taking, Waits, exception},
    lines::lines,
    notices, outlet,
    peer::attempts,
    pipeline, pulls, router, sorted,
};
use crate::{
    dynamic::{BoxFuture, DynSink},
    engine::{
        control::Phase,
        handle::connection::{Connection, End},
        processors::Processors,
        queue::{self, Bounds},
        retry::backoff::Policy,
        sink::retry::Retries,
        target::{Ports, Target},
    },
    executor::{self, block_on},
};

fn full<T>() -> Result<T> {
    Err(Error::full("no room"))
}

fn harness(retry: Policy) -> Harness {
    let mut harness = Setup::default().harness();
    harness.sink.retries = Retries::new(retry, notices());
    harness
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

#[test]
fn a_peer_that_is_full_for_long_is_waited_for() {
    let slow = || Err(Error::timeout("too slow"));
    let takes = Takes::of((0..500).map(|at| if at % 2 == 0 { full() } else { slow() }));
    let outcome = harness(AT_ONCE).run(Pulls::numbers(5), &takes);
    assert_eq!(outcome.messages(), numbers(15));
    assert_eq!(outcome.heard, pulls(5, true));
    assert_eq!((outcome.counts.failed, outcome.letters.len()), (0, 0));
}

/// Takes the first event of each delivery, after so many that it takes nothing of.
struct TakesOne {
    takes: Shared<Takes>,
    full: usize,
    left: usize,
}

impl DynSink for TakesOne {
    fn poll_deliver(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        if self.left > 0 {
            self.left -= 1;
            return Poll::Ready(full());
        }
        self.left = self.full;
        let first = batch.events().first().and_then(|event| batch.raw(event));
        let first = first.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        self.takes.lock().map_err(Error::internal)?.delivered.push(first.into_iter().collect());
        let mut exceptions = Vec::new();
        if batch.len() > 1 {
            exceptions.push(exception(1..batch.len(), Error::full("no room for the rest")));
        }
        Poll::Ready(Ok(exceptions))
    }
}

#[test]
fn a_peer_that_takes_a_part_of_a_batch_each_time_gets_all_of_it() {
    // Attempts are counted anew with each event that it takes.
    for full in [0, 2] {
        let takes = Takes::of([]);
        let sink = || Box::new(TakesOne { takes: takes.clone(), full, left: full }) as _;
        let outcome = harness(attempts(full as u64)).run_into(Pulls::numbers(50), &takes, sink);
        assert_eq!(outcome.messages(), numbers(150));
        assert_eq!(outcome.heard, pulls(50, true));
        assert_eq!((outcome.counts.failed, outcome.letters.len()), (0, 0));
    }
}

#[test]
fn what_is_left_after_the_last_attempt_goes_to_err_with_the_last_error_and_the_rest_flows_on() {
    let part = vec![exception(1..3, Error::internal("busy").with_policy(ErrorPolicy::RETRY))];
    let takes = [full(), Ok(part), full(), Err(Error::timeout("too slow"))];
    let outcome = harness(attempts(1)).run(Pulls::numbers(2), &Takes::of(takes));
    assert_eq!(outcome.messages(), ["0", "3", "4", "5"]);
    assert_eq!(outcome.letters.len(), 2);
    for (letter, original) in outcome.letters.iter().zip(["\"1\"", "\"2\""]) {
        assert!(letter.contains("not delivered after 2 attempts: too slow"), "{letter}");
        assert!(letter.contains("\"kind\":\"timeout\"") && letter.contains(original), "{letter}");
    }
    assert_eq!(outcome.heard, pulls(2, true), "dead-lettered is done with");
    assert_eq!((outcome.counts.dead_lettered, outcome.counts.failed), (2, 0));
}

#[test]
fn attempts_count_however_a_sink_says_that_it_has_taken_nothing() {
    let nothing = || {
        let all = vec![exception(0..3, Error::full("no room"))];
        Ok(all)
    };
    let takes = [nothing(), full(), nothing()];
    let outcome = harness(attempts(2)).run(Pulls::numbers(1), &Takes::of(takes));
    assert_eq!((outcome.messages().len(), outcome.letters.len()), (0, 3));
    assert!(
        outcome.letters[0].contains("not delivered after 3 attempts"),
        "{}",
        outcome.letters[0]
    );
}

#[test]
fn without_attempts_what_is_not_taken_at_once_goes_to_err() {
    let outcome = harness(attempts(0)).run(Pulls::numbers(1), &Takes::of([full()]));
    assert_eq!((outcome.messages().len(), outcome.letters.len()), (0, 3));
}

#[test]
fn a_source_is_closed_once_it_has_heard_of_all_its_pulls() {
    let source = Pulls::numbers(5);
    let closed = source.closed.clone();
    harness(attempts(0)).run(source, &Takes::of([]));
    assert_eq!(*closed.lock().unwrap(), [5]);
}

#[test]
fn failed_pull_is_retried_and_counts_as_error() {
    let errors = [Error::timeout("no answer"), Error::full("quota"), Error::bad_data("no message")];
    let source = Pulls { errors: errors.into(), ..Pulls::numbers(2) };
    let harness = harness(attempts(0));
    let handle = harness.source.handle.clone();
    let outcome = harness.run(source, &Takes::of([]));
    assert_eq!(outcome.messages(), numbers(6));
    assert_eq!((outcome.counts.events_in, outcome.counts.failed), (6, 0));
    assert_eq!(handle.status().errors.get("bad data"), Some(&1));
}

/// A wait that no test sees the end of.
const LONG: Policy = Policy { first: Duration::from_secs(1 << 40), ..AT_ONCE };

#[test]
fn a_wait_for_a_peer_ends_with_its_connection_or_the_flow() {
    for stops in [false, true] {
        let Harness { mut source, mut sink, .. } = harness(LONG);
        let (control, connection) = (sink.control.clone(), Arc::<Connection>::default());
        let (takes, double) = (Takes::of([full()]), Pulls::numbers(1));
        let heard = double.heard.clone();
        let sink_runs = async {
            let end = sink.run(Box::new(Taking(takes.clone())), &connection).await;
            assert!(matches!(end, End::Interrupted), "{end:?}");
            connection.restore();
            if !stops {
                // What is left is delivered at once on the next connection.
                let end = sink.run(Box::new(Taking(takes.clone())), &connection).await;
                assert!(matches!(end, End::Finished), "{end:?}");
            }
            sink.abandon();
        };
        let rest = async {
            let brought = source.bring(Box::new(double), &Arc::default()).await;
            while !takes.lock().unwrap().next.is_empty() {
                executor::yield_now().await;
            }
            if stops {
                control.advance(Phase::Stopped);
            } else {
                connection.break_off();
            }
            let Ok(settling) = brought else { panic!("it was not interrupted") };
            settling.run().await.unwrap();
        };
        block_on(both(sink_runs, rest));
        assert_eq!(sorted(&heard), pulls(1, !stops));
    }
}

/// A sink that takes nothing, and says so after its connection broke.
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
    let Harness { mut source, mut sink, .. } = harness(AT_ONCE);
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
    };
    let source_runs =
        async { _ = source.bring(Box::new(Pulls::numbers(1)), &Arc::default()).await };
    block_on(both(sink_runs, source_runs));
}

#[test]
fn a_sink_that_waits_for_its_peer_tells_operators_behind_err_the_time() {
    let Harness { mut source, mut sink, .. } = harness(LONG);
    let told = Arc::new(AtomicBool::new(false));
    let operators: Vec<Box<dyn Operator>> = vec![Box::new(Waits { due: None, told: told.clone() })];
    let (dead, _letters) = queue::bounded(Bounds::default(), &Processors::default());
    let ports = Ports { err: vec![Target::Pipeline(0)], ..Ports::default() };
    let (stats, dead) = (sink.router.stats.clone(), vec![outlet(dead, &Arc::default())]);
    let pipelines = vec![pipeline(operators, Arc::default())];
    sink.router = router("sink", pipelines, ports, dead, None, &stats);
    let (control, connection) = (sink.control.clone(), Arc::<Connection>::default());
    let refused =
        vec![exception(0..1, Error::bad_data("never")), exception(1..2, Error::full("no room"))];
    // It takes one of three, and then nothing, however often it is asked.
    let takes = Takes::of([Ok(refused), full(), full()]);
    let sink_runs = async {
        let end = sink.run(Box::new(Taking(takes.clone())), &connection).await;
        assert!(matches!(end, End::Interrupted), "{end:?}");
    };
    let rest = async {
        _ = source.bring(Box::new(Pulls::numbers(1)), &Arc::default()).await;
        while !told.load(Ordering::Relaxed) {
            executor::yield_now().await;
        }
        control.advance(Phase::Stopped);
    };
    block_on(both(sink_runs, rest));
    assert_eq!(takes.lock().unwrap().next.len(), 1, "it was still waiting");
}

/// A sink that holds something back, and is full so many times when that is to go out.
struct HoldsBack {
    full: VecDeque<()>,
    drains: Arc<AtomicUsize>,
}

impl DynSink for HoldsBack {
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
fn a_peer_that_is_full_at_the_end_is_waited_for_as_well() {
    let (drains, made) = (Arc::<AtomicUsize>::default(), Mutex::new(0));
    let sink = || {
        *made.lock().unwrap() += 1;
        Box::new(HoldsBack { full: [(); 20].into(), drains: drains.clone() }) as _
    };
    harness(AT_ONCE).run_into(Pulls::numbers(1), &Takes::of([]), sink);
    assert_eq!((*made.lock().unwrap(), drains.load(Ordering::Relaxed)), (1, 21));
}

#[test]
fn a_peer_that_is_full_is_a_line_in_the_log_and_one_when_it_is_not_any_more() {
    let takes = Takes::of((0..500).map(|_| full()));
    let mut harness = harness(AT_ONCE);
    let notices = crate::engine::logging::notices::Notices::new("slow".into(), Arc::default());
    harness.sink.retries = Retries::new(AT_ONCE, Arc::new(notices));
    let lines = lines("slow", || _ = harness.run(Pulls::numbers(1), &takes));
    assert_eq!(lines, 2);
}
