//! Notifications from threads of librdkafka to a task of the host.

use std::{
    sync::Mutex,
    task::{Context, Poll, Waker},
};

use tremor_pdk::lock;

/// A flag for which one task can wait. A completed wait clears the flag.
#[derive(Default)]
pub(super) struct Signal(Mutex<State>);

#[derive(Default)]
struct State {
    is_set: bool,
    waiting: Option<Waker>,
}

impl Signal {
    /// Sets the flag and wakes the waiting task. Does not block, and may be called from any thread.
    pub(super) fn set(&self) {
        let waiting = {
            let mut state = lock(&self.0);
            state.is_set = true;
            state.waiting.take()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Completes and clears the flag if it is set.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.0);
        if std::mem::take(&mut state.is_set) {
            return Poll::Ready(());
        }
        state.waiting = Some(context.waker().clone());
        Poll::Pending
    }
}
