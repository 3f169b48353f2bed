//! Reasons for the end of a connector's instance, and whether a retry may help.

use tremor_pdk::{Error, ErrorPolicy};

use crate::engine::handle::connection::Replaced;

/// The reason for the end of an instance.
pub(crate) enum Fault {
    /// An error that a new instance would return too.
    Final(Error),
    /// An error that a new instance may not return.
    Restart(Error),
    /// A restart that a user requested. The instance has not failed.
    Requested,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        if error.is_final() { Self::Final(error) } else { Self::Restart(error) }
    }
}

impl From<Replaced> for Fault {
    fn from(reason: Replaced) -> Self {
        match reason {
            Replaced::Requested => Self::Requested,
            Replaced::Because(error) => error.into(),
        }
    }
}

/// Returns whether the same instance may try to connect again after `error`.
pub(crate) fn may_connect_later(error: &Error) -> bool {
    matches!(error.policy(), ErrorPolicy::RETRY | ErrorPolicy::RECONNECT)
}
