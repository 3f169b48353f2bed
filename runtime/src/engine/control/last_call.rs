//! Calls of a plugin that the end of a connection or a flow waits for, and for how long.

use std::time::Duration;

use tremor_pdk::Error;

use super::{Control, Phase};
use crate::{dynamic::BoxFuture, executor};

/// How long a plugin may take for what the end of its flow waits for.
const LAST_CALL: Duration = Duration::from_secs(5);

/// Time that a source has to close after its flow was stopped. Less than the time that a stopped flow has to end.
/// The next run does not read again what the source commits in this time.
const LAST_COMMIT: Duration = Duration::from_secs(1);

/// Gives a source a bounded time to close, which is shorter once its flow was stopped. A flow that is halted waits no
/// longer.
///
/// # Errors
/// Errors of the call, and a timeout.
pub(crate) async fn close_in_time(
    call: BoxFuture<'_, Result<(), Error>>,
    control: &Control,
) -> Result<(), Error> {
    let stopped = async {
        control.reached(Phase::Stopped).await;
        executor::sleep(LAST_COMMIT).await;
        Err(Error::timeout("`close` was not done one second after the flow was stopped"))
    };
    executor::first(in_time("close", call, control, Phase::Halted), stopped).await
}

/// Gives a plugin a bounded time to do what the end of a flow waits for. A flow that is in
/// `phase` waits for it no more.
pub(crate) async fn in_time(
    what: &str,
    call: BoxFuture<'_, Result<(), Error>>,
    control: &Control,
    phase: Phase,
) -> Result<(), Error> {
    let limit = async {
        executor::sleep(LAST_CALL).await;
        let seconds = LAST_CALL.as_secs();
        Err(Error::timeout(format_args!("`{what}` was not done after {seconds} s")))
    };
    let over = async {
        control.reached(phase).await;
        Ok(())
    };
    executor::first(executor::first(call, limit), over).await
}
