//! The gate of a connector, through which no event flows while the connector is paused.
//!
//! A pause closes the gate at once. The connector is notified of the pause when the source and the sink have no call in
//! flight. At the end of a pause, the connector is notified first, and then the gate opens.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
};

use crate::engine::sync::watch::{Waiter, Watch};

/// The gate of a connector. The source checks it before each pull, and the sink before each delivery.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// A copy of [`State::is_closed`], which is read once a batch without a lock.
    is_closed: AtomicBool,
    state: Watch<State>,
}

/// A side of a connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Sink,
}

#[derive(Debug, Default)]
struct State {
    /// `true` if a pause is requested.
    is_pause_requested: bool,
    /// `true` from the request of a pause until the connector was notified of the end of the pause.
    is_closed: bool,
    /// `true` for each [`Side`] that is paused and has no call in flight.
    idle: [bool; 2],
}

/// The registration of a task that waits for changes of the gate.
#[derive(Debug)]
pub(crate) struct Changes<'g>(&'g Gate, Waiter<'g, State>);

impl Gate {
    /// Requests a pause and closes the gate.
    pub(crate) fn pause(&self) {
        self.update(|state| (state.is_pause_requested, state.is_closed) = (true, true));
    }

    /// Requests the end of a pause. The gate stays closed until [`Gate::open`] is called.
    pub(crate) fn resume(&self) {
        self.update(|state| state.is_pause_requested = false);
    }

    /// Opens the gate, unless another pause was requested. Call this after the connector was notified of the end of the
    /// pause, or if it was never notified of the pause.
    pub(crate) fn open(&self) {
        self.update(|state| state.is_closed = state.is_pause_requested);
    }

    /// Returns whether the source and the sink have to wait.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Records whether a source or sink is paused and has no call in flight.
    pub(crate) fn set_idle(&self, side: Side, idle: bool) {
        self.update(|state| state.idle[side as usize] = idle);
    }

    /// Returns the registration of a task that is going to wait for changes of the gate.
    pub(crate) fn changes(&self) -> Changes<'_> {
        Changes(self, self.state.waiter())
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        self.state.update(|state| {
            change(state);
            self.is_closed.store(state.is_closed, Ordering::Relaxed);
        });
    }
}

impl Changes<'_> {
    /// Completes when the gate's state differs from `is_closed`. The source and the sink call this.
    pub(crate) fn poll(&mut self, context: &Context<'_>, is_closed: bool) -> Poll<()> {
        self.1.poll(context, |state| (state.is_closed != is_closed).then_some(()))
    }

    /// Completes when the connector has to be notified of a pause (`true`) or of the end of a pause (`false`). `sides`
    /// are the sides that run: the connector is notified of a pause once none of them has a call in flight. `is_paused`
    /// is `true` if the last notification was a pause.
    pub(crate) fn poll_notification(
        &mut self,
        context: &Context<'_>,
        sides: &[Side],
        is_paused: bool,
    ) -> Poll<bool> {
        let Self(gate, waiter) = self;
        let notification = waiter.poll(context, |state| {
            let are_idle = sides.iter().all(|side| state.idle[*side as usize]);
            match (state.is_pause_requested, is_paused) {
                (true, false) if are_idle => Some(Some(true)),
                (false, true) => Some(Some(false)),
                (false, false) if state.is_closed => Some(None),
                _ => None,
            }
        });
        match notification {
            Poll::Ready(Some(is_paused)) => Poll::Ready(is_paused),
            // The pause was ended before the connector was notified of it.
            Poll::Ready(None) => {
                gate.open();
                waiter.poll(context, |_| None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
