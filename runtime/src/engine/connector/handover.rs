//! The hand-over of a connector to a successor with another specification, while its flow runs.
//!
//! ```text
//! reload:  request             release              settle
//! task:            close, wait         connect
//! ```
//! The connector keeps its task, its queue and its counters, and exchanges the parts that its specification determines.
//! Between [`Stage::Closed`] and the release, the reload waits until other connectors have closed too, so that connectors
//! can exchange their ports. The reload has the parts of the predecessor until it settles the hand-over, so that it can
//! hand the connector back.

use std::{
    fmt::{self, Debug, Formatter},
    mem::swap,
    sync::Arc,
    time::Duration,
};

use tremor_pdk::Error;

use super::{ConnectorTask, fault::Fault};
use crate::engine::{
    control::overrun,
    handle::status::State as ConnectorState,
    parts::MakeConnector,
    retry::backoff::{Attempts, Restarts},
    sink::parts::SinkParts,
    source::parts::SourceParts,
    sync::watch::Watch,
};

/// The parts of a connector that its specification determines, and that a reload can replace.
pub(crate) struct Replaceable {
    pub(crate) make: MakeConnector,
    pub(crate) reconnect: Attempts,
    pub(crate) restarts: Restarts,
    pub(crate) call_limit: Duration,
    /// `None` if no link begins at the connector.
    pub(crate) source: Option<SourceParts>,
    /// `None` if no link ends at the connector.
    pub(crate) sink: Option<SinkParts>,
}

impl Replaceable {
    /// Creates an instance and drops it, to find out whether its constructor succeeds. Constructors open no connection.
    ///
    /// # Errors
    /// The error of the constructor.
    pub(crate) fn rehearse(&self) -> Result<(), Error> {
        let connection = Arc::default();
        let limit = overrun::replace_slow(&connection, self.call_limit);
        (self.make)(&connection, limit).map(drop)
    }
}

/// The state that a reload and the task of a connector share.
#[derive(Debug, Default)]
pub(crate) struct Handover(Watch<State>);

#[derive(Default)]
struct State {
    stage: Stage,
    /// The parts that the connector does not use: those of the successor before the exchange, and those of the
    /// predecessor after it. `None` if no hand-over is in progress.
    other: Option<Box<Replaceable>>,
    /// `true` if a failure of the connector does not fail the flow, but is left to the reload.
    is_on_trial: bool,
    /// `true` if the connector need not wait once it has closed.
    is_released: bool,
    /// `true` if a reload removes the connector from the flow, so that its end or failure does not concern the flow.
    is_leaving: bool,
}

impl Debug for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { stage, is_on_trial, .. } = self;
        let mut state = f.debug_struct("State");
        state.field("stage", stage).field("is_on_trial", is_on_trial).finish_non_exhaustive()
    }
}

/// The progress of a hand-over.
#[derive(Clone, Debug, Default)]
pub(crate) enum Stage {
    /// No hand-over is in progress.
    #[default]
    Idle,
    /// The instance of the connector has to end.
    Requested,
    /// The instance has ended. The connector waits for the release.
    Closed,
    /// The connector may exchange its parts and connect.
    Released,
    /// The connector has exchanged its parts, and has not tried to connect yet.
    Exchanged,
    /// The connector is connected, or its first attempt has failed with this error and is repeated.
    Tried(Option<Error>),
    /// The connector has failed on trial, and waits until the reload hands it back.
    Failed(Error),
    /// The flow no longer needs the connector, and what it has not delivered is given up.
    Removed,
    /// The flow no longer needs the connector.
    Ended,
}

impl Handover {
    /// Requests that the connector gets other parts. Has no effect if the connector has ended.
    pub(crate) fn request(&self, other: Box<Replaceable>) {
        self.0.update(|state| {
            state.is_released = false;
            if !matches!(state.stage, Stage::Ended) {
                state.stage = Stage::Requested;
            }
            // If the connector has ended, the parts are dropped when the hand-over is settled.
            state.other = Some(other);
        });
    }

    /// Requests that the connector gets the parts back that it had before the exchange. If the exchange has not happened
    /// yet, cancels it. Returns whether an instance has to end.
    pub(crate) fn request_back(&self) -> bool {
        let (unused, is_requested) = self.0.update(|state| match state.stage {
            Stage::Requested | Stage::Closed | Stage::Released => {
                state.stage = Stage::Idle;
                (state.other.take(), false)
            }
            Stage::Exchanged | Stage::Tried(_) => {
                (state.stage, state.is_released) = (Stage::Requested, false);
                (None, true)
            }
            Stage::Failed(_) => {
                state.stage = Stage::Closed;
                (None, false)
            }
            Stage::Idle | Stage::Removed | Stage::Ended => (None, false),
        });
        // Dropping components of plugins may take time, so the lock is not held.
        drop(unused);
        is_requested
    }

    /// Lets a connector exchange its parts and connect, once it has closed. On trial, lets only a connector do so that has
    /// closed already.
    pub(crate) fn release(&self, is_on_trial: bool) {
        self.0.update(|state| match state.stage {
            Stage::Closed => (state.stage, state.is_on_trial) = (Stage::Released, is_on_trial),
            Stage::Requested if !is_on_trial => {
                (state.is_released, state.is_on_trial) = (true, false);
            }
            _ => {}
        });
    }

