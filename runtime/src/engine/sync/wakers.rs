//! Sets of wakers for tasks that wait for the same event.
//!
//! Each task has at most one waker in the set, however often it polls, and no waker after it has left the set. Entering
//! and leaving the set take constant time.

use std::task::Waker;

use crate::sync::fault;

/// The wakers of tasks that wait.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    /// Wakers by index. `None` if the task has left.
    entries: Vec<Option<Waker>>,
    /// Indexes in `entries` that are free.
    free: Vec<usize>,
    /// Number of times that all tasks were woken. An index is valid only in the round in which it was assigned to a
    /// task.
    round: u64,
}

/// The registration of one task in a set of wakers. Empty while the task does not wait.
#[derive(Debug, Default)]
pub(crate) struct WakerSlot {
    /// Round and index of the waker. `None` if the task has not waited, or has left.
    at: Option<(u64, usize)>,
    /// Node of the flow whose task waits. Used only to report which node waits.
    node: u32,
    /// Memory of the items that wait for capacity in a queue, in bytes, as the queue counts it.
    pub(crate) bytes: usize,
    /// Memory of the items that the task sends after the next one, in bytes.
    pub(crate) behind: usize,
}

impl Wakers {
    /// Registers `waker` to be woken in the current round.
    pub(crate) fn wait(&mut self, slot: &mut WakerSlot, waker: &Waker) {
        if let Some(entry) = self.find(slot) {
            match entry {
                Some(entry) => entry.clone_from(waker),
                None => *entry = Some(waker.clone()),
            }
            return;
        }
        let waker = Some(waker.clone());
        let at = if let Some(at) = self.free.pop() {
            self.entries[at] = waker;
            at
        } else {
            self.entries.push(waker);
            self.entries.len() - 1
        };
        slot.at = Some((self.round, at));
    }

    /// Removes the waker in `slot`, if any, because its task no longer waits.
    pub(crate) fn leave(&mut self, slot: &mut WakerSlot) {
        if let Some(entry) = self.find(slot) {
            *entry = None;
            self.free.extend(slot.at.map(|(_, at)| at));
        }
        slot.at = None;
    }

    /// Moves all wakers to `into`, which must be empty, and starts the next round. The caller has to wake them after it
    /// has released its lock.
    pub(crate) fn take(&mut self, into: &mut Vec<Option<Waker>>) {
        std::mem::swap(&mut self.entries, into);
        self.free.clear();
        self.round += 1;
    }

    fn find(&mut self, slot: &WakerSlot) -> Option<&mut Option<Waker>> {
        let (round, at) = slot.at?;
        let is_valid = round == self.round || fault("wakers_ignore_rounds");
        if is_valid { self.entries.get_mut(at) } else { None }
    }

    /// Returns the number of the current round. Tasks that registered in an earlier round no longer wait.
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    /// Returns the number of tasks that wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.iter().flatten().count()
    }
}

impl WakerSlot {
    /// Creates the slot of a task of `node`.
    pub(crate) fn of(node: u32) -> Self {
        Self { node, ..Self::default() }
    }

    /// Returns the node of the flow whose task waits.
    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// Returns whether the task may be registered in the set. The registration may be one of an earlier round, which
    /// has ended.
    pub(crate) fn may_wait(&self) -> bool {
        self.at.is_some()
    }
}

/// Wakes all `wakers` and clears the list.
pub(crate) fn wake(wakers: &mut Vec<Option<Waker>>) {
    wakers.drain(..).flatten().for_each(Waker::wake);
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::{WakerSlot, Wakers};

    #[test]
    fn task_has_one_entry_while_it_waits_and_none_after() {
        let mut wakers = Wakers::default();
        let mut slots: Vec<WakerSlot> = (0..3).map(|_| WakerSlot::default()).collect();
        for _ in 0..10 {
            for slot in &mut slots {
                wakers.wait(slot, Waker::noop());
            }
        }
        assert_eq!(wakers.len(), 3);
        wakers.leave(&mut slots[1]);
        assert_eq!(wakers.len(), 2);
        wakers.wait(&mut WakerSlot::default(), Waker::noop());
        assert_eq!((wakers.len(), wakers.entries.len()), (3, 3), "the free index is reused");
    }

    #[test]
    fn slot_of_an_earlier_round_does_not_remove_another_waker() {
        let mut wakers = Wakers::default();
        let (mut old, mut new) = (WakerSlot::default(), WakerSlot::default());
        wakers.wait(&mut old, Waker::noop());
        let mut taken = Vec::new();
        wakers.take(&mut taken);
        assert_eq!((taken.len(), wakers.len()), (1, 0));
        wakers.wait(&mut new, Waker::noop());
        wakers.leave(&mut old);
        assert_eq!(wakers.len(), 1);
    }
}
