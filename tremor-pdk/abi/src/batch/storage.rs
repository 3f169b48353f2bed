//! The buffers that the events of a batch point into: shared, counted once a batch, recycled.
//!
//! This is the only module of the batch with `unsafe` code. What it relies on:
//! 1. [`Shared`] points to a live [`Storage`] and holds one of its `references`.
//! 2. The holder of the only reference may write. While there are two, there is no write.
//! 3. The holder that drops the last reference calls `release`, once, and never touches the storage again.
//! 4. `release` and what `pool` points to belong to the side that allocated the storage, so that a
//!    batch can be dropped on either side of the boundary and on any thread.

use std::{
    ptr::NonNull,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering, fence},
    },
};

use abi_stable::{StableAbi, std_types::RVec};

use super::{Batch, Event};
use crate::{ByteBuffer, NodeBuffer, document::Node, value::Value};

/// Buffers above this size are freed instead of recycled, so that one huge message does not stay
/// in memory for good. Bytes.
const RECYCLED_AT_MOST: usize = 2 * Batch::WEIGHT_AT_MOST;

/// What waits in one pool takes no more than this unless the pool says so, so that many batches that were large for once do
/// not stay, either: a flow with one source and one sink has five pools. Bytes.
const WAITING_AT_MOST: usize = RECYCLED_AT_MOST;

#[repr(C)]
#[derive(StableAbi)]
pub(super) struct Storage {
    references: AtomicUsize,
    pub(super) bytes: ByteBuffer,
    pub(super) nodes: NodeBuffer,
    /// The event list and the value table of the last batch, empty, waiting for the next.
    pub(super) spare_events: RVec<Event>,
    pub(super) spare_values: RVec<Value<'static>>,
    /// A second event list, for steps that write a new one while they read the old.
    pub(super) scratch_events: RVec<Event>,
    release: unsafe extern "C" fn(NonNull<Storage>),
    pool: *const (),
}

impl Storage {
    /// Returns the memory of the bytes and nodes, in bytes, at least half of their capacity: buffers that grow have up
    /// to twice the capacity that they need.
    fn buffers(&self) -> usize {
        self.bytes.len().max(self.bytes.capacity() / 2)
            + self.nodes.len().max(self.nodes.capacity() / 2) * size_of::<Node>()
    }
}

/// One reference to a [`Storage`].
#[repr(transparent)]
#[derive(StableAbi)]
pub(super) struct Shared(NonNull<Storage>);

// SAFETY: the storage is plain memory with an atomic count (rules 2 and 3), and what it is
// released to is thread-safe (rule 4: a mutex in an `Arc`).
unsafe impl Send for Shared {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for Shared {}

impl Shared {
    /// A storage of its own, freed when the last reference goes.
    pub(super) fn unpooled() -> Self {
        Self::allocate(Weak::new().into_raw())
    }

    fn allocate(pool: *const Shelf) -> Self {
        let storage = Box::new(Storage {
            references: AtomicUsize::new(1),
            bytes: RVec::new(),
            nodes: RVec::new(),
            spare_events: RVec::new(),
            spare_values: RVec::new(),
            scratch_events: RVec::new(),
            release,
            pool: pool.cast(),
        });
        Self(NonNull::from(Box::leak(storage)))
    }

    /// Whether this is the only reference to the storage.
    #[inline]
    pub(super) fn is_unique(&self) -> bool {
        // Acquire: what the others wrote before they let go is visible to us.
        self.storage().references.load(Ordering::Acquire) == 1
    }

    /// How much memory the buffers take, in bytes: this one's share of it where there are other references.
    /// Buffers that have grown have up to twice the capacity that they need, which does not count.
    pub(super) fn held(&self) -> usize {
        // Others may come and go meanwhile.
        self.storage().buffers() / self.storage().references.load(Ordering::Relaxed).max(1)
    }

    /// Returns the memory that the storage takes, its spare lists and its header included, in bytes. Another
    /// reference to the storage does not lower it.
    pub(super) fn footprint(&self) -> usize {
        let storage = self.storage();
        let lists = storage.spare_events.capacity() + storage.scratch_events.capacity();
        size_of::<Storage>() + storage.buffers() + lists * size_of::<Event>()
    }

