use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use super::{BATCHES_FOR_ANOTHER, Host, Load, Mailbox, Overflow, Parked, Put, Task, WakerSlot};
use crate::clock::Clock;
use crate::{engine::queue::Bounds, sync::lock};

impl<T> Mailbox<T> {
    /// Returns whether even an item without events and bytes would have to wait.
    pub(in crate::engine::queue) fn is_full(&self) -> bool {
        !lock(&self.state).has_capacity(self.bounds, Load::default())
    }

    /// Returns whether a sender runs the task.
    pub(in crate::engine::queue) fn is_lent(&self) -> bool {
        matches!(lock(&self.state).task, Task::Lent { .. })
    }
}

/// A waker that counts its calls.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn mailbox() -> Arc<Mailbox<u32>> {
    Arc::new(Mailbox::new(Bounds::default(), Overflow::Wait, Clock::default()))
}

/// Adds a number to the mailbox. Returns the task if it was waiting.
fn put(mailbox: &Mailbox<u32>, number: u32) -> Option<Parked<'_, u32>> {
    let context = Context::from_waker(Waker::noop());
    let mut item = Some((number, Load { events: 1, bytes: 4 }));
    let (mut slot, mut removed) = (WakerSlot::default(), Vec::new());
    match mailbox.poll_put(&context, &mut slot, &mut item, (true, true), &mut removed) {
        Poll::Ready(Put::Awaited(parked)) => Some(parked),
        Poll::Ready(Put::Taken) => None,
        Poll::Ready(Put::Refused(_) | Put::Full(_)) | Poll::Pending => {
            panic!("the mailbox has capacity")
        }
    }
}

