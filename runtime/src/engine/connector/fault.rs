//! What ends an instance of a connector, and what may mend that.

use std::time::Instant;

use tremor_pdk::{Error, ErrorPolicy};

use crate::engine::life::backoff::{RestartBudget, WINDOW};

/// What ended an instance of the connector.
pub(crate) struct Fault {
    pub(crate) error: Error,
    /// Whether another instance would be of no use.
    pub(crate) is_final: bool,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { is_final: error.is_final(), error }
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

/// Whether an attempt to connect may follow one that has failed so.
pub(crate) fn may_connect_later(error: &Error) -> bool {
    matches!(error.policy(), ErrorPolicy::RETRY | ErrorPolicy::RECONNECT)
}
