//! The flow that a log line is about, and the levels of the log.
//!
//! Flows share threads. Each poll of a flow's task therefore stores the name of the flow in a thread-local variable,
//! and the writer of the log reads that name ([`current_flow`]). Storing the name takes two swaps of a pointer for each
//! poll.

pub mod levels;

use std::{
    cell::Cell,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::executor::{self, Task};

thread_local! {
    static CURRENT: Cell<Option<Arc<str>>> = const { Cell::new(None) };
}

/// Number of log lines that were dropped since the process began.
static DROPPED_LINES: AtomicU64 = AtomicU64::new(0);

/// Counts `count` log lines that were dropped because the output of the log did not accept them.
pub fn count_dropped_lines(count: u64) {
    DROPPED_LINES.fetch_add(count, Ordering::Relaxed);
}

/// Returns the number of log lines that were dropped since the process began.
pub fn dropped_lines() -> u64 {
    DROPPED_LINES.load(Ordering::Relaxed)
}

/// Returns the flow for which the calling thread is working; `None` outside of flows.
pub fn current_flow() -> Option<Arc<str>> {
    CURRENT
        .try_with(|current| {
            let flow = current.take();
            current.set(flow.clone());
            flow
        })
        .ok()
        .flatten()
}

/// Swaps the current flow with the one in the cell, until the value is dropped.
struct Entered<'s>(&'s Cell<Option<Arc<str>>>);

impl<'s> Entered<'s> {
    fn new(slot: &'s Cell<Option<Arc<str>>>) -> Self {
        let entered = Self(slot);
        entered.swap();
        entered
    }

    fn swap(&self) {
        // A thread that is ending may still log after its thread-local variables were destroyed.
        _ = CURRENT.try_with(|current| current.swap(self.0));
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.swap();
    }
}

/// Runs `work` for a flow, so that its log lines name the flow.
pub(crate) fn within<T>(flow: &Arc<str>, work: impl FnOnce() -> T) -> T {
    let slot = Cell::new(Some(flow.clone()));
    let _entered = Entered::new(&slot);
    work()
}

/// Polls `future` for a flow, so that its log lines name the flow.
pub(crate) async fn of_flow<T>(flow: Arc<str>, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let slot = Cell::new(Some(flow));
    poll_fn(move |context| {
        let _entered = Entered::new(&slot);
        future.as_mut().poll(context)
    })
    .await
}

/// Starts a task for the flow for which the calling thread is working.
pub(crate) fn spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Task<T> {
    match current_flow() {
        Some(flow) => executor::spawn(of_flow(flow, future)),
        None => executor::spawn(future),
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, panic, sync::Arc, task::Poll};

    use super::{current_flow, of_flow, spawn, within};
    use crate::executor;

    fn current() -> String {
        current_flow().as_deref().unwrap_or("none").to_owned()
    }

    #[test]
    fn nested_work_restores_the_outer_flow() {
        let (outer, inner): (Arc<str>, Arc<str>) = ("outer".into(), "inner".into());
        within(&outer, || {
            within(&inner, || assert_eq!(current(), "inner"));
            let panicked = panic::catch_unwind(|| within(&inner, || panic!("on purpose")));
            assert!(panicked.is_err());
            assert_eq!(current(), "outer");
        });
        assert_eq!(current(), "none");
    }

    #[test]
    fn every_poll_of_a_task_and_its_subtasks_has_its_flow() {
        let names = executor::block_on(of_flow("orders".into(), async {
            let before = current();
            let mut is_second = false;
            poll_fn(|context| {
                context.waker().wake_by_ref();
                if std::mem::replace(&mut is_second, true) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            [before, current(), spawn(async { current() }).await]
        }));
        assert_eq!(names, ["orders"; 3]);
        assert_eq!(current(), "none");
    }
}
