//! A task that another one may run in its place, where that is better than to wake it.
//!
//! To wake a task costs the system a wake-up of a thread, often on a processor that sleeps, or on
//! the one that is busy with whoever wakes it. A source that has time between its pulls rather takes
//! what it has just queued to the sink itself.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, TryLockError},
    task::{Context, Poll, Waker},
};

/// Where a task runs.
#[derive(Default)]
pub(crate) struct Seat(Mutex<Option<Seated>>);

/// A task, and its own waker.
struct Seated {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    waker: Waker,
}

impl Seat {
    /// Runs a future to its end; meanwhile others may [run it](Seat::run_here) as well. One at a
    /// time has the seat.
    pub(crate) async fn run<T: Send + 'static>(
        self: Arc<Self>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let result = Arc::new(Mutex::new(None));
        let leave = result.clone();
        let mut future: Option<Pin<Box<dyn Future<Output = ()> + Send>>> =
            Some(Box::pin(async move {
                let end = future.await;
                *leave.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
            }));
        // The future has the other end of what knows of the seat: it must not stay when this does
        // not.
        let vacated = Vacated(&self);
        poll_fn(|context| {
            if let Some(future) = future.take() {
                self.take(future, context.waker().clone());
            }
            self.poll(context)
        })
        .await;
        drop(vacated);
        let result = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        result.unwrap_or_else(|| unreachable!("the future has left its result"))
    }

    /// Runs the task for its waker, as far as it gets. Whether it did: `false` where somebody else
    /// does just now, or nobody is there.
    pub(crate) fn run_here(&self) -> bool {
        let mut seat = match self.0.try_lock() {
            Ok(seat) => seat,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let Some(Seated { future, waker }) = &mut *seat else { return false };
        if future.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
            waker.wake_by_ref();
            *seat = None;
        }
        true
    }

    fn take(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>, waker: Waker) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Seated { future, waker });
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut seat = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Seated { future, waker }) = &mut *seat else { return Poll::Ready(()) };
        waker.clone_from(context.waker());
        if future.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        *seat = None;
        Poll::Ready(())
    }
}

/// Leaves the seat empty.
struct Vacated<'s>(&'s Seat);

impl Drop for Vacated<'_> {
    fn drop(&mut self) {
        let seated = self.0.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(seated);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll, Wake, Waker},
    };

    use super::Seat;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A future that ends the third time it is polled, and has the number of polls as its result.
    fn thrice() -> impl Future<Output = u32> + Send + 'static {
        let mut polls = 0;
        poll_fn(move |_| {
            polls += 1;
            if polls == 3 { Poll::Ready(polls) } else { Poll::Pending }
        })
    }

    #[test]
    fn whoever_runs_it_it_ends_for_its_own_task() {
        let (seat, woken) = (Arc::new(Seat::default()), Arc::new(Woken::default()));
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut task = pin!(seat.clone().run(thrice()));
        assert!(!seat.run_here(), "nobody is there");
        assert!(task.as_mut().poll(&mut context).is_pending());
        assert!(seat.run_here());
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        assert!(seat.run_here());
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "its task learns that it has ended");
        assert!(!seat.run_here(), "it has ended");
        assert_eq!(task.as_mut().poll(&mut context), Poll::Ready(3));
    }

    #[test]
    fn what_runs_cannot_run_itself() {
        let seat = Arc::new(Seat::default());
        let own = seat.clone();
        let mut task = pin!(seat.run(async move { own.run_here() }));
        assert_eq!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(false));
    }

    #[test]
    fn a_task_that_is_dropped_leaves_nothing_behind() {
        let (seat, kept) = (Arc::new(Seat::default()), Arc::new(()));
        let held = kept.clone();
        {
            let task = seat.clone().run(async move {
                std::future::pending::<()>().await;
                drop(held);
            });
            let mut task = pin!(task);
            assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(Arc::strong_count(&kept), 1);
        assert!(!seat.run_here());
    }
}
