//! Replacement of a listener that clients can no longer reach.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::acceptor::Listener;
use crate::{Host, Upkeep, lock};

/// Maximum number of new listeners that wait for a pull. Each is an open descriptor, and clients may wait at it.
const PREPARED_AT_MOST: usize = 16;

/// A periodic check that may return a new listener. The check does not depend on pulls, so that clients can connect
/// while the source is not pulled.
pub(super) struct Renewal {
    prepared: Arc<Mutex<Prepared>>,
    _check: Upkeep<()>,
}

#[derive(Default)]
struct Prepared {
    /// New listeners that have not replaced the current listener yet, the oldest first. Clients may wait at each.
    listeners: VecDeque<Listener>,
    /// Waker of a pull that waits for a new listener.
    waiting: Option<Waker>,
}

impl Renewal {
    pub(super) fn new(
        host: &Host,
        interval: Duration,
        mut renew: impl FnMut() -> Option<Listener> + Send + 'static,
    ) -> Self {
        let prepared = Arc::<Mutex<Prepared>>::default();
        let own = prepared.clone();
        let check = host.upkeep("listener", interval, (), move |()| {
            if lock(&own).listeners.len() < PREPARED_AT_MOST
                && let Some(listener) = renew()
            {
                let waiting = {
                    let mut prepared = lock(&own);
                    prepared.listeners.push_back(listener);
                    prepared.waiting.take()
                };
                waiting.into_iter().for_each(Waker::wake);
            }
            Ok(())
        });
        Self { prepared, _check: check }
    }

    /// Returns whether a new listener is prepared.
    pub(super) fn is_prepared(&self) -> bool {
        !lock(&self.prepared).listeners.is_empty()
    }

    /// Removes and returns the oldest prepared listener, if any.
    pub(super) fn take(&self) -> Option<Listener> {
        lock(&self.prepared).listeners.pop_front()
    }

    /// Completes when a new listener is prepared.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut prepared = lock(&self.prepared);
        if !prepared.listeners.is_empty() {
            return Poll::Ready(());
        }
        prepared.waiting = Some(context.waker().clone());
        Poll::Pending
    }
}
