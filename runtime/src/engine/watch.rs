//! A value that tasks wait on: for flow-wide state that changes a few times in a run.

use std::{
    future::poll_fn,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// A value with those who wait for it to change.
#[derive(Debug, Default)]
pub(crate) struct Watch<T> {
    inner: Mutex<Inner<T>>,
}

#[derive(Debug, Default)]
struct Inner<T> {
    value: T,
    waiting: Vec<Waker>,
}

impl<T> Watch<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { inner: Mutex::new(Inner { value, waiting: Vec::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the value.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.lock().value)
    }

    /// Changes the value and wakes everybody who waits.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let (result, waiting) = {
            let mut inner = self.lock();
            (change(&mut inner.value), std::mem::take(&mut inner.waiting))
        };
        waiting.into_iter().for_each(Waker::wake);
        result
    }

    /// Ready once `decide` makes something of the value; asked again after every change.
    pub(crate) fn poll<R>(
        &self,
        context: &Context<'_>,
        decide: impl FnOnce(&T) -> Option<R>,
    ) -> Poll<R> {
        let mut inner = self.lock();
        if let Some(result) = decide(&inner.value) {
            return Poll::Ready(result);
        }
        if !inner.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            inner.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Waits until `decide` makes something of the value.
    pub(crate) async fn wait<R>(&self, decide: impl Fn(&T) -> Option<R>) -> R {
        poll_fn(|context| self.poll(context, &decide)).await
    }
}
