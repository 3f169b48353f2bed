//! Calls of a component, watched: whether they panic, hold the thread, or wait for what never comes.

use std::{
    cell::Cell,
    future::Future,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use super::{
    super::{
        TestHost,
        world::{Step, Wakeup},
    },
    report::{Finding, Verdict, fault},
};
use crate::{ErrorKind, Result};

/// How long a call may hold its thread without working.
const CALL_LIMIT: Duration = Duration::from_secs(1);

/// Time that something outside of the test host gets to answer: a peer, or a thread of the plugin.
///
/// A source whose peer is silent is pulled in most checks. After the first wait in vain, further waits are shorter.
#[derive(Clone, Debug)]
pub struct Patience(Rc<Cell<bool>>);

impl Default for Patience {
    fn default() -> Self {
        Self(Rc::new(Cell::new(true)))
    }
}

impl Patience {
    /// Returns whether `time` is too long to wait for an answer. Further waits are shorter if so.
    fn ends_after(&self, time: Duration) -> bool {
        let ends = time > Duration::from_millis(if self.0.get() { 1_000 } else { 20 });
        if ends {
            self.0.set(false);
        }
        ends
    }

    /// Returns the time after which a timer ends early. After waits in vain it is still long enough for a peer that
    /// answers.
    pub(super) fn of_timers(&self) -> Duration {
        Duration::from_millis(if self.0.get() { 1_000 } else { 200 })
    }
}

/// Number of timers that may end beside a silent peer without waking the call, such as signs of life. A call that
/// waits for one of them gets it.
const TIMERS: usize = 3;

/// How long a call may go on by itself, and how often it may be polled. What takes longer has no end.
const LIMIT: (Duration, usize) = (Duration::from_secs(10), 100_000);

/// How long the suite waits for something outside before it looks again.
const SLICE: Duration = Duration::from_millis(10);

const PANICKED: &str = "no method panics: return an error of a fitting kind";

/// What the contract says of every call.
pub(super) const OF_CALLS: &str = "`tremor_pdk::Connector` and the other traits: no method panics, none \
    holds its thread, and what waits is woken";

/// Takes the answer to a call; a panic is a fault.
pub(super) fn answer<T>(what: &str, result: Result<T>) -> Verdict<Result<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::PANICKED => {
            Err(fault(format_args!("`{what}` panicked: {error}"), PANICKED).of(OF_CALLS))
        }
        result => Ok(result),
    }
}

/// Runs a call that does not wait. Where the system tells, only the time counts in which it neither worked
/// nor stood in line for a processor: a slow machine is no fault of the plugin.
pub(super) fn timed<T>(what: &str, call: impl FnOnce() -> T) -> Verdict<T> {
    let (started, before) = (Instant::now(), scheduled());
    let result = call();
    let took = started.elapsed();
    if took <= CALL_LIMIT {
        return Ok(result);
    }
    let worked = scheduled().zip(before).map(|(now, before)| now.saturating_sub(before));
    let held = took.saturating_sub(worked.unwrap_or_default());
    if held > CALL_LIMIT {
        let seen = format!("`{what}` held its thread for {} ms", held.as_millis());
        let help = "move what blocks into `Host::blocking`, and wait with `Host::sleep`, \
            `Host::readable` or `Host::writable`";
        return Err(fault(seen, help).of(OF_CALLS));
    }
    Ok(result)
}

/// A synchronous call that answers.
pub(super) fn direct<T>(what: &str, call: impl FnOnce() -> Result<T>) -> Verdict<Result<T>> {
    answer(what, timed(what, call)?)
}

/// Makes calls on a test host. A call is polled when it has been woken, and not otherwise.
pub(super) struct Calls {
    pub(super) host: TestHost,
    pub(super) patience: Patience,
}

impl Calls {
    /// Runs a call to its end; that it waits for something outside is a reason to skip.
    pub(super) fn finish<T>(
        &self,
        what: &str,
        future: impl Future<Output = Result<T>>,
    ) -> Verdict<Result<T>> {
        let mut future = pin!(future);
        let finished = self.poll(what, usize::MAX, |context| future.as_mut().poll(context))?;
        finished.ok_or_else(|| {
            Finding::skip(format_args!("`{what}` waits for a peer that does not answer here"))
        })
    }

    /// Polls a call as often as it is woken, but no more than `polls` times; `None` where it is still
    /// pending then, or waits for something outside that does not come.
    pub(super) fn poll<T>(
        &self,
        what: &str,
        polls: usize,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<T>>,
    ) -> Verdict<Option<Result<T>>> {
        let started = Instant::now();
        let mut polled = 0;
        loop {
            let wakeup = Wakeup::new();
            let waker = Waker::from(wakeup.clone());
            let poll = timed(what, || poll(&mut Context::from_waker(&waker)))?;
            drop(waker);
            if let Poll::Ready(result) = poll {
                return answer(what, result).map(Some);
            }
            polled += 1;
            if polled == polls {
                return Ok(None);
            }
            if !wakeup.is_expected() {
                let seen = format!("`{what}` waits, and nothing has its waker: it waits for ever");
                let help = "poll what it waits for with the context that `poll` was given; await \
                    futures of `Host` and do not poll them by hand";
                return Err(fault(seen, help).of(OF_CALLS));
            }
            let (mut idle, mut timers) = (Instant::now(), 0);
            loop {
                match self.host.0.step(&wakeup, Some(SLICE)) {
                    Step::Woken => break,
                    Step::Worked => idle = Instant::now(),
                    Step::TimePassed => timers += 1,
                    Step::Waited => {}
                }
                let waits_for_time = timers < TIMERS && self.host.0.next_timer().is_some();
                if !waits_for_time && self.patience.ends_after(idle.elapsed()) {
                    return Ok(None);
                }
                if !self.host.0.is_expected(&wakeup) {
                    let seen = format!("`{what}` was not woken when what it waited for was there");
                    let help = "keep the waker of the last poll, and wake it";
                    return Err(fault(seen, help).of(OF_CALLS));
                }
                self.ends(what, started, polled)?;
            }
            self.ends(what, started, polled)?;
        }
    }

    fn ends(&self, what: &str, started: Instant, polled: usize) -> Verdict {
        if started.elapsed() < LIMIT.0 && polled < LIMIT.1 {
            return Ok(());
        }
        let clock = Duration::from_nanos(self.host.now_ns());
        let seen =
            format!("`{what}` has no end: polled {polled} times, the host's clock at {clock:?}");
        let help = "a call comes to an end: an answer, or an error that says what did not come";
        Err(fault(seen, help).of(OF_CALLS))
    }
}

/// How long this thread has worked and stood in line for a processor; none where the system does not
/// tell.
fn scheduled() -> Option<Duration> {
    // Of Linux: nanoseconds on a processor, nanoseconds in line for one, turns.
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut ns = text.split_ascii_whitespace().map(str::parse::<u64>);
    Some(Duration::from_nanos(ns.next()?.ok()?.saturating_add(ns.next()?.ok()?)))
}

/// Polls a call once, and drops it.
pub(super) fn poll_once<T>(
    call: &mut (impl Future<Output = Result<T>> + Unpin + ?Sized),
) -> Verdict {
    let mut context = Context::from_waker(Waker::noop());
    match timed("a call", || Pin::new(call).poll(&mut context))? {
        Poll::Ready(result) => answer("a call", result).map(drop),
        Poll::Pending => Ok(()),
    }
}
