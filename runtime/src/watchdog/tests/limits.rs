//! Tests of limits on the time of calls.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tremor_abi::connector::Hook;

use super::{Hangs, limit, poll, sample_and_notify, turn, watched};
use crate::watchdog::{
    Call, Overrun,
    waits::{Scheduled, Waits},
};

#[test]
fn call_over_limit_is_notified_after_return() {
    let (mut sampler, calls) = watched();
    let (limit, notified) = limit(Duration::from_millis(199));
    let watched = calls.watch_limited("output", limit);
    watched.call(Call::Deliver, || sample_and_notify(&mut sampler, 4));
    sample_and_notify(&mut sampler, 2);
    assert_eq!(*notified.lock().unwrap(), [], "150 ms were observed, which is below the limit");
    watched.call(Call::Deliver, || sample_and_notify(&mut sampler, 7));
    assert_eq!(*notified.lock().unwrap(), [], "it has not returned");
    sample_and_notify(&mut sampler, 2);
    let overrun = Overrun { call: "deliver".to_owned(), lasted: Duration::from_millis(300) };
    assert_eq!(*notified.lock().unwrap(), [overrun]);
    for call in [Call::New, Call::Close, Call::Drop] {
        watched.call(call, || sample_and_notify(&mut sampler, 7));
        sample_and_notify(&mut sampler, 1);
    }
    assert_eq!(notified.lock().unwrap().len(), 1, "another instance would not help");
}

#[test]
fn hanging_call_to_any_part_is_notified_once() {
    let (mut sampler, calls) = watched();
    let (limit, notified) = limit(Duration::from_millis(200));
    calls.limit_hangs("output", limit);
    let [codec, other] = ["output", "other"].map(|name| calls.watch(name, Some("codec `json`")));
    other.call(Call::Encode, || sample_and_notify(&mut sampler, 10));
    codec.call(Call::Encode, || sample_and_notify(&mut sampler, 4));
    assert_eq!(*notified.lock().unwrap(), []);
    let lasted = Duration::from_millis(200);
    let overrun = Overrun { call: "codec `json`: encode".to_owned(), lasted };
    codec.call(Call::Encode, || {
        sample_and_notify(&mut sampler, 5);
        assert_eq!(*notified.lock().unwrap(), std::slice::from_ref(&overrun));
        sample_and_notify(&mut sampler, 20);
    });
    sample_and_notify(&mut sampler, 5);
    assert_eq!(*notified.lock().unwrap(), [overrun]);
}

#[test]
fn call_whose_thread_waits_for_a_processor_exceeds_no_limit() {
    let (mut sampler, calls) = watched();
    let is_runnable = Arc::new(AtomicBool::new(true));
    let state = is_runnable.clone();
    sampler.waits = Waits::new(move |_| {
        let is_runnable = state.load(Ordering::Relaxed);
        Some(Scheduled { is_runnable, ..Scheduled::default() })
    });
    let (slow, notified) = limit(Duration::from_millis(200));
    let (hangs, hung) = limit(Duration::from_millis(200));
    calls.limit_hangs("output", hangs);
    let watched = calls.watch_limited("output", slow);
    let count = |of: &Mutex<Vec<Overrun>>| of.lock().unwrap().len();
    turn(&calls, || watched.call(Call::Deliver, || sample_and_notify(&mut sampler, 100)));
    sample_and_notify(&mut sampler, 2);
    assert_eq!((count(&notified), count(&hung)), (0, 0));
    assert!(calls.long_turns().is_empty());
    assert_eq!(sampler.sample().0, 0, "another thread would wait as well");
    is_runnable.store(false, Ordering::Relaxed);
    watched.call(Call::Deliver, || {
        sample_and_notify(&mut sampler, 100);
        assert_eq!((count(&notified), count(&hung)), (0, 1), "a sleeping thread is blocked");
    });
    sample_and_notify(&mut sampler, 2);
    assert_eq!((count(&notified), count(&hung)), (1, 1));
}

#[test]
fn waiting_future_exceeds_no_limit() {
    let (mut sampler, calls) = watched();
    let (slow, notified) = limit(Duration::from_millis(50));
    let (hangs, hung) = limit(Duration::from_millis(50));
    calls.limit_hangs("output", hangs);
    let watch = move || calls.watch_limited("output", slow.clone());
    let mut connector = watch().connector(Box::new(Hangs), watch);
    let mut start = connector.hook(Hook::START);
    for _ in 0..20 {
        assert!(poll(&mut start).is_pending());
        sample_and_notify(&mut sampler, 2);
    }
    assert_eq!((notified.lock().unwrap().len(), hung.lock().unwrap().len()), (0, 0));
}
