//! A timer that may be left alone while other things are waited for.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::{Host, Task};

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
    has_rung: AtomicBool,
    waiting: Mutex<Option<Waker>>,
}

impl Alarm {
    /// Sets it, in place of what it was set to.
    pub(super) fn set(&mut self, host: &Host, after: Duration) {
        self.bell = Arc::default();
        let (bell, timer) = (self.bell.clone(), host.timer(after));
        self.task = Some(host.spawn("waits for a time", async move {
            timer.await;
            bell.has_rung.store(true, Ordering::Release);
            let waiting = bell.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
            waiting.into_iter().for_each(Waker::wake);
        }));
    }

    /// Whether it is set: it has not rung, or nobody has asked since.
    pub(super) fn is_set(&self) -> bool {
        self.task.is_some()
    }

    /// Whether it has rung. It is not set any more then.
    pub(super) fn has_rung(&mut self) -> bool {
        let has_rung = self.is_set() && self.bell.has_rung.load(Ordering::Acquire);
        if has_rung {
            self.task = None;
        }
        has_rung
    }

    /// Ready once it has rung.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        if !self.is_set() {
            return Poll::Pending;
        }
        {
            let waiting = &mut *self.bell.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            *waiting = Some(context.waker().clone());
        }
        // It may have rung before the waker was there.
        if self.bell.has_rung.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}
