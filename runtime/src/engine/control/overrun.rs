//! What becomes of a component whose call holds its thread for too long.

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

/// How long a call to a connector may hold its thread, unless its flow says otherwise.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(1);
/// The same for a call that has not returned, to any component.
pub(crate) const HANG_LIMIT: Duration = Duration::from_mins(1);

/// Has an instance of a connector replaced once a call has held its thread for too long and has returned.
pub(crate) fn replace_slow(connection: &Arc<Connection>, limit: Duration) -> Limit {
    let connection = connection.clone();
    Limit::new(limit, move |Overrun { call, lasted }| {
        let error = Error::timeout(format_args!(
            "`{call}` held its thread for {lasted:?}, and `call_limit` is {limit:?}; the plugin should \
             leave to `Host::blocking` what blocks"
        ));
        connection.replace(Replaced::Because(error.with_policy(ErrorPolicy::RESTART)));
    })
}

/// Has the flow of a component failed once a call has held its thread for too long and has not returned.
pub(crate) fn fail_hanging(control: &Arc<Control>, component: &str, limit: Duration) {
    let (flow, name) = (Arc::downgrade(control), component.to_owned());
    let limit = Limit::new(limit, move |Overrun { call, .. }| {
        let Some(control) = flow.upgrade() else { return };
        let error = Error::timeout(format_args!("`{call}` has not returned within {limit:?}"));
        let error = error.with_policy(ErrorPolicy::GIVE_UP);
        log::within(control.calls().flow(), || {
            tracing::error!(component = %name, state = "failed", %error, "component hangs");
        });
        // It is none where it is a pipeline.
        if let Some(connector) = control.connector(&name) {
            connector.fail(&error);
        }
        control.fail(&name, error);
    });
    control.calls().limit_hangs(component, limit);
}
