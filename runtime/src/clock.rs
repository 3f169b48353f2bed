//! The clock from which the runtime takes the time: the system's clock, or a simulated one that only its owner
//! advances.
//!
//! The runtime hands the clock down to the code that needs the time. Tests and the [simulation] of flows hand down a
//! simulated clock, so their results do not depend on the speed of the machine. `cargo xtask tidy` lists the files that
//! read the system's clock in another way.
//!
//! [simulation]: crate::flow_test

use std::{
    collections::BTreeMap,
    future::poll_fn,
    mem,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tremor_pdk::lock;

use crate::executor;

/// A clock: that of the system by default, or a simulated one.
///
/// A clone of a simulated clock is the same clock. Reading the system's clock through this type costs a predictable
/// branch.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<Simulated>>);

/// State of a simulated clock.
#[derive(Debug)]
struct Simulated {
    /// Time at which the simulated clock shows 0 ns.
    origin: Instant,
    /// Time that the clock shows, in ns. Changed only while `timers` is locked.
    now_ns: AtomicU64,
    timers: Mutex<Timers>,
}

/// The timers that wait for a simulated clock.
#[derive(Debug, Default)]
struct Timers {
    /// Wakers of the tasks that wait, by the time of the timer and by its number.
    waiting: BTreeMap<(Instant, u64), Waker>,
    /// Number of the next timer.
    next: u64,
}

impl Clock {
    /// Creates a simulated clock that shows `now_ns` as the time of events and as the monotonic time.
    pub(crate) fn simulated(now_ns: u64) -> Self {
        let (now_ns, timers) = (AtomicU64::new(now_ns), Mutex::default());
        Self(Some(Arc::new(Simulated { origin: Instant::now(), now_ns, timers })))
    }

    /// Creates a clock that always shows the same time, for tests of a whole run.
    #[doc(hidden)]
    pub fn stopped() -> Self {
        Self::simulated(START_NS)
    }

    /// Returns whether the clock is simulated, so that it does not advance while a task is busy.
    pub(crate) fn is_simulated(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the current time of the monotonic clock.
    #[inline]
    pub fn now(&self) -> Instant {
        match &self.0 {
            None => Instant::now(),
            Some(simulated) => simulated.now(),
        }
    }

    /// Returns the time that has passed since `since`.
    #[inline]
    pub fn elapsed(&self, since: Instant) -> Duration {
        self.now().saturating_duration_since(since)
    }

    /// Returns the time in ns since the Unix epoch, or zero if the clock is set to an earlier time.
    ///
    /// Use this only for time stamps, because the clock may be adjusted.
    #[expect(clippy::disallowed_methods, reason = "this is the clock for stamps")]
    pub fn now_ns(&self) -> u64 {
        match &self.0 {
            None => nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
            Some(simulated) => simulated.now_ns.load(Ordering::Relaxed),
        }
    }

    /// Returns the time of the monotonic clock in ns. The value of the system's clock is never zero, so that plugins
    /// can use zero for a time that is not set.
    pub fn monotonic_ns(&self) -> u64 {
        match &self.0 {
            None => nanoseconds(START.elapsed()).saturating_add(START_NS),
            Some(simulated) => simulated.now_ns.load(Ordering::Relaxed),
        }
    }

    /// Returns the instant at which [`Clock::monotonic_ns`] is `time_ns`.
    pub(crate) fn instant_of(&self, time_ns: u64) -> Instant {
        match &self.0 {
            None => *START + Duration::from_nanos(time_ns.saturating_sub(START_NS)),
            Some(simulated) => simulated.origin + Duration::from_nanos(time_ns),
        }
    }

    /// Returns the point in time after `duration`, but at most one day from now. After waiting, callers have to check
    /// whether `duration` has really passed.
    pub(crate) fn after(&self, duration: Duration) -> Instant {
        const LONGEST: Duration = Duration::from_hours(24);
        self.now() + duration.min(LONGEST)
    }

    /// Returns a future that waits for `duration` from now.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + Sync + use<> {
        let (mut alarm, at) = (self.alarm(), self.now().checked_add(duration));
        poll_fn(move |context| at.map_or(Poll::Pending, |at| alarm.poll(context, at)))
    }

    /// Creates a timer of this clock.
    pub(crate) fn alarm(&self) -> Alarm {
        Alarm(match &self.0 {
            None => Timer::System(executor::Alarm::default()),
            Some(clock) => {
                let mut timers = lock(&clock.timers);
                timers.next += 1;
                let number = timers.next;
                drop(timers);
                Timer::Simulated { clock: clock.clone(), number, at: None }
            }
        })
    }

    /// Sets the time of a simulated clock to `now_ns`, and wakes the tasks whose timers are due. Does nothing if the
    /// clock is that of the system.
    #[doc(hidden)]
    pub fn set_ns(&self, now_ns: u64) {
        let Some(simulated) = &self.0 else { return };
        let mut timers = lock(&simulated.timers);
        simulated.now_ns.store(now_ns, Ordering::Relaxed);
        let later = timers.waiting.split_off(&(simulated.now(), u64::MAX));
        let due = mem::replace(&mut timers.waiting, later);
        drop(timers);
        due.into_values().for_each(Waker::wake);
    }

    /// Advances a simulated clock by `duration`: see [`Clock::set_ns`].
    #[cfg(test)]
    pub(crate) fn advance(&self, duration: Duration) {
        self.set_ns(self.monotonic_ns().saturating_add(nanoseconds(duration)));
    }

    /// Returns the time until the next timer of a simulated clock for which a task waits.
    #[cfg(test)]
    pub(crate) fn next_timer(&self) -> Option<Duration> {
        let simulated = self.0.as_ref()?;
        let next = lock(&simulated.timers).waiting.keys().next().map(|(at, _)| *at)?;
        Some(next.saturating_duration_since(self.now()))
    }
}

impl Simulated {
    fn now(&self) -> Instant {
        self.origin + Duration::from_nanos(self.now_ns.load(Ordering::Relaxed))
    }
}

/// A reusable timer.
#[derive(Debug)]
pub(crate) struct Alarm(Timer);

#[derive(Debug)]
enum Timer {
    System(executor::Alarm),
    Simulated {
        clock: Arc<Simulated>,
        number: u64,
        /// Time for which a task waits.
        at: Option<Instant>,
    },
}

impl Alarm {
    /// Completes at the time `at`. The timer is re-armed only if `at` differs from that of the previous call.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, at: Instant) -> Poll<()> {
        match &mut self.0 {
            Timer::System(alarm) => alarm.poll(context, at),
            Timer::Simulated { clock, number, at: armed } => {
                let mut timers = lock(&clock.timers);
                if let Some(armed) = armed.take() {
                    timers.waiting.remove(&(armed, *number));
                }
                if clock.now() >= at {
                    return Poll::Ready(());
                }
                *armed = Some(at);
                timers.waiting.insert((at, *number), context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Completes with the name of the earliest time once that time is reached. If several times are equal, the first
    /// entry counts. Entries without a time are ignored.
    pub(crate) fn poll_earliest<N: Copy, const COUNT: usize>(
        &mut self,
        context: &mut Context<'_>,
        times: [(Option<Instant>, N); COUNT],
    ) -> Poll<N> {
        let times = times.into_iter().filter_map(|(at, name)| Some((at?, name)));
        match times.min_by_key(|(at, _)| *at) {
            Some((at, name)) => self.poll(context, at).map(|()| name),
            None => Poll::Pending,
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Timer::Simulated { clock, number, at: Some(at) } = &self.0 {
            lock(&clock.timers).waiting.remove(&(*at, *number));
        }
    }
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Value of [`Clock::monotonic_ns`] at [`START`].
const START_NS: u64 = 1_000_000_000;

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        pin::pin,
        task::{Context, Poll, Waker},
        time::Duration,
    };

    use super::Clock;
    use crate::executor::block_on;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn earliest_time_is_due_first() {
        for clock in [Clock::default(), Clock::simulated(1)] {
            let (mut alarm, now) = (clock.alarm(), clock.now());
            let soon = now + MS;
            let times = |first| [(first, "first"), (None, "never"), (Some(soon), "soon")];
            let mut next = |first| block_on(poll_fn(|it| alarm.poll_earliest(it, times(first))));
            assert_eq!(next(Some(now)), "first");
            clock.advance(MS);
            assert_eq!(next(Some(soon)), "first");
            assert_eq!(next(None), "soon");
            assert_eq!(next(Some(now)), "first");
        }
    }

    #[test]
    fn simulated_sleep_ends_exactly_at_its_time() {
        let clock = Clock::simulated(0);
        let (other, mut context) = (clock.clone(), Context::from_waker(Waker::noop()));
        let mut sleep = pin!(other.sleep(5 * MS));
        assert_eq!(clock.next_timer(), None, "the sleep was not polled");
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        assert_eq!(clock.next_timer(), Some(5 * MS));
        clock.advance(Duration::from_nanos(4_999_999));
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        assert_eq!(clock.next_timer(), Some(Duration::from_nanos(1)));
        clock.advance(Duration::from_nanos(1));
        assert_eq!(sleep.as_mut().poll(&mut context), Poll::Ready(()));
        assert_eq!((clock.next_timer(), clock.monotonic_ns()), (None, 5_000_000));
    }

    #[test]
    fn dropped_timer_no_longer_waits() {
        let clock = Clock::simulated(0);
        let mut alarm = clock.alarm();
        let at = clock.after(MS);
        assert!(alarm.poll(&mut Context::from_waker(Waker::noop()), at).is_pending());
        drop(alarm);
        assert_eq!(clock.next_timer(), None);
    }

    #[test]
    fn monotonic_time_is_that_of_instant() {
        for clock in [Clock::default(), Clock::simulated(7)] {
            let ns = clock.monotonic_ns();
            assert!(clock.instant_of(ns) <= clock.now());
            assert_eq!(clock.instant_of(ns + 5), clock.instant_of(ns) + Duration::from_nanos(5));
        }
    }
}
