//! One call after another to a component, each with a batch that the call's future borrows.

use std::{
    future::Future,
    ptr::NonNull,
    task::{Context, Poll},
};

use super::slot::Slot;
use crate::{AnyBatch, Batch};

/// A component, the batch it works on, and the future of the call under way, which borrows both.
///
/// Invariants:
/// 1. `subject` comes from `Box::into_raw` and is freed by `drop` alone.
/// 2. While `slot` holds a future, nothing but that future touches what `subject` points to.
pub(super) struct Call<S: 'static, B: 'static, T: 'static> {
    slot: Slot<'static, T>,
    subject: NonNull<Subject<S, B>>,
}

struct Subject<S, B> {
    component: S,
    batch: B,
}

// SAFETY: it owns the component and the batch, which are `Send`, and the slot is.
unsafe impl<S: Send, B: Send, T> Send for Call<S, B, T> {}

impl<S: Send + 'static, B: AnyBatch, T: 'static> Call<S, B, T> {
    pub(super) fn new(component: S) -> Self {
        let subject = Box::new(Subject { component, batch: B::default() });
        Self { slot: Slot::new(), subject: NonNull::from(Box::leak(subject)) }
    }

    /// Polls the call under way, or starts one with what `start` makes of component and batch.
    ///
    /// `batch` is taken in with the first poll and given back with the last: a future cannot keep
    /// a reference that its caller only lends it for one poll.
    pub(super) fn poll<F: Future<Output = T> + Send + 'static>(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut Batch,
        start: impl FnOnce(&'static mut S, &'static mut B) -> F,
    ) -> Poll<T> {
        if self.slot.is_empty() {
            // SAFETY: invariants 1 and 2: it is alive, and this is the only reference to it. The references
            // are not really static: they end with the future, which the slot drops before the
            // subject goes (`drop`) or is touched otherwise (`component`, `give_up`).
            let subject = unsafe { self.subject.as_mut() };
            std::mem::swap(subject.batch.untyped(), batch);
            let future = start(&mut subject.component, &mut subject.batch);
            self.slot.set(future);
        }
        let result = self.slot.poll(context);
        if result.is_ready() {
            // SAFETY: as above; the future has just been dropped.
            std::mem::swap(unsafe { self.subject.as_mut() }.batch.untyped(), batch);
        }
        result
    }

    /// Gives the call under way up: its future is dropped, its batch handed back.
    pub(super) fn give_up(&mut self, batch: &mut Batch) {
        if !self.slot.is_empty() {
            self.slot.clear();
            // SAFETY: invariants 1 and 2: the slot is empty.
            std::mem::swap(unsafe { self.subject.as_mut() }.batch.untyped(), batch);
        }
    }

    /// The component. A call under way is dropped, and its batch with the next poll.
    pub(super) fn component(&mut self) -> &mut S {
        self.slot.clear();
        // SAFETY: invariants 1 and 2: the slot is empty.
        unsafe { &mut self.subject.as_mut().component }
    }
}

impl<S: 'static, B: 'static, T: 'static> Drop for Call<S, B, T> {
    fn drop(&mut self) {
        self.slot.clear();
        // SAFETY: invariant 1; no future refers to it any more.
        drop(unsafe { Box::from_raw(self.subject.as_ptr()) });
    }
}
