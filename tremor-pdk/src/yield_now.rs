//! The function [`yield_now`].

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

/// Lets the other tasks of the runtime's thread run before the current task continues.
///
/// A task that always finds more work never waits, and keeps its thread busy: for example a task that reads from a peer
/// that always has more data, or a pull that loops without adding an event. If each iteration takes microseconds, await
/// `yield_now` once in a few iterations. Run code that blocks, or computes for milliseconds at a time, with
/// [`Host::blocking`].
///
/// The task is woken at once, so do not use `yield_now` to wait for a condition.
///
/// ```
/// use tremor_pdk::yield_now;
///
/// async fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
///     let mut sum = 0;
///     for (index, number) in numbers.enumerate() {
///         sum += number;
///         if index % 1_000 == 999 {
///             yield_now().await;
///         }
///     }
///     sum
/// }
/// ```
///
/// [`Host::blocking`]: crate::Host::blocking
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context: &mut Context<'_>| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
        task::{Context, Wake, Waker},
    };

    use super::yield_now;

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_yield_costs_one_poll_and_one_wake() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let context = &mut Context::from_waker(&waker);
        let mut yields = pin!(async {
            yield_now().await;
            yield_now().await;
        });
        for woken in 1..=2 {
            assert!(yields.as_mut().poll(context).is_pending());
            assert_eq!(wakes.0.load(Ordering::Relaxed), woken);
        }
        assert!(yields.poll(context).is_ready());
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
    }
}
