//! Tests that sources which never wait still yield to other tasks.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_pdk::{Batch, Error, Pull, Result};

use super::{Harness, Setup, both};
use crate::executor::{self, alone};
use crate::{clock::Clock, dynamic::DynSource, engine::tuning::TIME_SLICE};

/// A source that gives the same answer to every pull immediately, until `until` is set.
struct Restless<F> {
    answer: F,
    clock: Clock,
    until: Arc<AtomicBool>,
}

impl<F: FnMut() -> Result<Pull> + Send> DynSource for Restless<F> {
    fn poll_pull(&mut self, _: &mut Context<'_>, _: &mut Batch) -> Poll<Result<Pull>> {
        self.clock.advance(TIME_SLICE / 10);
        let ends = self.until.load(Ordering::Relaxed);
        Poll::Ready(if ends { Ok(Pull::Finished) } else { (self.answer)() })
    }

    fn give_up(&mut self, _: &mut Batch) {}
}

/// Runs a source and another task on one thread. The other task ends the source when it is polled for the second time.
fn runs_beside_others(answer: impl FnMut() -> Result<Pull> + Send + 'static) {
    let Harness { mut source, control, .. } = Setup::default().harness();
    let (clock, until) = (control.clock().clone(), Arc::<AtomicBool>::default());
    let restless = Box::new(Restless { answer, clock, until: until.clone() });
    let source_runs = async {
        assert!(source.pull_until_end(restless, &Arc::default()).await.is_ok());
    };
    let ends = async {
        executor::yield_now().await;
        until.store(true, Ordering::Relaxed);
    };
    alone::run(control.clock(), both(source_runs, ends));
}

#[test]
fn source_with_short_idle_times_yields() {
    runs_beside_others(|| Ok(Pull::Idle(Duration::from_micros(10))));
    runs_beside_others(|| Ok(Pull::Idle(Duration::ZERO)));
}

#[test]
fn source_with_endless_bad_data_yields() {
    runs_beside_others(|| Err(Error::bad_data("again")));
}

#[test]
fn source_with_endless_empty_pulls_yields() {
    runs_beside_others(|| Ok(Pull::Events));
}

/// Polls the task of a source a thousand times, within less time than its first wait. The source gives `answer` to
/// every pull. Returns the number of pulls, and the numbers of events that were counted as read and as failed.
fn pulls_of(answer: impl Fn() -> Result<Pull> + Send + 'static) -> (usize, [u64; 2]) {
    let Harness { mut source, control, .. } = Setup::default().harness();
    let clock = control.clock().clone();
    let stats = source.worker.router.stats.clone();
    let pulls = Arc::<AtomicUsize>::default();
    let answer = {
        let pulls = pulls.clone();
        move || {
            pulls.fetch_add(1, Ordering::Relaxed);
            answer()
        }
    };
    let restless = Box::new(Restless { answer, clock, until: Arc::default() });
    let connection = Arc::default();
    let mut runs = pin!(source.pull_until_end(restless, &connection));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..1_000 {
        assert!(runs.as_mut().poll(&mut context).is_pending());
    }
    let counts = stats.counts();
    (pulls.load(Ordering::Relaxed), [counts.taken, counts.failed])
}

#[test]
fn answers_without_events_slow_the_source_down() {
    for answer in
        [|| Ok(Pull::Events), || Ok(Pull::Idle(Duration::ZERO)), || Err(Error::bad_data("again"))]
    {
        let (pulls, events) = pulls_of(answer);
        // The first pulls follow each other immediately.
        assert_eq!(pulls, 17);
        assert_eq!(events, [0, 0], "no event was read or lost");
    }
}
