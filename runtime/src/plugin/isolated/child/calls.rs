//! Polls of the plugin's code that are in progress. The runtime ends the process if one of them blocks its thread for too
//! long.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use tremor_pdk::lock;

/// The polls that are in progress, each with a number.
#[derive(Debug, Default)]
pub(super) struct Calls {
    last: AtomicU64,
    entered: Mutex<BTreeSet<u64>>,
}

/// A poll that is in progress until the value is dropped.
pub(super) struct Entered<'c> {
    calls: &'c Calls,
    number: u64,
}

impl Calls {
    /// Begins a poll.
    pub(super) fn enter(&self) -> Entered<'_> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.entered).insert(number);
        Entered { calls: self, number }
    }

    /// Returns the number of the poll that has been in progress longest, or 0 if there is none.
    pub(super) fn oldest(&self) -> u64 {
        lock(&self.entered).first().copied().unwrap_or_default()
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        lock(&self.calls.entered).remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::Calls;

    #[test]
    fn oldest_call_in_progress_keeps_its_number() {
        let calls = Calls::default();
        assert_eq!(calls.oldest(), 0);
        let first = calls.enter();
        drop(calls.enter());
        let third = calls.enter();
        assert_eq!(calls.oldest(), 1);
        drop(first);
        assert_eq!(calls.oldest(), 3);
        drop(third);
        assert_eq!(calls.oldest(), 0);
    }
}
