use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tremor_abi::batch::HostBatch;
use tremor_pdk::Batch;

use super::{
    Bounds, Overflow, Payload, Queued, Receiver, Sender, bounded as bounded_on,
    mailbox::{Host, Load},
};
use crate::clock::Clock;
use crate::{
    engine::{
        processors::Processors,
        tracking::token::{InFlight, Token},
        tuning::FEW_EVENTS,
    },
    memory::MemoryBudget,
};

fn bounded(bounds: Bounds) -> (Sender, Receiver) {
    bounded_on(bounds, Overflow::Wait, &Processors::default(), &Clock::default())
}

fn batch(events: usize) -> Option<(Queued, Load)> {
    let mut batch = Batch::new();
    (0..events).for_each(|_| batch.push_message(b"message"));
    weighed(InFlight::new(batch, Token::untracked()).into())
}

fn encoded() -> Option<(Queued, Load)> {
    let item = InFlight::new(Batch::new(), Token::untracked());
    let payload = Payload::Encoded { encoded: Batch::new(), rejected: Vec::new() };
    weighed(Queued { item, payload })
}

/// Wraps a batch and its load as an argument of `poll_send`.
#[allow(clippy::unnecessary_wraps)]
fn weighed(queued: Queued) -> Option<(Queued, Load)> {
    let load = queued.load();
    Some((queued, load))
}

/// Any other batch wakes the receiver, which then runs on another thread.
#[test]
fn encoded_or_small_batches_run_idle_receiver_inline() {
    let mut context = Context::from_waker(Waker::noop());
    let (mut sender, mut receiver) = bounded(Bounds::default());
    let (mailbox, taken) = (receiver.mailbox(), Arc::new(AtomicUsize::new(0)));
    let takes = taken.clone();
    let mut task = pin!(Host::new(mailbox, async move {
        while poll_fn(|context| receiver.poll_receive(context)).await.is_some() {
            takes.fetch_add(1, Ordering::Relaxed);
        }
    }));
    assert!(task.as_mut().poll(&mut context).is_pending());
    assert!(sender.poll_send(&context, &mut encoded(), true).is_ready());
    assert_eq!((taken.load(Ordering::Relaxed), sender.take_spent().woke), (1, false));
    assert!(sender.poll_send(&context, &mut batch(FEW_EVENTS), true).is_ready());
    assert_eq!((taken.load(Ordering::Relaxed), sender.take_spent().woke), (2, false));
    assert!(sender.poll_send(&context, &mut batch(FEW_EVENTS + 1), true).is_ready());
    assert_eq!((taken.load(Ordering::Relaxed), sender.take_spent().woke), (2, true));
    assert!(task.as_mut().poll(&mut context).is_pending());
    assert_eq!(taken.load(Ordering::Relaxed), 3);
    drop(sender);
    assert!(task.as_mut().poll(&mut context).is_ready());
}

#[test]
fn lent_receiver_that_sends_to_its_own_queue_returns() {
    let mut context = Context::from_waker(Waker::noop());
    let (mut sender, mut receiver) = bounded(Bounds::default());
    let (mailbox, mut other) = (receiver.mailbox(), sender.clone());
    let mut task = pin!(Host::new(mailbox, async move {
        while poll_fn(|context| receiver.poll_receive(context)).await.is_some() {
            poll_fn(|context| other.poll_send(context, &mut encoded(), true)).await;
        }
    }));
    assert!(task.as_mut().poll(&mut context).is_pending());
    assert!(sender.poll_send(&context, &mut encoded(), true).is_ready(), "the loan ends");
}

#[test]
fn full_queue_accepts_a_batch_after_one_is_received() {
    let context = Context::from_waker(Waker::noop());
    let (mut sender, mut receiver) = bounded(Bounds { events: 3, bytes: usize::MAX });
    assert!(sender.poll_send(&context, &mut batch(2), true).is_ready());
    assert!(
        sender.poll_send(&context, &mut batch(2), true).is_ready(),
        "the last batch may exceed the limit"
    );
    let mut third = batch(1);
    assert!(sender.poll_send(&context, &mut third, true).is_pending());
    assert!(matches!(receiver.poll_receive(&context), Poll::Ready(Some(_))));
    assert!(sender.poll_send(&context, &mut third, true).is_ready());
}

#[test]
fn empty_queue_ends_when_its_last_sender_is_dropped() {
    let context = Context::from_waker(Waker::noop());
    let (mut sender, mut receiver) = bounded(Bounds::default());
    let other = sender.clone();
    assert!(sender.poll_send(&context, &mut batch(1), true).is_ready());
    drop(sender);
    assert!(matches!(receiver.poll_receive(&context), Poll::Ready(Some(_))));
    assert!(receiver.poll_receive(&context).is_pending());
    drop(other);
    assert!(matches!(receiver.poll_receive(&context), Poll::Ready(None)));
}

