//! What the two sides of a connector share as long as one connection lasts.

use std::task::{Context, Poll};

use super::watch::Watch;

/// The connection of one instance of a connector: whole or broken.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    broken: Watch<bool>,
}

impl Connection {
    /// A new connection is made: whatever broke the last one does not concern it.
    pub(crate) fn restore(&self) {
        self.broken.update(|broken| *broken = false);
    }

    /// The connection is gone: both sides end with [`End::Interrupted`].
    pub(crate) fn break_off(&self) {
        self.broken.update(|broken| *broken = true);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.read(|broken| *broken)
    }

    pub(crate) fn poll_broken(&self, context: &Context<'_>) -> Poll<()> {
        self.broken.poll(context, |broken| broken.then_some(()))
    }
}

/// How one side of a connector came to its end, for this connection.
#[derive(Debug)]
pub(crate) enum End {
    /// There is nothing more to do, ever.
    Finished,
    /// The connection broke, as somebody else has noticed.
    Interrupted,
    /// The connection broke, as this side has noticed.
    Lost(tremor_pdk::Error),
    /// This side cannot go on with this instance of the connector.
    Failed(tremor_pdk::Error),
}

impl End {
    /// The end that an error means for the side that met it.
    pub(crate) fn of(error: tremor_pdk::Error) -> Self {
        match error.kind() {
            tremor_pdk::ErrorKind::CONNECTION_LOST => Self::Lost(error),
            _ => Self::Failed(error),
        }
    }
}
