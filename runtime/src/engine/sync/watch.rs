//! Values that tasks wait on: for state that changes a few times in a run.

use std::{
    future::poll_fn,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::engine::sync::wakers::{self, Place, Wakers};

/// A value with the tasks that wait for it to change.
#[derive(Debug, Default)]
pub(crate) struct Watch<T> {
    inner: Mutex<Inner<T>>,
}

#[derive(Debug, Default)]
struct Inner<T> {
    value: T,
    waiting: Wakers,
}

/// A task that waits. Nothing is left of it in the watch once it is dropped.
#[derive(Debug)]
pub(crate) struct Waiter<'w, T> {
    watch: &'w Watch<T>,
    place: Place,
}

impl<T> Watch<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { inner: Mutex::new(Inner { value, waiting: Wakers::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the value.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.lock().value)
    }

    /// Changes the value and wakes all tasks that wait.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut waiting = Vec::new();
        let result = {
            let mut inner = self.lock();
            inner.waiting.take(&mut waiting);
            change(&mut inner.value)
        };
        wakers::wake(&mut waiting);
        result
    }

    /// A task that is going to wait.
    pub(crate) fn waiter(&self) -> Waiter<'_, T> {
        Waiter { watch: self, place: Place::default() }
    }

    /// Waits until `decide` makes something of the value.
    pub(crate) async fn wait<R>(&self, decide: impl Fn(&T) -> Option<R>) -> R {
        let mut waiter = self.waiter();
        poll_fn(|context| waiter.poll(context, &decide)).await
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }
}

impl<T> Waiter<'_, T> {
    /// Ready once `decide` makes something of the value; asked again after every change.
    pub(crate) fn poll<R>(
        &mut self,
        context: &Context<'_>,
        decide: impl FnOnce(&T) -> Option<R>,
    ) -> Poll<R> {
        let mut inner = self.watch.lock();
        if let Some(result) = decide(&inner.value) {
            return Poll::Ready(result);
        }
        inner.waiting.wait(&mut self.place, context.waker());
        Poll::Pending
    }
}

impl<T> Drop for Waiter<'_, T> {
    fn drop(&mut self) {
        if self.place.is_taken() {
            self.watch.lock().waiting.leave(&mut self.place);
        }
    }
}

/// A value that one task at a time waits on: the last that asked.
#[derive(Debug, Default)]
pub(crate) struct Single<T> {
    inner: Mutex<(T, Option<Waker>)>,
}

impl<T> Single<T> {
    fn lock(&self) -> MutexGuard<'_, (T, Option<Waker>)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the value.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.lock().0)
    }

    /// Changes the value and wakes the task that waits.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let (result, waiting) = {
            let (value, waiting) = &mut *self.lock();
            (change(value), waiting.take())
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
        let (value, waiting) = &mut *self.lock();
        if let Some(result) = decide(value) {
            return Poll::Ready(result);
        }
        match waiting {
            Some(waiting) => waiting.clone_from(context.waker()),
            None => *waiting = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::Watch;

    #[test]
    fn a_task_that_has_waited_and_is_gone_leaves_no_waker() {
        let watch = Watch::new(false);
        let context = Context::from_waker(Waker::noop());
        let is_set = |set: &bool| set.then_some(());
        let mut stays = watch.waiter();
        for _ in 0..10_000 {
            let mut ends = watch.waiter();
            assert!(ends.poll(&context, is_set).is_pending());
            assert!(ends.poll(&context, is_set).is_pending());
            assert!(stays.poll(&context, is_set).is_pending());
        }
        assert_eq!(watch.waiting(), 1);
        watch.update(|set| *set = true);
        assert_eq!(watch.waiting(), 0);
        assert_eq!(stays.poll(&context, is_set), Poll::Ready(()));
    }
}
