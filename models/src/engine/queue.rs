//! Models of the mailbox of a task. Each item is taken once, regardless of which thread runs the task. No sender waits
//! forever. No item is left when the task is dropped.

use std::{
    future::poll_fn,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll, Waker},
};

use super::sync::wakers::{self, WakerSlot};
use crate::{
    Model,
    clock::Clock,
    rt::{UnsafeCell, block_on, sync::Arc, thread},
};

#[path = "../../../runtime/src/engine/queue/mailbox.rs"]
mod mailbox;

use mailbox::{Host, Load, Mailbox, Overflow, Put};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "two_tasks_send",
        run: two_tasks_send,
        preemptions: 3,
        faults: &[
            ("mailbox_forgets_executor", "deadlock"),
            ("mailbox_pauses_task_without_wake", "deadlock"),
            ("mailbox_frees_capacity_without_wake", "deadlock"),
        ],
    },
    Model {
        name: "task_follows_another",
        run: task_follows_another,
        preemptions: 4,
        faults: &[
            ("mailbox_ends_task_without_wake", "deadlock"),
            ("mailbox_keeps_previous_waker", "deadlock"),
        ],
    },
    Model {
        name: "task_is_dropped",
        run: task_is_dropped,
        preemptions: 3,
        faults: &[("mailbox_keeps_dropped_task", "Arc leaked")],
    },
    Model {
        name: "full_mailbox_returns_oldest",
        run: full_mailbox_returns_oldest,
        preemptions: 3,
        faults: &[(
            "mailbox_drops_what_was_handed_out",
            "an item left although one was handed out",
        )],
    },
];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// Two senders send items, one of them more items than the mailbox has capacity for.
fn two_tasks_send() {
    let (mailbox, taken) = (mailbox(1), Arc::<AtomicU64>::default());
    mailbox.add_sender();
    let host = Host::new(mailbox.clone(), take(mailbox.clone(), taken.clone()));
    let host = thread::spawn(move || block_on(host));
    let sends = mailbox.clone();
    let sends = thread::spawn(move || send(&sends, &[1, 8]));
    assert_eq!(send(&mailbox, &[4]) + sends.join().unwrap(), 0, "refused");
    host.join().unwrap();
    assert_eq!(taken.load(Ordering::Relaxed), 13, "taken");
}

/// A task begins to receive from a mailbox after another task has waited for the mailbox's end. The receiving task ends
/// while a sender exists.
fn task_follows_another() {
    let (mailbox, taken) = (mailbox(9), Arc::<AtomicU64>::default());
    assert!(mailbox.poll_ended(&Context::from_waker(Waker::noop())).is_pending());
    let sends = mailbox.clone();
    let sends = thread::spawn(move || send(&sends, &[1, 2]));
    block_on(Host::new(mailbox.clone(), take(mailbox, taken.clone())));
    assert_eq!(sends.join().unwrap(), 0, "refused");
    assert_eq!(taken.load(Ordering::Relaxed), 3, "taken");
}

/// A task is dropped while two other tasks send to it.
fn task_is_dropped() {
    let (mailbox, taken) = (mailbox(1), Arc::<AtomicU64>::default());
    mailbox.add_sender();
    let mut host = Box::pin(Host::new(mailbox.clone(), take(mailbox.clone(), taken.clone())));
    let (one, other) = (mailbox.clone(), mailbox);
    let one = thread::spawn(move || send(&one, &[1, 8]));
    let other = thread::spawn(move || send(&other, &[4]));
    _ = host.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    drop(host);
    let refused = one.join().unwrap() + other.join().unwrap();
    assert_eq!(taken.load(Ordering::Relaxed) + refused, 13, "taken or refused");
}

/// A sender puts three items into a mailbox for two, which returns the oldest, while another task takes items out.
fn full_mailbox_returns_oldest() {
    let bounds = Bounds { events: 2, bytes: 100 };
    let mailbox = Arc::new(Mailbox::new(bounds, Overflow::ReturnOldest, Clock));
    let taken = Arc::<AtomicU64>::default();
    let host = Host::new(mailbox.clone(), take(mailbox.clone(), taken.clone()));
    let host = thread::spawn(move || block_on(host));
    let (mut slot, mut removed) = (WakerSlot::default(), Vec::new());
    for number in [1, 4, 8] {
        let mut item = Some((number, Load { events: 1, bytes: 1 }));
        let put = block_on(poll_fn(|context| {
            mailbox.poll_put(context, &mut slot, &mut item, (true, true), &mut removed)
        }));
        if let Put::Awaited(task) = put {
            task.run_or_wake();
        }
    }
    mailbox.remove_sender(&mut slot);
    host.join().unwrap();
    let removed = removed.iter().sum::<u64>();
    assert_eq!(taken.load(Ordering::Relaxed) + removed, 13, "taken or removed");
    assert!(removed <= 1, "an item left although one was handed out");
}

/// Returns a mailbox for `events` items, with one sender.
fn mailbox(events: usize) -> Arc<Mailbox<u64>> {
    Arc::new(Mailbox::new(Bounds { events, bytes: 100 }, Overflow::Wait, Clock))
}

/// Sends numbers, runs the receiving task if the mailbox lends it, and leaves. Returns the sum of refused numbers.
fn send(mailbox: &Mailbox<u64>, numbers: &[u64]) -> u64 {
    let (mut slot, mut refused) = (WakerSlot::default(), 0);
    for number in numbers {
        let mut item = Some((*number, Load { events: 1, bytes: 1 }));
        match block_on(poll_fn(|context| {
            mailbox.poll_put(context, &mut slot, &mut item, (true, true), &mut Vec::new())
        })) {
            Put::Taken | Put::Full(_) => {}
            Put::Awaited(task) => task.run_or_wake(),
            Put::Refused(number) => refused += number,
        }
    }
    mailbox.remove_sender(&mut slot);
    refused
}

/// Takes numbers until the mailbox ends or the number is 2, and adds them to `taken`.
fn take(mailbox: Arc<Mailbox<u64>>, taken: Arc<AtomicU64>) -> impl Future<Output = ()> + Send {
    // Accessed in each poll, so that the checker reports two threads that poll at the same time.
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
