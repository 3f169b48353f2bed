//! Memory that stores futures one after the other, without an allocation for each future.

use std::{
    alloc::{self, Layout},
    future::Future,
    marker::PhantomData,
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll},
};

/// Stores at most one future of any type.
///
/// The memory is reused for the next future and only grows. A component whose futures all have the same size
/// therefore allocates once.
///
/// Invariants:
/// 1. `memory` was allocated with `layout`; if the size of `layout` is zero, `memory` is dangling.
/// 2. While `active` is `Some`, `memory` contains a pinned future of the type of `active`. The future is not moved,
///    and is dropped before the memory is used for anything else.
pub(super) struct Slot<'f, T> {
    memory: NonNull<u8>,
    layout: Layout,
    active: Option<Active<T>>,
    futures: PhantomData<&'f mut dyn Send>,
}

/// Functions for the future that is in the slot.
struct Active<T> {
    poll: unsafe fn(NonNull<u8>, &mut Context<'_>) -> Poll<T>,
    drop: unsafe fn(NonNull<u8>),
}

// SAFETY: a slot owns its memory, and `set` accepts only futures that are `Send`.
unsafe impl<T> Send for Slot<'_, T> {}

impl<'f, T> Slot<'f, T> {
    pub(super) fn new() -> Self {
        let layout = Layout::new::<()>();
        Self { memory: NonNull::dangling(), layout, active: None, futures: PhantomData }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.active.is_none()
    }

    /// Drops the future in the slot, if any, and stores `future` instead.
    pub(super) fn set<F: Future<Output = T> + Send + 'f>(&mut self, future: F) {
        self.clear();
        self.ensure_capacity(Layout::new::<F>());
        // SAFETY: the memory has at least the size and alignment of `F`, and contains no future.
        unsafe { self.memory.cast::<F>().write(future) };
        self.active = Some(Active { poll: poll::<F>, drop: drop_in_place::<F> });
    }

    /// Polls the future. A future that is ready is dropped, which empties the slot.
    ///
    /// # Panics
    /// Panics if the slot is empty or the future panics.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<T> {
        let active = self.active.as_ref().expect("a future is in the slot");
        // SAFETY: invariant 2: `memory` contains a pinned future of the type of `active`.
        let result = unsafe { (active.poll)(self.memory, context) };
        if result.is_ready() {
            self.clear();
        }
        result
    }

    /// Drops the future, if any.
    pub(super) fn clear(&mut self) {
        // `active` is set to `None` first, so that the future is not dropped twice if dropping it panics.
        if let Some(active) = self.active.take() {
            // SAFETY: invariant 2; the slot counts as empty from here on.
            unsafe { (active.drop)(self.memory) }
        }
    }

    fn ensure_capacity(&mut self, needed: Layout) {
        if needed.size() <= self.layout.size() && needed.align() <= self.layout.align() {
            return;
        }
        let size = needed.size().max(self.layout.size());
        let align = needed.align().max(self.layout.align());
        let Ok(layout) = Layout::from_size_align(size, align) else {
            unreachable!("both parts come from valid layouts")
        };
        self.free();
        // SAFETY: the size is at least that of the old layout and of `needed`. It can be zero only if both are zero,
        // and then only the alignment grew.
        if layout.size() > 0 {
            // SAFETY: the size is not zero.
            let memory = unsafe { alloc::alloc(layout) };
            self.memory = NonNull::new(memory).unwrap_or_else(|| alloc::handle_alloc_error(layout));
        } else {
            self.memory = NonNull::new(std::ptr::without_provenance_mut(layout.align()))
                .unwrap_or(NonNull::dangling());
        }
        self.layout = layout;
    }

    fn free(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: invariant 1, and the caller has emptied the slot.
            unsafe { alloc::dealloc(self.memory.as_ptr(), self.layout) };
            self.layout = Layout::new::<()>();
            self.memory = NonNull::dangling();
        }
    }
}

impl<T> Drop for Slot<'_, T> {
    fn drop(&mut self) {
        self.clear();
        self.free();
    }
}

/// # Safety
/// `memory` points to a pinned `F`.
unsafe fn poll<F: Future>(memory: NonNull<u8>, context: &mut Context<'_>) -> Poll<F::Output> {
    // SAFETY: the contract of this function.
    unsafe { Pin::new_unchecked(memory.cast::<F>().as_mut()) }.poll(context)
}

/// # Safety
/// `memory` points to an `F`, which must not be used after this call.
unsafe fn drop_in_place<F>(memory: NonNull<u8>) {
    // SAFETY: the contract of this function.
    unsafe { memory.cast::<F>().as_ptr().drop_in_place() }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        sync::Arc,
        task::{Context, Poll, Waker},
    };

    use super::Slot;

    #[test]
    fn slot_accepts_futures_of_different_sizes() {
        let mut context = Context::from_waker(Waker::noop());
        let mut slot = Slot::<usize>::new();
        slot.set(ready(1));
        assert_eq!(slot.poll(&mut context), Poll::Ready(1));
        assert!(slot.is_empty());
        let big = [7_u128; 40];
        slot.set(async move { big.len() });
        assert_eq!(slot.poll(&mut context), Poll::Ready(40));
        let memory = slot.memory;
        slot.set(ready(2));
        assert_eq!(slot.memory, memory, "the memory is kept");
        assert_eq!(slot.poll(&mut context), Poll::Ready(2));
    }

    #[test]
    fn cancelled_future_is_dropped_once() {
        let witness = Arc::new(());
        let mut slot = Slot::<()>::new();
        for _ in 0..3 {
            let captured = witness.clone();
            slot.set(async move {
                pending::<()>().await;
                drop(captured);
            });
            assert!(slot.poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(Arc::strong_count(&witness), 2);
        }
        drop(slot);
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
