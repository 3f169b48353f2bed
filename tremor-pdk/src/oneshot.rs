//! A channel that passes one value from one task to another.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

struct State<T> {
    value: Option<T>,
    gone: bool,
    waker: Option<Waker>,
}

type Shared<T> = Arc<Mutex<State<T>>>;

fn lock<T>(state: &Shared<T>) -> MutexGuard<'_, State<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sending half of a channel. Dropping it ends the wait of the receiver.
#[allow(missing_debug_implementations)]
pub struct Sender<T>(Shared<T>);

/// The receiving half of a channel: completes with the value, or with `None` if the sender was dropped without
/// sending one.
#[allow(missing_debug_implementations)]
pub struct Receiver<T>(Shared<T>);

/// Returns the two halves of a channel.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = Arc::new(Mutex::new(State { value: None, gone: false, waker: None }));
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
            state.gone = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// Whether the sender is gone. Until then it keeps the first waker that it is asked with: for one task, which
    /// each of its wakers wakes as long as it lives. To keep the last one costs a call to the host a poll.
    pub(crate) fn is_over(&self, context: &Context<'_>) -> bool {
        let state = &mut *lock(&self.0);
        if !state.gone && state.waker.is_none() {
            state.waker = Some(context.waker().clone());
        }
        state.gone
    }
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = lock(&self.0);
        if state.value.is_some() || state.gone {
            return Poll::Ready(state.value.take());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
