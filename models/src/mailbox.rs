//! The mailbox of a task: each item is taken once, whatever runs the task; nothing waits for good, and
//! nothing is left when the task is dropped.

use std::{
    future::poll_fn,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll, Waker},
};

use crate::rt::{UnsafeCell, block_on, sync::Arc, thread};

use crate::{doubles::Bounds, fails, holds};

/// What the models of one variant are made of.
macro_rules! parts {
    ($variant:ident) => {
        use crate::$variant::engine::{
            queue::mailbox::{Host, Load, Mailbox, Put},
            sync::wakers::{self, Place},
        };

        /// A mailbox with one sender, for so many items.
        fn mailbox(events: usize) -> Arc<Mailbox<u64>> {
            Arc::new(Mailbox::new(Bounds { events, bytes: 100 }))
        }

        /// Puts numbers in, runs the task where that may be, and goes. The sum of what was refused.
        fn send(mailbox: &Mailbox<u64>, numbers: &[u64]) -> u64 {
            let (mut place, mut refused) = (Place::default(), 0);
            for number in numbers {
                let mut item = Some((*number, Load { events: 1, bytes: 1 }));
                match block_on(poll_fn(|context| {
                    mailbox.poll_put(context, &mut place, &mut item, true, true)
                })) {
                    Put::Taken => {}
                    Put::Awaited(task) => task.go_on(),
                    Put::Refused(number) => refused += number,
                }
            }
            mailbox.leave(&mut place);
            refused
        }

        /// Takes numbers until nothing comes any more, or until there is a 2, and adds them to `taken`.
        fn takes(
            mailbox: Arc<Mailbox<u64>>,
            taken: Arc<AtomicU64>,
        ) -> impl Future<Output = ()> + Send {
            // The checker sees whether two threads are in here.
            let inside = UnsafeCell::new(());
            let receiver = Receiver { mailbox, taken };
            let mut woken = Vec::new();
            poll_fn(move |context| {
                inside.with_mut(|_| ());
                while let Poll::Ready(item) = receiver.mailbox.poll_take(context, &mut woken) {
                    wakers::wake(&mut woken);
                    let Some(number) = item else { return Poll::Ready(()) };
                    receiver.taken.fetch_add(number, Ordering::Relaxed);
                    if number == 2 {
                        return Poll::Ready(());
                    }
                }
                Poll::Pending
            })
        }

        struct Receiver {
            mailbox: Arc<Mailbox<u64>>,
            taken: Arc<AtomicU64>,
        }

        impl Drop for Receiver {
            fn drop(&mut self) {
                self.mailbox.close();
                for (number, _) in self.mailbox.clear() {
                    self.taken.fetch_add(number, Ordering::Relaxed);
                }
            }
        }
    };
}

/// A task, and two senders, of which one sends more than there is room for.
macro_rules! two_send {
    ($variant:ident) => {
        crate::Model {
            preemptions: 3,
            run: || {
                parts!($variant);
                let (mailbox, taken) = (mailbox(1), Arc::<AtomicU64>::default());
                mailbox.enter();
                let host = Host::new(mailbox.clone(), takes(mailbox.clone(), taken.clone()));
                let host = thread::spawn(move || block_on(host));
                let sends = mailbox.clone();
                let sends = thread::spawn(move || send(&sends, &[1, 8]));
                assert_eq!(send(&mailbox, &[4]) + sends.join().unwrap(), 0, "refused");
                host.join().unwrap();
                assert_eq!(taken.load(Ordering::Relaxed), 13, "taken");
            },
        }
    };
}

/// A task begins in a mailbox that another one waited on, and ends while there is a sender.
macro_rules! a_task_follows_another {
    ($variant:ident) => {
        crate::Model {
            preemptions: 4,
            run: || {
                parts!($variant);
                let (mailbox, taken) = (mailbox(9), Arc::<AtomicU64>::default());
                assert!(mailbox.poll_ended(&Context::from_waker(Waker::noop())).is_pending());
                let sends = mailbox.clone();
                let sends = thread::spawn(move || send(&sends, &[1, 2]));
                block_on(Host::new(mailbox.clone(), takes(mailbox, taken.clone())));
                assert_eq!(sends.join().unwrap(), 0, "refused");
                assert_eq!(taken.load(Ordering::Relaxed), 3, "taken");
            },
        }
    };
}

/// A task is dropped while two others send to it.
macro_rules! a_task_is_dropped {
    ($variant:ident) => {
        crate::Model {
            preemptions: 3,
            run: || {
                parts!($variant);
                let (mailbox, taken) = (mailbox(1), Arc::<AtomicU64>::default());
                mailbox.enter();
                let mut host =
                    Box::pin(Host::new(mailbox.clone(), takes(mailbox.clone(), taken.clone())));
                let (one, other) = (mailbox.clone(), mailbox);
                let one = thread::spawn(move || send(&one, &[1, 8]));
                let other = thread::spawn(move || send(&other, &[4]));
                _ = host.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                drop(host);
                let refused = one.join().unwrap() + other.join().unwrap();
                assert_eq!(taken.load(Ordering::Relaxed) + refused, 13, "taken, or refused");
            },
        }
    };
}

#[test]
fn every_item_is_taken_once_whatever_runs_the_task() {
    holds(two_send!(as_it_is));
}

#[test]
fn a_task_goes_on_in_a_mailbox_that_another_one_waited_on() {
    holds(a_task_follows_another!(as_it_is));
}

#[test]
fn nothing_waits_for_a_task_that_is_dropped() {
    holds(a_task_is_dropped!(as_it_is));
}

#[test]
fn it_is_found_that_the_executor_came_meanwhile_and_is_forgotten() {
    fails(two_send!(mailbox_forgets_that_it_is_wanted), "deadlock");
}

#[test]
fn it_is_found_that_the_executor_is_not_told_to_go_on() {
    fails(two_send!(mailbox_stops_and_wakes_no_task), "deadlock");
}

#[test]
fn it_is_found_that_a_task_ends_and_its_own_is_not_told() {
    fails(a_task_follows_another!(mailbox_ends_and_wakes_no_task), "deadlock");
}

#[test]
fn it_is_found_that_a_sender_is_not_told_of_room() {
    fails(two_send!(mailbox_has_room_and_wakes_no_sender), "deadlock");
}

#[test]
fn it_is_found_that_the_task_before_is_woken() {
    fails(a_task_follows_another!(mailbox_wakes_the_task_before), "deadlock");
}

#[test]
fn it_is_found_that_a_task_that_was_dropped_comes_back() {
    fails(a_task_is_dropped!(mailbox_keeps_what_was_dropped), "Arc leaked");
}
