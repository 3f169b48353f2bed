//! Time limits for the calls of a plugin that end a connection or a flow.

use std::time::Duration;

use tremor_pdk::Error;

use super::{Control, Phase};
use crate::{dynamic::BoxFuture, executor};

/// Longest time for which one call may delay the end of a connection or a flow.
const LAST_CALL: Duration = Duration::from_secs(5);

/// Longest time that the `close` of a source may take after the flow was stopped. Events that the source acknowledges
/// to its peer within this time are not read again by the next run. The value is less than the time that a stopped flow
/// has to end.
const LAST_COMMIT: Duration = Duration::from_secs(1);

/// Waits for `call`, which closes a source, until [`LAST_CALL`] is over or the flow was stopped [`LAST_COMMIT`] ago.
/// Returns `Ok` at once when the flow is halted.
///
/// # Errors
/// Returns the error of the call, or a timeout.
pub(crate) async fn close_in_time(
    call: BoxFuture<'_, Result<(), Error>>,
    control: &Control,
) -> Result<(), Error> {
    let stopped = async {
        control.reached(Phase::Stopped).await;
        control.clock().sleep(LAST_COMMIT).await;
        let seconds = LAST_COMMIT.as_secs();
        Err(Error::timeout(format_args!(
            "`close` did not finish within {seconds} s after the flow was stopped"
        )))
    };
    executor::first(in_time("close", call, control, Phase::Halted), stopped).await
}

/// Waits for `call` for at most [`LAST_CALL`]. Returns `Ok` at once when the flow reaches `phase`. `what` is the name
/// of the call.
///
/// # Errors
/// Returns the error of the call, or a timeout.
pub(crate) async fn in_time(
    what: &str,
    call: BoxFuture<'_, Result<(), Error>>,
    control: &Control,
    phase: Phase,
) -> Result<(), Error> {
    let limit = async {
        control.clock().sleep(LAST_CALL).await;
        let seconds = LAST_CALL.as_secs();
        Err(Error::timeout(format_args!("`{what}` did not finish within {seconds} s")))
    };
    let over = async {
        control.reached(phase).await;
        Ok(())
    };
    executor::first(executor::first(call, limit), over).await
}
