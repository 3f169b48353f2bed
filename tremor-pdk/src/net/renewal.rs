//! Replacement of a socket that clients can no longer reach.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::{Host, Upkeep, lock};

/// Maximum number of new sockets that wait for a pull. Each is an open descriptor, and clients may wait at it.
const PREPARED_AT_MOST: usize = 16;

/// A periodic check that may return a new socket of the type `S`. The check does not depend on pulls, so that clients can connect
/// while the source is not pulled.
pub(super) struct Renewal<S> {
    prepared: Arc<Mutex<Prepared<S>>>,
    _check: Upkeep<()>,
}

struct Prepared<S> {
    /// New sockets that have not replaced the current socket yet, the oldest first. Clients may wait at each.
    sockets: VecDeque<S>,
    /// Waker of a pull that waits for a new socket.
    waiting: Option<Waker>,
}

impl<S: Send + 'static> Renewal<S> {
    pub(super) fn new(
        host: &Host,
        interval: Duration,
        mut renew: impl FnMut() -> Option<S> + Send + 'static,
    ) -> Self {
        let prepared = Prepared { sockets: VecDeque::new(), waiting: None };
        let prepared = Arc::new(Mutex::new(prepared));
        let own = prepared.clone();
        let check = host.upkeep("listener", interval, (), move |()| {
            if lock(&own).sockets.len() < PREPARED_AT_MOST
                && let Some(socket) = renew()
            {
                let waiting = {
                    let mut prepared = lock(&own);
                    prepared.sockets.push_back(socket);
                    prepared.waiting.take()
                };
                waiting.into_iter().for_each(Waker::wake);
            }
            Ok(())
        });
        Self { prepared, _check: check }
    }

    /// Returns whether a new socket is prepared.
    pub(super) fn is_prepared(&self) -> bool {
        !lock(&self.prepared).sockets.is_empty()
    }

    /// Removes and returns the oldest prepared socket, if any.
    pub(super) fn take(&self) -> Option<S> {
        lock(&self.prepared).sockets.pop_front()
    }

    /// Completes when a new socket is prepared.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut prepared = lock(&self.prepared);
        if !prepared.sockets.is_empty() {
            return Poll::Ready(());
        }
        prepared.waiting = Some(context.waker().clone());
        Poll::Pending
    }
}
