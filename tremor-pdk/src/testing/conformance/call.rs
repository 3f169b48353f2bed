//! Monitored calls of a component, to detect calls that panic, block the thread, or wait forever.

use std::{
    cell::RefCell,
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

/// Maximum time for which a call may block its thread without using the processor.
const CALL_LIMIT: Duration = Duration::from_secs(1);

/// Time that a check waits for an answer of a peer or of a thread of the plugin.
///
/// Most checks pull a source whose peer is silent at some time. After the first wait without an answer, further waits
/// for the same kind of answer are shorter. If each instance gets events and then no more, checks therefore wait long
/// for the first events, and short for those that never arrive.
#[derive(Clone, Debug, Default)]
pub struct Patience(Rc<RefCell<Vec<Awaited>>>);

/// A kind of answer of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// The first events of a connection.
    FirstEvents,
    MoreEvents,
    /// The answer to any call except `pull`.
    Answer,
}

impl Patience {
    /// Returns whether a check has to stop waiting after `time`. If so, further waits are shorter.
    fn ends_after(&self, time: Duration, awaited: Awaited) -> bool {
        let is_short = self.is_short(awaited);
        let ends = time > Duration::from_millis(if is_short { 20 } else { 1_000 });
        if ends && !is_short {
            self.0.borrow_mut().push(awaited);
        }
        ends
    }

    /// Returns the time after which a timer ends early. Even after waits without an answer, the time is long enough
    /// for a peer that answers.
    fn of_timers(&self, awaited: Awaited) -> Duration {
        Duration::from_millis(if self.is_short(awaited) { 200 } else { 1_000 })
    }

    fn is_short(&self, awaited: Awaited) -> bool {
        self.0.borrow().contains(&awaited)
    }
}

/// Number of timers, such as keep-alive timers, that may end without waking the call while a peer is silent. After this
/// number of timers, the remaining timers do not count as a reason to keep waiting.
const TIMERS: usize = 3;

/// Number of timers that may end during one call. A call that is still pending then waits for a silent peer. Timers of a
/// task, such as that of [`Host::upkeep`](crate::Host::upkeep), also wake the call.
const MAX_TIMERS: usize = 200;

/// Maximum real time and maximum number of polls of one call. A call that exceeds one of these limits is considered
/// endless.
const LIMIT: (Duration, usize) = (Duration::from_secs(10), 100_000);

/// Maximum time of one wait for events from outside of the test's thread.
const SLICE: Duration = Duration::from_millis(10);

const PANICKED: &str = "methods must not panic: return an error of a suitable kind";

/// The contract of every call.
pub(super) const OF_CALLS: &str = "`tremor_pdk::Connector` and the other traits: methods do not panic or \
    block the thread, and a pending call is woken";

/// Returns the result of a call, or a fault if the call panicked.
pub(super) fn answer<T>(what: &str, result: Result<T>) -> Verdict<Result<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::PANICKED => {
            Err(fault(format_args!("`{what}` panicked: {error}"), PANICKED).of(OF_CALLS))
        }
        result => Ok(result),
    }
}

/// Runs a call that must return without blocking, and measures its time. Time in which the thread used a processor or
/// waited for one does not count if the system reports it, because a slow machine is not a fault of the plugin.
pub(super) fn timed<T>(what: &str, call: impl FnOnce() -> T) -> Verdict<T> {
    let (started, before) = (Instant::now(), scheduled());
    let result = call();
    let took = started.elapsed();
    if took <= CALL_LIMIT {
        return Ok(result);
    }
    let worked = scheduled().zip(before).map(|(now, before)| now.saturating_sub(before));
    let blocked = took.saturating_sub(worked.unwrap_or_default());
    if blocked > CALL_LIMIT {
        let seen = format!("`{what}` blocked its thread for {} ms", blocked.as_millis());
        let help = "run blocking code with `Host::blocking`, and wait with `Host::sleep`, \
            `Host::readable` or `Host::writable`";
        return Err(fault(seen, help).of(OF_CALLS));
    }
    Ok(result)
}

/// Runs a call as [`timed`] does, and converts a panic to a fault.
pub(super) fn direct<T>(what: &str, call: impl FnOnce() -> Result<T>) -> Verdict<Result<T>> {
    answer(what, timed(what, call)?)
}

/// Runs calls on a test host. A pending call is polled again only after it was woken.
pub(super) struct Calls {
    pub(super) host: TestHost,
    pub(super) patience: Patience,
}

impl Calls {
    /// Runs a call to its end. If the call waits for a peer, the check is skipped.
    pub(super) fn finish<T>(
        &self,
        what: &str,
        future: impl Future<Output = Result<T>>,
    ) -> Verdict<Result<T>> {
        let mut future = pin!(future);
        let poll = |context: &mut Context<'_>| future.as_mut().poll(context);
        let finished = self.poll(what, Awaited::Answer, usize::MAX, poll)?;
        finished.ok_or_else(|| {
            Finding::skip(format_args!("`{what}` waits for a peer that does not answer here"))
        })
    }

    /// Polls a call each time that it is woken, at most `polls` times. Returns `None` if the call is still pending
    /// then, or if it waits for a peer that does not answer.
    pub(super) fn poll<T>(
        &self,
        what: &str,
        awaited: Awaited,
        polls: usize,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<T>>,
    ) -> Verdict<Option<Result<T>>> {
        self.host.set_patience(self.patience.of_timers(awaited));
        let started = Instant::now();
        let (mut polled, mut all_timers) = (0, 0);
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
                let seen = format!("`{what}` waits forever, because nothing has kept its waker");
                let help = "poll inner futures with the context that `poll` received; await futures of \
                    `Host` instead of polling them";
                return Err(fault(seen, help).of(OF_CALLS));
            }
            let (mut idle, mut timers) = (Instant::now(), 0);
            loop {
                match self.host.0.step(&wakeup, Some(SLICE)) {
                    Step::Woken => break,
                    Step::Worked => idle = Instant::now(),
                    Step::TimePassed => (timers, all_timers) = (timers + 1, all_timers + 1),
                    Step::Waited => {}
                }
                let waits_for_time = timers < TIMERS && self.host.0.next_timer().is_some();
                let is_silent = all_timers >= MAX_TIMERS;
                if is_silent || !waits_for_time && self.patience.ends_after(idle.elapsed(), awaited)
                {
                    return Ok(None);
                }
                if !self.host.0.is_expected(&wakeup) {
                    let seen = format!("`{what}` was not woken when its condition was met");
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
        let seen = format!(
            "`{what}` does not end: it was polled {polled} times, and the host's clock is at {clock:?}"
        );
        let help =
            "let every call end with a result, or with an error that names the missing answer";
        Err(fault(seen, help).of(OF_CALLS))
    }
}

/// Returns the time for which this thread has used or waited for a processor; `None` if the system does not report
/// it.
fn scheduled() -> Option<Duration> {
    // Format on Linux: ns on a processor, ns of waiting for a processor, number of time slices.
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
