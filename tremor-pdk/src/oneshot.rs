//! One value from one task to another.

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

/// Sends the value. Dropped without having sent, it wakes the receiver all the same.
pub(crate) struct Sender<T>(Shared<T>);

/// Gives the value, or `None` once the sender is gone without having sent.
pub(crate) struct Receiver<T>(Shared<T>);

pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = Arc::new(Mutex::new(State { value: None, gone: false, waker: None }));
    (Sender(state.clone()), Receiver(state))
}

impl<T> Sender<T> {
    pub(crate) fn send(self, value: T) {
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
