//! The repetition of questions to a peer.

use std::time::Duration;

use hyper::{HeaderMap, Request, header::CONTENT_TYPE};
use tremor_pdk::{ErrorPolicy, prelude::*};

use super::{
    answer,
    pool::Pool,
    protocol::{Protocol, Response},
    question::Question,
};

/// Pause before a question is asked for the first time. It doubles with each repetition.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Maximum pause between two repetitions of a question, unless the peer asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Repeats a question with these headers until the peer has processed the items of an accepted request.
///
/// # Errors
/// The peer has not processed the items in time, so they have to be sent again.
pub(super) async fn ask(
    (host, pool): (&Host, &Pool),
    protocol: &dyn Protocol,
    question: &Question,
    headers: &HeaderMap,
) -> Result<()> {
    let Question { url, body, within } = question;
    let head = || {
        let mut head = Request::post("/").header(CONTENT_TYPE, "application/json");
        head.headers_mut().into_iter().for_each(|it| it.extend(headers.clone()));
        head
    };
    let begun = host.monotonic_ns();
    let left =
        || within.saturating_sub(Duration::from_nanos(host.monotonic_ns().saturating_sub(begun)));
    let (mut pause, mut delay) = (FIRST_PAUSE, Duration::ZERO);
    loop {
        host.sleep(pause.max(delay).min(left())).await;
        delay = Duration::ZERO;
        let last = match pool.send(url, head, body, protocol.response_bytes(1)).await {
            Ok(answer) if answer.status.is_success() => {
                let response = Response { host, url, answer: &answer, secrets: &pool.secrets };
                if protocol.is_processed(&response) {
                    return Ok(());
                }
                format!("`{url}` has not confirmed it yet")
            }
            // The peer may be restarting, or be overloaded.
            Ok(answer) => {
                let remedies = protocol.remedies();
                let error = answer::refusal(host, url, &pool.secrets, &answer, true, &remedies);
                delay = error.delay();
                error.to_string()
            }
            Err(error) => error.to_string(),
        };
        if left().is_zero() {
            let error = format_args!(
                "the peer has accepted a request, but did not confirm within {within:?} that it was processed; the last \
                 answer: {last}"
            );
            return Err(Error::timeout(error).with_policy(ErrorPolicy::RETRY));
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
