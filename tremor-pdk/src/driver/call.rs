//! Calls of a component, one after the other. A call borrows the component and a batch until its future completes.

use std::{
    future::Future,
    ptr::NonNull,
    task::{Context, Poll},
};

use super::slot::Slot;
use crate::{AnyBatch, Batch, sync::fault};

/// A component, the batch that it works on, and the future of the current call, which borrows both.
///
/// Invariants:
/// 1. `subject` comes from a leaked `Box`, and only `drop` frees it.
/// 2. While `slot` contains a future, only that future accesses the target of `subject`.
pub(super) struct Call<S: 'static, B: 'static, T: 'static> {
    slot: Slot<'static, T>,
    subject: NonNull<Subject<S, B>>,
}

struct Subject<S, B> {
    component: S,
    batch: B,
}

// SAFETY: the component and the batch are owned and `Send`, and the slot is `Send`.
unsafe impl<S: Send, B: Send, T> Send for Call<S, B, T> {}

impl<S: Send + 'static, B: AnyBatch, T: 'static> Call<S, B, T> {
    pub(super) fn new(component: S) -> Self {
        let subject = Box::new(Subject { component, batch: B::default() });
        Self { slot: Slot::new(), subject: NonNull::from(Box::leak(subject)) }
    }

    /// Polls the current call. If there is none, starts one with the future that `start` returns for the component
    /// and the batch.
    ///
    /// The first poll moves the contents of `batch` into the call, and the last poll moves them back, because the
    /// future lives longer than the reference `batch`.
    pub(super) fn poll<F: Future<Output = T> + Send + 'static>(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut Batch,
        start: impl FnOnce(&'static mut S, &'static mut B) -> F,
    ) -> Poll<T> {
        if self.slot.is_empty() {
            // SAFETY: invariants 1 and 2: the subject is alive, and this is the only reference to it. The references
            // that `start` gets are not really `'static`: only the future uses them, and the slot drops the future
            // before the subject is freed (`drop`) or accessed in another way (`component`, `give_up`).
            let subject = unsafe { self.subject.as_mut() };
            std::mem::swap(subject.batch.untyped(), batch);
            let future = start(&mut subject.component, &mut subject.batch);
            self.slot.set(future);
        }
        let result = self.slot.poll(context);
        if result.is_ready() {
            // SAFETY: invariants 1 and 2: the slot has just dropped the future.
            std::mem::swap(unsafe { self.subject.as_mut() }.batch.untyped(), batch);
        }
        result
    }

    /// Cancels the current call, if any: drops its future and moves its batch back to `batch`.
    pub(super) fn give_up(&mut self, batch: &mut Batch) {
        if !self.slot.is_empty() {
            self.slot.clear();
            if fault("call_keeps_batch") {
                return;
            }
            // SAFETY: invariants 1 and 2: the slot is empty.
            std::mem::swap(unsafe { self.subject.as_mut() }.batch.untyped(), batch);
        }
    }

    /// Drops the future of the current call, if any, and returns the component. The call keeps its batch; to get the
    /// batch back, call [`give_up`](Self::give_up) first.
    pub(super) fn component(&mut self) -> &mut S {
        self.slot.clear();
        // SAFETY: invariants 1 and 2: the slot is empty.
        unsafe { &mut self.subject.as_mut().component }
    }
}

impl<S: 'static, B: 'static, T: 'static> Drop for Call<S, B, T> {
    fn drop(&mut self) {
        self.slot.clear();
        // SAFETY: invariant 1; the slot is empty, so that no future refers to the subject.
        drop(unsafe { Box::from_raw(self.subject.as_ptr()) });
    }
}
