//! Steps that run side by side: one that keeps all processors busy, and beside it one that uses a single processor or
//! mostly waits.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use super::steps::{Load, Step};

/// Runs all steps, and returns their results in the order of the steps.
///
/// The steps of each load run one after the other, in their order. A step starts after the step that it names in
/// [`Step::after`].
pub(super) fn run<T: Send>(steps: &[Step], run: impl Fn(&Step) -> T + Sync) -> Vec<T> {
    let ended = Ended::default();
    let lane = |load: Load| {
        let of_load = steps.iter().enumerate().filter(move |(_, step)| step.load == load);
        let results = of_load.map(|(position, step)| {
            ended.wait(step.after.filter(|name| steps.iter().any(|it| it.name == *name)));
            let _ends = Ends(&ended, step.name);
            (position, run(step))
        });
        results.collect::<Vec<_>>()
    };
    let mut results = thread::scope(|scope| {
        let waits = scope.spawn(|| lane(Load::OneProcessor));
        let mut results = lane(Load::AllProcessors);
        // A panic is that of a test or of a bug in this program.
        results.extend(waits.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        results
    });
    results.sort_by_key(|(position, _)| *position);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Names of the steps that have ended.
#[derive(Default)]
struct Ended {
    names: Mutex<BTreeSet<&'static str>>,
    changed: Condvar,
}

impl Ended {
    /// Waits until the step has ended. Each step has a time limit, so the wait has one too.
    fn wait(&self, step: Option<&'static str>) {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let is_pending = |names: &mut BTreeSet<_>| step.is_some_and(|step| !names.contains(step));
        drop(self.changed.wait_while(names, is_pending));
    }
}

/// Marks the step as ended when it is dropped, also after a panic, so that no other step waits for ever.
struct Ends<'e>(&'e Ended, &'static str);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.names.lock().unwrap_or_else(PoisonError::into_inner).insert(self.1);
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
        assert_eq!(order.into_inner().expect("no thread has panicked"), ["c", "a", "b"]);
    }
}
