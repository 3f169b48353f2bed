//! Something that one task keeps and lends to another: who holds it may use it, nobody else can,
//! and it comes back by itself.

use std::{
    future::poll_fn,
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use super::spin::Spin;

/// Where a value belongs.
pub(crate) struct Home<T> {
    /// None while it is away.
    here: Option<Box<T>>,
    returns: Arc<Returns<T>>,
    spin: Spin,
    waited: Duration,
}

/// Where it is laid down when it comes back.
struct Returns<T> {
    place: Mutex<Place<T>>,
    /// What the place says, for those who wait on the processor. Written under the lock.
    is_back: AtomicBool,
}

struct Place<T> {
    value: Option<Box<T>>,
    waiting: Option<Waker>,
}

/// The value, as long as it is lent. It comes back when this is dropped.
pub(crate) struct Loan<T> {
    /// None within `drop` only.
    value: Option<Box<T>>,
    returns: Arc<Returns<T>>,
}

impl<T> Home<T> {
    pub(crate) fn new(value: T) -> Self {
        let place = Mutex::new(Place { value: None, waiting: None });
        let returns = Arc::new(Returns { place, is_back: AtomicBool::new(false) });
        Self { here: Some(Box::new(value)), returns, spin: Spin::default(), waited: Duration::ZERO }
    }

    /// Lends the value; `None` while it is away.
    pub(crate) fn lend(&mut self) -> Option<Loan<T>> {
        self.get()?;
        let value = self.here.take()?;
        Some(Loan { value: Some(value), returns: self.returns.clone() })
    }

    /// The value; `None` while it is away.
    pub(crate) fn get(&mut self) -> Option<&mut T> {
        if self.here.is_none() && self.returns.is_back.load(Ordering::Acquire) {
            self.here = self.returns.take(None);
        }
        self.here.as_deref_mut()
    }

    /// The value, as soon as it is back: waits on the processor for a short while, then parks.
    pub(crate) async fn back(&mut self) -> &mut T {
        if self.get().is_none() {
            let start = Instant::now();
            self.spin.wait(|| self.returns.is_back.load(Ordering::Acquire));
            poll_fn(|context| self.poll_back(context)).await;
            self.waited += start.elapsed();
        }
        self.spin.passed(Instant::now());
        match &mut self.here {
            Some(value) => value,
            None => unreachable!("whoever has waited for it has it"),
        }
    }

    /// Ready when the value is here.
    pub(crate) fn poll_back(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.here.is_none() {
            self.here = self.returns.take(Some(context.waker()));
        }
        if self.here.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// How long it was waited for since this was last asked.
    pub(crate) fn take_waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }
}

impl<T> Returns<T> {
    fn lock(&self) -> MutexGuard<'_, Place<T>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What lies there, or somebody to wake when something does.
    fn take(&self, waiting: Option<&Waker>) -> Option<Box<T>> {
        let mut place = self.lock();
        let value = place.value.take();
        self.is_back.store(false, Ordering::Release);
        if value.is_none() {
            place.waiting = waiting.cloned();
        }
        value
    }
}

impl<T> Deref for Loan<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("it is there until the loan is dropped"),
        }
    }
}

impl<T> DerefMut for Loan<T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.value {
            Some(value) => value,
            None => unreachable!("it is there until the loan is dropped"),
        }
    }
}

impl<T> Drop for Loan<T> {
    fn drop(&mut self) {
        let mut place = self.returns.lock();
        place.value = self.value.take();
        self.returns.is_back.store(true, Ordering::Release);
        let waiting = place.waiting.take();
        drop(place);
        if let Some(waker) = waiting {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::Home;
    use crate::executor::block_on;

    #[test]
    fn what_is_lent_is_away_until_the_loan_is_dropped_and_keeps_what_was_done_to_it() {
        let mut home = Home::new(1);
        let mut loan = home.lend().unwrap();
        assert!(home.get().is_none());
        assert!(home.lend().is_none(), "there is only one");
        assert!(home.poll_back(&Context::from_waker(Waker::noop())).is_pending());
        *loan += 1;
        drop(loan);
        assert_eq!(home.get(), Some(&mut 2));
    }

    #[test]
    fn who_waits_for_it_is_woken() {
        let mut home = Home::new(1);
        let mut loan = home.lend().unwrap();
        let other = std::thread::spawn(move || *loan = 7);
        assert_eq!(*block_on(home.back()), 7);
        other.join().unwrap();
    }

    #[test]
    fn what_comes_back_to_nobody_is_dropped() {
        let value = std::sync::Arc::new(());
        let mut home = Home::new(value.clone());
        let loan = home.lend().unwrap();
        drop(home);
        assert_eq!(std::sync::Arc::strong_count(&value), 2);
        drop(loan);
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
    }
}
