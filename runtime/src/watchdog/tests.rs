mod limits;

use std::{
    future::poll_fn,
    ops::Range,
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_abi::connector::Hook;
use tremor_pdk::{Acks, Batch, Demand, Error, Exception, Grant, Halves, Pull, Result, Sides};

use super::{
    Call, Calls, Limit, Limits, Overrun,
    findings::{Finding, Verdict},
    lasted,
    sampler::Sampler,
    waits::Waits,
};
use crate::dynamic::{BoxFuture, CodecRequirement, DynConnector, DynHalves, DynSink, DynSource};

/// Connector whose pulls, deliveries and hooks never complete, except deliveries in its second slot.
struct Hangs;

impl DynConnector for Hangs {
    fn codec_requirement(&self) -> CodecRequirement {
        CodecRequirement::Structured
    }

    fn sides(&self) -> Sides {
        Sides::BOTH
    }

    fn connect(&mut self, _wanted: Sides) -> BoxFuture<'_, Result<DynHalves>> {
        Box::pin(async { Ok(Halves::both(Box::new(Self) as _, Box::new(Self) as _)) })
    }

    fn hook(&mut self, _hook: Hook) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::pending())
    }
}

impl DynSource for Hangs {
    fn poll_pull(&mut self, _: &mut Context<'_>, _: &mut Batch) -> Poll<Result<Pull>> {
        Poll::Pending
    }

    fn give_up(&mut self, _: &mut Batch) {}

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        Ok(Some(Box::new(Self)))
    }
}

impl Acks for Hangs {
    fn ack(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn fail(&mut self, _: u64, _: &[Range<usize>]) -> Result<()> {
        Err(Error::bad_data("refused"))
    }

    fn fail_unknown(&mut self, _: u64, _: Range<usize>) -> Result<()> {
        Err(Error::bad_data("unknown"))
    }
}

impl DynSink for Hangs {
    fn demand(&mut self) -> Demand {
        Demand::gather(2)
    }

    fn poll_deliver(
        &mut self,
        _: &mut Context<'_>,
        slot: usize,
        _: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        if slot == 1 { Poll::Ready(Ok(Vec::new())) } else { Poll::Pending }
    }

    fn on_tick(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::pending())
    }
}

/// Returns a sampler and the records of the flow that it samples.
fn watched() -> (Sampler, Arc<Calls>) {
    let calls = Arc::<Calls>::default();
    let flows = Arc::new(Mutex::new(vec![calls.clone()]));
    (Sampler::new(flows, Limits::default(), Waits::new(|_| None)), calls)
}

/// Returns a watched connector `output`.
fn connector(calls: &Arc<Calls>) -> Box<dyn DynConnector> {
    let calls = calls.clone();
    calls
        .clone()
        .watch("output", None)
        .connector(Box::new(Hangs), move || calls.watch("output", None))
}

fn poll<T>(future: &mut BoxFuture<'_, T>) -> Poll<T> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn connected(connector: &mut dyn DynConnector) -> DynHalves {
    match poll(&mut connector.connect(Sides::BOTH)) {
        Poll::Ready(halves) => halves.unwrap(),
        Poll::Pending => panic!("the connector has to connect immediately"),
    }
}

/// Takes `times` samples. Returns the findings, each with the number of the sample.
fn sample(sampler: &mut Sampler, times: u32) -> Vec<(u32, String, Call, Verdict)> {
    let found = |sample, finding: Finding| {
        (sample, finding.record.component.to_string(), finding.call, finding.verdict)
    };
    let samples = 1..=times;
    samples.flat_map(|at| sampler.sample().1.into_iter().map(move |one| found(at, one))).collect()
}

fn deliver(sink: &mut Box<dyn DynSink>, events: usize) {
    let mut batch = Batch::new();
    (0..events).for_each(|_| batch.push_message(b"event"));
    let mut context = Context::from_waker(Waker::noop());
    assert!(sink.poll_deliver(&mut context, 0, &mut batch).is_pending());
}

/// Otherwise a queue on disk would keep these events as refused, instead of delivering them again.
#[test]
fn lost_events_of_a_watched_source_are_not_reported_as_refused() {
    let (_, calls) = watched();
    let mut source = connected(&mut *connector(&calls)).source.unwrap();
    let mut acks = source.acks().unwrap().unwrap();
    let error = |result: Result<()>| result.unwrap_err().to_string();
    assert_eq!(error(acks.fail_unknown(1, 0..2)), "unknown");
    assert_eq!(error(acks.fail(1, std::slice::from_ref(&(0..2)))), "refused");
}