    #[inline]
    pub(super) fn storage(&self) -> &Storage {
        // SAFETY: rule 1; there is no write while more than one reference exists (rule 2).
        unsafe { self.0.as_ref() }
    }

    /// The storage, to write to; `None` while there is another reference.
    #[inline]
    pub(super) fn storage_mut(&mut self) -> Option<&mut Storage> {
        if !self.is_unique() {
            return None;
        }
        // SAFETY: rules 1 and 2: the only reference is ours, and `&mut self` keeps it so.
        Some(unsafe { self.0.as_mut() })
    }
}

impl Clone for Shared {
    fn clone(&self) -> Self {
        // Relaxed as in `Arc`: a new reference can only come from an existing one.
        self.storage().references.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.storage().references.fetch_sub(1, Ordering::Release) == 1 {
            // All reads happen before the storage is used again, as in `Arc`.
            fence(Ordering::Acquire);
            let release = self.storage().release;
            // SAFETY: rule 3: this was the last reference.
            unsafe { release(self.0) };
        }
    }
}

/// Where storages wait to be used again.
#[derive(Debug)]
struct Shelf {
    waiting: Mutex<Stock>,
    capacity: usize,
    /// How much of them there may be at most.
    bytes: usize,
}

#[derive(Debug, Default)]
struct Stock {
    storages: Vec<Waiting>,
    /// What they take, in bytes.
    bytes: usize,
}

#[derive(Debug)]
struct Waiting(NonNull<Storage>);

// SAFETY: there is no other reference to a waiting storage (rule 3).
unsafe impl Send for Waiting {}

impl Waiting {
    /// How much memory the storage takes, in bytes.
    fn size(&self) -> usize {
        // SAFETY: there is no other reference to it (rule 3).
        let storage = unsafe { self.0.as_ref() };
        storage.bytes.capacity()
            + storage.nodes.capacity() * size_of::<Node>()
            + storage.spare_events.capacity() * size_of::<Event>()
            + storage.spare_values.capacity() * size_of::<Value<'_>>()
            + storage.scratch_events.capacity() * size_of::<Event>()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // SAFETY: it was leaked from a `Box` by `allocate`, on this side (rule 4), and there is no
        // other reference to it; its own weak reference to the shelf goes with it.
        unsafe {
            let storage = Box::from_raw(self.0.as_ptr());
            drop(Weak::from_raw(storage.pool.cast::<Shelf>()));
        }
    }
}

unsafe extern "C" fn release(storage: NonNull<Storage>) {
    let waiting = Waiting(storage);
    let size = waiting.size();
    // SAFETY: the caller gave up the last reference (rule 3). The weak reference stays with the
    // storage, hence `ManuallyDrop`.
    let (storage, shelf) = unsafe {
        let storage = &mut *storage.as_ptr();
        let shelf = Weak::from_raw(storage.pool.cast::<Shelf>());
        (storage, shelf)
    };
    let shelf = std::mem::ManuallyDrop::new(shelf);
    let Some(shelf) = shelf.upgrade() else { return };
    if size > RECYCLED_AT_MOST {
        return;
    }
    storage.bytes.clear();
    storage.nodes.clear();
    storage.references.store(1, Ordering::Relaxed);
    let mut stock = shelf.waiting.lock().unwrap_or_else(PoisonError::into_inner);
    if stock.storages.len() < shelf.capacity && stock.bytes + size <= shelf.bytes {
        stock.bytes += size;
        stock.storages.push(waiting);
    }
}

/// Storages that are used again, up to 4 MiB of them: a batch taken from a pool brings the capacity of an earlier one,
/// so that a running flow allocates nothing for its batches.
///
/// A storage comes back when the last batch that shares it is dropped, from whichever side of the
/// boundary and whichever thread. Clones are handles to one pool.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shelf>);

impl Pool {
    /// A pool that keeps at most `capacity` unused storages.
    pub fn new(capacity: usize) -> Self {
        Self::with_bytes(capacity, WAITING_AT_MOST)
    }