/// Takes numbers until `last`, and returns the sum of those before it.
async fn sum(mailbox: Arc<Mailbox<u32>>, last: u32) -> u32 {
    let mut sum = 0;
    std::future::poll_fn(|context| {
        loop {
            match mailbox.poll_take(context, &mut Vec::new()) {
                Poll::Ready(Some(number)) if number == last => return Poll::Ready(sum),
                Poll::Ready(Some(number)) => sum += number,
                Poll::Ready(None) => return Poll::Ready(sum),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}

#[test]
fn task_that_ends_during_a_loan_completes_its_host() {
    let (mailbox, woken) = (mailbox(), Arc::new(Woken::default()));
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    let mut host = pin!(Host::new(mailbox.clone(), sum(mailbox.clone(), 0)));
    assert!(put(&mailbox, 1).is_none(), "the task does not wait yet");
    assert!(host.as_mut().poll(&mut context).is_pending());
    put(&mailbox, 2).unwrap().run_or_wake();
    assert_eq!(woken.count(), 0);
    put(&mailbox, 0).unwrap().run_or_wake();
    assert_eq!(woken.count(), 1, "the host is woken, because the task has ended");
    assert_eq!(host.as_mut().poll(&mut context), Poll::Ready(3));
}

#[test]
fn task_that_sends_to_its_own_mailbox_does_not_run_itself() {
    let mailbox = mailbox();
    let (own, mut puts) = (mailbox.clone(), 0);
    let mut host = pin!(Host::new(
        mailbox.clone(),
        std::future::poll_fn(move |context| {
            while own.poll_take(context, &mut Vec::new()).is_ready() {}
            puts += 1;
            let is_lent = put(&own, puts).unwrap().is_lent();
            Poll::Ready(is_lent)
        })
    ));
    assert_eq!(host.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(false));
}

#[test]
fn lent_task_takes_few_items_and_the_host_takes_all() {
    let (mailbox, woken) = (mailbox(), Arc::new(Woken::default()));
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    let mut host = pin!(Host::new(mailbox.clone(), sum(mailbox.clone(), 0)));
    assert!(host.as_mut().poll(&mut context).is_pending());
    let parked = put(&mailbox, 1).unwrap();
    (1..100).for_each(|_| assert!(put(&mailbox, 1).is_none()));
    assert!(mailbox.is_lent());
    parked.run_or_wake();
    assert_eq!((lock(&mailbox.state).items.len(), woken.count()), (100 - BATCHES_FOR_ANOTHER, 1));
    assert!(!mailbox.is_lent());
    assert!(host.as_mut().poll(&mut context).is_pending());
    assert!(lock(&mailbox.state).items.is_empty());
}

#[test]
fn host_polled_during_a_loan_is_woken_after_it() {
    let (mailbox, woken) = (mailbox(), Arc::new(Woken::default()));
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    let mut host = pin!(Host::new(mailbox.clone(), sum(mailbox.clone(), 0)));
    assert!(host.as_mut().poll(&mut context).is_pending());
    let parked = put(&mailbox, 1).unwrap();
    assert!(host.as_mut().poll(&mut context).is_pending(), "the task is lent to a sender");
    parked.run_or_wake();
    assert_eq!(woken.count(), 1);
}

#[test]
fn panic_during_a_loan_is_resumed_by_the_host() {
    let (mailbox, woken) = (mailbox(), Arc::new(Woken::default()));
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    let own = mailbox.clone();
    let panics = std::future::poll_fn(move |context| {
        let taken = own.poll_take(context, &mut Vec::new());
        assert!(taken.is_pending(), "panics on purpose");
        Poll::<()>::Pending
    });
    let mut host = pin!(Host::new(mailbox.clone(), panics));
    assert!(host.as_mut().poll(&mut context).is_pending());
    put(&mailbox, 1).unwrap().run_or_wake();
    assert_eq!(woken.count(), 1, "the host is woken to resume the panic");
    let own = catch_unwind(AssertUnwindSafe(|| host.as_mut().poll(&mut context)));
    assert_eq!(own.unwrap_err().downcast_ref(), Some(&"panics on purpose"));
}

#[test]
fn dropped_host_drops_its_task_even_during_a_loan() {
    let (mailbox, kept) = (mailbox(), Arc::new(()));
    let host = |kept: Arc<()>| {
        let sum = sum(mailbox.clone(), 0);
        Host::new(mailbox.clone(), async move {
            let sum = sum.await;
            drop(kept);
            sum
        })
    };
    let mut context = Context::from_waker(Waker::noop());
    let mut idle = Box::pin(host(kept.clone()));
    assert!(idle.as_mut().poll(&mut context).is_pending());
    drop(idle);
    assert_eq!(Arc::strong_count(&kept), 1);
    assert!(!put(&mailbox, 1).unwrap().is_lent(), "the task was dropped");
    let mut lent = Box::pin(host(kept.clone()));
    assert!(lent.as_mut().poll(&mut context).is_pending());
    let parked = put(&mailbox, 1).unwrap();
    drop(lent);
    parked.run_or_wake();
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn task_does_not_use_the_waker_of_an_earlier_task() {
    let (mailbox, old) = (mailbox(), Arc::new(Woken::default()));
    let waker = Waker::from(old.clone());
    assert!(mailbox.poll_ended(&Context::from_waker(&waker)).is_pending());
    let mut host = pin!(Host::new(mailbox.clone(), sum(mailbox.clone(), 0)));
    assert!(put(&mailbox, 1).is_none(), "the task has not waited yet");
    assert!(host.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    put(&mailbox, 0).unwrap().run_or_wake();
    assert_eq!(old.count(), 0);
}

#[test]
fn node_waits_for_full_queue_until_an_item_is_taken_out() {
    let mailbox = Mailbox::new(Bounds { events: 1, bytes: 100 }, Overflow::Wait, Clock::default());
    let context = Context::from_waker(Waker::noop());
    let mut sender = WakerSlot::of(7);
    let mut send = || {
        let mut item = Some((1, Load { events: 1, bytes: 4 }));
        mailbox
            .poll_put(&context, &mut sender, &mut item, (true, false), &mut Vec::new())
            .is_ready()
    };
    let nodes = || mailbox.waiting().into_iter().map(|(node, _)| node).collect::<Vec<_>>();
    assert!(send() && nodes().is_empty());
    assert!(!send() && !send());
    assert_eq!(nodes(), [7]);
    assert!(mailbox.poll_take(&context, &mut Vec::new()).is_ready());
    assert!(nodes().is_empty());
    assert!(send() && !send());
    assert_eq!(nodes(), [7]);
    mailbox.add_sender();
    mailbox.remove_sender(&mut sender);
    assert!(nodes().is_empty(), "the sender was dropped");
}

/// A mailbox as a list of numbers with their loads.
struct Model {
    bounds: Bounds,
    overflow: Overflow,
    items: VecDeque<(u32, Load)>,
}

impl Model {
    fn has_capacity(&self, load: Load) -> bool {
        let sum =
            |of: fn(&Load) -> usize| self.items.iter().map(|(_, load)| of(load)).sum::<usize>();
        let (events, bytes) = (sum(|it| it.events), sum(|it| it.bytes));
        let fits = self.items.is_empty() || bytes + load.bytes <= self.bounds.bytes;
        fits && events < self.bounds.events && bytes < self.bounds.bytes
    }

    /// Puts a number in. Returns whether the sender waits, whether it gets the number back, and the removed numbers.
    fn put(&mut self, number: u32, load: Load) -> (bool, bool, Vec<u32>) {
        let mut removed = Vec::new();
        match self.overflow {
            _ if self.has_capacity(load) => {}
            Overflow::Wait => return (true, false, removed),
            Overflow::ReturnNewest => return (false, true, removed),
            Overflow::ReturnOldest => {
                while !self.has_capacity(load) && !self.items.is_empty() {
                    removed.extend(self.items.pop_front().map(|(number, _)| number));
                }
            }
        }
        self.items.push_back((number, load));
        (false, false, removed)
    }
}

/// The numbers are put in and taken out in a random order, with random loads, some of them larger than the mailbox.
#[test]
fn mailbox_does_the_same_as_its_model() {
    let context = Context::from_waker(Waker::noop());
    for (seed, overflow) in (1..=200u64).flat_map(|seed| {
        [Overflow::Wait, Overflow::ReturnNewest, Overflow::ReturnOldest].map(|it| (seed, it))
    }) {
        let mut random = fastrand::Rng::with_seed(seed);
        let bounds = Bounds { events: random.usize(1..20), bytes: random.usize(1..200) };
        let mailbox = Mailbox::new(bounds, overflow, Clock::default());
        let mut model = Model { bounds, overflow, items: VecDeque::new() };
        for number in 0..300 {
            if random.u8(..) < 100 {
                let taken = mailbox.poll_take(&context, &mut Vec::new());
                let expected = model.items.pop_front().map(|(number, _)| number);
                assert_eq!(taken, expected.map_or(Poll::Pending, |it| Poll::Ready(Some(it))));
                continue;
            }
            let load = Load { events: random.usize(0..8), bytes: random.usize(0..80) };
            let (mut item, mut slot, mut removed) =
                (Some((number, load)), WakerSlot::default(), Vec::new());
            let put = mailbox.poll_put(&context, &mut slot, &mut item, (true, false), &mut removed);
            let outcome = match put {
                Poll::Pending => (true, false, removed),
                Poll::Ready(Put::Full(returned)) => (false, returned == number, removed),
                Poll::Ready(Put::Taken | Put::Awaited(_)) => (false, false, removed),
                Poll::Ready(Put::Refused(_)) => panic!("the mailbox is open"),
            };
            // A sender that gives up its wait leaves no trace.
            mailbox.add_sender();
            mailbox.remove_sender(&mut slot);
            assert_eq!(outcome, model.put(number, load), "seed {seed}, {overflow:?}");
        }
        let left: Vec<u32> = mailbox.clear().into_iter().map(|(number, _)| number).collect();
        let expected: Vec<u32> = model.items.iter().map(|(number, _)| *number).collect();
        assert_eq!(left, expected, "seed {seed}, {overflow:?}");
    }
}
