//! The call of a component that is under way, in its slot: it goes on when what it waits for is there,
//! whichever task polls it, and its batch comes back.

use std::{
    future::poll_fn,
    task::{Context, Waker},
};

use crate::rt::{UnsafeCell, block_on, thread};

use crate::{doubles::Batch, fails, holds};

/// A source that waits for an answer from another thread, and brings that.
macro_rules! source {
    ($variant:ident) => {
        struct Source {
            /// The checker sees whether two threads are in here.
            inside: UnsafeCell<()>,
            answer: Option<crate::$variant::oneshot::Receiver<u64>>,
        }

        impl Source {
            async fn pull(&mut self, batch: &mut Batch) -> Option<u64> {
                self.inside.with_mut(|_| ());
                let answer = self.answer.as_mut()?.await;
                self.inside.with_mut(|_| ());
                self.answer = None;
                batch.0.extend(answer);
                answer
            }
        }
    };
}

/// A task polls a call, and leaves it to another one.
macro_rules! call_moves {
    ($variant:ident) => {
        crate::Model {
            preemptions: 9,
            run: || {
                source!($variant);
                let (sender, receiver) = crate::$variant::oneshot::channel();
                let source = Source { inside: UnsafeCell::new(()), answer: Some(receiver) };
                let mut call = crate::$variant::driver::call::Call::new(source);
                let answers = thread::spawn(move || sender.send(7));
                let begins = thread::spawn(move || {
                    let (mut batch, mut context) =
                        (Batch(vec![1]), Context::from_waker(Waker::noop()));
                    let polled = call.poll(&mut context, &mut batch, Source::pull);
                    (call, batch, polled)
                });
                let (mut call, mut batch, polled) = begins.join().unwrap();
                if polled.is_pending() {
                    let pull = poll_fn(|context| call.poll(context, &mut batch, Source::pull));
                    assert_eq!(block_on(pull), Some(7));
                }
                assert_eq!(batch.0, [1, 7], "the batch that came back");
                answers.join().unwrap();
            },
        }
    };
}

/// A call is given up while its answer comes, and another one follows.
macro_rules! call_is_given_up {
    ($variant:ident) => {
        crate::Model {
            preemptions: 9,
            run: || {
                source!($variant);
                let (sender, receiver) = crate::$variant::oneshot::channel();
                let source = Source { inside: UnsafeCell::new(()), answer: Some(receiver) };
                let mut call = crate::$variant::driver::call::Call::new(source);
                let answers = thread::spawn(move || sender.send(7));
                let mut batch = Batch(vec![1]);
                let mut context = Context::from_waker(Waker::noop());
                let polled = call.poll(&mut context, &mut batch, Source::pull);
                call.give_up(&mut batch);
                let brought: &[u64] = if polled.is_ready() { &[1, 7] } else { &[1] };
                assert_eq!(batch.0, brought, "the batch that came back");
                let next = poll_fn(|context| call.poll(context, &mut batch, Source::pull));
                assert_eq!(block_on(next), polled.is_pending().then_some(7), "it was not lost");
                answers.join().unwrap();
            },
        }
    };
}

#[test]
fn a_call_goes_on_in_the_task_that_polled_it_last() {
    holds(call_moves!(as_it_is));
}

#[test]
fn a_call_that_is_given_up_gives_its_batch_back_and_the_next_one_goes_on() {
    holds(call_is_given_up!(as_it_is));
}

#[test]
fn it_is_found_that_the_first_task_is_woken() {
    fails(call_moves!(answer_keeps_the_first_waker), "deadlock");
}

#[test]
fn it_is_found_that_a_call_looks_and_waits_apart() {
    fails(call_moves!(answer_looks_and_waits_apart), "deadlock");
}

#[test]
fn it_is_found_that_a_call_keeps_its_batch() {
    fails(call_is_given_up!(call_keeps_the_batch), "the batch that came back");
}
