//! A word from librdkafka's threads to a task of the host's.

use std::{
    sync::{Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

/// Says that there is something. One task may wait.
#[derive(Default)]
pub(super) struct Signal(Mutex<State>);

#[derive(Default)]
struct State {
    is_set: bool,
    waiting: Option<Waker>,
}

impl Signal {
    /// There is something. From any thread; does not block.
    pub(super) fn set(&self) {
        let waiting = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_set = true;
            state.waiting.take()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Ready, once, when there is something.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.is_set) {
            return Poll::Ready(());
        }
        state.waiting = Some(context.waker().clone());
        Poll::Pending
    }
}
