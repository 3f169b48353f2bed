//! Doubles (replacements for models) of the items that the product's files import from crate roots.

use std::ops::Range;

use crate::rt::UnsafeCell;

/// The derive macro of `Debug` instead of that of abi_stable, because models do not check layouts.
pub(crate) use std::fmt::Debug as StableAbi;

pub(crate) mod std_types {
    pub(crate) use super::Buffer as RVec;
}

pub(crate) mod document {
    #[derive(Debug)]
    pub(crate) struct Node;
}

pub(crate) mod value {
    #[derive(Debug)]
    pub(crate) struct Value<'v>(std::marker::PhantomData<&'v ()>);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error;

/// A range of events that failed with the same error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exception {
    pub(crate) events: Range<usize>,
    pub(crate) error: Error,
}

/// A batch, represented by the numbers in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch(pub(crate) Vec<u64>);

impl Batch {
    pub(crate) const WEIGHT_AT_MOST: usize = 1 << 10;
}

/// The double of the trait for typed batches. Models have one type of batch.
pub(crate) trait AnyBatch: Default + Send + 'static {
    fn untyped(&mut self) -> &mut Batch;
}

impl AnyBatch for Batch {
    fn untyped(&mut self) -> &mut Batch {
        self
    }
}

pub(crate) type ByteBuffer = Buffer<u8>;
pub(crate) type NodeBuffer = Buffer<document::Node>;

/// A vector whose accesses the model checker observes, so that it finds data races.
#[derive(Debug)]
pub(crate) struct Buffer<T> {
    seen: UnsafeCell<()>,
    items: Vec<T>,
}

impl<T> Buffer<T> {
    pub(crate) fn new() -> Self {
        Self { seen: UnsafeCell::new(()), items: Vec::new() }
    }

    pub(crate) fn push(&mut self, item: T) {
        self.seen.with_mut(|_| ());
        self.items.push(item);
    }

    pub(crate) fn clear(&mut self) {
        self.seen.with_mut(|_| ());
        self.items.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.seen.with(|_| ());
        self.items.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.seen.with(|_| ());
        self.items.capacity()
    }
}
