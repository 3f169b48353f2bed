//! A place for one future after another, without an allocation for each.

use std::{
    alloc::{self, Layout},
    future::Future,
    marker::PhantomData,
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll},
};

/// Holds at most one future whose type is not known.
///
/// The memory is kept from one future to the next and only grows, so a component whose futures
/// are all of one type allocates once in its life.
///
/// Invariants:
/// 1. `memory` was allocated with `layout`, or `layout` has size zero and it dangles.
/// 2. While `active` is some, a future of its type lies at `memory`, pinned: it is never moved,
///    and dropped before the memory is used for anything else.
pub(super) struct Slot<'f, T> {
    memory: NonNull<u8>,
    layout: Layout,
    active: Option<Active<T>>,
    futures: PhantomData<&'f mut dyn Send>,
}

/// How to handle the future that lies in the slot.
struct Active<T> {
    poll: unsafe fn(NonNull<u8>, &mut Context<'_>) -> Poll<T>,
    drop: unsafe fn(NonNull<u8>),
}

// SAFETY: a slot owns its memory, and only futures that are `Send` are put into it.
unsafe impl<T> Send for Slot<'_, T> {}

impl<'f, T> Slot<'f, T> {
    pub(super) fn new() -> Self {
        let layout = Layout::new::<()>();
        Self { memory: NonNull::dangling(), layout, active: None, futures: PhantomData }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.active.is_none()
    }

    /// Puts a future into the slot. What was there is dropped first.
    pub(super) fn set<F: Future<Output = T> + Send + 'f>(&mut self, future: F) {
        self.clear();
        self.make_room(Layout::new::<F>());
        // SAFETY: the memory has at least the size and alignment of `F`, and is free.
        unsafe { self.memory.cast::<F>().write(future) };
        self.active = Some(Active { poll: poll::<F>, drop: drop_in_place::<F> });
    }

    /// Polls the future; once it is ready, it is dropped and the slot is empty.
    ///
    /// # Panics
    /// When the slot is empty, or the future panics.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<T> {
        let active = self.active.as_ref().expect("a future is in the slot");
        // SAFETY: invariant 2: `active` fits the future at `memory`, which stays where it is.
        let result = unsafe { (active.poll)(self.memory, context) };
        if result.is_ready() {
            self.clear();
        }
        result
    }

    /// Drops the future, if there is one.
    pub(super) fn clear(&mut self) {
        // Taken first: should the future's drop panic, it is not dropped again.
        if let Some(active) = self.active.take() {
            // SAFETY: invariant 2; the slot counts as empty from here on.
            unsafe { (active.drop)(self.memory) }
        }
    }

    fn make_room(&mut self, needed: Layout) {
        if needed.size() <= self.layout.size() && needed.align() <= self.layout.align() {
            return;
        }
        let size = needed.size().max(self.layout.size());
        let align = needed.align().max(self.layout.align());
        let Ok(layout) = Layout::from_size_align(size, align) else {
            unreachable!("both parts come from valid layouts")
        };
        self.free();
        // SAFETY: the size is above that of the old layout or of `needed`, so it is not zero
        // unless both are, and then only the alignment grew.
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
/// A pinned `F` lies at `memory`.
unsafe fn poll<F: Future>(memory: NonNull<u8>, context: &mut Context<'_>) -> Poll<F::Output> {
    // SAFETY: the contract of this function.
    unsafe { Pin::new_unchecked(memory.cast::<F>().as_mut()) }.poll(context)
}

/// # Safety
/// An `F` lies at `memory` and is not used again.
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
    fn futures_of_different_sizes_follow_each_other_in_one_slot() {
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
    fn a_future_that_is_given_up_is_dropped_once() {
        let witness = Arc::new(());
        let mut slot = Slot::<()>::new();
        for _ in 0..3 {
            let held = witness.clone();
            slot.set(async move {
                pending::<()>().await;
                drop(held);
            });
            assert!(slot.poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(Arc::strong_count(&witness), 2);
        }
        drop(slot);
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
