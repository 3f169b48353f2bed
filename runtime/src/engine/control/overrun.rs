//! The consequences of a call that blocks its thread for too long.

use std::{sync::Arc, time::Duration};

use tremor_pdk::{Error, ErrorPolicy};

use crate::{
    engine::{
        control::Control,
        handle::connection::{Connection, Replaced},
    },
    log,
    watchdog::{Limit, Overrun},
};

/// Longest time for which a call of a connector may block its thread, unless the flow sets `call_limit`.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(1);
/// Time after which a call that has not returned fails the flow, unless the flow sets `hang_limit`.
pub(crate) const HANG_LIMIT: Duration = Duration::from_mins(1);

/// Returns a limit that replaces the instance of a connector after one of its calls blocked its thread for longer than
/// `limit`. The instance is replaced once the call has returned.
pub(crate) fn replace_slow(connection: &Arc<Connection>, limit: Duration) -> Limit {
    let connection = connection.clone();
    Limit::new(limit, move |Overrun { call, lasted }| {
        let error = Error::timeout(format_args!(
            "`{call}` blocked its thread for {lasted:?}, longer than the `call_limit` of {limit:?}; the plugin \
             should move blocking work to `Host::blocking`"
        ));
        connection.replace(Replaced::Because(error.with_policy(ErrorPolicy::RESTART)));
    })
}

/// Fails the flow of `component` if a call blocks its thread for `limit` without returning.
pub(crate) fn fail_hanging(control: &Arc<Control>, component: &str, limit: Duration) {
    let (flow, name) = (Arc::downgrade(control), component.to_owned());
    let limit = Limit::new(limit, move |Overrun { call, .. }| {
        let Some(control) = flow.upgrade() else { return };
        let error = Error::timeout(format_args!("`{call}` has not returned within {limit:?}"));
        let error = error.with_policy(ErrorPolicy::GIVE_UP);
        log::within(control.calls().flow(), || {
            tracing::error!(
                component = %name, state = "failed", %error,
                "the flow fails because a call of the component hangs"
            );
        });
        // A pipeline has no connector.
        if let Some(connector) = control.connector(&name) {
            connector.fail(&error);
        }
        control.fail(&name, error);
    });
    control.calls().limit_hangs(component, limit);
}
