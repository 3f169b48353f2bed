//! Pausing a connector: no event flows through it until it is resumed.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
};

use crate::engine::sync::watch::{Waiter, Watch};

/// The gate of a connector, which its sides pass before each pull and each delivery.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// A copy of the state's, read once a batch.
    is_closed: AtomicBool,
    state: Watch<State>,
}

/// One side of a connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Its source.
    Source,
    /// Its sink.
    Sink,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the connector is to be paused.
    is_wanted: bool,
    /// Whether its sides are held: from then on until the connector knows that it is resumed.
    is_closed: bool,
    /// Whether the source and the sink rest: no call to them is under way.
    rests: [bool; 2],
}

/// A task's wait for the gate.
#[derive(Debug)]
pub(crate) struct Changes<'g>(&'g Gate, Waiter<'g, State>);

impl Gate {
    /// The connector is to be paused.
    pub(crate) fn pause(&self) {
        self.update(|state| (state.is_wanted, state.is_closed) = (true, true));
    }

    /// The connector is to be resumed: it opens the gate when it has been told so.
    pub(crate) fn resume(&self) {
        self.update(|state| state.is_wanted = false);
    }

    /// The connector knows that it is resumed, or never knew that it was paused.
    pub(crate) fn open(&self) {
        self.update(|state| state.is_closed = state.is_wanted);
    }

    /// Whether a side is held.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// A side is held and has ended its calls, or goes on.
    pub(crate) fn set_rests(&self, side: Side, rests: bool) {
        self.update(|state| state.rests[side as usize] = rests);
    }

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
    /// For a side: ready when the gate is not as it is said to be.
    pub(crate) fn poll(&mut self, context: &Context<'_>, is_closed: bool) -> Poll<()> {
        self.1.poll(context, |state| (state.is_closed != is_closed).then_some(()))
    }

    /// For the connector, which has these sides and was told last that it `is_paused`: ready when it is to
    /// be told that it is paused, or that it is resumed.
    pub(crate) fn poll_told(
        &mut self,
        context: &Context<'_>,
        sides: &[Side],
        is_paused: bool,
    ) -> Poll<bool> {
        let Self(gate, waiter) = self;
        let told = waiter.poll(context, |state| {
            let rest = sides.iter().all(|side| state.rests[*side as usize]);
            match (state.is_wanted, is_paused) {
                (true, false) if rest => Some(Some(true)),
                (false, true) => Some(Some(false)),
                (false, false) if state.is_closed => Some(None),
                _ => None,
            }
        });
        match told {
            Poll::Ready(Some(is_paused)) => Poll::Ready(is_paused),
            // It was resumed before it was paused.
            Poll::Ready(None) => {
                gate.open();
                waiter.poll(context, |_| None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
