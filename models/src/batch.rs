//! Models of the memory of batches. A task writes to a storage, which is the memory of a batch,
//! only if it has the only reference. A task that takes a storage from the pool writes after all
//! earlier reads of this storage.

use crate::{Batch, Model, rt::thread};

#[path = "../../tremor-pdk/abi/src/batch/storage.rs"]
mod storage;

use storage::Pool;

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "storage_is_used_again",
        run: storage_is_used_again,
        preemptions: 9,
        faults: &[
            ("pool_relaxed_drop", "Causality violation"),
            ("pool_reuses_without_fence", "Causality violation"),
        ],
    },
    Model {
        name: "last_reference_writes",
        run: last_reference_writes,
        preemptions: 9,
        faults: &[("pool_relaxed_check", "Causality violation")],
    },
];

/// Two tasks read a storage. After both have dropped the storage, it is taken from the pool and written again.
fn storage_is_used_again() {
    let pool = Pool::new(1);
    let mut storage = pool.take();
    storage.storage_mut().expect("there is no other reference").bytes.push(1);
    let reads = storage.clone();
    let reads = thread::spawn(move || assert_eq!(reads.storage().bytes.len(), 1));
    assert_eq!(storage.storage().bytes.len(), 1);
    drop(storage);
    let mut again = pool.take();
    again.storage_mut().expect("there is no other reference").bytes.push(2);
    assert_eq!(again.storage().bytes.len(), 1, "the pool empties storages");
    reads.join().unwrap();
}

/// Two tasks have a reference to a storage. One of them writes if the other task has dropped its reference.
fn last_reference_writes() {
    let pool = Pool::new(1);
    let mut storage = pool.take();
    let reads = storage.clone();
    let writes = thread::spawn(move || {
        if let Some(storage) = storage.storage_mut() {
            storage.bytes.push(1);
        }
        storage
    });
    assert_eq!(reads.storage().bytes.len(), 0);
    drop(reads);
    let storage = writes.join().unwrap();
    assert!(storage.is_unique());
    drop(storage);
    assert_eq!(pool.waiting(), 1);
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) pull: u64,
}

impl Event {
    pub(crate) fn position(&self) -> Option<usize> {
        None
    }
}

/// An event that could not be decoded.
#[derive(Debug)]
pub(crate) struct Rejected {
    pub(crate) event: Event,
    pub(crate) error: crate::Error,
}
