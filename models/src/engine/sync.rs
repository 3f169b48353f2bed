//! Models of values for which tasks wait. A change wakes all waiting tasks, even if one of them gives up.

use std::{
    future::poll_fn,
    task::{Context, Waker},
};

use crate::{
    Model,
    rt::{block_on, sync::Arc, thread},
};

#[path = "../../../runtime/src/engine/sync/wakers.rs"]
pub(crate) mod wakers;
#[path = "../../../runtime/src/engine/sync/watch.rs"]
pub(crate) mod watch;

use watch::{Single, Watch};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "two_tasks_wait",
        run: two_tasks_wait,
        preemptions: 3,
        faults: &[("watch_wakes_before_change", "deadlock"), ("wakers_ignore_rounds", "deadlock")],
    },
    Model {
        name: "task_gives_up_wait",
        run: task_gives_up_wait,
        preemptions: 4,
        faults: &[("wakers_ignore_rounds", "deadlock")],
    },
    Model {
        name: "second_task_waits",
        run: second_task_waits,
        preemptions: 9,
        faults: &[("single_keeps_first_waker", "deadlock")],
    },
];

/// Two tasks wait for the second change of a value.
fn two_tasks_wait() {
    let watch = Arc::new(Watch::new(0));
    let waits = || {
        let watch = watch.clone();
        let is_two = |value: &i32| (*value == 2).then_some(());
        thread::spawn(move || block_on(watch.wait(is_two)))
    };
    let waiting = [waits(), waits()];
    watch.update(|value| *value += 1);
    watch.update(|value| *value += 1);
    waiting.into_iter().for_each(|waiting| waiting.join().unwrap());
}

/// Two tasks wait for the second change of a value, and one of them gives up.
fn task_gives_up_wait() {
    let watch = Arc::new(Watch::new(0));
    let is_two = |value: &i32| (*value == 2).then_some(());
    let gives_up = watch.clone();
    let gives_up = thread::spawn(move || {
        let mut waiter = gives_up.waiter();
        _ = waiter.poll(&Context::from_waker(Waker::noop()), is_two);
    });
    let waits = watch.clone();
    let waits = thread::spawn(move || block_on(waits.wait(is_two)));
    watch.update(|value| *value += 1);
    watch.update(|value| *value += 1);
    gives_up.join().unwrap();
    waits.join().unwrap();
}

/// A task waits for a value with a single waker, after another task has polled the value.
fn second_task_waits() {
    let single = Arc::new(Single::<bool>::default());
    let is_set = |set: &bool| set.then_some(());
    let sets = single.clone();
    let sets = thread::spawn(move || sets.update(|set| *set = true));
    _ = single.poll(&Context::from_waker(Waker::noop()), is_set);
    block_on(poll_fn(|context| single.poll(context, is_set)));
    sets.join().unwrap();
}

pub(crate) mod gauge {
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Gauge {}

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Queue {
        pub(crate) events: usize,
        pub(crate) bytes: usize,
    }

    impl Gauge {
        pub(crate) fn set(&self, _: Queue, _: usize) {}
    }
}

pub(crate) mod turn {
    use std::time::{Duration, Instant};

    /// The double of a turn (the time that a task may run without an interruption). It is never over, because time does
    /// not pass in a model.
    pub(crate) struct Turn;

    impl Turn {
        pub(crate) fn of(_: Duration) -> Self {
            Self
        }

        pub(crate) fn begin(&mut self, _: Instant) {}

        pub(crate) fn is_over(&mut self, _: Instant) -> bool {
            false
        }
    }
}
