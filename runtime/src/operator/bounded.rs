//! A map with a limited number of keys. If it is full, it evicts the oldest key before it inserts a new one.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// A map whose keys are ordered by age. The age of a key counts from its insertion, or from the last call of
/// [`Bounded::renew`].
///
/// Looking up an existing key allocates nothing. An entry takes about 50 bytes in addition to the bytes of its key and
/// value.
pub(super) struct Bounded<V> {
    hasher: DefaultHashBuilder,
    /// Slots of the keys by hash.
    table: HashTable<u32>,
    entries: Vec<Entry<V>>,
    /// The first unused slot. Unused slots form a list that is linked by `newer`.
    unused: u32,
    oldest: u32,
    newest: u32,
    limit: u32,
}

struct Entry<V> {
    key: Box<[u8]>,
    hash: u64,
    older: u32,
    newer: u32,
    /// Value of the key; `None` in an unused slot.
    value: Option<V>,
}

/// The end of a linked list of slots.
const NONE: u32 = u32::MAX;

/// The slot of a key. It is valid until the key is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

/// Result of looking up or inserting a key.
pub(super) enum Found<V> {
    /// The key existed.
    Known(Slot),
    /// The key was inserted. Contains the value of the key that was evicted for it, if any.
    New(Slot, Option<V>),
}

impl<V> Bounded<V> {
    /// Creates a map of at most `limit` keys. A limit of 0 counts as 1, and a limit above 2^32 - 2 as 2^32 - 2.
    pub(super) fn new(limit: u32) -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            table: HashTable::new(),
            entries: Vec::new(),
            unused: NONE,
            oldest: NONE,
            newest: NONE,
            limit: limit.clamp(1, NONE - 1),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Finds a key, or inserts it as the newest key.
    #[inline]
    pub(super) fn find_or_insert(&mut self, key: &[u8], value: impl FnOnce() -> V) -> Found<V> {
        let hash = self.hasher.hash_one(key);
        let entries = &self.entries;
        let is_same = |slot: &u32| {
            let entry = &entries[*slot as usize];
            entry.hash == hash && *entry.key == *key
        };
        if let Some(slot) = self.table.find(hash, is_same) {
            return Found::Known(Slot(*slot));
        }
        let evicted = if self.len() >= self.limit as usize { self.pop_oldest() } else { None };
        Found::New(self.insert(key, hash, value()), evicted)
    }

    fn insert(&mut self, key: &[u8], hash: u64, value: V) -> Slot {
        let value = Some(value);
        let entry = Entry { key: key.into(), hash, older: NONE, newer: NONE, value };
        let slot = if self.unused == NONE {
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).expect("no more slots than the limit")
        } else {
            let slot = self.unused;
            let old = std::mem::replace(&mut self.entries[slot as usize], entry);
            self.unused = old.newer;
            slot
        };
        let entries = &self.entries;
        self.table.insert_unique(hash, slot, |slot| entries[*slot as usize].hash);
        self.link(slot);
        Slot(slot)
    }

    /// Returns the value of an existing key.
    ///
    /// # Panics
    /// Panics if the key was removed and its slot is unused.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut V {
        self.entries[slot.0 as usize].value.as_mut().expect("the slot of a key that is there")
    }

    /// Returns the value of a key, if its slot is in use.
    #[inline]
    pub(super) fn try_get_mut(&mut self, slot: Slot) -> Option<&mut V> {
        self.entries.get_mut(slot.0 as usize)?.value.as_mut()
    }

    /// Returns the oldest value.
    pub(super) fn oldest(&self) -> Option<&V> {
        self.entries.get(self.oldest as usize)?.value.as_ref()
    }

    /// Makes an existing key the newest key.
    #[inline]
    pub(super) fn renew(&mut self, slot: Slot) {
        if self.newest != slot.0 {
            self.unlink(slot.0);
            self.link(slot.0);
        }
    }

    /// Removes the oldest key and returns its value.
    pub(super) fn pop_oldest(&mut self) -> Option<V> {
        let slot = self.oldest;
        (slot != NONE).then(|| self.remove(Slot(slot)))
    }

    /// Removes a key and returns its value.
    ///
    /// # Panics
    /// Panics if the key was removed and its slot is unused, as [`Bounded::get_mut`] does.
    pub(super) fn remove(&mut self, slot: Slot) -> V {
        let Slot(slot) = slot;
        self.unlink(slot);
        let entry = &mut self.entries[slot as usize];
        let value = entry.value.take().expect("the slot of a key that is there");
        entry.key = Box::default();
        entry.newer = self.unused;
        self.unused = slot;
        if let Ok(found) = self.table.find_entry(entry.hash, |other| *other == slot) {
            found.remove();
        }
        value
    }

    /// Makes a slot that is in no list the newest slot.
    fn link(&mut self, slot: u32) {
        let older = std::mem::replace(&mut self.newest, slot);
        let entry = &mut self.entries[slot as usize];
        (entry.older, entry.newer) = (older, NONE);
        match self.entries.get_mut(older as usize) {
            Some(older) => older.newer = slot,
            None => self.oldest = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Entry { older, newer, .. } = self.entries[slot as usize];
        match self.entries.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
    }
}

