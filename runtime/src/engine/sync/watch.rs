//! Values whose changes wake tasks. Meant for state that changes only a few times during a run.

use std::{
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use crate::engine::sync::wakers::{self, WakerSlot, Wakers};
use crate::sync::{Mutex, fault, lock};

/// A value, and the tasks that wait for changes of it.
#[derive(Debug, Default)]
pub(crate) struct Watch<T> {
    inner: Mutex<Inner<T>>,
}

#[derive(Debug, Default)]
struct Inner<T> {
    value: T,
    waiting: Wakers,
}

/// The registration of one task that waits for a [`Watch`]. Dropping the registration removes the task's waker.
#[derive(Debug)]
pub(crate) struct Waiter<'w, T> {
    watch: &'w Watch<T>,
    slot: WakerSlot,
}

impl<T> Watch<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { inner: Mutex::new(Inner { value, waiting: Wakers::default() }) }
    }

    /// Reads the value.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&lock(&self.inner).value)
    }

    /// Changes the value and wakes all waiting tasks.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut waiting = Vec::new();
        let result = {
            let mut inner = lock(&self.inner);
            inner.waiting.take(&mut waiting);
            if fault("watch_wakes_before_change") {
                drop(inner);
                wakers::wake(&mut waiting);
                inner = lock(&self.inner);
            }
            change(&mut inner.value)
        };
        wakers::wake(&mut waiting);
        result
    }

    /// Creates the registration of a task that is going to wait.
    pub(crate) fn waiter(&self) -> Waiter<'_, T> {
        Waiter { watch: self, slot: WakerSlot::default() }
    }

    /// Waits until `decide` returns a result for the value.
    pub(crate) async fn wait<R>(&self, decide: impl Fn(&T) -> Option<R>) -> R {
        let mut waiter = self.waiter();
        poll_fn(|context| waiter.poll(context, &decide)).await
    }

    /// Returns the number of waiting tasks.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.inner).waiting.len()
    }
}

impl<T> Waiter<'_, T> {
    /// Completes once `decide` returns a result for the value. Otherwise the task is woken after every change.
    pub(crate) fn poll<R>(
        &mut self,
        context: &Context<'_>,
        decide: impl FnOnce(&T) -> Option<R>,
    ) -> Poll<R> {
        let mut inner = lock(&self.watch.inner);
        if let Some(result) = decide(&inner.value) {
            return Poll::Ready(result);
        }
        inner.waiting.wait(&mut self.slot, context.waker());
        Poll::Pending
    }
}

impl<T> Drop for Waiter<'_, T> {
    fn drop(&mut self) {
        if self.slot.may_wait() {
            lock(&self.watch.inner).waiting.leave(&mut self.slot);
        }
    }
}

/// A value whose changes wake one task. If several tasks poll, only the last one is woken.
#[derive(Debug, Default)]
pub(crate) struct Single<T> {
    inner: Mutex<(T, Option<Waker>)>,
}

impl<T> Single<T> {
    /// Reads the value.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&lock(&self.inner).0)
    }

    /// Changes the value and wakes the waiting task.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let (result, waiting) = {
            let (value, waiting) = &mut *lock(&self.inner);
            (change(value), waiting.take())
        };
        waiting.into_iter().for_each(Waker::wake);
        result
    }

    /// Completes once `decide` returns a result for the value. Otherwise the task is woken after every change.
    pub(crate) fn poll<R>(
        &self,
        context: &Context<'_>,
        decide: impl FnOnce(&T) -> Option<R>,
    ) -> Poll<R> {
        let (value, waiting) = &mut *lock(&self.inner);
        if let Some(result) = decide(value) {
            return Poll::Ready(result);
        }
        match waiting {
            Some(_) if fault("single_keeps_first_waker") => {}
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
    fn dropped_waiter_leaves_no_waker() {
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
