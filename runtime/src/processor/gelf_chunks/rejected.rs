//! The messages that were rejected recently.

use std::collections::{HashSet, VecDeque};

use tremor_pdk::Memory;

use super::Key;

/// Maximum number of messages. If there are more, the oldest is forgotten.
const MAX_MESSAGES: usize = 10_000;
/// Bytes of memory that a message takes, approximately.
const MESSAGE: usize = size_of::<(u64, Key)>() + 2 * size_of::<Key>();

/// The messages that were rejected recently, so that their late chunks do not begin messages that would be rejected
/// too.
pub(super) struct RejectedMessages {
    keys: HashSet<Key>,
    /// Messages in the order of their rejection, and the times in ns at which they are forgotten.
    ages: VecDeque<(u64, Key)>,
    /// Time in ns for which a message is remembered.
    time: u64,
    memory: Memory,
}

impl RejectedMessages {
    pub(super) fn new(time: u64, memory: Memory) -> Self {
        Self { keys: HashSet::new(), ages: VecDeque::new(), time, memory }
    }

    /// Adds a message that was rejected at `now` ns. If the memory limit does not allow that, the message is not
    /// remembered.
    pub(super) fn add(&mut self, key: Key, now: u64) {
        if self.ages.len() >= MAX_MESSAGES {
            self.forget_oldest();
        }
        if self.memory.try_resize((self.ages.len() + 1) * MESSAGE) && self.keys.insert(key) {
            self.ages.push_back((now.saturating_add(self.time), key));
        }
    }

    /// Returns whether a message was rejected and is not forgotten at `now` ns.
    pub(super) fn contains(&mut self, key: Key, now: u64) -> bool {
        while self.ages.front().is_some_and(|(due, _)| *due <= now) {
            self.forget_oldest();
        }
        self.keys.contains(&key)
    }

    fn forget_oldest(&mut self) {
        if let Some((_, key)) = self.ages.pop_front() {
            self.keys.remove(&key);
            self.memory.resize(self.ages.len() * MESSAGE);
        }
    }

    /// Forgets the messages of a stream that ended, because a source may read their chunks again.
    pub(super) fn forget_stream(&mut self, stream: u64) {
        if !self.ages.is_empty() {
            self.ages.retain(|(_, key)| key.stream != stream);
            self.keys.retain(|key| key.stream != stream);
            self.memory.resize(self.ages.len() * MESSAGE);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.keys.len(), self.ages.len());
        self.keys.len()
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::testing::TestHost;

    use super::{Key, MAX_MESSAGES, RejectedMessages};

    #[test]
    fn oldest_message_is_forgotten_at_maximum_number() {
        let host = TestHost::new();
        let mut rejected = RejectedMessages::new(10, host.context().memory());
        let key = |id| Key { stream: id % 2, origin: 0, id };
        let last = MAX_MESSAGES as u64;
        (0..=last).for_each(|id| rejected.add(key(id), id / 1_000));
        assert_eq!(rejected.len(), MAX_MESSAGES);
        assert!(!rejected.contains(key(0), 9) && rejected.contains(key(1), 9));
        assert!(!rejected.contains(key(1), 10) && rejected.contains(key(1_000), 10));
        rejected.forget_stream(0);
        assert!(!rejected.contains(key(1_000), 10) && rejected.contains(key(1_001), 10));
        assert!(!rejected.contains(key(last), 20) && rejected.len() == 0);
    }

    #[test]
    fn remembered_messages_count_as_memory() {
        let host = TestHost::new();
        let mut rejected = RejectedMessages::new(10, host.context().memory());
        let key = |id| Key { stream: 1, origin: 0, id };
        let before = host.memory();
        rejected.add(key(1), 0);
        assert!(host.memory() > before);
        host.set_memory_limit(host.memory());
        (2..MAX_MESSAGES as u64).for_each(|id| rejected.add(key(id), 0));
        assert!((1..MAX_MESSAGES - 2).contains(&rejected.len()), "{}", rejected.len());
        assert!(rejected.contains(key(1), 9) && !rejected.contains(key(9_999), 9));
    }
}
