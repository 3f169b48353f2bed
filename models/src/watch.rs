//! Values that tasks wait on: a change wakes all tasks that wait, and one that waits no more is in the way
//! of none.

use std::{
    future::poll_fn,
    task::{Context, Waker},
};

use crate::rt::{block_on, sync::Arc, thread};

use crate::{fails, holds};

/// Two tasks wait for the second change of a value.
macro_rules! two_wait {
    ($variant:ident) => {
        crate::Model {
            preemptions: 3,
            run: || {
                let watch = Arc::new(crate::$variant::engine::sync::watch::Watch::new(0));
                let waits = || {
                    let watch = watch.clone();
                    let is_two = |value: &i32| (*value == 2).then_some(());
                    thread::spawn(move || block_on(watch.wait(is_two)))
                };
                let waiting = [waits(), waits()];
                watch.update(|value| *value += 1);
                watch.update(|value| *value += 1);
                waiting.into_iter().for_each(|waiting| waiting.join().unwrap());
            },
        }
    };
}

/// One task waits for the second change of a value; another does, and gives up.
macro_rules! one_gives_up {
    ($variant:ident) => {
        crate::Model {
            preemptions: 4,
            run: || {
                let watch = Arc::new(crate::$variant::engine::sync::watch::Watch::new(0));
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
            },
        }
    };
}

/// A task waits for a value that only one waits on, after another has.
macro_rules! one_after_another {
    ($variant:ident) => {
        crate::Model {
            preemptions: 9,
            run: || {
                let single =
                    Arc::new(crate::$variant::engine::sync::watch::Single::<bool>::default());
                let is_set = |set: &bool| set.then_some(());
                let sets = single.clone();
                let sets = thread::spawn(move || sets.update(|set| *set = true));
                _ = single.poll(&Context::from_waker(Waker::noop()), is_set);
                block_on(poll_fn(|context| single.poll(context, is_set)));
                sets.join().unwrap();
            },
        }
    };
}

#[test]
fn all_tasks_that_wait_for_a_change_are_woken() {
    holds(two_wait!(as_it_is));
}

#[test]
fn a_task_is_woken_though_another_gives_up() {
    holds(one_gives_up!(as_it_is));
}

#[test]
fn the_last_task_that_asked_is_woken() {
    holds(one_after_another!(as_it_is));
}

#[test]
fn it_is_found_that_a_change_comes_after_its_wake_up() {
    fails(two_wait!(watch_wakes_before_it_changes), "deadlock");
}

#[test]
fn it_is_found_that_a_task_takes_the_place_of_another() {
    fails(two_wait!(watch_keeps_old_places), "deadlock");
}

#[test]
fn it_is_found_that_a_task_gives_up_the_place_of_another() {
    fails(one_gives_up!(watch_keeps_old_places), "deadlock");
}

#[test]
fn it_is_found_that_the_first_task_that_asked_is_woken() {
    fails(one_after_another!(single_keeps_the_first_waker), "deadlock");
}
