//! Blocking work of a component, with a limit on the number of jobs that run at the same time.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use tremor_abi::host::Job;
use tremor_pdk::lock;

use crate::executor;

/// Maximum number of jobs of a component that run at the same time. The process has about 500 threads for the blocking
/// work of all components. If the jobs of a component never end, nearly all of these threads remain for other
/// components.
const MAX_RUNNING: usize = 8;

/// The jobs of one component. They are kept across instances, because jobs of an instance that was restarted still
/// occupy threads.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    running: usize,
    /// Jobs that have not started, the oldest first. The oldest job starts when a running job ends.
    waiting: VecDeque<Job>,
    /// Number of jobs that have ended.
    ended: u64,
}

impl Jobs {
    /// Runs `job` on a thread for blocking work, immediately or once a running job has ended.
    pub(crate) fn start(&self, job: Job) {
        let mut state = lock(&self.0);
        if state.running >= MAX_RUNNING {
            state.waiting.push_back(job);
            return;
        }
        state.running += 1;
        drop(state);
        let jobs = self.clone();
        executor::spawn_blocking(move || jobs.run(job));
    }

    fn run(&self, mut job: Job) {
        loop {
            job.run();
            let mut state = lock(&self.0);
            state.ended += 1;
            let Some(next) = state.waiting.pop_front() else {
                state.running -= 1;
                return;
            };
            job = next;
        }
    }

    /// Returns a function that returns the number of jobs that have not started, and the number of those that have ended,
    /// or `None` once the component and all its jobs are gone.
    pub(crate) fn progress(&self) -> Box<dyn Fn() -> Option<(usize, u64)> + Send + Sync> {
        let jobs = Arc::downgrade(&self.0);
        Box::new(move || {
            let jobs = jobs.upgrade()?;
            let state = lock(&jobs);
            Some((state.waiting.len(), state.ended))
        })
    }

    /// Drops the jobs that have not started, because the instance that wanted their results is being replaced.
    pub(crate) fn discard_waiting(&self) {
        let waiting = std::mem::take(&mut lock(&self.0).waiting);
        // Dropping the values that a job captured may take time.
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier, mpsc};

    use tremor_abi::host::Job;

    use super::{Jobs, MAX_RUNNING};

    /// Starts as many jobs as may run at the same time, each of which blocks at the returned barrier.
    fn blocked(jobs: &Jobs) -> Arc<Barrier> {
        let barrier = Arc::new(Barrier::new(MAX_RUNNING + 1));
        for _ in 0..MAX_RUNNING {
            let barrier = barrier.clone();
            jobs.start(Job::new(move || _ = barrier.wait()));
        }
        barrier
    }

    #[test]
    fn progress_ends_with_the_component() {
        let jobs = Jobs::default();
        let progress = jobs.progress();
        assert_eq!(progress(), Some((0, 0)));
        drop(jobs);
        assert_eq!(progress(), None);
    }

    #[test]
    fn blocked_component_takes_no_thread_from_others() {
        let blocked_jobs = Jobs::default();
        let barrier = blocked(&blocked_jobs);
        let (done, results) = mpsc::channel();
        // Several times as many jobs as there are threads for blocking work.
        for number in 0..2_000 {
            let done = done.clone();
            blocked_jobs.start(Job::new(move || done.send(number).unwrap()));
        }
        let (other_done, other_results) = mpsc::channel();
        Jobs::default().start(Job::new(move || other_done.send(()).unwrap()));
        other_results.recv().unwrap();
        assert!(results.try_recv().is_err(), "all threads of the component are blocked");
        barrier.wait();
        let mut numbers: Vec<_> = results.iter().take(2_000).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..2_000));
    }

    #[test]
    fn replaced_instance_leaves_no_waiting_jobs() {
        let jobs = Jobs::default();
        let barrier = blocked(&jobs);
        let (done, results) = mpsc::channel();
        for _ in 0..100 {
            let done = done.clone();
            jobs.start(Job::new(move || done.send(()).unwrap()));
        }
        jobs.discard_waiting();
        drop(done);
        assert!(results.recv().is_err(), "all jobs that waited are dropped");
        barrier.wait();
    }
}
