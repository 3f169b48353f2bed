//! A timer that may be left alone while other things are waited for.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::{Host, Task, lock::lock};

/// A timer. A task of its own waits for it, so that a source that waits for sockets and is woken by one of
/// them does not have to set it again: that costs as much as the read.
#[derive(Default)]
pub(super) struct Alarm {
    bell: Arc<Bell>,
    /// None unless it is set.
    task: Option<Task>,
}

#[derive(Default)]
struct Bell {
    /// What the clock showed when it rang; zero until then.
    rang_ns: AtomicU64,
    waiting: Mutex<Option<Waker>>,
}

impl Alarm {
    /// Sets it, in place of what it was set to.
    pub(super) fn set(&mut self, host: &Host, after: Duration) {
        self.bell = Arc::default();
        let (bell, timer, clock) = (self.bell.clone(), host.timer(after), host.clone());
        self.task = Some(host.spawn("waits for a time", async move {
            timer.await;
            bell.rang_ns.store(clock.monotonic_ns().max(1), Ordering::Release);
            let waiting = lock(&bell.waiting).take();
            waiting.into_iter().for_each(Waker::wake);
        }));
    }

    /// Whether it is set: it has not rung, or nobody has asked since.
    pub(super) fn is_set(&self) -> bool {
        self.task.is_some()
    }

    /// What the clock showed when it rang, if it has. It is not set any more then.
    pub(super) fn rang_ns(&mut self) -> Option<u64> {
        let rang_ns = if self.is_set() { self.bell.rang_ns.load(Ordering::Acquire) } else { 0 };
        (rang_ns > 0).then(|| {
            self.task = None;
            rang_ns
        })
    }

    /// Ready once it has rung.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        if !self.is_set() {
            return Poll::Pending;
        }
        *lock(&self.bell.waiting) = Some(context.waker().clone());
        // It may have rung before the waker was there.
        if self.bell.rang_ns.load(Ordering::Acquire) > 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}