/// A sender whose connection was lost sends without waiting, because the receiver may wait for the sender.
#[test]
fn send_without_wait_overfills_a_full_queue() {
    let context = Context::from_waker(Waker::noop());
    let (mut sender, _receiver) = bounded(Bounds { events: 1, bytes: 1 });
    assert!(sender.poll_send(&context, &mut batch(1), true).is_ready());
    let mut second = batch(1);
    assert!(sender.poll_send(&context, &mut second, true).is_pending());
    assert!(sender.poll_send(&context, &mut second, false).is_ready());
}

#[test]
fn send_to_a_dropped_receiver_does_not_wait() {
    let context = Context::from_waker(Waker::noop());
    let (mut sender, receiver) = bounded(Bounds { events: 1, bytes: 1 });
    assert!(sender.poll_send(&context, &mut batch(1), true).is_ready());
    let mut second = batch(1);
    assert!(sender.poll_send(&context, &mut second, true).is_pending());
    drop(receiver);
    assert!(sender.poll_send(&context, &mut second, true).is_ready());
}

/// Returns a batch with one event that was edited to a text of `length` bytes.
fn edited(length: usize) -> Option<(Queued, Load)> {
    let mut batch = Batch::new();
    batch.push("text").unwrap();
    *batch.value_mut(0).unwrap() = "x".repeat(length).into();
    weighed(InFlight::new(batch, Token::untracked()).into())
}

/// Edited values count as memory.
#[test]
fn queue_exceeds_its_bytes_only_for_a_single_larger_batch() {
    let context = Context::from_waker(Waker::noop());
    let (mut sender, mut receiver) = bounded(Bounds { events: 100, bytes: 10_000 });
    assert!(sender.poll_send(&context, &mut edited(6_000), true).is_ready());
    let mut second = edited(6_000);
    assert!(
        sender.poll_send(&context, &mut second, true).is_pending(),
        "both batches together exceed the limit"
    );
    assert!(
        sender.poll_send(&context, &mut edited(1_000), true).is_ready(),
        "the small batch fits"
    );
    assert!(
        receiver.poll_receive(&context).is_ready() && receiver.poll_receive(&context).is_ready()
    );
    assert!(sender.poll_send(&context, &mut second, true).is_ready());
    assert!(receiver.poll_receive(&context).is_ready());
    assert!(sender.poll_send(&context, &mut edited(50_000), true).is_ready(), "the queue is empty");
    assert!(sender.poll_send(&context, &mut edited(1), true).is_pending());
}

#[test]
fn queue_bytes_count_containers_of_small_batches() {
    const BYTES: usize = 1 << 20;
    let context = Context::from_waker(Waker::noop());
    let (mut sender, _receiver) = bounded(Bounds { events: usize::MAX, bytes: BYTES });
    let mut count = 0;
    while sender.poll_send(&context, &mut edited(1), true).is_ready() {
        count += 1;
        assert!(
            count < BYTES / size_of::<Queued>(),
            "{count} batches take more than {BYTES} bytes"
        );
    }
}

#[test]
fn batch_that_waits_for_full_queue_is_counted() {
    const LENGTH: usize = 1 << 20;
    let large = || {
        let mut batch = Batch::new();
        batch.push_message(&vec![b'x'; LENGTH]);
        weighed(InFlight::new(batch, Token::untracked()).into())
    };
    let context = Context::from_waker(Waker::noop());
    let (mut sender, mut receiver) = bounded(Bounds { events: 1, bytes: usize::MAX });
    let account = MemoryBudget::default().flow("flow").account("out");
    receiver.mailbox().gauge().count_in(account.clone());
    let batches = || account.used() / LENGTH;
    assert!(sender.poll_send(&context, &mut large(), true).is_ready());
    assert_eq!(batches(), 1);
    let (mut second, mut third) = (large(), large());
    let mut other = sender.clone();
    for _ in 0..2 {
        assert!(sender.poll_send(&context, &mut second, true).is_pending());
        assert_eq!(batches(), 2);
    }
    assert!(other.poll_send(&context, &mut third, true).is_pending());
    assert_eq!(batches(), 3);
    drop(other);
    assert_eq!(batches(), 2);
    assert!(receiver.poll_receive(&context).is_ready());
    assert!(sender.poll_send(&context, &mut second, true).is_ready());
    assert_eq!(batches(), 1);
    assert!(receiver.poll_receive(&context).is_ready());
    assert_eq!(batches(), 0);
}
