//! The buffers that the events of a batch refer to. Batches share buffers by reference count, with one reference for
//! each batch, and a pool recycles them.
//!
//! No other module of the batch contains `unsafe` code. The safety comments refer to these rules:
//! 1. [`Shared`] points to a live [`Storage`] and owns one of its `references`.
//! 2. The owner of the only reference may write. While there is more than one reference, nobody writes.
//! 3. The owner that drops the last reference calls `release`, once, and never accesses the storage again.
//! 4. `release` and the target of `pool` belong to the side that allocated the storage, so that a batch can be dropped
//!    in the host or in a plugin, and on any thread.

use std::{
    ptr::NonNull,
    sync::{Arc, Weak},
};

use abi_stable::{StableAbi, std_types::RVec};

use super::{Batch, Event};
use crate::{
    ByteBuffer, NodeBuffer,
    document::Node,
    sync::{AtomicUsize, Mutex, Ordering, fault, fence, lock},
    value::Value,
};

/// Default maximum of the bytes of all free storages of a pool, so that neither a burst of large batches nor one huge
/// message occupies memory permanently. A flow with one source and one sink has five pools.
const MAX_FREE_BYTES: usize = 2 * Batch::WEIGHT_AT_MOST;

#[repr(C)]
#[derive(StableAbi)]
pub(super) struct Storage {
    references: AtomicUsize,
    pub(super) bytes: ByteBuffer,
    pub(super) nodes: NodeBuffer,
    /// The list of events and the table of values of the last batch, both empty, kept for the next batch.
    pub(super) spare_events: RVec<Event>,
    pub(super) spare_values: RVec<Value<'static>>,
    /// A second list of events, for operations that write a new list while they read the old list.
    pub(super) scratch_events: RVec<Event>,
    release: unsafe extern "C" fn(NonNull<Storage>),
    pool: *const (),
}

impl Storage {
    /// Returns the memory of the bytes and nodes, in bytes. Each buffer counts as at least half of its capacity,
    /// because a growing buffer has up to twice the capacity that it needs.
    fn buffers(&self) -> usize {
        self.bytes.len().max(self.bytes.capacity() / 2)
            + self.nodes.len().max(self.nodes.capacity() / 2) * size_of::<Node>()
    }
}

/// A reference to a [`Storage`].
#[repr(transparent)]
#[derive(StableAbi)]
pub(super) struct Shared(NonNull<Storage>);

// SAFETY: the storage is plain memory with an atomic count (rules 2 and 3), and the pool that it is released to is
// thread-safe (rule 4: a mutex in an `Arc`).
unsafe impl Send for Shared {}
// SAFETY: the same reasons as for `Send`; a shared reference only reads.
unsafe impl Sync for Shared {}

impl Shared {
    /// Creates a storage without a pool, which is freed when the last reference is dropped.
    pub(super) fn unpooled() -> Self {
        Self::allocate(Weak::new().into_raw())
    }

    fn allocate(pool: *const FreeList) -> Self {
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

    /// Returns whether this is the only reference to the storage.
    #[inline]
    pub(super) fn is_unique(&self) -> bool {
        // Acquire, so that writes of other owners before they dropped their references are visible here.
        let order = if fault("pool_relaxed_check") { Ordering::Relaxed } else { Ordering::Acquire };
        self.storage().references.load(order) == 1
    }

    /// Returns the memory of the buffers in bytes, as [`Storage::buffers`] counts it, divided by the number of
    /// references.
    pub(super) fn retained_bytes(&self) -> usize {
        // Relaxed, because the result is an estimate: the number of references may change at any time.
        self.storage().buffers() / self.storage().references.load(Ordering::Relaxed).max(1)
    }

    /// Returns the memory of the storage in bytes, including its spare lists and its header, regardless of the number
    /// of references.
    pub(super) fn footprint(&self) -> usize {
        let storage = self.storage();
        let lists = storage.spare_events.capacity() + storage.scratch_events.capacity();
        size_of::<Storage>() + storage.buffers() + lists * size_of::<Event>()
    }

    #[inline]
    pub(super) fn storage(&self) -> &Storage {
        // SAFETY: the storage is live (rule 1), and nobody writes while more than one reference exists (rule 2).
        unsafe { self.0.as_ref() }
    }

    /// Returns the storage for writing, or `None` if there is another reference.
    #[inline]
    pub(super) fn storage_mut(&mut self) -> Option<&mut Storage> {
        if !self.is_unique() {
            return None;
        }
        // SAFETY: the storage is live (rule 1), this is the only reference (rule 2), and `&mut self` prevents this
        // reference from being cloned meanwhile.
        Some(unsafe { self.0.as_mut() })
    }
}

impl Clone for Shared {
    fn clone(&self) -> Self {
        // Relaxed as in `Arc`, because a new reference can only be cloned from an existing reference.
        self.storage().references.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let order = if fault("pool_relaxed_drop") { Ordering::Relaxed } else { Ordering::Release };
        if self.storage().references.fetch_sub(1, order) == 1 {
            // Acquire, so that all reads happen before the storage is reused, as in `Arc`.
            if !fault("pool_reuses_without_fence") {
                fence(Ordering::Acquire);
            }
            let release = self.storage().release;
            // SAFETY: this was the last reference (rule 3), and it is not used again.
            unsafe { release(self.0) };
        }
    }
}

/// The storages of a pool that can be reused.
#[derive(Debug)]
struct FreeList {
    free: Mutex<FreeStorages>,
    capacity: usize,
    /// Maximum bytes of all free storages together.
    bytes: usize,
}

#[derive(Debug, Default)]
struct FreeStorages {
    storages: Vec<FreeStorage>,
    /// Bytes of the free storages.
    bytes: usize,
}

#[derive(Debug)]
struct FreeStorage(NonNull<Storage>);

// SAFETY: no reference to a free storage exists (rule 3).
unsafe impl Send for FreeStorage {}

impl FreeStorage {
    /// Returns the memory of the storage, in bytes.
    fn size(&self) -> usize {
        // SAFETY: no reference to the storage exists (rule 3).
        let storage = unsafe { self.0.as_ref() };
        storage.bytes.capacity()
            + storage.nodes.capacity() * size_of::<Node>()
            + storage.spare_events.capacity() * size_of::<Event>()
            + storage.spare_values.capacity() * size_of::<Value<'_>>()
            + storage.scratch_events.capacity() * size_of::<Event>()
    }
}

impl Drop for FreeStorage {
    fn drop(&mut self) {
        // SAFETY: `allocate` leaked the storage from a `Box` on this side (rule 4), and no reference to the storage
        // exists. The storage owns one weak reference to the free list, which is dropped with the storage.
        unsafe {
            let storage = Box::from_raw(self.0.as_ptr());
            drop(Weak::from_raw(storage.pool.cast::<FreeList>()));
        }
    }
}

unsafe extern "C" fn release(storage: NonNull<Storage>) {
    let free = FreeStorage(storage);
    let size = free.size();
    // SAFETY: the caller gave up the last reference (rule 3), so the storage may be written. The weak reference still
    // belongs to the storage; `ManuallyDrop` keeps it from being dropped twice.
    let (storage, list) = unsafe {
        let storage = &mut *storage.as_ptr();
        let list = Weak::from_raw(storage.pool.cast::<FreeList>());
        (storage, list)
    };
    let list = std::mem::ManuallyDrop::new(list);
    let Some(list) = list.upgrade() else { return };
    storage.bytes.clear();
    storage.nodes.clear();
    storage.references.store(1, Ordering::Relaxed);
    let mut free_storages = lock(&list.free);
    if free_storages.storages.len() < list.capacity && free_storages.bytes + size <= list.bytes {
        free_storages.bytes += size;
        free_storages.storages.push(free);
    }
}

/// A pool of buffers (storages) for batches, which keeps free buffers of up to 4 MiB by default. A batch from a pool
/// starts with the capacity of an earlier batch, so a running flow rarely allocates memory for its batches.
///
/// A storage returns to its pool when the last batch that shares it is dropped, in the host or in a plugin, and on any
/// thread. Clones are handles to the same pool.
#[derive(Clone, Debug)]
pub struct Pool(Arc<FreeList>);

impl Pool {
    /// Creates a pool that keeps at most `capacity` unused storages.
    pub fn new(capacity: usize) -> Self {
        Self::with_bytes(capacity, MAX_FREE_BYTES)
    }

