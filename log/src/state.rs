//! The state that appenders, readers and the commit thread share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::disk::DiskFile;
use crate::error::NotDurable;
use crate::settled::Settled;

/// Called once: with the number of a record when it is durable, or with an error.
pub(crate) type Done = Box<dyn FnOnce(Result<u64, NotDurable>) + Send>;

/// Called once when a condition may have changed.
pub(crate) type Notify = Box<dyn FnOnce() + Send>;

/// A record that is not durable yet.
pub(crate) struct Waiting {
    pub(crate) record: Vec<u8>,
    pub(crate) number: u64,
    pub(crate) done: Done,
}

/// A segment with durable records, not all of which are durably settled.
pub(crate) struct Live {
    /// Number in the name of the file.
    pub(crate) id: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) epoch: u64,
    /// Lower bound of the numbers of its records.
    pub(crate) first: u64,
    /// Number of the last durable record.
    pub(crate) last: u64,
    /// Offset of the end of the last durable record.
    pub(crate) end: u64,
    /// Length of the file in bytes.
    pub(crate) size: u64,
    /// `true` if nothing is appended any more.
    pub(crate) is_sealed: bool,
    /// `true` if the file has the length of a new segment and is reused. Other files are removed.
    pub(crate) is_reusable: bool,
}

/// State behind the lock.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "the conditions are independent")]
pub(crate) struct State {
    /// Records that no commit contains yet.
    pub(crate) waiting: VecDeque<Waiting>,
    /// Bytes of all records that are not durable, those in a commit included.
    pub(crate) staged_bytes: u64,
    /// Number of the next record.
    pub(crate) next: u64,
    /// Segments by their sequence.
    pub(crate) live: BTreeMap<u64, Live>,
    pub(crate) settled: Settled,
    /// `true` if `settled` differs from what is durable.
    pub(crate) is_settled_changed: bool,
    /// `true` while records wait for a segment.
    pub(crate) is_full: bool,
    pub(crate) is_closed: bool,
    /// Set when something has happened for which a commit thread that cannot commit waits.
    pub(crate) is_woken: bool,
    /// `true` if the records that wait are to be refused unless there is a segment for them.
    pub(crate) refuses_waiting: bool,
    /// `true` if segments may be created beyond the limit in bytes.
    pub(crate) is_limit_lifted: bool,
    /// The last error of the disk, until a commit or the preparation of a segment succeeds.
    pub(crate) failure: Option<String>,
    /// Parts that turned out to be damaged while they were read.
    pub(crate) damaged_parts: u64,
    pub(crate) on_record: Vec<Notify>,
    pub(crate) on_capacity: Vec<Notify>,
}

/// The state, and the condition on which the commit thread waits.
#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) work: Condvar,
}

impl Shared {
    pub(crate) fn new(state: State) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state), work: Condvar::new() })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while the state is inconsistent: callbacks run without the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
