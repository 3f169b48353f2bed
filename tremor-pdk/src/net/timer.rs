//! A timer that stays set while its owner also waits for other events.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::{Host, Task, lock};

/// A timer that runs in a separate task.
///
/// A source that waits for sockets as well does not have to set the timer again each time that a socket wakes the
/// source, which would cost as much as a read.
#[derive(Default)]
pub(super) struct Timer {
    state: Arc<TimerState>,
    /// The task that waits for the timer; `None` if the timer is not set.
    task: Option<Task>,
}

#[derive(Default)]
struct TimerState {
    /// Monotonic time at which the timer expired, in ns; 0 until then.
    expired_ns: AtomicU64,
    waiting: Mutex<Option<Waker>>,
}

impl Timer {
    /// Sets the timer, replacing an earlier setting.
    pub(super) fn set(&mut self, host: &Host, after: Duration) {
        self.state = Arc::default();
        let (state, sleep, clock) = (self.state.clone(), host.timer(after), host.clone());
        self.task = Some(host.spawn("timer", async move {
            sleep.await;
            state.expired_ns.store(clock.monotonic_ns().max(1), Ordering::Release);
            let waiting = lock(&state.waiting).take();
            waiting.into_iter().for_each(Waker::wake);
        }));
    }

    /// Returns whether the timer was set, and [`expired_ns`](Self::expired_ns) has not reported that it expired.
    pub(super) fn is_set(&self) -> bool {
        self.task.is_some()
    }

    /// Returns the monotonic time in ns at which the timer expired, or `None` if it has not expired. After a call that
    /// returned the time, the timer is no longer set.
    pub(super) fn expired_ns(&mut self) -> Option<u64> {
        let expired_ns =
            if self.is_set() { self.state.expired_ns.load(Ordering::Acquire) } else { 0 };
        (expired_ns > 0).then(|| {
            self.task = None;
            expired_ns
        })
    }

    /// Completes when the timer has expired.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        if !self.is_set() {
            return Poll::Pending;
        }
        *lock(&self.state.waiting) = Some(context.waker().clone());
        // The timer may have expired before the waker was stored.
        if self.state.expired_ns.load(Ordering::Acquire) > 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
