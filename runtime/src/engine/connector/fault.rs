//! What ends an instance of a connector, and what may mend that.

use tremor_pdk::{Error, ErrorPolicy};

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

/// Whether an attempt to connect may follow one that has failed so.
pub(crate) fn may_connect_later(error: &Error) -> bool {
    matches!(error.policy(), ErrorPolicy::RETRY | ErrorPolicy::RECONNECT)
}
