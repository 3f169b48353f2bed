//! Tasks that wait for the same thing: each has one place, however often it asks again, and leaves
//! nothing there once it waits no more. To wait again or no more costs the same however many wait.

use std::task::Waker;

/// The wakers of tasks that wait.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    /// None where a task waits no more.
    held: Vec<Option<Waker>>,
    /// Where that is so.
    free: Vec<usize>,
    /// How often all were woken. Places are given anew each time.
    round: u64,
}

/// The place of a task that waits, or may wait.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Round and index of the waker.
    at: Option<(u64, usize)>,
    /// Node of the flow whose task waits. Reported only.
    node: u32,
    /// Memory of the item that the task waits with, as a queue counts it, in bytes.
    pub(crate) bytes: usize,
}

impl Wakers {
    /// Has `waker` woken next time.
    pub(crate) fn wait(&mut self, place: &mut Place, waker: &Waker) {
        if let Some(held) = self.find(place) {
            match held {
                Some(held) => held.clone_from(waker),
                None => *held = Some(waker.clone()),
            }
            return;
        }
        let waker = Some(waker.clone());
        let at = if let Some(at) = self.free.pop() {
            self.held[at] = waker;
            at
        } else {
            self.held.push(waker);
            self.held.len() - 1
        };
        place.at = Some((self.round, at));
    }

    /// The task that has this place waits no more.
    pub(crate) fn leave(&mut self, place: &mut Place) {
        if let Some(held) = self.find(place) {
            *held = None;
            self.free.extend(place.at.map(|(_, at)| at));
        }
        place.at = None;
    }

    /// Takes all out, into a list that is empty: they are to be woken without a lock.
    pub(crate) fn take(&mut self, into: &mut Vec<Option<Waker>>) {
        std::mem::swap(&mut self.held, into);
        self.free.clear();
        self.round += 1;
    }

    fn find(&mut self, place: &Place) -> Option<&mut Option<Waker>> {
        let (round, at) = place.at?;
        if round == self.round { self.held.get_mut(at) } else { None }
    }

    /// Returns the number of times that all were woken. Whatever waited before the last of them waits no more.
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.held.iter().flatten().count()
    }
}

impl Place {
    /// Returns the place of a task of `node`.
    pub(crate) fn of(node: u32) -> Self {
        Self { node, ..Self::default() }
    }

    /// Returns the node of the flow whose task waits.
    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// Whether there may be something to leave behind.
    pub(crate) fn is_taken(&self) -> bool {
        self.at.is_some()
    }
}

/// Wakes all in the list, and leaves it empty.
pub(crate) fn wake(wakers: &mut Vec<Option<Waker>>) {
    wakers.drain(..).flatten().for_each(Waker::wake);
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::{Place, Wakers};

    #[test]
    fn a_task_that_asks_again_has_one_place_and_one_that_leaves_has_none() {
        let mut wakers = Wakers::default();
        let mut places: Vec<Place> = (0..3).map(|_| Place::default()).collect();
        for _ in 0..10 {
            for place in &mut places {
                wakers.wait(place, Waker::noop());
            }
        }
        assert_eq!(wakers.len(), 3);
        wakers.leave(&mut places[1]);
        assert_eq!(wakers.len(), 2);
        wakers.wait(&mut Place::default(), Waker::noop());
        assert_eq!((wakers.len(), wakers.held.len()), (3, 3), "a free place is used again");
    }

    #[test]
    fn a_place_from_before_all_were_woken_belongs_to_no_other_task() {
        let mut wakers = Wakers::default();
        let (mut old, mut new) = (Place::default(), Place::default());
        wakers.wait(&mut old, Waker::noop());
        let mut taken = Vec::new();
        wakers.take(&mut taken);
        assert_eq!((taken.len(), wakers.len()), (1, 0));
        wakers.wait(&mut new, Waker::noop());
        wakers.leave(&mut old);
        assert_eq!(wakers.len(), 1);
    }
}
