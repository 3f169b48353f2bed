//! The haste of a reload: tasks that wait for the capacity of full queues continue, so that the reload need not wait for
//! the receivers of these queues.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use crate::engine::sync::watch::{Waiter, Watch};

/// Maximum number of batches that may enter queues over their limits while a reload waits. Each task of the component has
/// usually one batch, but a single pull may expand to any number of batches.
const ADMITTED: usize = 256;

/// The reloads that wait for a component. While there is one, the tasks of the component do not wait for capacity.
#[derive(Debug, Default)]
pub(crate) struct Haste {
    /// Number of reloads that wait.
    waiting: Watch<usize>,
    /// Number of batches that entered queues over their limits since the last reload began to wait.
    admitted: AtomicUsize,
}

/// The wait of a reload for a component. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Hurried(Arc<Haste>);

impl Haste {
    /// Ends all waits for capacity, until the returned value is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Hurried {
        self.admitted.store(0, Ordering::Relaxed);
        self.waiting.update(|count| *count += 1);
        Hurried(self.clone())
    }

    /// Returns whether another batch may enter a queue over its limits, and counts the batch.
    pub(crate) fn admits(&self) -> bool {
        self.admitted.fetch_add(1, Ordering::Relaxed) < ADMITTED
    }

    /// Completes once a reload waits.
    pub(crate) async fn begun(&self) {
        self.waiting.wait(|count| (*count > 0).then_some(())).await;
    }

    /// Returns the registration of a task that waits for capacity.
    pub(crate) fn changes(&self) -> Changes<'_> {
        Changes(self.waiting.waiter())
    }
}

impl Drop for Hurried {
    fn drop(&mut self) {
        self.0.waiting.update(|count| *count -= 1);
    }
}

/// The registration of a task that waits for capacity.
pub(crate) struct Changes<'h>(Waiter<'h, usize>);

impl Changes<'_> {
    /// Completes while a reload waits. May be polled again after that.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        self.0.poll(context, |count| (*count > 0).then_some(()))
    }
}
