//! A limited number of slots for connections.
//!
//! A connection with a request in progress keeps its slot. Of the other connections, the one that has been idle for the
//! longest time loses its slot to a new connection. A client without the token therefore cannot keep other clients out,
//! because its requests are in progress only until they are rejected.

use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    rc::Rc,
    time::Instant,
};

use async_channel::{Receiver, Sender};

use crate::clock::Clock;

/// The slots of a server.
#[derive(Debug)]
pub(super) struct Slots {
    limit: usize,
    clock: Clock,
    in_use: RefCell<Vec<Rc<InUse>>>,
}

/// State of a slot in use.
#[derive(Debug)]
struct InUse {
    /// Number of requests in progress: at most 1, unless a client sends requests before the previous ones are
    /// answered.
    requests: Cell<usize>,
    /// Time since which no request has been in progress.
    since: Cell<Instant>,
    /// Closed when the slot is given to another connection.
    revoked: Sender<Infallible>,
}

/// Slot of a connection, released when the value is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Rc<Slots>,
    in_use: Rc<InUse>,
    revoked: Receiver<Infallible>,
}

/// A request in progress. It ends when the value is dropped.
#[derive(Debug)]
pub(super) struct Answering {
    slots: Rc<Slots>,
    in_use: Rc<InUse>,
}

impl Slots {
    /// Creates `limit` slots.
    pub(super) fn new(limit: usize, clock: Clock) -> Rc<Self> {
        Rc::new(Self { limit, clock, in_use: RefCell::default() })
    }

    /// Returns a free slot, or the slot of the connection that has been idle for the longest time. Returns `None` if
    /// all connections have requests in progress.
    pub(super) fn take(self: &Rc<Self>) -> Option<Slot> {
        let mut all = self.in_use.borrow_mut();
        if all.len() >= self.limit {
            let waiting = all.iter().enumerate().filter(|(_, it)| it.requests.get() == 0);
            let (longest, _) = waiting.min_by_key(|(_, it)| it.since.get())?;
            all.remove(longest).revoked.close();
        }
        let (sender, revoked) = async_channel::bounded(1);
        let since = Cell::new(self.clock.now());
        let in_use = Rc::new(InUse { requests: Cell::new(0), since, revoked: sender });
        all.push(in_use.clone());
        Some(Slot { slots: self.clone(), in_use, revoked })
    }
}

impl Slot {
    /// Marks a request as in progress.
    pub(super) fn answering(&self) -> Answering {
        self.in_use.requests.set(self.in_use.requests.get() + 1);
        Answering { slots: self.slots.clone(), in_use: self.in_use.clone() }
    }

    /// Waits until the slot is given to another connection.
    pub(super) async fn revoked(&self) {
        _ = self.revoked.recv().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.in_use.borrow_mut().retain(|it| !Rc::ptr_eq(it, &self.in_use));
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.in_use.requests.set(self.in_use.requests.get() - 1);
        self.in_use.since.set(self.slots.clock.now());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Clock, Slot, Slots};

    fn is_revoked(slot: &Slot) -> bool {
        slot.revoked.is_closed()
    }

    #[test]
    fn longest_idle_connection_is_replaced() {
        let clock = Clock::simulated(0);
        let slots = Slots::new(3, clock.clone());
        let take = || {
            clock.advance(Duration::from_nanos(1));
            slots.take().unwrap()
        };
        let [one, two, three] = [(); 3].map(|()| take());
        let answering = one.answering();
        let four = take();
        assert_eq!([&one, &two, &three, &four].map(is_revoked), [false, true, false, false]);
        clock.advance(Duration::from_nanos(1));
        drop(answering);
        let five = take();
        assert_eq!([&one, &three, &four, &five].map(is_revoked), [false, true, false, false]);
        let six = take();
        assert_eq!([&one, &four, &five, &six].map(is_revoked), [false, true, false, false]);
    }

    #[test]
    fn no_slot_is_available_while_all_are_busy() {
        let slots = Slots::new(2, Clock::default());
        let [one, two] = [(); 2].map(|()| slots.take().unwrap());
        let (first, _second) = (one.answering(), two.answering());
        let also_first = one.answering();
        assert!(slots.take().is_none());
        drop(first);
        assert!(slots.take().is_none(), "another request of the same connection is in progress");
        drop(also_first);
        let three = slots.take().unwrap();
        let _third = three.answering();
        assert!(is_revoked(&one) && slots.take().is_none());
        drop(two);
        assert!(slots.take().is_some());
    }
}
