//! What the two sides of a connector share as long as one connection lasts.

use std::{
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
};

use crate::engine::life::watch::{Waiter, Watch};

/// The connection of one instance of a connector: whole or broken.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    broken: Watch<bool>,
    /// Whether an event came or went through it.
    has_passed: AtomicBool,
}

impl Connection {
    /// A new connection is made: whatever broke the last one does not concern it.
    pub(crate) fn restore(&self) {
        self.has_passed.store(false, Ordering::Relaxed);
        self.broken.update(|broken| *broken = false);
    }

    /// The connection is gone: both sides end with [`End::Interrupted`].
    pub(crate) fn break_off(&self) {
        self.broken.update(|broken| *broken = true);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.read(|broken| *broken)
    }

    /// Waits until the connection is broken.
    pub(crate) fn broken(&self) -> Broken<'_> {
        Broken(self.broken.waiter())
    }

    /// The source has brought an event, or the sink delivered one.
    pub(crate) fn event_passed(&self) {
        // Once a batch: written once, so that its cache line stays with all that read it.
        if !self.has_passed.load(Ordering::Relaxed) {
            self.has_passed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether an event came or went through the connection since it was made.
    pub(crate) fn has_passed_events(&self) -> bool {
        self.has_passed.load(Ordering::Relaxed)
    }
}

/// One task's wait for the end of a connection.
#[derive(Debug)]
pub(crate) struct Broken<'c>(Waiter<'c, bool>);

impl Broken<'_> {
    /// Ready once the connection is broken, however often it is asked.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        self.0.poll(context, |broken| broken.then_some(()))
    }
}

impl Future for Broken<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Broken::poll(&mut self, context)
    }
}

/// How one side of a connector came to its end, for this connection.
#[derive(Debug)]
pub(crate) enum End {
    /// There is nothing more to do, ever.
    Finished,
    /// The connection broke, as another part has noticed.
    Interrupted,
    /// The connection broke, as this side has noticed.
    Lost(tremor_pdk::Error),
    /// This side cannot go on with this instance of the connector.
    Failed(tremor_pdk::Error),
}

impl End {
    /// The end that an error means for the side that met it.
    pub(crate) fn of(error: tremor_pdk::Error) -> Self {
        match error.policy() {
            tremor_pdk::ErrorPolicy::RECONNECT => Self::Lost(error),
            _ => Self::Failed(error),
        }
    }
}
