//! The memory and the stack that a program takes for an event.
//!
//! The plugin counts its allocations, because the functions of VRL have no limits, and neither have the values that a
//! loop builds. A count can only be compared with a limit between two expressions: an allocation can be neither refused
//! nor interrupted.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// Memory that a program may take for an event, in bytes, in addition to [`EVENT_FACTOR`].
const MOST_BYTES: usize = 64 << 20;

/// Memory that a program may take for each byte of the values to which its event was converted. A program that uses a
/// large event copies it several times.
const EVENT_FACTOR: usize = 2;

/// Allocator of the system, which counts for each thread what is allocated.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static USAGE: Usage = const {
        Usage {
            held: Cell::new(0),
            most: Cell::new(0),
            total: Cell::new(0),
            deepest: Cell::new(usize::MAX),
        }
    };
}

/// Memory and stack that the evaluation of an event on this thread has taken.
pub(crate) struct Usage {
    /// Bytes that were allocated and not freed since the evaluation began.
    held: Cell<usize>,
    /// Maximum of `held`.
    most: Cell<usize>,
    /// Bytes that were allocated since the evaluation began.
    total: Cell<usize>,
    /// Lowest address of the stack at which memory was allocated. A value that is nested deeply is copied by functions
    /// that call themselves and allocate memory at each level.
    deepest: Cell<usize>,
}

impl Usage {
    /// Calls `evaluate` with the usage of this thread, which begins at zero.
    pub(crate) fn measure<T>(evaluate: impl FnOnce(&Self) -> T) -> T {
        USAGE.with(|usage| {
            usage.held.set(0);
            usage.most.set(MOST_BYTES);
            usage.total.set(0);
            usage.deepest.set(usize::MAX);
            evaluate(usage)
        })
    }

    /// Returns the bytes that the evaluation holds. The number is zero if the evaluation freed more than it has
    /// allocated.
    pub(crate) fn held(&self) -> usize {
        let held = self.held.get();
        if held > isize::MAX as usize { 0 } else { held }
    }

    /// Returns the maximum of [`held`](Self::held).
    pub(crate) fn most(&self) -> usize {
        self.most.get()
    }

    /// Returns the bytes that the evaluation has allocated, including those that it has freed.
    pub(crate) fn total(&self) -> usize {
        self.total.get()
    }

    /// Returns the lowest address of the stack that the evaluation has used, as far as this is known.
    pub(crate) fn deepest(&self) -> usize {
        self.deepest.get().min(stack_address())
    }
}

/// Returns the bytes that the evaluation on this thread may still allocate.
pub(crate) fn remaining() -> usize {
    USAGE.with(|usage| usage.most().saturating_sub(usage.held()))
}

/// Calls `convert`, which converts a part of the event, and allows the program to take more memory for it.
pub(crate) fn converted<T>(convert: impl FnOnce() -> T) -> T {
    let before = USAGE.with(Usage::held);
    let result = convert();
    USAGE.with(|usage| {
        let size = usage.held().saturating_sub(before);
        usage.most.set(usage.most().saturating_add(size.saturating_mul(EVENT_FACTOR)));
    });
    result
}

/// Returns an address in the frame of the caller.
#[inline(always)]
#[allow(clippy::inline_always)] // otherwise it would be the address of another frame
pub(crate) fn stack_address() -> usize {
    let marker = 0_u8;
    (&raw const marker).addr()
}

/// Counts an allocation.
#[inline]
fn allocated(bytes: usize) {
    USAGE.with(|usage| {
        usage.held.set(usage.held.get().wrapping_add(bytes));
        usage.total.set(usage.total.get().wrapping_add(bytes));
        let here = stack_address();
        if here < usage.deepest.get() {
            usage.deepest.set(here);
        }
    });
}

/// Counts memory that was freed.
#[inline]
fn freed(bytes: usize) {
    USAGE.with(|usage| usage.held.set(usage.held.get().wrapping_sub(bytes)));
}

// SAFETY: all methods call those of `System` with unchanged arguments. Counting neither allocates nor panics: the cells of
// the thread are initialised by constants, and have no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        freed(layout.size());
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        allocated(size);
        freed(layout.size());
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
