//! Limit of the requests that are sent at the same time.

use std::{
    future::poll_fn,
    sync::Mutex,
    task::{Poll, Waker},
};

use tremor_pdk::lock;

/// A number of permits, which tasks wait for.
pub(super) struct Limit(Mutex<State>);

struct State {
    free: usize,
    waiting: Vec<Waker>,
}

/// Permission to send a request. It is returned when it is dropped.
pub(super) struct Permit<'l>(&'l Limit);

impl Limit {
    pub(super) fn new(permits: usize) -> Self {
        Self(Mutex::new(State { free: permits, waiting: Vec::new() }))
    }

    /// Waits until a permit is free, and takes it.
    pub(super) async fn acquire(&self) -> Permit<'_> {
        poll_fn(|context| {
            let mut state = lock(&self.0);
            match state.free.checked_sub(1) {
                Some(free) => {
                    state.free = free;
                    Poll::Ready(Permit(self))
                }
                None => {
                    let waker = context.waker();
                    if !state.waiting.iter().any(|it| it.will_wake(waker)) {
                        state.waiting.push(waker.clone());
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let waiting = {
            let mut state = lock(&self.0.0);
            state.free += 1;
            // Wake all tasks, because a task that was dropped meanwhile would not take the permit.
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, task::Poll};

    use tremor_pdk::testing::TestHost;

    use super::Limit;

    #[test]
    fn dropped_waiter_does_not_take_a_permit() {
        let (host, limit) = (TestHost::new(), Limit::new(1));
        let first = host.block_on(limit.acquire());
        {
            let mut dropped = pin!(limit.acquire());
            assert!(host.poll_once(dropped.as_mut()).is_pending());
        }
        let mut second = pin!(limit.acquire());
        assert!(host.poll_once(second.as_mut()).is_pending());
        drop(first);
        assert!(matches!(host.poll_once(second.as_mut()), Poll::Ready(_)));
    }
}
