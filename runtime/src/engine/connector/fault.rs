//! What ends an instance of a connector, and what may mend that.

use std::time::Instant;

use tremor_pdk::{Error, ErrorKind};

use crate::engine::life::backoff::{RestartBudget, WINDOW};

/// What ended an instance of the connector.
pub(crate) struct Fault {
    pub(crate) error: Error,
    /// Whether another instance would be of no use.
    pub(crate) is_final: bool,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { is_final: is_final(error.kind()), error }
    }
}

impl Fault {
    /// One that nothing mends.
    pub(crate) fn final_(error: Error) -> Self {
        Self { error, is_final: true }
    }
}

/// Takes a restart from the budget, or says that there is none left.
pub(crate) fn within(budget: &mut RestartBudget, error: Error) -> Result<Error, Error> {
    if budget.take(Instant::now()) {
        return Ok(error);
    }
    let (restarts, window) = (RestartBudget::MOST, WINDOW.as_secs());
    Err(error.context(format_args!("still failing after {restarts} restarts within {window} s")))
}

/// Errors that no other attempt can mend.
pub(crate) fn is_final(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::CONFIGURATION | ErrorKind::AUTHENTICATION | ErrorKind::UNSUPPORTED)
}

/// Errors that say that the peer is not there, now.
pub(crate) fn is_about_the_peer(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::CONNECTION_REFUSED
            | ErrorKind::CONNECTION_LOST
            | ErrorKind::TIMEOUT
            | ErrorKind::FULL
    )
}
