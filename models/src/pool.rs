//! The storages of batches: a task with the only reference writes, and one that takes a storage out of the
//! pool writes after all reads of it.

use crate::rt::thread;

use crate::{fails, holds};

/// Two tasks read a storage; when both have let go of it, it is written again.
macro_rules! a_storage_is_used_again {
    ($variant:ident) => {
        crate::Model {
            preemptions: 9,
            run: || {
                let pool = crate::$variant::batch::storage::Pool::new(1);
                let mut storage = pool.take();
                storage.storage_mut().expect("it is unique").bytes.push(1);
                let reads = storage.clone();
                let reads = thread::spawn(move || assert_eq!(reads.storage().bytes.len(), 1));
                assert_eq!(storage.storage().bytes.len(), 1);
                drop(storage);
                let mut again = pool.take();
                again.storage_mut().expect("it is unique").bytes.push(2);
                assert_eq!(again.storage().bytes.len(), 1, "it comes empty");
                reads.join().unwrap();
            },
        }
    };
}

/// Two tasks have a storage; one of them writes as soon as the other has let go of it.
macro_rules! the_last_one_writes {
    ($variant:ident) => {
        crate::Model {
            preemptions: 9,
            run: || {
                let pool = crate::$variant::batch::storage::Pool::new(1);
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
            },
        }
    };
}

#[test]
fn a_storage_is_written_again_after_all_have_read_it() {
    holds(a_storage_is_used_again!(as_it_is));
}

#[test]
fn a_task_with_the_last_reference_writes_after_all_reads() {
    holds(the_last_one_writes!(as_it_is));
}

#[test]
fn it_is_found_that_a_reader_lets_go_too_early() {
    fails(a_storage_is_used_again!(storage_is_let_go_of_relaxed), "Causality violation");
}

#[test]
fn it_is_found_that_the_last_one_does_not_wait_for_readers() {
    fails(a_storage_is_used_again!(storage_is_released_without_a_fence), "Causality violation");
}

#[test]
fn it_is_found_that_the_last_one_writes_while_another_reads() {
    fails(the_last_one_writes!(storage_is_written_after_a_relaxed_look), "Causality violation");
}
