//! Which connections may stay, where there is room for so many: those that are being answered. Of the
//! others, the one gives way to a new one that has waited for the longest time.
//!
//! So a stranger cannot keep others out: who has no token is not answered for longer than it takes to say so.

use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    rc::Rc,
    time::Instant,
};

use async_channel::{Receiver, Sender};

/// All places.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    taken: RefCell<Vec<Rc<Taken>>>,
}

/// A place that a connection has.
#[derive(Debug)]
struct Taken {
    /// How many answers are under way: one, unless requests are sent before they are answered.
    answers: Cell<usize>,
    /// Since when there is none.
    since: Cell<Instant>,
    /// Closed once another has the place.
    given: Sender<Infallible>,
}

/// The place of a connection, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Rc<Places>,
    taken: Rc<Taken>,
    given: Receiver<Infallible>,
}

/// An answer is under way, until this is dropped.
#[derive(Debug)]
pub(super) struct Answering(Rc<Taken>);

impl Places {
    /// So many.
    pub(super) fn new(most: usize) -> Rc<Self> {
        Rc::new(Self { most, taken: RefCell::default() })
    }

    /// A place; none where all connections are being answered.
    pub(super) fn take(self: &Rc<Self>) -> Option<Place> {
        let mut all = self.taken.borrow_mut();
        if all.len() >= self.most {
            let waiting = all.iter().enumerate().filter(|(_, it)| it.answers.get() == 0);
            let (longest, _) = waiting.min_by_key(|(_, it)| it.since.get())?;
            all.remove(longest).given.close();
        }
        let (sender, given) = async_channel::bounded(1);
        let since = Cell::new(Instant::now());
        let taken = Rc::new(Taken { answers: Cell::new(0), since, given: sender });
        all.push(taken.clone());
        Some(Place { places: self.clone(), taken, given })
    }
}

impl Place {
    /// The connection is being answered.
    pub(super) fn answering(&self) -> Answering {
        self.taken.answers.set(self.taken.answers.get() + 1);
        Answering(self.taken.clone())
    }

    /// Waits until another has the place.
    pub(super) async fn given(&self) {
        _ = self.given.recv().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.borrow_mut().retain(|it| !Rc::ptr_eq(it, &self.taken));
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answers.set(self.0.answers.get() - 1);
        self.0.since.set(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, Places};

    fn has_given(place: &Place) -> bool {
        place.given.is_closed()
    }

    #[test]
    fn of_those_that_wait_the_one_gives_way_that_has_waited_longest() {
        let places = Places::new(3);
        let [one, two, three] = [(); 3].map(|()| places.take().unwrap());
        let answering = one.answering();
        let four = places.take().unwrap();
        assert_eq!([&one, &two, &three, &four].map(has_given), [false, true, false, false]);
        drop(answering);
        let five = places.take().unwrap();
        assert_eq!([&one, &three, &four, &five].map(has_given), [false, true, false, false]);
        let six = places.take().unwrap();
        assert_eq!([&one, &four, &five, &six].map(has_given), [false, true, false, false]);
    }

    #[test]
    fn where_all_are_answered_there_is_no_place_until_one_is_done_or_gone() {
        let places = Places::new(2);
        let [one, two] = [(); 2].map(|()| places.take().unwrap());
        let (first, _second) = (one.answering(), two.answering());
        let also_first = one.answering();
        assert!(places.take().is_none());
        drop(first);
        assert!(places.take().is_none(), "another answer of the same connection is under way");
        drop(also_first);
        let three = places.take().unwrap();
        let _third = three.answering();
        assert!(has_given(&one) && places.take().is_none());
        drop(two);
        assert!(places.take().is_some());
    }
}
