//! What the protocols import, as the model checker has it.

use loom::cell::UnsafeCell;

/// The standard library, with the checker's threads, locks and atomics.
pub mod std {
    pub use ::std::*;

    pub mod sync {
        pub use ::std::sync::PoisonError;
        pub use loom::sync::*;
    }
}

/// The same for who needs weak references, which the checker does not have: they are counted as always.
pub mod std_with_weak {
    pub use ::std::*;

    pub mod sync {
        pub use ::std::sync::{Arc, PoisonError, Weak};
        pub use loom::sync::{Mutex, atomic};
    }
}

/// Vectors whose layout does not matter here.
pub mod abi_stable {
    /// Derived where the layout is.
    pub use ::std::fmt::Debug as StableAbi;

    pub mod std_types {
        pub use super::super::Buffer as RVec;
    }
}

pub mod pdk {
    pub use super::Batch;
}

/// Waiting on the processor, with as few looks as there can be.
pub mod spin {
    pub fn for_a_turn(mut ready: impl FnMut() -> bool) {
        ready();
    }
}

/// A batch, by the numbers in it.
#[derive(Clone, Debug, Default)]
pub struct Batch(pub Vec<u64>);

impl Batch {
    pub const WEIGHT_AT_MOST: usize = 1 << 10;

    pub fn new() -> Self {
        Self::default()
    }
}

#[derive(Debug)]
pub struct Event;
#[derive(Debug)]
pub struct Node;
#[derive(Debug)]
pub struct Value<'v>(::std::marker::PhantomData<&'v ()>);
pub type ByteBuffer = Buffer<u8>;
pub type NodeBuffer = Buffer<Node>;

/// A vector of which the checker sees who reads and who writes it.
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

#[allow(dead_code, reason = "what the product asks a token")]
pub trait Share {
    fn is_tracked(&self) -> bool;
    fn pull(&self) -> u64;
    fn settle(self);
}
