//! In-order sections: critical sections that tasks enter in a predetermined order. Each entry has a number. A task that
//! enters waits until the tasks with all lower numbers have left the section or will not enter it.

use std::{
    future::poll_fn,
    ops::{Deref, DerefMut},
    task::{Context, Poll, Waker},
};

use crate::engine::{processors::Processors, spin};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, fault, lock};

/// A value that tasks use in the order of their numbers. The first number is 0.
pub(crate) struct InOrder<T> {
    state: Mutex<State<T>>,
    /// Copy of `State::next` that waiting tasks read without the lock. Written while the state is locked.
    next: AtomicU64,
    processors: Processors,
}

struct State<T> {
    /// `None` while a task is in the section.
    value: Option<Box<T>>,
    /// The number that may enter now.
    next: u64,
    /// Numbers above `next` that are not going to enter.
    passed: Vec<u64>,
    waiting: Vec<(u64, Waker)>,
}

/// Exclusive access to the value. Dropping the section lets the next number enter, unless `continues` is set.
pub(crate) struct Section<'t, T> {
    /// `None` only while the section is dropped.
    value: Option<Box<T>>,
    of: &'t InOrder<T>,
    /// `true` if the same number enters again before the next one.
    continues: bool,
}

impl<T> Section<'_, T> {
    /// Sets whether the same number enters again before the next one.
    pub(crate) fn set_continues(&mut self, continues: bool) {
        self.continues = continues;
    }
}

impl<T> InOrder<T> {
    pub(crate) fn new(value: T, processors: Processors) -> Self {
        let (passed, waiting) = (Vec::new(), Vec::new());
        let state = State { value: Some(Box::new(value)), next: 0, passed, waiting };
        Self { state: Mutex::new(state), next: AtomicU64::new(0), processors }
    }

    /// Waits until `number` may enter. Spins for a short time before it parks the task.
    pub(crate) async fn enter(&self, number: u64) -> Section<'_, T> {
        let is_next = || self.next.load(Ordering::Acquire) == number;
        if !is_next() {
            // The task in the section is usually running, so it may leave soon.
            spin::briefly(&self.processors, is_next);
        }
        let value = poll_fn(|context| self.poll_take(number, context)).await;
        Section { value: Some(value), of: self, continues: false }
    }

    /// Marks that `number` is not going to enter, or not again, so that later numbers do not wait for it.
    pub(crate) fn pass(&self, number: u64) {
        let mut state = lock(&self.state);
        state.waiting.retain(|(waiting, _)| *waiting != number);
        if state.next == number {
            self.advance(state);
        } else if !fault("section_forgets_passed_number") {
            state.passed.push(number);
        }
    }

    fn poll_take(&self, number: u64, context: &Context<'_>) -> Poll<Box<T>> {
        let mut state = lock(&self.state);
        let mine = if state.next == number { state.value.take() } else { None };
        if let Some(value) = mine {
            return Poll::Ready(value);
        }
        if fault("section_checks_and_waits_apart") {
            drop(state);
            state = lock(&self.state);
        }
        state.waiting.retain(|(waiting, _)| *waiting != number);
        state.waiting.push((number, context.waker().clone()));
        Poll::Pending
    }

    /// Ends the current number, and lets the next number that was not passed enter. Wakes the task of that number.
    fn advance(&self, mut state: MutexGuard<'_, State<T>>) {
        state.next += 1;
        while let Some(position) = state.passed.iter().position(|passed| *passed == state.next) {
            state.passed.swap_remove(position);
            state.next += 1;
        }
        self.next.store(state.next, Ordering::Release);
        let next = state.waiting.iter().position(|(number, _)| *number == state.next);
        let waiting = next.map(|position| state.waiting.swap_remove(position));
        drop(state);
        if let Some((_, waker)) = waiting
            && !fault("section_wakes_no_task")
        {
            waker.wake();
        }
    }
}

impl<T> Deref for Section<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("it is there until the section is left"),
        }
    }
}

impl<T> DerefMut for Section<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.value {
            Some(value) => value,
            None => unreachable!("it is there until the section is left"),
        }
    }
}

impl<T> Drop for Section<'_, T> {
    fn drop(&mut self) {
        let mut state = lock(&self.of.state);
        state.value = self.value.take();
        if !self.continues {
            self.of.advance(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        sync::Arc,
        task::{Context, Poll, Waker},
    };

    use super::{InOrder, Processors, lock};
    use crate::executor::block_on;

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn number_enters_after_all_lower_numbers_have_left() {
        let section = InOrder::new(Vec::new(), Processors::default());
        let mut second = pin!(section.enter(1));
        assert!(poll(second.as_mut()).is_pending());
        block_on(section.enter(0)).push("first");
        let Poll::Ready(mut entered) = poll(second) else { panic!("number 1 may enter") };
        entered.push("second");
        assert_eq!(*entered, ["first", "second"]);
        assert!(poll(pin!(section.enter(2))).is_pending(), "number 1 is still in the section");
    }

    #[test]
    fn passed_numbers_are_skipped_whether_or_not_they_are_next() {
        let section = InOrder::new((), Processors::default());
        section.pass(2);
        section.pass(1);
        assert!(poll(pin!(section.enter(3))).is_pending());
        section.pass(0);
        assert!(poll(pin!(section.enter(3))).is_ready());
    }

    #[test]
    fn waiting_number_that_passes_leaves_no_waker() {
        let section = InOrder::new((), Processors::default());
        assert!(poll(pin!(section.enter(1))).is_pending());
        section.pass(1);
        assert!(lock(&section.state).waiting.is_empty());
    }

    #[test]
    fn continued_number_enters_again_until_it_passes() {
        let section = InOrder::new(0, Processors::default());
        block_on(section.enter(0)).set_continues(true);
        assert!(poll(pin!(section.enter(1))).is_pending());
        *block_on(section.enter(0)) += 1;
        assert!(poll(pin!(section.enter(1))).is_ready());
        block_on(section.enter(2)).set_continues(true);
        section.pass(2);
        assert!(poll(pin!(section.enter(3))).is_ready());
    }

    #[test]
    fn waiting_number_is_woken() {
        const NUMBERS: u64 = 1_000;
        let section = Arc::new(InOrder::new(Vec::new(), Processors::default()));
        let every_other = |first: u64| {
            let section = section.clone();
            move || {
                for number in (first..NUMBERS).step_by(2) {
                    block_on(section.enter(number)).push(number);
                }
            }
        };
        let other = std::thread::spawn(every_other(1));
        every_other(0)();
        other.join().unwrap();
        assert_eq!(*block_on(section.enter(NUMBERS)), (0..NUMBERS).collect::<Vec<_>>());
    }
}