    /// A pool that keeps at most `capacity` unused storages, of so many bytes together.
    pub fn with_bytes(capacity: usize, bytes: usize) -> Self {
        let stock = Stock { storages: Vec::with_capacity(capacity), bytes: 0 };
        Self(Arc::new(Shelf { waiting: Mutex::new(stock), capacity, bytes }))
    }

    /// How many storages wait to be used again.
    pub fn waiting(&self) -> usize {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).storages.len()
    }

    pub(super) fn take(&self) -> Shared {
        let mut stock = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = stock.storages.pop();
        stock.bytes -= waiting.as_ref().map_or(0, Waiting::size);
        drop(stock);
        match waiting {
            Some(waiting) => Shared(std::mem::ManuallyDrop::new(waiting).0),
            None => Shared::allocate(Arc::downgrade(&self.0).into_raw()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pool, Shared, Storage};
    use crate::batch::Batch;

    #[test]
    fn the_layouts_behind_the_pointer_are_fixed() {
        assert_layouts! {
            Shared => 8, 8;
            Storage => 184, 8;
        }
    }

    #[test]
    fn a_storage_returns_when_its_last_batch_goes_and_keeps_its_capacity() {
        let pool = Pool::new(2);
        let mut batch = Batch::from_pool(&pool);
        batch.push_message(b"some bytes");
        let shared = batch.clone();
        drop(batch);
        assert_eq!(pool.waiting(), 0, "a consumer still reads");
        std::thread::spawn(move || drop(shared)).join().unwrap();
        assert_eq!(pool.waiting(), 1);
        let again = Batch::from_pool(&pool);
        assert!(again.is_empty() && again.bytes().is_empty());
        assert!(again.byte_capacity() >= 10);
    }

    #[test]
    fn a_storage_that_threads_let_go_of_at_the_same_time_is_written_after_both_have_read() {
        let pool = Pool::new(1);
        let (sender, receiver) = std::sync::mpsc::channel::<Batch>();
        let read = |batch: &Batch| (batch.len(), batch.bytes()[0]);
        let other = std::thread::spawn(move || receiver.iter().map(|it| read(&it)).collect());
        let numbers = 0..100;
        for number in numbers.clone() {
            let mut batch = Batch::from_pool(&pool);
            batch.push_message(&[number]);
            sender.send(batch.clone()).unwrap();
            assert_eq!(read(&batch), (1, number));
        }
        drop(sender);
        let read: Vec<_> = other.join().unwrap();
        assert_eq!(read, numbers.map(|number| (1, number)).collect::<Vec<_>>());
        assert_eq!(pool.waiting(), 1);
    }

    #[test]
    fn a_pool_keeps_no_more_than_its_capacity_and_nothing_huge() {
        let pool = Pool::new(1);
        drop((Batch::from_pool(&pool), Batch::from_pool(&pool)));
        assert_eq!(pool.waiting(), 1);
        let mut huge = Batch::from_pool(&pool);
        huge.push_message(&vec![0; super::RECYCLED_AT_MOST + 1]);
        drop(huge);
        assert_eq!(pool.waiting(), 0);
    }

    #[test]
    fn what_waits_in_a_pool_takes_no_more_than_its_bound() {
        let pool = Pool::new(100);
        let batches: Vec<_> = (0..100)
            .map(|_| {
                let mut batch = Batch::from_pool(&pool);
                batch.push_message(&vec![0; 1 << 20]);
                batch
            })
            .collect();
        drop(batches);
        let waiting = pool.waiting();
        assert!((2..=4).contains(&waiting), "{waiting} of 1 MiB");
        (0..waiting).for_each(|_| drop(Batch::from_pool(&pool)));
        let empty: Vec<_> = (0..100).map(|_| Batch::from_pool(&pool)).collect();
        drop(empty);
        assert_eq!(pool.waiting(), 100, "what was taken out is not counted any more");
    }

    #[test]
    fn a_batch_may_outlive_its_pool() {
        let pool = Pool::new(1);
        let mut batch = Batch::from_pool(&pool);
        drop(pool);
        batch.push_message(b"x");
        assert_eq!(batch.len(), 1);
    }
}
