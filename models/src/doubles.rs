//! What the protocols import, as the model checker has it.

mod lock;

use crate::rt::UnsafeCell;

/// The standard library, with the checker's threads, locks and atomics.
pub mod std {
    pub use ::std::*;

    pub mod sync {
        pub use crate::rt::sync::*;
        pub use ::std::sync::PoisonError;
    }
}

/// The same, with references that the checker does not count: it has no weak ones.
pub mod std_with_weak {
    pub use ::std::*;

    pub mod sync {
        pub use crate::rt::sync::{Mutex, atomic};
        pub use ::std::sync::{Arc, PoisonError, Weak};
    }
}

/// The same, with a lock that may be found locked: the checker does not look for that with its own.
pub mod std_with_try_lock {
    pub use ::std::*;

    pub mod sync {
        // The checker's is no `self`.
        pub use super::super::lock::{Mutex, MutexGuard};
        pub use crate::rt::sync::atomic;
        pub use ::std::sync::{Arc, PoisonError, TryLockError};
    }
}

/// Vectors whose layout does not matter here.
pub mod layout {
    /// Derived where the layout is.
    pub use ::std::fmt::Debug as StableAbi;

    pub mod std_types {
        pub use super::super::Buffer as RVec;
    }
}

pub mod pdk {
    pub use super::Batch;

    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Error;

    /// Events that failed for one reason.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Exception {
        pub events: ::std::ops::Range<usize>,
        pub error: Error,
    }
}

pub mod abi {
    pub mod batch {
        pub use crate::doubles::Event;

        /// An event that could not be decoded.
        #[derive(Debug)]
        pub struct Rejected {
            pub event: Event,
            pub error: crate::doubles::pdk::Error,
        }
    }
}

/// Waiting on the processor, with as few looks as there can be.
pub mod spin {
    pub fn briefly(_: &super::Processors, mut ready: impl FnMut() -> bool) {
        ready();
    }
}

/// As many processors as tasks.
#[derive(Clone, Debug, Default)]
pub struct Processors;

impl Processors {
    pub fn working(&self) -> Busy {
        Busy
    }

    pub fn busy_if_free(&self) -> Option<Busy> {
        Some(Busy)
    }

    pub fn are_roomy(&self) -> bool {
        true
    }

    pub fn are_crowded(&self) -> bool {
        false
    }
}

#[derive(Debug)]
pub struct Busy;

pub mod tuning {
    pub const BATCHES_FOR_ANOTHER: usize = 1;
    pub const HELPER_TIME_SLICE: ::std::time::Duration = ::std::time::Duration::MAX;
    pub const WITHOUT_MORE_HELP: ::std::time::Duration = ::std::time::Duration::ZERO;
}

#[derive(Clone, Debug, Default)]
pub struct Gauge;

impl Gauge {
    pub fn set(&self, Queue { events, bytes }: Queue, waiting: usize) {
        _ = (events, bytes, waiting);
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Queue {
    pub events: usize,
    pub bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub events: usize,
    pub bytes: usize,
}

/// A batch, by the numbers in it.
#[derive(Clone, Debug, Default)]
pub struct Batch(pub Vec<u64>);

/// A batch as its source or its sink has it: here there is one form.
pub trait AnyBatch: Default + Send + 'static {
    fn untyped(&mut self) -> &mut Batch;
}

impl AnyBatch for Batch {
    fn untyped(&mut self) -> &mut Batch {
        self
    }
}

impl Batch {
    pub const WEIGHT_AT_MOST: usize = 1 << 10;

    pub fn new() -> Self {
        Self::default()
    }
}

#[derive(Debug)]
pub struct Event {
    pub pull: u64,
}

impl Event {
    pub fn position(&self) -> Option<usize> {
        None
    }
}
#[derive(Debug)]
pub struct Node;
#[derive(Debug)]
pub struct Value<'v>(::std::marker::PhantomData<&'v ()>);
pub type ByteBuffer = Buffer<u8>;
pub type NodeBuffer = Buffer<Node>;

/// A vector of which the checker sees what threads read and write it.
#[derive(Debug)]
pub struct Buffer<T> {
    seen: UnsafeCell<()>,
    items: Vec<T>,
}

impl<T> Buffer<T> {
    pub fn new() -> Self {
        Self { seen: UnsafeCell::new(()), items: Vec::new() }
    }

    pub fn push(&mut self, item: T) {
        self.seen.with_mut(|_| ());
        self.items.push(item);
    }

    pub fn clear(&mut self) {
        self.seen.with_mut(|_| ());
        self.items.clear();
    }

    pub fn len(&self) -> usize {
        self.seen.with(|_| ());
        self.items.len()
    }

    pub fn capacity(&self) -> usize {
        self.seen.with(|_| ());
        self.items.capacity()
    }
}

/// Result of a round of preprocessing.
#[derive(Debug)]
pub enum Next<T> {
    #[expect(dead_code, reason = "an intake of the models gives nothing")]
    Piece(T),
    #[expect(dead_code, reason = "an intake of the models gives nothing")]
    More,
    Nothing,
}

/// What a source brings: so many batches.
#[derive(Debug)]
pub struct Intake {
    seen: UnsafeCell<()>,
    pub left: usize,
}

impl Intake {
    pub fn of(left: usize) -> Self {
        Self { seen: UnsafeCell::new(()), left }
    }

    pub fn pauses(&mut self) {
        self.seen.with_mut(|_| ());
        self.left = 0;
    }

    pub fn has_more(&self) -> bool {
        self.seen.with(|_| ());
        false
    }

    pub fn is_steady(&self) -> bool {
        self.left > 0
    }

    pub fn try_pull(&mut self, _: &mut ::std::task::Context<'_>, batch: &mut Batch) -> bool {
        self.seen.with_mut(|_| ());
        batch.0.extend((self.left > 0).then_some(1));
        self.left = self.left.saturating_sub(1);
        self.is_steady()
    }

    pub fn next(&mut self, (): &()) -> Next<(Batch, ())> {
        Next::Nothing
    }
}

/// What a helper takes batches through with.
#[derive(Debug, Default)]
pub struct Worker {
    pub router: Router,
    pub pace: Pace,
}

#[derive(Debug, Default)]
pub struct Router {
    pub egress: (),
}

#[derive(Debug, Default)]
pub struct Pace;

impl Pace {
    pub fn forget_waits(&mut self) {}

    pub fn mostly_waits(&self) -> bool {
        false
    }
}

impl Worker {
    pub fn batch(&self) -> Batch {
        Batch::new()
    }

    pub async fn take_through(&mut self, _: Batch, (): (), _: ::std::time::Instant) -> bool {
        false
    }
}

pub mod executor {
    pub async fn yield_now() {}
}

/// A turn that never ends: time does not pass in a model.
pub struct Turn;

impl Turn {
    pub fn of(_: ::std::time::Duration) -> Self {
        Self
    }

    pub fn begin(&mut self, _: ::std::time::Instant) {}

    pub fn is_over(&mut self, _: ::std::time::Instant) -> bool {
        false
    }
}
