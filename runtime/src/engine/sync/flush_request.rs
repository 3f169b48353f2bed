//! The request to a sink to deliver what it has, instead of waiting for more.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
};

use super::watch::{Waiter, Watch};

/// A request to a sink, set while its source waits until the sink has delivered what it has.
#[derive(Debug, Default)]
pub(crate) struct FlushRequest {
    is_set: AtomicBool,
    changes: Watch<()>,
}

/// The registration of a sink that waits for a change of the request.
#[derive(Debug)]
pub(crate) struct Changes<'r>(&'r FlushRequest, Waiter<'r, ()>);

impl FlushRequest {
    /// Sets or withdraws the request.
    pub(crate) fn set(&self, is_set: bool) {
        if self.is_set() != is_set {
            self.changes.update(|()| self.is_set.store(is_set, Ordering::Relaxed));
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    pub(crate) fn changes(&self) -> Changes<'_> {
        Changes(self, self.changes.waiter())
    }
}

impl Changes<'_> {
    /// Completes when the request differs from `is_set`.
    pub(crate) fn poll(&mut self, context: &Context<'_>, is_set: bool) -> Poll<()> {
        let Self(request, waiter) = self;
        waiter.poll(context, |()| (request.is_set() != is_set).then_some(()))
    }
}
