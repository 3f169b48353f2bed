//! Models of a call to a component, which is stored in a slot. The call continues when its answer
//! has arrived, regardless of which task polls the call. When the call completes, it returns its
//! batch.

use std::{
    future::poll_fn,
    task::{Context, Waker},
};

use crate::{
    Batch, Model,
    oneshot::{Receiver, channel},
    rt::{UnsafeCell, block_on, thread},
};

#[path = "../../tremor-pdk/src/driver/call.rs"]
mod call;
#[path = "../../tremor-pdk/src/driver/slot.rs"]
mod slot;

use call::Call;

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "call_moves",
        run: call_moves,
        preemptions: 9,
        faults: &[
            ("answer_keeps_first_waker", "deadlock"),
            ("answer_checks_and_waits_apart", "deadlock"),
        ],
    },
    Model {
        name: "call_is_given_up",
        run: call_is_given_up,
        preemptions: 9,
        faults: &[("call_keeps_batch", "returned batch")],
    },
];

/// A task polls a call, and another task polls the call to its end.
fn call_moves() {
    let (sender, receiver) = channel();
    let mut call = Call::new(Source::of(receiver));
    let answers = thread::spawn(move || sender.send(7));
    let begins = thread::spawn(move || {
        let (mut batch, mut context) = (Batch(vec![1]), Context::from_waker(Waker::noop()));
        let polled = call.poll(&mut context, &mut batch, Source::pull);
        (call, batch, polled)
    });
    let (mut call, mut batch, polled) = begins.join().unwrap();
    if polled.is_pending() {
        let pull = poll_fn(|context| call.poll(context, &mut batch, Source::pull));
        assert_eq!(block_on(pull), Some(7));
    }
    assert_eq!(batch.0, [1, 7], "returned batch");
    answers.join().unwrap();
}

/// A call is cancelled while its answer arrives, and another call follows.
fn call_is_given_up() {
    let (sender, receiver) = channel();
    let mut call = Call::new(Source::of(receiver));
    let answers = thread::spawn(move || sender.send(7));
    let mut batch = Batch(vec![1]);
    let polled = call.poll(&mut Context::from_waker(Waker::noop()), &mut batch, Source::pull);
    call.give_up(&mut batch);
    let expected: &[u64] = if polled.is_ready() { &[1, 7] } else { &[1] };
    assert_eq!(batch.0, expected, "returned batch");
    let next = poll_fn(|context| call.poll(context, &mut batch, Source::pull));
    assert_eq!(block_on(next), polled.is_pending().then_some(7), "the answer is not lost");
    answers.join().unwrap();
}

/// A source that waits for a number from another thread.
struct Source {
    /// Accessed in each poll, so that the checker reports two threads that poll at the same time.
    inside: UnsafeCell<()>,
    answer: Option<Receiver<u64>>,
}

impl Source {
    fn of(answer: Receiver<u64>) -> Self {
        Self { inside: UnsafeCell::new(()), answer: Some(answer) }
    }

    async fn pull(&mut self, batch: &mut Batch) -> Option<u64> {
        self.inside.with_mut(|_| ());
        let answer = self.answer.as_mut()?.await;
        self.inside.with_mut(|_| ());
        self.answer = None;
        batch.0.extend(answer);
        answer
    }
}
