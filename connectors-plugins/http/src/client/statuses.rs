//! Statuses after which a request is sent again.

use hyper::StatusCode;
use tremor_pdk::{Error, Result};

use super::{config::Config, otlp};

/// Validates `retry_statuses` and `fail_statuses`.
pub(crate) fn check(config: &Config) -> Result<()> {
    let Config { retry_statuses, fail_statuses, .. } = config;
    for (key, all) in [("retry_statuses", retry_statuses), ("fail_statuses", fail_statuses)] {
        if let Some(found) = all.iter().find(|it| !(300..600).contains(*it)) {
            return Err(Error::configuration(format_args!(
                "invalid `{key}` entry {found}: expected a status from 300 to 599, such as 409"
            )));
        }
    }
    match fail_statuses.iter().find(|it| retry_statuses.contains(it)) {
        None => Ok(()),
        Some(both) => Err(Error::configuration(format_args!(
            "invalid `fail_statuses` entry {both}: `retry_statuses` contains it too; remove it from one of the two keys"
        ))),
    }
}

/// Parts of requests that depend on their events.
#[derive(Clone, Copy)]
pub(crate) enum ByEvent {
    Nothing,
    Headers,
    /// The URL, and possibly headers.
    Url,
}

/// Returns whether a request is sent again after a response with this status.
pub(crate) fn is_retried(
    config: &Config,
    by_event: ByEvent,
    status: StatusCode,
    has_accepted: bool,
) -> bool {
    if config.retry_statuses.contains(&status.as_u16()) {
        return true;
    }
    if config.fail_statuses.contains(&status.as_u16()) {
        return false;
    }
    match status {
        // The peer rejects the credentials, whatever the request contains.
        StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED => true,
        // The target depends on the events, so that other events may have a target that exists and is allowed.
        StatusCode::FORBIDDEN if !matches!(by_event, ByEvent::Nothing) => false,
        StatusCode::NOT_FOUND if matches!(by_event, ByEvent::Url) => false,
        // The configuration is probably wrong as long as the peer has accepted no request.
        StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::SEE_OTHER
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => !has_accepted,
        _ if config.preset.is_some() => otlp::may_retry(status),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => true,
        _ => status.is_server_error(),
    }
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;
    use tremor_pdk::{ErrorPolicy, testing::TestHost};

    use crate::{
        client::settings::Settings,
        exchange::{Answer, Protocol, answer::refusal},
    };

    fn policy(keys: &str, has_accepted: bool, status: u16, body: &[u8]) -> (ErrorPolicy, String) {
        let host = TestHost::new().host();
        let config = format!(r#"{{ "url": "http://a/x?key=secret" {keys} }}"#);
        let settings = Settings::new(serde_json::from_str(&config).unwrap(), &host).unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        let answer = Answer { status, body: body.to_vec(), ..Answer::default() };
        let is_retried = settings.is_retried(status, has_accepted);
        let endpoint = &settings.common.endpoint;
        let (url, secrets, remedies) = (&endpoint.url, &endpoint.secrets, settings.remedies());
        let error = refusal(&host, url, secrets, &answer, is_retried, &remedies);
        (error.policy(), error.to_string())
    }

    #[test]
    fn status_decides_between_dead_letter_and_retry() {
        const DEAD_LETTER: ErrorPolicy = ErrorPolicy::DEAD_LETTER;
        for status in [300, 400, 406, 409, 410, 413, 415, 422] {
            assert_eq!(policy("", false, status, b"").0, DEAD_LETTER, "{status}");
        }
        for status in [401, 407, 408, 425, 429, 500, 502, 503, 504, 507] {
            assert_eq!(policy("", true, status, b"").0, ErrorPolicy::RETRY, "{status}");
        }
        for status in [301, 302, 303, 307, 308, 403, 404, 405] {
            assert_eq!(policy("", false, status, b"").0, ErrorPolicy::RETRY, "{status}");
            assert_eq!(policy("", true, status, b"").0, DEAD_LETTER, "{status}");
        }
        let (_, text) = policy("", true, 400, b"{\"error\":\n\"no `id`\"}\x00\xff");
        assert_eq!(
            text,
            "`http://a:80/x` answered with 400 Bad Request: {\"error\": \"no `id`\"} \u{fffd}"
        );
        let (_, text) = policy("", true, 401, b"no such token");
        assert_eq!(
            text,
            "`http://a:80/x` answered with 401 Unauthorized: no such token; check `auth` and `headers`"
        );
    }

    #[test]
    fn configured_statuses_have_precedence() {
        let keys = r#", "retry_statuses": [400, 409, 301], "fail_statuses": [401, 503]"#;
        for preset in ["", r#", "preset": { "otlp": "logs" }"#] {
            let policy = |status| policy(&format!("{keys}{preset}"), true, status, b"").0;
            for status in [400, 409, 301, 407, 429, 502] {
                assert_eq!(policy(status), ErrorPolicy::RETRY, "{status}");
            }
            for status in [401, 503, 403, 422] {
                assert_eq!(policy(status), ErrorPolicy::DEAD_LETTER, "{status}");
            }
            let expected =
                if preset.is_empty() { ErrorPolicy::RETRY } else { ErrorPolicy::DEAD_LETTER };
            assert_eq!(policy(500), expected);
        }
    }
}
