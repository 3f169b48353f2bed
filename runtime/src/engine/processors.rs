//! The processors of the machine, as the tasks of one run share them. Runs in the same process do not
//! count each other's tasks.

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
    /// How many tasks may run at the same time.
    processors: usize,
    /// Sources, sinks and pipelines that run as tasks.
    working: AtomicUsize,
    /// Those of them that have events without end, and their helpers.
    busy: AtomicUsize,
}

impl Default for Processors {
    /// Those of this machine.
    fn default() -> Self {
        Self::new(executor::processors())
    }
}

impl Processors {
    pub(crate) fn new(processors: usize) -> Self {
        let (working, busy) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self(Arc::new(Counts { processors, working, busy }))
    }

    /// How many tasks may run at the same time.
    pub(crate) fn count(&self) -> usize {
        self.0.processors
    }

    /// Counts a task with work of its own.
    pub(crate) fn working(&self) -> Working {
        self.0.working.fetch_add(1, Ordering::Relaxed);
        Working(self.clone())
    }

    /// Counts a task that always has something to do, whether or not others do.
    pub(crate) fn busy(&self) -> Busy {
        self.0.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// Counts a task that works only on a processor that no other busy task needs.
    pub(crate) fn busy_if_free(&self) -> Option<Busy> {
        let busy = self.busy();
        if self.are_crowded() { None } else { Some(busy) }
    }

    /// Whether every working task may have a processor to itself.
    pub(crate) fn are_roomy(&self) -> bool {
        self.0.working.load(Ordering::Relaxed) <= self.0.processors
    }

    /// Whether there are more busy tasks than processors.
    pub(crate) fn are_crowded(&self) -> bool {
        self.0.busy.load(Ordering::Relaxed) > self.0.processors
    }
}

/// A working task is counted as long as this lives.
#[derive(Debug)]
pub(crate) struct Working(Processors);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.working.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A busy task is counted as long as this lives.
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
    fn a_task_that_helps_gets_a_processor_that_no_busy_task_needs() {
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
        assert!(!one.are_roomy() && other.are_roomy());
    }
}
