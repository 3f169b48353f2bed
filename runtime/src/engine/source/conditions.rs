//! Conditions other than new data that wake a source.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use crate::clock::Alarm;
use crate::engine::{
    control::interrupt::Interrupt,
    handle::gate::{self, Gate, Side},
    retry::breaker::{self, Breaker},
    tracking::token::{Ended, Ledger},
};

/// Reasons why a source is not pulled at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Suspension {
    /// `true` if a sink that the source feeds is down.
    pub(super) by_breaker: bool,
    /// `true` if the connector of the source is paused.
    pub(super) by_gate: bool,
}

/// Conditions other than new data that wake a source: ended pulls, the end of the connection, times, a pause, the
/// circuit breaker.
pub(super) struct WaitConditions<'s> {
    pub(super) ledger: Option<Arc<Ledger>>,
    pub(super) interrupt: Interrupt<'s>,
    pub(super) alarm: Alarm,
    /// The suspension that the source was last informed of.
    pub(super) suspension: Suspension,
    pub(super) breaker: &'s Breaker,
    pub(super) breaker_changes: breaker::Changes<'s>,
    pub(super) gate: &'s Gate,
    pub(super) gate_changes: gate::Changes<'s>,
}

impl WaitConditions<'_> {
    /// Returns the current reasons why the source is not pulled.
    pub(super) fn current_suspension(&self) -> Suspension {
        Suspension { by_breaker: self.breaker.is_open(), by_gate: self.gate.is_closed() }
    }

    /// Returns whether events that were already pulled may be preprocessed. Returns `false` while the connector is
    /// paused, and after the source was interrupted.
    pub(super) fn may_continue(&self) -> bool {
        self.interrupt.now().is_none() && !self.gate.is_closed()
    }

    /// Notifies the gate of changes of the pause, and returns whether the connector is paused. Call this only while no
    /// call of the source is in flight.
    pub(super) fn is_paused(&mut self, context: &Context<'_>) -> bool {
        while self.gate_changes.poll(context, self.suspension.by_gate).is_ready() {
            self.suspension.by_gate = !self.suspension.by_gate;
            self.gate.set_idle(Side::Source, self.suspension.by_gate);
        }
        self.suspension.by_gate
    }

    /// Completes when the current suspension differs from `self.suspension`.
    pub(super) fn poll_suspension(&mut self, context: &Context<'_>) -> Poll<()> {
        let Suspension { by_breaker, by_gate } = self.suspension;
        if self.breaker_changes.poll(context, by_breaker).is_ready() {
            return Poll::Ready(());
        }
        self.gate_changes.poll(context, by_gate)
    }

    /// Completes with the pulls that have ended. Stays pending if the source wants no acknowledgements.
    pub(super) fn poll_ended(&self, context: &Context<'_>) -> Poll<Vec<Ended>> {
        match &self.ledger {
            Some(ledger) => ledger.poll_ended(context),
            None => Poll::Pending,
        }
    }
}
