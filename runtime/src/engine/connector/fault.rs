//! What ends an instance of a connector, and what may mend that.

use tremor_pdk::{Error, ErrorPolicy};

use crate::engine::handle::connection::Replaced;

/// What ended an instance of the connector.
pub(crate) enum Fault {
    /// An error that another instance does not mend.
    Final(Error),
    /// One that another instance may mend.
    Restart(Error),
    /// None: somebody has asked for another instance.
    Asked,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        if error.is_final() { Self::Final(error) } else { Self::Restart(error) }
    }
}

impl From<Replaced> for Fault {
    fn from(why: Replaced) -> Self {
        match why {
            Replaced::Asked => Self::Asked,
            Replaced::Because(error) => error.into(),
        }
    }
}

/// Whether an attempt to connect may follow one that has failed so.
pub(crate) fn may_connect_later(error: &Error) -> bool {
    matches!(error.policy(), ErrorPolicy::RETRY | ErrorPolicy::RECONNECT)
}