    /// Ends the hand-over: the connector keeps the parts that it has, unless it was released, and a failure fails its flow
    /// from now on.
    pub(crate) fn settle(&self) {
        let unused = self.0.update(|state| {
            state.is_on_trial = false;
            match state.stage {
                Stage::Released => return None,
                Stage::Requested if state.is_released => return None,
                Stage::Removed | Stage::Ended => {}
                _ => state.stage = Stage::Idle,
            }
            state.other.take()
        });
        drop(unused);
    }

    /// Puts a connector on trial that joins a running flow. Call this before its task runs.
    pub(crate) fn begin_trial(&self) {
        self.0.update(|state| (state.stage, state.is_on_trial) = (Stage::Exchanged, true));
    }

    /// Records that a reload removes the connector, which still delivers what it has.
    pub(crate) fn leave(&self) {
        self.0.update(|state| state.is_leaving = true);
    }

    /// Lets the connector end, and give up what it has. Its instance has to be restarted after this call.
    pub(crate) fn remove(&self) {
        self.0.update(|state| {
            state.is_leaving = true;
            if !matches!(state.stage, Stage::Ended) {
                state.stage = Stage::Removed;
            }
        });
    }

    /// Returns whether a reload removes the connector.
    pub(crate) fn is_leaving(&self) -> bool {
        self.0.read(|state| state.is_leaving)
    }

    pub(crate) fn stage(&self) -> Stage {
        self.0.read(|state| state.stage.clone())
    }

    /// Returns whether the instance has to end because of the hand-over.
    pub(super) fn is_requested(&self) -> bool {
        self.0.read(|state| matches!(state.stage, Stage::Requested | Stage::Removed))
    }

    /// Records that the flow no longer needs the connector.
    pub(super) fn end(&self) {
        self.0.update(|state| state.stage = Stage::Ended);
    }

    /// Records the result of an attempt to connect, if it is the first one after an exchange.
    pub(super) fn tried(&self, error: Option<&Error>) {
        self.0.update(|state| {
            if matches!(state.stage, Stage::Exchanged) {
                state.stage = Stage::Tried(error.cloned());
            }
        });
    }

    /// Records the end of an instance. Returns whether the connector has to wait for the reload, because the end was
    /// requested, or because the instance has failed on trial.
    fn ended(&self, fault: &Fault) -> bool {
        self.0.update(|state| {
            let next = match (&state.stage, fault) {
                (Stage::Removed, _) => Stage::Removed,
                (Stage::Requested, _) if state.is_released => Stage::Released,
                // A connector that fails permanently fails its flow, although a successor is ready.
                (Stage::Requested, Fault::Final(_)) if !state.is_on_trial => return false,
                (Stage::Requested, _) => Stage::Closed,
                (
                    Stage::Exchanged | Stage::Tried(_),
                    Fault::Final(error) | Fault::Restart(error),
                ) if state.is_on_trial => Stage::Failed(error.clone()),
                (Stage::Exchanged, Fault::Final(error) | Fault::Restart(error)) => {
                    state.stage = Stage::Tried(Some(error.clone()));
                    return false;
                }
                _ => return false,
            };
            state.stage = next;
            true
        })
    }

    /// Waits until the connector may exchange its parts or has to end, or the hand-over was settled.
    async fn until_released(&self) {
        let is_over =
            |state: &State| matches!(state.stage, Stage::Released | Stage::Idle | Stage::Removed);
        self.0.wait(|state| is_over(state).then_some(())).await;
    }

    /// Calls `exchange` with the other parts, if the connector may exchange its parts. Returns whether it may.
    fn exchange(&self, exchange: impl FnOnce(&mut Replaceable)) -> bool {
        self.0.update(|state| match (&state.stage, &mut state.other) {
            (Stage::Released, Some(other)) => {
                exchange(other);
                state.stage = Stage::Exchanged;
                true
            }
            _ => false,
        })
    }
}

impl ConnectorTask {
    /// After an instance has ended with `fault`, waits for the reload that has requested the end, or that has to handle the
    /// failure of a successor on trial. Returns whether the connector has exchanged its parts. Returns `None` if the flow
    /// no longer needs the connector.
    pub(super) async fn hand_over(&mut self, fault: &Fault) -> Option<bool> {
        let is_needed = self.source.is_some() || self.sink.is_some();
        if !is_needed || !self.handover.ended(fault) {
            return Some(false);
        }
        if let Fault::Final(error) | Fault::Restart(error) = fault {
            self.handle.note(error);
            self.enter(ConnectorState::Restarting);
            if self.mark_down("restarts") {
                tracing::warn!(component = %self.name, %error, "the connector has failed during a reload");
            }
        }
        let handover = self.handover.clone();
        self.ending().or(handover.until_released()).await?;
        if matches!(handover.stage(), Stage::Removed) {
            return None;
        }
        Some(handover.exchange(|other| self.exchange(other)))
    }

    /// Exchanges the parts that the specification determines for others. The first attempt to connect is made at once.
    fn exchange(&mut self, other: &mut Replaceable) {
        swap(&mut self.make, &mut other.make);
        swap(&mut self.reconnect, &mut other.reconnect);
        swap(&mut self.restarts, &mut other.restarts);
        swap(&mut self.call_limit, &mut other.call_limit);
        self.reconnect.restart();
        if let (Some(side), Some(parts)) = (&mut self.source, &mut other.source) {
            side.exchange(parts);
        }
        if let (Some(side), Some(parts)) = (&mut self.sink, &mut other.sink) {
            side.exchange(parts);
        }
    }
}
