//! Conditions other than new data that wake a source.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use crate::engine::{
    account::token::{Ended, Ledger},
    control::interrupt::Interrupt,
    handle::gate::{self, Gate, Side},
    retry::breaker::{self, Breaker},
    sync::alarm::Alarm,
};

/// Why a source is not pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// A sink that it feeds is down.
    pub(super) by_breaker: bool,
    /// Its connector is paused.
    pub(super) by_gate: bool,
}

/// Conditions other than new data that wake a source: ended pulls, the end of the connection, times, a pause, the circuit
/// breaker.
pub(super) struct WaitConditions<'s> {
    pub(super) ledger: Option<Arc<Ledger>>,
    pub(super) interrupt: Interrupt<'s>,
    pub(super) alarm: Alarm,
    /// As far as the source knows.
    pub(super) held: Held,
    pub(super) breaker: &'s Breaker,
    pub(super) breaker_changes: breaker::Changes<'s>,
    pub(super) gate: &'s Gate,
    pub(super) gate_changes: gate::Changes<'s>,
}

impl WaitConditions<'_> {
    /// Whether the source is to be held now.
    pub(super) fn holds(&self) -> Held {
        Held { by_breaker: self.breaker.is_open(), by_gate: self.gate.is_closed() }
    }

    /// Returns whether what was pulled is preprocessed further: not while the connector is paused, or
    /// once the source is to end.
    pub(super) fn may_go_on(&self) -> bool {
        self.interrupt.now().is_none() && !self.gate.is_closed()
    }

    /// While the source is not called: what its connector has to know where it is paused. Whether it is.
    pub(super) fn rests_at_gate(&mut self, context: &Context<'_>) -> bool {
        while self.gate_changes.poll(context, self.held.by_gate).is_ready() {
            self.held.by_gate = !self.held.by_gate;
            self.gate.set_rests(Side::Source, self.held.by_gate);
        }
        self.held.by_gate
    }

    /// Ready when that has changed.
    pub(super) fn poll_held(&mut self, context: &Context<'_>) -> Poll<()> {
        let Held { by_breaker, by_gate } = self.held;
        if self.breaker_changes.poll(context, by_breaker).is_ready() {
            return Poll::Ready(());
        }
        self.gate_changes.poll(context, by_gate)
    }

    pub(super) fn poll_ended(&self, context: &Context<'_>) -> Poll<Vec<Ended>> {
        match &self.ledger {
            Some(ledger) => ledger.poll_ended(context),
            None => Poll::Pending,
        }
    }
}