#[test]
fn unanswered_delivery_is_reported_once() {
    let (mut sampler, calls) = watched();
    let mut sink = connected(&mut *connector(&calls)).sink.unwrap();
    deliver(&mut sink, 240);
    let unanswered = Limits::default().unanswered;
    let reported = (unanswered + 1, "output".to_owned(), Call::Deliver);
    let reported = (reported.0, reported.1, reported.2, Verdict::Unanswered(lasted(unanswered)));
    assert_eq!(sample(&mut sampler, 2 * unanswered), [reported]);
    let doing = calls.unanswered();
    assert_eq!(doing, [("output".into(), "delivering 240 events for 60.0 s".to_owned())]);
    drop(sink);
    let over = Verdict::Over(lasted(2 * unanswered - 1));
    assert_eq!(sample(&mut sampler, 2), [(1, "output".to_owned(), Call::Deliver, over)]);
    assert_eq!(calls.unanswered(), []);
}

#[test]
fn unanswered_delivery_among_several_is_reported() {
    let (mut sampler, calls) = watched();
    let mut sink = connected(&mut *connector(&calls)).sink.unwrap();
    sink.on_grant(Grant::new(2, true, None));
    deliver(&mut sink, 240);
    let (unanswered, mut found) = (Limits::default().unanswered, Vec::new());
    for _ in 0..=unanswered {
        let mut context = Context::from_waker(Waker::noop());
        assert!(sink.poll_deliver(&mut context, 1, &mut Batch::new()).is_ready());
        found.extend(sample(&mut sampler, 1));
    }
    let reported = Verdict::Unanswered(lasted(unanswered));
    assert_eq!(found, [(1, "output".to_owned(), Call::Deliver, reported)]);
    let doing = calls.unanswered();
    assert_eq!(doing, [("output".into(), "delivering 240 events for 30.0 s".to_owned())]);
    sink.give_up(0);
    assert_eq!(calls.unanswered(), []);
}

#[test]
fn gathered_delivery_without_answer_after_a_flush_is_reported() {
    let (mut sampler, calls) = watched();
    let mut sink = connected(&mut *connector(&calls)).sink.unwrap();
    assert!(sink.demand().gathers);
    sink.on_grant(Grant::new(1, true, None));
    deliver(&mut sink, 240);
    assert_eq!(sample(&mut sampler, 100), [], "a gathered delivery may wait for a flush");
    assert!(poll(&mut sink.flush()).is_ready());
    let flushed = Limits::default().flushed;
    let reported = Verdict::Flushed(lasted(flushed));
    let reported = (flushed + 1, "output".to_owned(), Call::Flushed, reported);
    assert_eq!(sample(&mut sampler, 100), [reported]);
    let doing = calls.unanswered();
    assert_eq!(doing, [("output".into(), "delivering 240 events for 5.0 s".to_owned())]);
}

#[test]
fn unanswered_hooks_and_ticks_are_reported() {
    let (mut sampler, calls) = watched();
    let mut connector = connector(&calls);
    let mut sink = connected(&mut *connector).sink.unwrap();
    let mut call = connector.hook(Hook::START);
    assert!(poll(&mut call).is_pending());
    let mut signal = sink.on_tick();
    assert!(poll(&mut signal).is_pending());
    let found = sample(&mut sampler, 700);
    let calls: Vec<_> = found.iter().map(|(_, _, call, _)| *call).collect();
    assert_eq!(calls, [Call::Start, Call::Tick]);
}

#[test]
fn waiting_pull_and_running_task_are_not_reported() {
    let (mut sampler, calls) = watched();
    let mut source = connected(&mut *connector(&calls)).source.unwrap();
    let mut context = Context::from_waker(Waker::noop());
    assert!(source.poll_pull(&mut context, &mut Batch::new()).is_pending());
    let task = calls.watch("output", Some("task `reader`"));
    let mut task: BoxFuture<'_, ()> = Box::pin(task.task(Box::pin(std::future::pending())));
    assert!(poll(&mut task).is_pending());
    assert_eq!(sample(&mut sampler, 1_000), []);
    assert_eq!(calls.unanswered(), []);
}

