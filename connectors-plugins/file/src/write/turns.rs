//! Order of deliveries: the deliveries of a sink write in the order in which they began, whether they write on the thread
//! of the task or on a thread that may block.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

use tremor_pdk::lock;

/// The turns of the deliveries that have begun and not written yet. Clones share them.
///
/// A delivery that waits for its turn occupies no thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Number of the next turn.
    next: u64,
    /// Turns that have not ended, in their order, each with the task that waits for it. The first one may write.
    turns: BTreeMap<u64, Option<Waker>>,
}

/// The right of a delivery to write once all earlier turns have ended. The turn ends when it is dropped, so move it to
/// the thread that writes: a delivery that is cancelled does not stop that thread.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    number: u64,
}

impl Turns {
    /// Waits until all turns have ended that were taken earlier. The order is that of the first polls.
    pub(super) async fn take(&self) -> Turn {
        let number = {
            let mut state = lock(&self.0);
            let number = state.next;
            state.next += 1;
            state.turns.insert(number, None);
            number
        };
        let turn = Turn { turns: self.clone(), number };
        poll_fn(|context| {
            let mut state = lock(&self.0);
            if state.turns.first_key_value().is_none_or(|(first, _)| *first == number) {
                return Poll::Ready(());
            }
            state.turns.insert(number, Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let turns = &mut lock(&self.turns.0).turns;
            turns.remove(&self.number);
            turns.first_entry().and_then(|mut first| first.get_mut().take())
        };
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::{Pin, pin},
        sync::Arc,
        task::{Context, Poll, Wake, Waker},
    };

    use super::{Turn, Turns};

    /// A waker that shows by its references whether it was used.
    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    fn poll(future: Pin<&mut impl Future<Output = Turn>>) -> Option<Turn> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[test]
    fn turns_begin_in_the_order_of_first_polls() {
        let turns = Turns::default();
        let (mut a, mut b, mut c) = (pin!(turns.take()), pin!(turns.take()), pin!(turns.take()));
        let first = poll(b.as_mut()).unwrap();
        assert!(poll(a.as_mut()).is_none() && poll(c.as_mut()).is_none());
        drop(first);
        assert!(poll(c.as_mut()).is_none());
        drop(poll(a.as_mut()).unwrap());
        assert!(poll(c.as_mut()).is_some());
    }

    #[test]
    fn cancelled_turn_does_not_delay_later_ones() {
        let turns = Turns::default();
        let first = poll(pin!(turns.take())).unwrap();
        let (mut cancelled, mut last) = (Box::pin(turns.take()), pin!(turns.take()));
        assert!(poll(cancelled.as_mut()).is_none() && poll(last.as_mut()).is_none());
        drop(first);
        assert!(poll(last.as_mut()).is_none());
        drop(cancelled);
        assert!(poll(last).is_some());
    }

    #[test]
    fn end_of_a_turn_wakes_only_the_next_task() {
        let turns = Turns::default();
        let first = poll(pin!(turns.take())).unwrap();
        let (one, two) = (Arc::new(Task), Arc::new(Task));
        let (mut second, mut third) = (pin!(turns.take()), pin!(turns.take()));
        for (future, task) in [(second.as_mut(), &one), (third.as_mut(), &two)] {
            let waker = Waker::from(task.clone());
            assert!(future.poll(&mut Context::from_waker(&waker)).is_pending());
        }
        drop(first);
        assert_eq!((Arc::strong_count(&one), Arc::strong_count(&two)), (1, 2));
    }
}
