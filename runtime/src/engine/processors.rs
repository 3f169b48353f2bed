//! Counters of the tasks that use the processors of the machine. Each run has its own counters, so runs in the same
//! process do not count each other's tasks.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::executor;

/// The processors of one run, and the tasks that use them.
#[derive(Clone, Debug)]
pub(crate) struct Processors(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    /// Number of tasks that can run at the same time.
    processors: usize,
    /// Number of tasks of sources, sinks and pipelines.
    working: AtomicUsize,
    /// Number of sources that always have events to read, and of their helpers.
    busy: AtomicUsize,
}

impl Default for Processors {
    /// Returns counters for the processors of this machine, without tasks.
    fn default() -> Self {
        Self::new(executor::processors())
    }
}

impl Processors {
    pub(crate) fn new(processors: usize) -> Self {
        let (working, busy) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self(Arc::new(Counts { processors, working, busy }))
    }

    /// Returns the number of tasks that can run at the same time.
    pub(crate) fn count(&self) -> usize {
        self.0.processors
    }

    /// Counts the task of a source, sink or pipeline as working until the result is dropped.
    pub(crate) fn working(&self) -> Working {
        self.0.working.fetch_add(1, Ordering::Relaxed);
        Working(self.clone())
    }

    /// Counts a task as busy until the result is dropped, even if there are more busy tasks than processors.
    pub(crate) fn busy(&self) -> Busy {
        self.0.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// Counts a task as busy until the result is dropped. Returns `None` if the other busy tasks need all processors.
    pub(crate) fn busy_if_free(&self) -> Option<Busy> {
        let busy = self.busy();
        if self.are_crowded() { None } else { Some(busy) }
    }

    /// Returns whether there are at most as many working tasks as processors.
    pub(crate) fn suffice(&self) -> bool {
        self.0.working.load(Ordering::Relaxed) <= self.0.processors
    }

    /// Returns whether there are more busy tasks than processors.
    pub(crate) fn are_crowded(&self) -> bool {
        self.0.busy.load(Ordering::Relaxed) > self.0.processors
    }
}

/// Counts a working task until it is dropped.
#[derive(Debug)]
pub(crate) struct Working(Processors);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.working.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a busy task until it is dropped.
#[derive(Debug)]
pub(crate) struct Busy(Processors);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Processors;

    #[test]
    fn helper_gets_a_processor_that_no_busy_task_needs() {
        let processors = Processors::new(2);
        let source = processors.busy();
        let helper = processors.busy_if_free();
        assert!(helper.is_some() && processors.busy_if_free().is_none());
        let another = processors.busy();
        assert!(processors.are_crowded());
        drop((source, another));
        assert!(!processors.are_crowded() && processors.busy_if_free().is_some());
    }

    #[test]
    fn two_runs_do_not_count_each_others_tasks() {
        let (one, other) = (Processors::new(1), Processors::new(1));
        let _working = (one.working(), one.working());
        assert!(!one.suffice() && other.suffice());
    }
}
