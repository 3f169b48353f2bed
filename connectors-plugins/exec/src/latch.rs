//! Something that happens once, and that several tasks wait for.

use std::{
    future::poll_fn,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// Who waits. Each has a place for its waker, so that pulls that are given up leave nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
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
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets it, unless it is set.
    pub(crate) fn set(&self, value: T) {
        let waiting = {
            let mut state = self.lock();
            state.value.get_or_insert(value);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    pub(crate) fn get(&self) -> Option<T> {
        self.lock().value
    }

    pub(crate) fn poll(&self, who: Who, context: &Context<'_>) -> Poll<T> {
        let mut state = self.lock();
        if let Some(value) = state.value {
            return Poll::Ready(value);
        }
        state.waiting[who as usize] = Some(context.waker().clone());
        Poll::Pending
    }

    pub(crate) async fn wait(&self, who: Who) -> T {
        poll_fn(|context| self.poll(who, context)).await
    }
}
