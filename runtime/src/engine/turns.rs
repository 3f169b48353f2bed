//! Something that several tasks use one after the other, in an order that is known before: each has
//! a number, and its turn comes after those of all lower ones.

use std::{
    future::poll_fn,
    ops::{Deref, DerefMut},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use super::spin;

/// A value that is used in turn. The first number is 0.
pub(crate) struct Turns<T> {
    state: Mutex<State<T>>,
    /// What the state says, for those who wait on the processor. Written under the lock.
    next: AtomicU64,
}

struct State<T> {
    /// None while somebody has it.
    value: Option<Box<T>>,
    /// Whose turn it is.
    next: u64,
    /// Those who let their turn pass before it came.
    passed: Vec<u64>,
    waiting: Vec<(u64, Waker)>,
}

/// The value, in somebody's turn. The next one's begins when this is dropped.
pub(crate) struct Turn<'t, T> {
    /// None within `drop` only.
    value: Option<Box<T>>,
    turns: &'t Turns<T>,
    /// Whether the next turn is the same one's.
    goes_on: bool,
}

impl<T> Turn<'_, T> {
    /// The same number has the next turn as well.
    pub(crate) fn go_on(&mut self) {
        self.goes_on = true;
    }
}

impl<T> Turns<T> {
    pub(crate) fn new(value: T) -> Self {
        let (passed, waiting) = (Vec::new(), Vec::new());
        let state = State { value: Some(Box::new(value)), next: 0, passed, waiting };
        Self { state: Mutex::new(state), next: AtomicU64::new(0) }
    }

    /// Waits for the turn of `number`, on the processor for a short while, then parked.
    pub(crate) async fn turn(&self, number: u64) -> Turn<'_, T> {
        let is_next = || self.next.load(Ordering::Acquire) == number;
        if !is_next() {
            // Whoever has it is at work, and soon done.
            spin::for_a_turn(is_next);
        }
        let value = poll_fn(|context| self.poll_take(number, context)).await;
        Turn { value: Some(value), turns: self, goes_on: false }
    }

    /// Lets a turn pass that nobody has taken.
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

    /// The turn is over.
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

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("it is there until the turn is over"),
        }
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.value {
            Some(value) => value,
            None => unreachable!("it is there until the turn is over"),
        }
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        state.value = self.value.take();
        if !self.goes_on {
            self.turns.advance(state);
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

    use super::Turns;
    use crate::executor::block_on;

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_turn_comes_when_all_before_it_are_over() {
        let turns = Turns::new(Vec::new());
        let mut second = pin!(turns.turn(1));
        assert!(poll(second.as_mut()).is_pending());
        block_on(turns.turn(0)).push("first");
        let Poll::Ready(mut turn) = poll(second) else { panic!("it is its turn") };
        turn.push("second");
        assert_eq!(*turn, ["first", "second"]);
        assert!(poll(pin!(turns.turn(2))).is_pending(), "it is still somebody's turn");
    }

    #[test]
    fn a_turn_may_pass_before_it_comes_and_when_it_has_come() {
        let turns = Turns::new(());
        turns.pass(2);
        turns.pass(1);
        assert!(poll(pin!(turns.turn(3))).is_pending());
        turns.pass(0);
        assert!(poll(pin!(turns.turn(3))).is_ready());
    }

    #[test]
    fn who_waits_for_a_turn_and_lets_it_pass_leaves_no_waker() {
        let turns = Turns::new(());
        assert!(poll(pin!(turns.turn(1))).is_pending());
        turns.pass(1);
        assert!(turns.lock().waiting.is_empty());
    }

    #[test]
    fn a_turn_may_go_on_and_ends_when_it_passes() {
        let turns = Turns::new(0);
        block_on(turns.turn(0)).go_on();
        assert!(poll(pin!(turns.turn(1))).is_pending());
        *block_on(turns.turn(0)) += 1;
        assert!(poll(pin!(turns.turn(1))).is_ready());
        block_on(turns.turn(2)).go_on();
        turns.pass(2);
        assert!(poll(pin!(turns.turn(3))).is_ready());
    }

    #[test]
    fn who_waits_for_a_turn_is_woken() {
        const TURNS: u64 = 1_000;
        let turns = Arc::new(Turns::new(Vec::new()));
        let every_other = |first: u64| {
            let turns = turns.clone();
            move || {
                for number in (first..TURNS).step_by(2) {
                    block_on(turns.turn(number)).push(number);
                }
            }
        };
        let other = std::thread::spawn(every_other(1));
        every_other(0)();
        other.join().unwrap();
        assert_eq!(*block_on(turns.turn(TURNS)), (0..TURNS).collect::<Vec<_>>());
    }
}
