//! The batches of the newest records, which the source takes instead of reading and decoding these records.
//!
//! A batch is retained when its record has become durable, and only while the source is close behind. The retained
//! batches are those of consecutive records, so the source needs the disk only for what comes before the first or after
//! the last of them. They are never needed: a batch that is released is read from its record.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use tremor_abi::batch::{HostBatch, Limit};
use tremor_pdk::{Batch, lock};

use super::MOST_STAGED;
use crate::memory::{Account, Loan};

/// Maximum memory of the retained batches, in bytes. The records of a commit have up to [`MOST_STAGED`] bytes, and their
/// batches, which contain decoded values, a few times as many.
const MOST_RETAINED: usize = 4 * MOST_STAGED;

/// Maximum memory of a retained batch, in lengths of its record. The batch of short numbers takes ten times as many bytes
/// as its record. A batch that takes more contains events that other components have removed.
const MOST_LENGTHS: usize = 16;

/// Maximum number of records that the source has yet to read when batches begin to be retained.
const MOST_BEHIND: u64 = 64;

/// The retained batches of a queue.
pub(super) struct Recent(Mutex<Run>);

/// Retained batches of consecutive records.
struct Run {
    /// Number of the newest record that is durable.
    newest: u64,
    /// Number of the newest record when the run began. The source reads the records up to this one from the disk.
    after: u64,
    /// The batches, in the order of their records.
    batches: VecDeque<RecentBatch>,
    /// Memory of the batches, in bytes.
    bytes: usize,
    /// `true` while the batch of each further record is added.
    is_open: bool,
    /// Number of the first record of the run at the last call of [`Recent::release_unused`].
    seen: Option<u64>,
    loan: Loan,
}

/// The batch of a record.
pub(super) struct RecentBatch {
    pub(super) number: u64,
    pub(super) batch: Batch,
    /// Memory of the batch, in bytes.
    bytes: usize,
}

impl Recent {
    /// Creates an empty list for a queue whose newest record is `newest`.
    pub(super) fn new(newest: u64, account: Arc<Account>) -> Self {
        Self(Mutex::new(Run {
            newest,
            after: newest,
            batches: VecDeque::new(),
            bytes: 0,
            is_open: false,
            seen: None,
            loan: Loan::new(account),
        }))
    }

    /// Returns a copy of `batch` that is to be retained once its record, of `len` bytes, is durable. Returns `None` if it
    /// would not be retained. The copy shares the buffers of the batch.
    pub(super) fn copy_of(&self, batch: &Batch, len: usize) -> Option<Batch> {
        let is_retained = lock(&self.0).is_open && batch.footprint() <= len * MOST_LENGTHS;
        is_retained.then(|| {
            let mut copy = batch.clone();
            // A batch that is read from the disk has this limit.
            copy.set_limit(Limit::default());
            copy
        })
    }

    /// Adds the batch of the record `number`, which has just become durable. Call this for each record, in order; `batch`
    /// is `None` if the record has to be read. Returns whether the batch is retained. If memory is short, releases all
    /// batches.
    pub(super) fn add(&self, number: u64, batch: Option<Batch>) -> bool {
        let run = &mut *lock(&self.0);
        run.newest = number;
        let Some(batch) = batch.filter(|_| run.is_open) else {
            run.is_open = false;
            return false;
        };
        let bytes = batch.footprint();
        if run.bytes + bytes > MOST_RETAINED {
            run.is_open = false;
            return false;
        }
        if !run.loan.take_spare(bytes) {
            run.release();
            return false;
        }
        run.bytes += bytes;
        run.batches.push_back(RecentBatch { number, batch, bytes });
        true
    }

    /// Begins to retain batches, unless there are some, if few records follow the record `last`, which is the last one
    /// that the source has. Returns the number of the record up to which the source has to read. Call this before
    /// reading.
    pub(super) fn begin(&self, last: u64) -> u64 {
        let run = &mut *lock(&self.0);
        if !run.is_open && run.batches.is_empty() {
            if run.newest.saturating_sub(last) > MOST_BEHIND {
                return u64::MAX;
            }
            (run.after, run.is_open) = (run.newest, true);
        }
        if last < run.after { run.after } else { u64::MAX }
    }

    /// Returns whether the batch of the first record after `last` is retained.
    pub(super) fn has_next(&self, last: u64) -> bool {
        let run = &mut *lock(&self.0);
        run.drop_to(last);
        last >= run.after && !run.batches.is_empty()
    }

    /// Removes and returns the batch of the first record after `last`, if it is retained.
    pub(super) fn take(&self, last: u64) -> Option<RecentBatch> {
        let run = &mut *lock(&self.0);
        run.drop_to(last);
        if last < run.after { None } else { run.pop() }
    }

    /// Returns whether the batches of all records after `last` are retained, also those of records that will follow. A
    /// record for which this changes is reported by [`Recent::add`].
    pub(super) fn has_all_after(&self, last: u64) -> bool {
        let run = lock(&self.0);
        run.is_open && last >= run.after
    }

    /// Releases the batches of the records up to `number`.
    pub(super) fn drop_to(&self, number: u64) {
        lock(&self.0).drop_to(number);
    }

    /// Releases all batches, and retains none until the next call of [`Recent::begin`]. Returns whether there were any:
    /// then the source has to read their records.
    pub(super) fn release(&self) -> bool {
        lock(&self.0).release()
    }

    /// Releases all batches if the source has not taken the first one since the last call, for example because the sink is
    /// down. Returns whether batches were released.
    pub(super) fn release_unused(&self) -> bool {
        let run = &mut *lock(&self.0);
        let first = run.batches.front().map(|it| it.number);
        let is_unused = first.is_some() && first == run.seen;
        run.seen = first;
        is_unused && run.release()
    }
}

impl Run {
    fn pop(&mut self) -> Option<RecentBatch> {
        let first = self.batches.pop_front()?;
        self.bytes -= first.bytes;
        self.loan.give_back(first.bytes);
        Some(first)
    }

    fn drop_to(&mut self, number: u64) {
        while self.batches.front().is_some_and(|it| it.number <= number) {
            self.pop();
        }
    }

    fn release(&mut self) -> bool {
        self.is_open = false;
        self.loan.give_back(std::mem::take(&mut self.bytes));
        let had_batches = !self.batches.is_empty();
        self.batches.clear();
        had_batches
    }
}
