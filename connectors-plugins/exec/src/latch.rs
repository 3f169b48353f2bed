//! A value that is set once, and for which several tasks can wait.

use std::{
    future::poll_fn,
    sync::Mutex,
    task::{Context, Poll, Waker},
};

use tremor_pdk::lock;

/// A task that can wait for a [`Latch`]. A latch has one slot for the waker of each of these tasks,
/// so that cancelled pulls leave at most one waker behind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiter {
    Output,
    Input,
    Connector,
}

/// A value that is set once.
#[derive(Debug)]
pub(crate) struct Latch<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    value: Option<T>,
    waiting: [Option<Waker>; 3],
}

impl<T> Default for Latch<T> {
    fn default() -> Self {
        Self(Mutex::new(State { value: None, waiting: [None, None, None] }))
    }
}

impl<T: Copy> Latch<T> {
    /// Sets the value, unless it is set already.
    pub(crate) fn set(&self, value: T) {
        let waiting = {
            let mut state = lock(&self.0);
            state.value.get_or_insert(value);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    pub(crate) fn get(&self) -> Option<T> {
        lock(&self.0).value
    }

    pub(crate) fn poll(&self, waiter: Waiter, context: &Context<'_>) -> Poll<T> {
        let mut state = lock(&self.0);
        if let Some(value) = state.value {
            return Poll::Ready(value);
        }
        state.waiting[waiter as usize] = Some(context.waker().clone());
        Poll::Pending
    }

    pub(crate) async fn wait(&self, waiter: Waiter) -> T {
        poll_fn(|context| self.poll(waiter, context)).await
    }
}
