//! A channel that passes one value from one task to another.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use crate::sync::{Arc, Mutex, fault, lock};

struct State<T> {
    value: Option<T>,
    sender_dropped: bool,
    waker: Option<Waker>,
}

type Shared<T> = Arc<Mutex<State<T>>>;

/// The sending half of a channel. If it is dropped without sending, the receiver completes with `None`.
#[allow(missing_debug_implementations)]
pub struct Sender<T>(Shared<T>);

/// The receiving half of a channel. Completes with the value, or with `None` if the sender was dropped without sending
/// a value.
#[allow(missing_debug_implementations)]
pub struct Receiver<T>(Shared<T>);

/// Creates a channel and returns its two halves.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = Arc::new(Mutex::new(State { value: None, sender_dropped: false, waker: None }));
    (Sender(state.clone()), Receiver(state))
}

impl<T> Sender<T> {
    /// Sends the value, whether or not the receiver still exists.
    pub fn send(self, value: T) {
        lock(&self.0).value = Some(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut state = lock(&self.0);
            state.sender_dropped = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// Returns whether the sender was dropped.
    ///
    /// Until then, the waker of the first call is kept and later wakers are ignored, because cloning a waker for each
    /// poll would cost a call of the host. Therefore only one task may use the receiver. Every waker of a task wakes
    /// the task as long as the task exists.
    pub(crate) fn is_over(&self, context: &Context<'_>) -> bool {
        let state = &mut *lock(&self.0);
        if !state.sender_dropped && state.waker.is_none() {
            state.waker = Some(context.waker().clone());
        }
        state.sender_dropped
    }
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = lock(&self.0);
        if state.value.is_some() || state.sender_dropped {
            return Poll::Ready(state.value.take());
        }
        if fault("answer_checks_and_waits_apart") {
            drop(state);
            state = lock(&self.0);
        }
        if !fault("answer_keeps_first_waker") || state.waker.is_none() {
            state.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}