#[test]
fn blocked_thread_is_replaced_and_reported() {
    let (mut sampler, calls) = watched();
    let [first, second] = ["first", "second"].map(|name| calls.watch(name, None));
    let replacements = |sampler: &mut Sampler, samples: u32| -> Vec<usize> {
        (0..samples).map(|_| sampler.sample().0).collect()
    };
    first.call(Call::Pull, || {
        assert_eq!(replacements(&mut sampler, 3), [0, 0, 1]);
        second.call(Call::Deliver, || {
            assert_eq!(replacements(&mut sampler, 3), [1, 1, 2]);
            let blocked = Limits::default().blocked;
            let blocks = |at, name: &str, call| {
                (at, name.to_owned(), call, Verdict::Blocks(lasted(blocked)))
            };
            assert_eq!(
                sample(&mut sampler, 100),
                [
                    blocks(blocked - 5, "first", Call::Pull),
                    blocks(blocked - 2, "second", Call::Deliver)
                ]
            );
            let [(_, doing), _] = &calls.unanswered()[..] else { panic!("there are two") };
            assert_eq!(doing, "`pull` has blocked its thread for 5.2 s");
        });
    });
    // Replacement threads are kept, because a call that blocked once may soon block again.
    assert_eq!(replacements(&mut sampler, 200), [2; 200]);
    assert_eq!(replacements(&mut sampler, 401), [vec![1; 201], vec![0; 200]].concat());
}

/// Runs one turn of the task `source` of the component `input`.
fn turn<T>(calls: &Calls, work: impl FnOnce() -> T) -> T {
    let mut task = pin!(calls.watch("input", Some("source")).turns(async { work() }));
    match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the task does not wait"),
    }
}

#[test]
fn long_turn_of_the_runtime_is_counted_and_reported_once() {
    let (mut sampler, calls) = watched();
    let (limit, notified) = limit(Duration::from_millis(100));
    calls.limit_hangs("input", limit);
    turn(&calls, || {
        let replaced = Limits::default().replaced;
        let blocks = Verdict::Blocks(lasted(replaced));
        let found = [(replaced + 1, "input".to_owned(), Call::Turn, blocks)];
        assert_eq!(sample(&mut sampler, 100), found);
        assert_eq!(sampler.sample().0, 1, "the thread of the turn is replaced");
    });
    let over = Verdict::Over(lasted(100));
    assert_eq!(sample(&mut sampler, 2), [(1, "input".to_owned(), Call::Turn, over)]);
    let long = [(("input".into(), "source".into()), 1)];
    assert_eq!(calls.long_turns(), long.into());
    sample_and_notify(&mut sampler, 1);
    assert_eq!(*notified.lock().unwrap(), [], "no plugin hangs");
    turn(&calls, || assert_eq!(sample(&mut sampler, 2), []));
    assert_eq!(calls.long_turns().len(), 1);
}

#[test]
fn call_that_blocks_a_turn_is_reported_without_the_turn() {
    let (mut sampler, calls) = watched();
    turn(&calls, || {
        calls.watch("main", Some("operator")).call(Call::Process, || {
            let blocked = Limits::default().blocked;
            let blocks =
                (blocked + 1, "main".to_owned(), Call::Process, Verdict::Blocks(lasted(blocked)));
            assert_eq!(sample(&mut sampler, 100), [blocks]);
            assert_eq!(sampler.sample().0, 1, "the call and the turn block the same thread");
        });
    });
    assert!(calls.long_turns().is_empty());
}

#[test]
fn turn_of_many_calls_is_no_fault_of_the_runtime() {
    let (mut sampler, calls) = watched();
    let operator = calls.watch("main", Some("operator `slow`"));
    turn(&calls, || {
        let replaced = Limits::default().replaced;
        let mut found = Vec::new();
        for _ in 0..=replaced {
            operator.call(Call::Process, || ());
            found.extend(sample(&mut sampler, 1));
        }
        let made = "operator `slow`: process of `main`".to_owned();
        let calls = Verdict::Calls(lasted(replaced), made);
        assert_eq!(found, [(1, "input".to_owned(), Call::Turn, calls)]);
    });
}

#[test]
fn call_that_is_polled_again_and_again_is_reported_once() {
    let (mut sampler, calls) = watched();
    let mut source = connected(&mut *connector(&calls)).source.unwrap();
    let mut pull = |polls: usize| {
        let mut context = Context::from_waker(Waker::noop());
        (0..polls).for_each(|_| {
            assert!(source.poll_pull(&mut context, &mut Batch::new()).is_pending());
        });
        sample(&mut sampler, 1)
    };
    assert!((0..100).all(|_| pull(20).is_empty()), "a pull may be woken");
    let found: Vec<_> = (0..100).flat_map(|_| pull(1_000)).collect();
    let busy = Verdict::Busy(lasted(Limits::default().busy));
    assert_eq!(found, [(1, "output".to_owned(), Call::Pull, busy)]);
}

