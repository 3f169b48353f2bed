//! A task that another one may run in its place, where that is better than to wake it.
//!
//! To wake a task costs the system a wake-up of a thread, often on a processor that sleeps, or on
//! the one that is busy with whoever wakes it. Whoever has just queued what is encoded for a sink that
//! waits rather runs that sink itself, for a few batches at most.

use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use crate::engine::tuning::BATCHES_FOR_ANOTHER;

/// Where a task runs.
#[derive(Default)]
pub(crate) struct SharedTask {
    inner: Mutex<Option<Inner>>,
    /// What it panicked with while another task ran it: its own goes on with that.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Its own task has found somebody else running it, and is to be woken.
    wanted: AtomicBool,
    /// While another task runs it: batches that it may still take, plus one.
    left: AtomicUsize,
}

/// A task, and its own waker.
struct Inner {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    waker: Waker,
}

impl SharedTask {
    /// Runs a future to its end; meanwhile others may [run it](SharedTask::run_here) as well. One at a
    /// time runs it.
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
        // The future has the other end of what knows of this: it must not stay when this does
        // not.
        let vacated = TakeOut(&self);
        poll_fn(|context| {
            if let Some(future) = future.take() {
                *self.lock() = Some(Inner { future, waker: context.waker().clone() });
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
        let Some(mut inner) = self.try_lock() else { return false };
        let Some(Inner { future, waker }) = &mut *inner else { return false };
        let waker = waker.clone();
        self.left.store(BATCHES_FOR_ANOTHER + 1, Ordering::Relaxed);
        let mut context = Context::from_waker(&waker);
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        self.left.store(0, Ordering::Relaxed);
        let has_ended = match polled {
            Ok(polled) => polled.is_ready(),
            Err(panic) => {
                *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
                true
            }
        };
        if has_ended {
            *inner = None;
        }
        drop(inner);
        if self.wanted.swap(false, Ordering::SeqCst) || has_ended {
            waker.wake();
        }
        true
    }

    /// Whether another task runs this one: then it is not to wait on the processor.
    pub(crate) fn is_run_by_another(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Asked before a batch is taken: `false` where another task has run this one for long enough.
    pub(crate) fn may_go_on(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 1 {
            // Nobody else writes it while this task runs.
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left != 1
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Inner>>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Inner>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let inner = self.try_lock().or_else(|| {
            self.wanted.store(true, Ordering::SeqCst);
            // Whoever had it may have let go of it before that.
            self.try_lock()
        });
        let Some(mut inner) = inner else { return Poll::Pending };
        let Some(Inner { future, waker }) = &mut *inner else {
            drop(inner);
            let panic = self.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
            return panic.map_or(Poll::Ready(()), |panic| resume_unwind(panic));
        };
        waker.clone_from(context.waker());
        if future.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        *inner = None;
        Poll::Ready(())
    }
}

/// Takes the task out.
struct TakeOut<'s>(&'s SharedTask);

impl Drop for TakeOut<'_> {
    fn drop(&mut self) {
        let inner = self.0.lock().take();
        drop(inner);
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

    use super::{AssertUnwindSafe, BATCHES_FOR_ANOTHER, SharedTask, catch_unwind};

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
        let (shared_task, woken) = (Arc::new(SharedTask::default()), Arc::new(Woken::default()));
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut task = pin!(shared_task.clone().run(thrice()));
        assert!(!shared_task.run_here(), "nobody is there");
        assert!(task.as_mut().poll(&mut context).is_pending());
        assert!(shared_task.run_here());
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        assert!(shared_task.run_here());
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "its task learns that it has ended");
        assert!(!shared_task.run_here(), "it has ended");
        assert_eq!(task.as_mut().poll(&mut context), Poll::Ready(3));
    }

    #[test]
    fn what_runs_cannot_run_itself() {
        let shared_task = Arc::new(SharedTask::default());
        let own = shared_task.clone();
        let mut task = pin!(shared_task.run(async move { own.run_here() }));
        assert_eq!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(false));
    }

    #[test]
    fn it_takes_a_few_batches_for_another_task_and_any_number_for_its_own() {
        let shared_task = Arc::new(SharedTask::default());
        let (own, taken) = (shared_task.clone(), Arc::new(AtomicUsize::new(0)));
        let takes = taken.clone();
        let mut task = pin!(shared_task.clone().run(poll_fn::<(), _>(move |_| {
            let goes_on = (0..100).take_while(|_| own.may_go_on()).count();
            takes.store(goes_on, Ordering::Relaxed);
            Poll::Pending
        })));
        assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(taken.load(Ordering::Relaxed), 100);
        assert!(shared_task.run_here());
        assert_eq!(taken.load(Ordering::Relaxed), BATCHES_FOR_ANOTHER);
        assert!(!shared_task.is_run_by_another());
    }

    #[test]
    fn its_own_task_does_not_wait_for_who_runs_it_and_is_woken_behind_it() {
        let (shared_task, woken) = (Arc::new(SharedTask::default()), Arc::new(Woken::default()));
        let waker = Waker::from(woken.clone());
        let mut task = pin!(shared_task.clone().run(poll_fn::<(), _>(|_| Poll::Pending)));
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let held = shared_task.lock();
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(held);
        assert!(shared_task.run_here());
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_panic_is_that_of_its_own_task_whichever_task_runs_it() {
        let (shared_task, woken) = (Arc::new(SharedTask::default()), Arc::new(Woken::default()));
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut polls = 0;
        let panics = poll_fn(move |_| {
            polls += 1;
            assert!(polls < 2, "told to");
            Poll::<()>::Pending
        });
        let mut task = pin!(shared_task.clone().run(panics));
        assert!(task.as_mut().poll(&mut context).is_pending());
        assert!(shared_task.run_here(), "who runs it goes on");
        assert!(!shared_task.is_run_by_another() && !shared_task.run_here());
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "its task learns of it");
        let own = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(&mut context)));
        assert_eq!(own.unwrap_err().downcast_ref(), Some(&"told to"));
    }

    #[test]
    fn a_task_that_is_dropped_leaves_nothing_behind() {
        let (shared_task, kept) = (Arc::new(SharedTask::default()), Arc::new(()));
        let held = kept.clone();
        {
            let task = shared_task.clone().run(async move {
                std::future::pending::<()>().await;
                drop(held);
            });
            let mut task = pin!(task);
            assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(Arc::strong_count(&kept), 1);
        assert!(!shared_task.run_here());
    }
}
