//! Steps that run side by side: one that keeps all processors busy, and beside it as many as there are processors of
//! those that use a single processor or mostly wait.

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::steps::{Load, Step};

/// Runs all steps, and returns their results in the order of the steps.
///
/// The steps of each load start in their order, except that a step waits for the one that it names in [`Step::after`].
pub(super) fn run<T: Send>(steps: &[Step], run: impl Fn(&Step) -> T + Sync) -> Vec<T> {
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let pending = Pending::new(steps);
    let lane = |load| {
        let mut results = Vec::new();
        while let Some((position, step)) = pending.next(load) {
            // Marks the end also after a panic, so that no other step waits for ever.
            let _ends = Ends(&pending, step.name);
            results.push((position, run(step)));
        }
        results
    };
    let mut results: Vec<_> = thread::scope(|scope| {
        let lane = &lane;
        let loads = (0..processors).map(|_| Load::OneProcessor).chain([Load::AllProcessors]);
        let lanes: Vec<_> = loads.map(|load| scope.spawn(move || lane(load))).collect();
        let join = |lane: thread::ScopedJoinHandle<'_, _>| lane.join();
        lanes.into_iter().flat_map(|it| join(it).unwrap_or_else(|it| resume_unwind(it))).collect()
    });
    results.sort_by_key(|(position, _)| *position);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The steps that have not started, which the lanes share.
struct Pending<'s> {
    state: Mutex<State<'s>>,
    /// Notified when a step has ended.
    changed: Condvar,
    /// Names of all steps.
    all: BTreeSet<&'static str>,
}

#[derive(Default)]
struct State<'s> {
    /// The steps that have not started, each with its position.
    queue: VecDeque<(usize, &'s Step)>,
    /// Names of the steps that have ended.
    ended: BTreeSet<&'static str>,
}

impl<'s> Pending<'s> {
    fn new(steps: &'s [Step]) -> Self {
        let all = steps.iter().map(|step| step.name).collect();
        let state = State { queue: steps.iter().enumerate().collect(), ..State::default() };
        Self { state: Mutex::new(state), changed: Condvar::new(), all }
    }

    /// Removes the first step of this load that can start. Waits if the remaining ones have to wait for others. Each
    /// step has a time limit, so the wait has one too. Returns `None` if no step of this load is left.
    fn next(&self, load: Load) -> Option<(usize, &'s Step)> {
        let mut state = self.lock();
        loop {
            let State { queue, ended } = &mut *state;
            let is_ready = |step: &Step| {
                step.after.is_none_or(|name| ended.contains(name) || !self.all.contains(name))
            };
            let at = queue.iter().position(|(_, step)| step.load == load && is_ready(step));
            if at.is_some() || !queue.iter().any(|(_, step)| step.load == load) {
                return queue.remove(at?);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<'s>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks a step as ended when it is dropped.
struct Ends<'p>(&'p Pending<'p>, &'static str);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.lock().ended.insert(self.1);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn step(name: &'static str) -> Step {
        Step::always(name, || Ok(None))
    }

    #[test]
    fn steps_of_different_loads_run_side_by_side() {
        let steps = [step("a"), step("b").on_one_processor()];
        let both = Barrier::new(2);
        let results = run(&steps, |step| {
            both.wait();
            step.name
        });
        assert_eq!(results, ["a", "b"]);
    }

    #[test]
    fn step_starts_after_the_step_that_it_names() {
        let late = step("a").on_one_processor().after("c");
        let unknown = step("b").on_one_processor().after("not run");
        let steps = [late, unknown, step("c")];
        let order = Mutex::new(Vec::new());
        let results = run(&steps, |step| {
            order.lock().expect("no thread has panicked").push(step.name);
            step.name
        });
        assert_eq!(results, ["a", "b", "c"]);
        let mut order = order.into_inner().expect("no thread has panicked");
        order.retain(|name| *name != "b");
        assert_eq!(order, ["c", "a"]);
    }
}
