//! What the two sides of a connector share as long as one connection lasts.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
};

use tremor_pdk::{Error, ErrorPolicy};

use crate::engine::sync::watch::{Waiter, Watch};

/// The connection of one instance of a connector: whole or broken.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    state: Watch<State>,
    /// Whether an event came or went through it.
    has_passed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    is_broken: bool,
    /// Why the instance is to be replaced, if it is: none of its connections is whole from then on.
    replaced: Option<Replaced>,
}

impl State {
    fn is_broken(&self) -> bool {
        self.is_broken || self.replaced.is_some()
    }
}

/// Why an instance is replaced that goes on by itself.
#[derive(Clone, Debug)]
pub(crate) enum Replaced {
    /// Somebody has asked for that.
    Asked,
    /// It has not done as it should.
    Because(Error),
}

impl Connection {
    /// A new connection is made: whatever broke the last one does not concern it.
    pub(crate) fn restore(&self) {
        self.has_passed.store(false, Ordering::Relaxed);
        self.state.update(|state| state.is_broken = false);
    }

    /// The connection is gone: both sides end with [`End::Interrupted`].
    pub(crate) fn break_off(&self) {
        self.state.update(|state| state.is_broken = true);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.state.read(State::is_broken)
    }

    /// Waits until the connection is broken.
    pub(crate) fn broken(&self) -> Broken<'_> {
        Broken(self.state.waiter())
    }

    /// The instance is to be replaced: the first reason counts.
    pub(crate) fn replace(&self, why: Replaced) {
        self.state.update(|state| _ = state.replaced.get_or_insert(why));
    }

    /// Why the instance is to be replaced, if it is.
    pub(crate) fn replaced(&self) -> Option<Replaced> {
        self.state.read(|state| state.replaced.clone())
    }

    /// Waits until it is to be replaced.
    pub(crate) async fn until_replaced(&self) -> Replaced {
        self.state.wait(|state| state.replaced.clone()).await
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
pub(crate) struct Broken<'c>(Waiter<'c, State>);

impl Broken<'_> {
    /// Ready once the connection is broken, however often it is asked.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        self.0.poll(context, |state| state.is_broken().then_some(()))
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
    Lost(Error),
    /// This side cannot go on with this instance of the connector.
    Failed(Error),
}

impl End {
    /// The end that an error means for the side that met it.
    pub(crate) fn of(error: Error) -> Self {
        match error.policy() {
            ErrorPolicy::RECONNECT => Self::Lost(error),
            _ => Self::Failed(error),
        }
    }
}
