//! The connection that the source and the sink of a connector share.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Instant,
};

use tremor_pdk::{Error, ErrorPolicy, lock};

use crate::engine::{
    handle::problems::Problems,
    sync::watch::{Waiter, Watch},
};

/// The connection of one instance of a connector, intact or broken. If an instance connects again, it uses the same
/// object.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    state: Watch<State>,
    /// `true` if an event was read or delivered since the connection was made.
    has_passed: AtomicBool,
    problems: Mutex<Problems>,
}

#[derive(Debug, Default)]
struct State {
    is_broken: bool,
    /// Reason why the instance is to be replaced. Once it is set, the connection counts as broken.
    replaced: Option<Replaced>,
}

impl State {
    fn is_broken(&self) -> bool {
        self.is_broken || self.replaced.is_some()
    }
}

/// The reason why an instance that did not fail by itself is replaced.
#[derive(Clone, Debug)]
pub(crate) enum Replaced {
    /// A restart was requested.
    Requested,
    /// The instance misbehaved: one of its calls blocked a thread for too long.
    Because(Error),
}

impl Connection {
    /// Marks the connection as intact. Call this before the instance connects again.
    pub(crate) fn restore(&self) {
        self.has_passed.store(false, Ordering::Relaxed);
        self.state.update(|state| state.is_broken = false);
    }

    /// Marks the connection as broken, so that the source and the sink end. They end with [`End::Interrupted`], unless
    /// they have noticed the loss themselves.
    pub(crate) fn break_off(&self) {
        self.state.update(|state| state.is_broken = true);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.state.read(State::is_broken)
    }

    /// Returns the registration of a task that is going to wait for the end of the connection.
    pub(crate) fn broken(&self) -> Broken<'_> {
        Broken(self.state.waiter())
    }

    /// Sets the problem `name` of the instance. `None` means that the problem does not exist any more.
    pub(crate) fn set_problem(&self, name: &str, problem: Option<Error>, now: Instant) {
        lock(&self.problems).set(name, problem, now);
    }

    /// Returns the problems that the instance has reported.
    pub(crate) fn problems(&self) -> Problems {
        lock(&self.problems).clone()
    }

    /// Requests that the instance is replaced. Later calls do not change the reason of the first call.
    pub(crate) fn replace(&self, reason: Replaced) {
        self.state.update(|state| _ = state.replaced.get_or_insert(reason));
    }

    /// Returns the reason why the instance is to be replaced, if it is.
    pub(crate) fn replaced(&self) -> Option<Replaced> {
        self.state.read(|state| state.replaced.clone())
    }

    /// Waits until the instance is to be replaced, and returns the reason.
    pub(crate) async fn until_replaced(&self) -> Replaced {
        self.state.wait(|state| state.replaced.clone()).await
    }

    /// Records that the source read an event, or the sink delivered one.
    pub(crate) fn event_passed(&self) {
        // This method is called once per batch. The flag is written only once, so that its cache line stays shared
        // between cores.
        if !self.has_passed.load(Ordering::Relaxed) {
            self.has_passed.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether an event was read or delivered since the connection was made.
    pub(crate) fn has_passed_events(&self) -> bool {
        self.has_passed.load(Ordering::Relaxed)
    }
}

/// The registration of a task that waits for the end of a connection.
#[derive(Debug)]
pub(crate) struct Broken<'c>(Waiter<'c, State>);

impl Broken<'_> {
    /// Completes once the connection is broken. May be polled again after that.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        self.0.poll(context, |state| state.is_broken().then_some(()))
    }
}

/// The end of a source or sink within one connection.
#[derive(Debug)]
pub(crate) enum End {
    /// The source or sink has nothing more to do, neither now nor in later connections.
    Finished,
    /// The connection broke, and another part of the connector noticed it first.
    Interrupted,
    /// The connection broke, and the source or sink itself noticed it.
    Lost(Error),
    /// The source or sink failed.
    Failed(Error),
}

impl End {
    /// Returns the end of a source or sink that failed with `error`.
    pub(crate) fn of(error: Error) -> Self {
        match error.policy() {
            ErrorPolicy::RECONNECT => Self::Lost(error),
            _ => Self::Failed(error),
        }
    }
}
