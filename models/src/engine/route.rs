//! Models of in-order sections. Tasks enter a section in the order of their numbers, and no task waits forever.

use std::task::{Context, Waker};

use super::processors::Processors;
use crate::{
    Model,
    rt::{block_on, sync::Arc, thread},
};

#[path = "../../../runtime/src/engine/route/in_order.rs"]
mod in_order;

use in_order::InOrder;

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "three_tasks_enter",
        run: three_tasks_enter,
        preemptions: 3,
        faults: &[
            ("section_wakes_no_task", "deadlock"),
            ("section_checks_and_waits_apart", "deadlock"),
        ],
    },
    Model {
        name: "task_gives_up_section",
        run: task_gives_up_section,
        preemptions: 3,
        faults: &[("section_forgets_passed_number", "deadlock")],
    },
];

/// Three tasks enter, each on its own thread. They start in reverse order.
fn three_tasks_enter() {
    let section = Arc::new(InOrder::new(vec![], Processors));
    let enters = |number: u64| {
        let section = section.clone();
        thread::spawn(move || block_on(section.enter(number)).push(number))
    };
    let others = [enters(2), enters(1)];
    block_on(section.enter(0)).push(0);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(*block_on(section.enter(3)), [0, 1, 2]);
}

/// The first task enters twice. The second task gives up, before or while it waits. The third task enters.
fn task_gives_up_section() {
    let section = Arc::new(InOrder::new(vec![], Processors));
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
    first.set_continues(true);
    drop(first);
    block_on(section.enter(0)).push(0);
    gives_up.join().unwrap();
    last.join().unwrap();
    assert_eq!(*block_on(section.enter(3)), [0, 0, 2]);
}