#[test]
fn sink_run_within_the_turn_of_a_source_is_named() {
    let (mut sampler, calls) = watched();
    turn(&calls, || {
        assert_eq!(sample(&mut sampler, 2), []);
        let sink = calls.watch("output", Some("sink"));
        let found = sink.call(Call::Turn, || sample(&mut sampler, 4));
        let named: Vec<_> = found.iter().map(|(_, component, ..)| component.as_str()).collect();
        assert_eq!(
            named,
            ["input", "output"],
            "the turn of the source becomes long before that of the sink"
        );
    });
}

#[test]
fn idle_task_is_seen_once_it_blocks_its_thread() {
    let (sampler, calls) = watched();
    let sampler = Arc::new(Mutex::new(sampler));
    let samples = |sampler: &Mutex<Sampler>, times: u32| -> (Vec<usize>, Vec<Verdict>) {
        let mut sampler = sampler.lock().unwrap();
        let (replacements, found): (_, Vec<_>) = (0..times).map(|_| sampler.sample()).unzip();
        (replacements, found.into_iter().flatten().map(|finding| finding.verdict).collect())
    };
    let (inside, mut polls) = (sampler.clone(), 0);
    let blocks = poll_fn(move |_| {
        polls += 1;
        // The watchdog samples while a thread is in the second poll.
        if polls == 2 {
            let blocked = Limits::default().blocked;
            let (replacements, found) = samples(&inside, blocked + 10);
            assert_eq!(
                (&replacements[..4], &found[..]),
                (&[0, 0, 1, 1][..], &[Verdict::Blocks(lasted(blocked))][..])
            );
        }
        Poll::Pending
    });
    let task = calls.watch("output", Some("task `reader`")).task(Box::pin(blocks));
    let mut task: BoxFuture<'_, ()> = Box::pin(task);
    assert!(poll(&mut task).is_pending());
    assert_eq!(samples(&sampler, 1_000), (vec![0; 1_000], vec![]));
    assert!(poll(&mut task).is_pending());
    assert_eq!(samples(&sampler, 5).1, []);
    drop(task);
    let (_, found) = samples(&sampler, 5);
    assert!(matches!(found[..], [Verdict::Over(_)]), "{found:?}");
    // A finding keeps a reference to the record until it was reported.
    samples(&sampler, 1);
    assert_eq!(calls.records.lock().unwrap().known.len(), 0);
}

#[test]
fn reports_are_limited_to_ten_a_minute() {
    let (mut sampler, calls) = watched();
    let sinks: Vec<_> = (0..25)
        .map(|_| {
            let mut sink = connected(&mut *connector(&calls)).sink.unwrap();
            deliver(&mut sink, 1);
            sink
        })
        .collect();
    let samples = |found: Vec<(u32, String, Call, Verdict)>| -> Vec<u32> {
        found.into_iter().map(|(sample, ..)| sample).collect()
    };
    let expected = [vec![601; 10], vec![601 + 1_200; 10], vec![601 + 2_400; 5]].concat();
    assert_eq!(samples(sample(&mut sampler, 5_000)), expected);
    drop(sinks);
}

#[test]
fn record_is_removed_with_its_task() {
    let (mut sampler, calls) = watched();
    let task = calls.watch("output", Some("task `once`")).task(Box::pin(async {}));
    sampler.sample();
    assert_eq!(calls.records.lock().unwrap().known.len(), 1);
    let mut task: BoxFuture<'_, ()> = Box::pin(task);
    assert!(poll(&mut task).is_ready());
    drop(task);
    sampler.sample();
    assert_eq!(calls.records.lock().unwrap().known.len(), 0);
}

/// Returns a limit, and the list of calls that exceeded it.
fn limit(of: Duration) -> (Limit, Arc<Mutex<Vec<Overrun>>>) {
    let notified = Arc::<Mutex<Vec<Overrun>>>::default();
    let own = notified.clone();
    (Limit::new(of, move |overrun| own.lock().unwrap().push(overrun.clone())), notified)
}

/// Takes `times` samples, and sends the notifications.
fn sample_and_notify(sampler: &mut Sampler, times: u32) {
    for _ in 0..times {
        sampler.sample();
        sampler.take_overruns().iter().for_each(super::limit::Notification::notify);
    }
}
