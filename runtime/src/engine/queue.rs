//! The bounded queue between two tasks: of batches, by events and by bytes.
//!
//! A full queue makes its senders wait; that is the whole of backpressure. A batch above the bound
//! passes an empty queue alone, so that no message is too large to pass at all.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use super::delivery::InFlight;

/// How much a queue holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// In events.
    pub events: usize,
    /// In bytes: payloads, documents and the events themselves.
    pub bytes: usize,
}

impl Default for Bounds {
    /// 8,192 events or 4 MiB.
    fn default() -> Self {
        Self { events: 8_192, bytes: 4 << 20 }
    }
}

struct State {
    batches: VecDeque<InFlight>,
    events: usize,
    bytes: usize,
    senders: usize,
    receiver_gone: bool,
    receiver: Option<Waker>,
    waiting: Vec<Waker>,
}

struct Shared {
    bounds: Bounds,
    state: Mutex<State>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that batches go into. The queue closes with its last sender.
pub(crate) struct Sender(Arc<Shared>);

/// The end that batches come out of.
pub(crate) struct Receiver(Arc<Shared>);

/// A queue.
pub(crate) fn bounded(bounds: Bounds) -> (Sender, Receiver) {
    let state = State {
        batches: VecDeque::new(),
        events: 0,
        bytes: 0,
        senders: 1,
        receiver_gone: false,
        receiver: None,
        waiting: Vec::new(),
    };
    let shared = Arc::new(Shared { bounds, state: Mutex::new(state) });
    (Sender(shared.clone()), Receiver(shared))
}

impl Sender {
    /// Waits for room and puts the batch in. Where the receiver is gone, the batch is given back.
    pub(crate) async fn send(&self, batch: InFlight) -> Option<InFlight> {
        let mut batch = Some(batch);
        poll_fn(|context| self.poll_send(context, &mut batch)).await;
        batch
    }

    fn poll_send(&self, context: &Context<'_>, batch: &mut Option<InFlight>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.receiver_gone {
            return Poll::Ready(());
        }
        let bounds = self.0.bounds;
        if state.events >= bounds.events || state.bytes >= bounds.bytes {
            state.waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        if let Some(batch) = batch.take() {
            state.events += batch.batch.len();
            state.bytes += batch.batch.weight();
            state.batches.push_back(batch);
        }
        let receiver = state.receiver.take();
        drop(state);
        if let Some(waker) = receiver {
            waker.wake();
        }
        Poll::Ready(())
    }
}

impl Clone for Sender {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(self.0.clone())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.senders -= 1;
        let receiver = if state.senders == 0 { state.receiver.take() } else { None };
        drop(state);
        if let Some(waker) = receiver {
            waker.wake();
        }
    }
}

impl Receiver {
    /// The next batch; `None` once the queue is closed and empty.
    pub(crate) fn poll_receive(&mut self, context: &Context<'_>) -> Poll<Option<InFlight>> {
        let mut state = self.0.lock();
        let Some(batch) = state.batches.pop_front() else {
            if state.senders == 0 {
                return Poll::Ready(None);
            }
            state.receiver = Some(context.waker().clone());
            return Poll::Pending;
        };
        state.events -= batch.batch.len();
        state.bytes -= batch.batch.weight();
        let mut waiting = std::mem::take(&mut state.waiting);
        drop(state);
        if !waiting.is_empty() {
            waiting.drain(..).for_each(Waker::wake);
            let mut state = self.0.lock();
            // For its memory: there is somebody waiting again soon.
            if state.waiting.is_empty() {
                state.waiting = waiting;
            }
        }
        Poll::Ready(Some(batch))
    }
}

impl Receiver {
    /// The next batch, if there is one now.
    pub(crate) fn try_receive(&mut self) -> Option<InFlight> {
        match self.poll_receive(&Context::from_waker(Waker::noop())) {
            Poll::Ready(item) => item,
            Poll::Pending => None,
        }
    }

    /// Takes nothing more; says how many events were still in the queue.
    pub(crate) fn close(self) -> usize {
        let mut state = self.0.lock();
        state.receiver_gone = true;
        state.events
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.receiver_gone = true;
        let batches = std::mem::take(&mut state.batches);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(batches);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use tremor_pdk::Batch;

    use super::{Bounds, bounded};
    use crate::engine::delivery::{InFlight, Token};

    #[allow(clippy::unnecessary_wraps)] // as `poll_send` takes it
    fn batch(events: usize) -> Option<InFlight> {
        let mut batch = Batch::new();
        (0..events).for_each(|_| batch.push_message(0, b"message"));
        Some(InFlight { batch, token: Token::untracked() })
    }

    #[test]
    fn a_full_queue_takes_no_more_until_something_is_taken_out() {
        let context = Context::from_waker(Waker::noop());
        let (sender, mut receiver) = bounded(Bounds { events: 3, bytes: usize::MAX });
        assert!(sender.poll_send(&context, &mut batch(2)).is_ready());
        assert!(sender.poll_send(&context, &mut batch(2)).is_ready(), "the bound may be overshot");
        let mut third = batch(1);
        assert!(sender.poll_send(&context, &mut third).is_pending());
        assert!(matches!(receiver.poll_receive(&context), Poll::Ready(Some(_))));
        assert!(sender.poll_send(&context, &mut third).is_ready());
    }

    #[test]
    fn a_queue_ends_when_it_is_empty_and_its_last_sender_is_gone() {
        let context = Context::from_waker(Waker::noop());
        let (sender, mut receiver) = bounded(Bounds::default());
        let other = sender.clone();
        assert!(sender.poll_send(&context, &mut batch(1)).is_ready());
        drop(sender);
        assert!(matches!(receiver.poll_receive(&context), Poll::Ready(Some(_))));
        assert!(receiver.poll_receive(&context).is_pending());
        drop(other);
        assert!(matches!(receiver.poll_receive(&context), Poll::Ready(None)));
    }

    #[test]
    fn sending_to_nobody_does_not_wait() {
        let context = Context::from_waker(Waker::noop());
        let (sender, receiver) = bounded(Bounds { events: 1, bytes: 1 });
        assert!(sender.poll_send(&context, &mut batch(1)).is_ready());
        let mut second = batch(1);
        assert!(sender.poll_send(&context, &mut second).is_pending());
        drop(receiver);
        assert!(sender.poll_send(&context, &mut second).is_ready());
    }
}
