//! In-order sections: what several tasks use one after the other, in an order that is known before. Each
//! has a number, and enters after all lower ones have left.

use std::{
    future::poll_fn,
    ops::{Deref, DerefMut},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use crate::engine::{processors::Processors, spin};

/// A value that tasks use in the order of their numbers. The first number is 0.
pub(crate) struct InOrder<T> {
    state: Mutex<State<T>>,
    /// What the state says, for tasks that wait on the processor. Written under the lock.
    next: AtomicU64,
    processors: Processors,
}

struct State<T> {
    /// None while a task has it.
    value: Option<Box<T>>,
    /// The number that may enter.
    next: u64,
    /// Those that passed before they could enter.
    passed: Vec<u64>,
    waiting: Vec<(u64, Waker)>,
}

/// The value, while a task uses it. The next one enters when this is dropped.
pub(crate) struct Section<'t, T> {
    /// None within `drop` only.
    value: Option<Box<T>>,
    of: &'t InOrder<T>,
    /// Whether the same number enters again.
    goes_on: bool,
}

impl<T> Section<'_, T> {
    /// Whether the same number enters again before the next one.
    pub(crate) fn set_goes_on(&mut self, goes_on: bool) {
        self.goes_on = goes_on;
    }
}

impl<T> InOrder<T> {
    pub(crate) fn new(value: T, processors: Processors) -> Self {
        let (passed, waiting) = (Vec::new(), Vec::new());
        let state = State { value: Some(Box::new(value)), next: 0, passed, waiting };
        Self { state: Mutex::new(state), next: AtomicU64::new(0), processors }
    }

    /// Enters with `number`: waits until that may, on the processor for a short while, then parked.
    pub(crate) async fn enter(&self, number: u64) -> Section<'_, T> {
        let is_next = || self.next.load(Ordering::Acquire) == number;
        if !is_next() {
            // The task that has it is at work, and soon done.
            spin::briefly(&self.processors, is_next);
        }
        let value = poll_fn(|context| self.poll_take(number, context)).await;
        Section { value: Some(value), of: self, goes_on: false }
    }

    /// A number that does not enter, or not again.
    pub(crate) fn pass(&self, number: u64) {
        let mut state = self.lock();
        state.waiting.retain(|(waiting, _)| *waiting != number);
        if state.next == number {
            self.advance(state);
        } else {
            state.passed.push(number);
        }
    }

    fn poll_take(&self, number: u64, context: &Context<'_>) -> Poll<Box<T>> {
        let mut state = self.lock();
        let mine = if state.next == number { state.value.take() } else { None };
        if let Some(value) = mine {
            return Poll::Ready(value);
        }
        state.waiting.retain(|(waiting, _)| *waiting != number);
        state.waiting.push((number, context.waker().clone()));
        Poll::Pending
    }

    /// The next number may enter.
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
        if let Some((_, waker)) = waiting {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut state = self.of.lock();
        state.value = self.value.take();
        if !self.goes_on {
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

    use super::{InOrder, Processors};
    use crate::executor::block_on;

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_number_enters_when_all_lower_ones_have_left() {
        let section = InOrder::new(Vec::new(), Processors::default());
        let mut second = pin!(section.enter(1));
        assert!(poll(second.as_mut()).is_pending());
        block_on(section.enter(0)).push("first");
        let Poll::Ready(mut entered) = poll(second) else { panic!("it may enter") };
        entered.push("second");
        assert_eq!(*entered, ["first", "second"]);
        assert!(poll(pin!(section.enter(2))).is_pending(), "another one is still within");
    }

    #[test]
    fn a_number_may_pass_before_it_could_enter_and_when_it_could() {
        let section = InOrder::new((), Processors::default());
        section.pass(2);
        section.pass(1);
        assert!(poll(pin!(section.enter(3))).is_pending());
        section.pass(0);
        assert!(poll(pin!(section.enter(3))).is_ready());
    }

    #[test]
    fn a_number_that_waits_and_then_passes_leaves_no_waker() {
        let section = InOrder::new((), Processors::default());
        assert!(poll(pin!(section.enter(1))).is_pending());
        section.pass(1);
        assert!(section.lock().waiting.is_empty());
    }

    #[test]
    fn a_number_may_enter_again_until_it_passes() {
        let section = InOrder::new(0, Processors::default());
        block_on(section.enter(0)).set_goes_on(true);
        assert!(poll(pin!(section.enter(1))).is_pending());
        *block_on(section.enter(0)) += 1;
        assert!(poll(pin!(section.enter(1))).is_ready());
        block_on(section.enter(2)).set_goes_on(true);
        section.pass(2);
        assert!(poll(pin!(section.enter(3))).is_ready());
    }

    #[test]
    fn a_number_that_waits_is_woken() {
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
