//! A map whose entries are ordered by their last use.

use std::{collections::HashMap, sync::Arc};

/// Index of no entry.
const NONE: usize = usize::MAX;

/// Values by name, in the order of their last use. All methods take constant time.
#[derive(Debug)]
pub(super) struct Lru<T> {
    index: HashMap<Arc<str>, usize>,
    /// Entries in no particular order. They are linked in the order of their last use.
    entries: Vec<Entry<T>>,
    newest: usize,
    oldest: usize,
    /// Bytes of all names.
    name_bytes: usize,
}

#[derive(Debug)]
struct Entry<T> {
    name: Arc<str>,
    value: T,
    newer: usize,
    older: usize,
}

impl<T> Default for Lru<T> {
    fn default() -> Self {
        Self {
            index: HashMap::new(),
            entries: Vec::new(),
            newest: NONE,
            oldest: NONE,
            name_bytes: 0,
        }
    }
}

impl<T> Lru<T> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the memory of the entries and their names in bytes, without memory that the values refer to.
    pub(super) fn weight(&self) -> usize {
        self.entries.len() * (size_of::<Entry<T>>() + size_of::<(Arc<str>, usize)>())
            + self.name_bytes
    }

    /// Returns the bytes of all names.
    pub(super) fn name_bytes(&self) -> usize {
        self.name_bytes
    }

    /// Returns a value, which becomes the newest one.
    pub(super) fn get(&mut self, name: &str) -> Option<&mut T> {
        let at = *self.index.get(name)?;
        if at != self.newest {
            self.unlink(at);
            self.link(at);
        }
        Some(&mut self.entries[at].value)
    }

    /// Returns the value that was used least recently, without using it.
    pub(super) fn oldest(&self) -> Option<&T> {
        self.entries.get(self.oldest).map(|entry| &entry.value)
    }

    /// Adds a value as the newest one. Call this only after [`Lru::get`] returned `None` for the name.
    pub(super) fn insert(&mut self, name: Arc<str>, value: T) -> &mut T {
        let at = self.entries.len();
        self.name_bytes += name.len();
        self.index.insert(name.clone(), at);
        self.entries.push(Entry { name, value, newer: NONE, older: NONE });
        self.link(at);
        &mut self.entries[at].value
    }

    /// Removes the value that was used least recently.
    pub(super) fn take_oldest(&mut self) -> Option<T> {
        let at = self.oldest;
        if at == NONE {
            return None;
        }
        self.unlink(at);
        let entry = self.entries.swap_remove(at);
        self.index.remove(&*entry.name);
        self.name_bytes -= entry.name.len();
        // The entry that was the last one has moved to `at`.
        if let Some(moved) = self.entries.get(at) {
            let (newer, older) = (moved.newer, moved.older);
            if let Some(index) = self.index.get_mut(&*moved.name) {
                *index = at;
            }
            match self.entries.get_mut(newer) {
                Some(newer) => newer.older = at,
                None => self.newest = at,
            }
            match self.entries.get_mut(older) {
                Some(older) => older.newer = at,
                None => self.oldest = at,
            }
        }
        Some(entry.value)
    }

    /// Returns all values, in no particular order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.value)
    }

    fn unlink(&mut self, at: usize) {
        let Entry { newer, older, .. } = self.entries[at];
        match self.entries.get_mut(newer) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.entries.get_mut(older) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// Makes an entry that is not linked the newest one.
    fn link(&mut self, at: usize) {
        let newest = self.newest;
        (self.entries[at].newer, self.entries[at].older) = (NONE, newest);
        match self.entries.get_mut(newest) {
            Some(newest) => newest.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Lru;

    proptest! {
        /// Compares the map with a list in which the last element is the newest one.
        #[test]
        fn entries_leave_in_the_order_of_their_last_use(
            steps in prop::collection::vec((0_u8..3, 0_u8..6), 0..200)
        ) {
            let (mut lru, mut list) = (Lru::default(), Vec::<u8>::new());
            for (step, key) in steps {
                let name = key.to_string();
                let at = list.iter().position(|it| *it == key);
                match step {
                    0 if at.is_none() => {
                        lru.insert(name.as_str().into(), key);
                        list.push(key);
                    }
                    0 | 1 => {
                        prop_assert_eq!(lru.get(&name).copied(), at.map(|_| key));
                        if let Some(at) = at {
                            list.remove(at);
                            list.push(key);
                        }
                    }
                    _ => {
                        prop_assert_eq!(lru.oldest(), list.first());
                        let expected = (!list.is_empty()).then(|| list.remove(0));
                        prop_assert_eq!(lru.take_oldest(), expected);
                    }
                }
                prop_assert_eq!((lru.len(), lru.name_bytes()), (list.len(), list.len()));
                prop_assert_eq!(lru.values().count(), list.len());
            }
            let left: Vec<_> = std::iter::from_fn(|| lru.take_oldest()).collect();
            prop_assert_eq!(left, list);
        }
    }
}
