//! Giving up one's turn.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

/// Lets the other tasks of the runtime's thread have their turn, and goes on after that.
///
/// Work that finds something to do each time that it looks never waits, and has the thread to itself: a task that reads a
/// peer that always has more, a pull that goes round without an event. Await this once in so many rounds, between steps
/// that take microseconds. What blocks, or computes for milliseconds at a stretch, belongs into [`Host::blocking`].
///
/// It wakes its task at once: use it to take turns, and not to wait for something.
///
/// ```
/// use tremor_pdk::yield_now;
///
/// async fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
///     let mut sum = 0;
///     for (place, number) in numbers.enumerate() {
///         sum += number;
///         if place % 1_000 == 999 {
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
    fn each_turn_that_is_given_up_is_one_poll_and_one_wake() {
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
