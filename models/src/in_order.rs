//! In-order sections: tasks enter in the order of their numbers, and none waits for good.

use std::task::{Context, Waker};

use crate::rt::{block_on, sync::Arc, thread};

use crate::{doubles::Processors, fails, holds};

/// Three tasks enter, each on a thread of its own, the last one first.
macro_rules! three_enter {
    ($variant:ident) => {
        crate::Model {
            preemptions: 3,
            run: || {
                let section = Arc::new(crate::$variant::engine::route::in_order::InOrder::new(
                    vec![],
                    Processors,
                ));
                let enters = |number: u64| {
                    let section = section.clone();
                    thread::spawn(move || block_on(section.enter(number)).push(number))
                };
                let others = [enters(2), enters(1)];
                block_on(section.enter(0)).push(0);
                others.into_iter().for_each(|other| other.join().unwrap());
                assert_eq!(*block_on(section.enter(3)), [0, 1, 2]);
            },
        }
    };
}

/// The first enters twice, the second gives up, whether or not it waits by then, the third enters.
macro_rules! one_gives_up {
    ($variant:ident) => {
        crate::Model {
            preemptions: 3,
            run: || {
                let section = Arc::new(crate::$variant::engine::route::in_order::InOrder::new(
                    vec![],
                    Processors,
                ));
                let gives_up = section.clone();
                let gives_up = thread::spawn(move || {
                    let mut entering = Box::pin(gives_up.enter(1));
                    let polled = entering.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    drop(entering);
                    if polled.is_pending() {
                        gives_up.pass(1);
                    }
                });
                let last = section.clone();
                let last = thread::spawn(move || block_on(last.enter(2)).push(2));
                let mut first = block_on(section.enter(0));
                first.push(0);
                first.set_goes_on(true);
                drop(first);
                block_on(section.enter(0)).push(0);
                gives_up.join().unwrap();
                last.join().unwrap();
                assert_eq!(*block_on(section.enter(3)), [0, 0, 2]);
            },
        }
    };
}

#[test]
fn three_tasks_enter_in_order() {
    holds(three_enter!(as_it_is));
}

#[test]
fn a_task_enters_though_one_before_it_gives_up() {
    holds(one_gives_up!(as_it_is));
}

#[test]
fn it_is_found_that_no_task_is_woken() {
    fails(three_enter!(section_wakes_no_task), "deadlock");
}

#[test]
fn it_is_found_that_a_task_looks_and_waits_apart() {
    fails(three_enter!(section_looks_and_waits_apart), "deadlock");
}

#[test]
fn it_is_found_that_a_number_that_passed_is_forgotten() {
    fails(one_gives_up!(section_forgets_what_passed), "deadlock");
}