/// A counter of evicted keys. Logs the first eviction, and then each time the number of evictions has doubled.
#[derive(Debug, Default)]
pub(super) struct Evictions(u64);

impl Evictions {
    pub(super) fn count(&mut self, operator: &str, remedy: &str) {
        self.0 += 1;
        if self.0.is_power_of_two() {
            tracing::warn!(
                operator,
                evicted = self.0,
                "the limit of keys was reached, so the oldest keys are evicted; {remedy}"
            );
        }
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Bounded, Found};

    #[test]
    fn oldest_key_is_evicted_and_renewed_key_is_newest() {
        let mut map = Bounded::new(2);
        let insert =
            |map: &mut Bounded<u32>, key: &[u8], value| match map.find_or_insert(key, || value) {
                Found::Known(slot) => (slot, None),
                Found::New(slot, evicted) => (slot, evicted),
            };
        let (a, _) = insert(&mut map, b"a", 1);
        insert(&mut map, b"b", 2);
        map.renew(a);
        assert_eq!(map.oldest(), Some(&2));
        assert_eq!(insert(&mut map, b"c", 3).1, Some(2));
        assert_eq!(insert(&mut map, b"a", 9), (a, None));
        assert_eq!(*map.get_mut(a), 1);
        assert_eq!(
            (map.pop_oldest(), map.pop_oldest(), map.pop_oldest()),
            (Some(1), Some(3), None)
        );
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u8),
        Renew(u8),
        Pop,
        Remove(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..12u8).prop_map(Step::Insert),
            2 => (0..12u8).prop_map(Step::Renew),
            1 => Just(Step::Pop),
            1 => (0..12u8).prop_map(Step::Remove),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn map_behaves_like_a_list_of_keys_by_age(steps in steps(), limit in 1..8u32) {
            let mut map = Bounded::new(limit);
            let mut model: Vec<(u8, usize)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                let known = |model: &[(u8, usize)], key| model.iter().position(|(k, _)| *k == key);
                match step {
                    Step::Insert(key) => match map.find_or_insert(&[key], || (key, number)) {
                        Found::Known(slot) => {
                            let position = known(&model, key).unwrap();
                            prop_assert_eq!(*map.get_mut(slot), model[position]);
                        }
                        Found::New(_, evicted) => {
                            prop_assert!(known(&model, key).is_none());
                            let is_full = model.len() == limit as usize;
                            let expected = is_full.then(|| model.remove(0));
                            prop_assert_eq!(evicted, expected);
                            model.push((key, number));
                        }
                    },
                    Step::Pop => {
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(map.pop_oldest(), expected);
                    }
                    Step::Renew(key) | Step::Remove(key) => {
                        let Some(position) = known(&model, key) else { continue };
                        let Found::Known(slot) = map.find_or_insert(&[key], || (key, 0)) else {
                            return Err(TestCaseError::fail("a key is gone"));
                        };
                        let entry = model.remove(position);
                        if matches!(step, Step::Renew(_)) {
                            map.renew(slot);
                            model.push(entry);
                        } else {
                            prop_assert_eq!(map.remove(slot), entry);
                        }
                    }
                }
                prop_assert_eq!(map.len(), model.len());
                prop_assert_eq!(map.oldest(), model.first());
            }
        }
    }
}