    /// Creates a pool that keeps at most `capacity` unused storages, of at most `bytes` bytes together. A larger storage
    /// is freed.
    pub fn with_bytes(capacity: usize, bytes: usize) -> Self {
        let storages = FreeStorages { storages: Vec::with_capacity(capacity), bytes: 0 };
        Self(Arc::new(FreeList { free: Mutex::new(storages), capacity, bytes }))
    }

    /// Returns the number of free storages in the pool.
    pub fn waiting(&self) -> usize {
        lock(&self.0.free).storages.len()
    }

    pub(super) fn take(&self) -> Shared {
        let mut free_storages = lock(&self.0.free);
        let free = free_storages.storages.pop();
        free_storages.bytes -= free.as_ref().map_or(0, FreeStorage::size);
        drop(free_storages);
        match free {
            Some(free) => Shared(std::mem::ManuallyDrop::new(free).0),
            None => Shared::allocate(Arc::downgrade(&self.0).into_raw()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pool, Shared, Storage};
    use crate::batch::Batch;

    #[test]
    fn layouts_of_shared_storage_are_fixed() {
        assert_layouts! {
            Shared => 8, 8;
            Storage => 184, 8;
        }
    }

    #[test]
    fn last_dropped_batch_returns_storage_with_capacity() {
        let pool = Pool::new(2);
        let mut batch = Batch::from_pool(&pool);
        batch.push_message(b"some bytes");
        let shared = batch.clone();
        drop(batch);
        assert_eq!(pool.waiting(), 0, "a consumer still reads");
        std::thread::spawn(move || drop(shared)).join().unwrap();
        assert_eq!(pool.waiting(), 1);
        let reused = Batch::from_pool(&pool);
        assert!(reused.is_empty() && reused.bytes().is_empty());
        assert!(reused.byte_capacity() >= 10);
    }

    #[test]
    fn storage_released_by_two_threads_is_reused_after_reads() {
        let pool = Pool::new(1);
        let (sender, receiver) = std::sync::mpsc::channel::<Batch>();
        let read = |batch: &Batch| (batch.len(), batch.bytes()[0]);
        let other = std::thread::spawn(move || receiver.iter().map(|batch| read(&batch)).collect());
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
    fn pool_keeps_its_capacity_and_no_huge_storage() {
        let pool = Pool::new(1);
        drop((Batch::from_pool(&pool), Batch::from_pool(&pool)));
        assert_eq!(pool.waiting(), 1);
        let mut huge = Batch::from_pool(&pool);
        huge.push_message(&vec![0; super::MAX_FREE_BYTES + 1]);
        drop(huge);
        assert_eq!(pool.waiting(), 0);
    }

    #[test]
    fn free_storages_stay_within_byte_limit() {
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
        assert_eq!(pool.waiting(), 100, "storages in use are not counted");
    }

    #[test]
    fn batch_may_outlive_its_pool() {
        let pool = Pool::new(1);
        let mut batch = Batch::from_pool(&pool);
        drop(pool);
        batch.push_message(b"x");
        assert_eq!(batch.len(), 1);
    }
}
