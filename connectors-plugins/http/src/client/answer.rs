//! Interpretation of responses: success, retry or dead letter.

use std::{
    fmt::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hyper::{
    HeaderMap, StatusCode,
    header::{LOCATION, RETRY_AFTER},
};
use tremor_pdk::{Error, ErrorPolicy, Host};

use super::{
    connection::Answer,
    otlp::{self, PartialSuccess},
    secrets::Secrets,
    settings::Settings,
    url::Url,
};

/// Maximum number of bytes of a response that an error message quotes.
pub(crate) const SHOWN: usize = 200;

/// Maximum delay that a peer can request with `Retry-After`.
const LONGEST: Duration = Duration::from_hours(24);

/// Checks the response to a request. Returns `Ok` if the request succeeded. `has_accepted` is `true`
/// if the peer has accepted a request before.
///
/// # Errors
/// An error whose policy is to retry if the request has to be sent again. Otherwise an error of the
/// kind bad data, also if an OTLP server has rejected some items of a request.
pub(crate) fn check(
    host: &Host,
    settings: &Settings,
    url: &Url,
    secrets: &Secrets,
    answer: &Answer,
    has_accepted: bool,
) -> Result<(), Error> {
    let status = answer.status;
    if status.is_success() {
        let is_otlp = settings.config.preset.is_some();
        return if is_otlp { check_items(host, url, secrets, answer) } else { Ok(()) };
    }
    let message = describe(settings, url, secrets, answer);
    if !is_retried(settings, status, has_accepted) {
        return Err(Error::bad_data(message).with_policy(ErrorPolicy::DEAD_LETTER));
    }
    let error = match status {
        StatusCode::UNAUTHORIZED => {
            Error::authentication(format_args!("{message}; check `auth` and `headers`"))
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => Error::authentication(format_args!(
            "{message}; check the name and the password in the URL of the proxy"
        )),
        StatusCode::FORBIDDEN => {
            Error::authentication(format_args!("{message}; check `auth` and `url`"))
        }
        StatusCode::NOT_FOUND => Error::configuration(format_args!("{message}; check `url`")),
        StatusCode::METHOD_NOT_ALLOWED => {
            Error::configuration(format_args!("{message}; check `method` and `url`"))
        }
        _ if status.is_redirection() => Error::configuration(message),
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => Error::timeout(message),
        _ => Error::full(message),
    };
    let delay = retry_after(&answer.headers, host.now_ns()).unwrap_or_default();
    // The policy becomes to retry, whatever the kind is.
    Err(error.retry_after(delay))
}

/// Returns whether a request is sent again after a response with this status.
fn is_retried(settings: &Settings, status: StatusCode, has_accepted: bool) -> bool {
    let config = &settings.config;
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
        StatusCode::FORBIDDEN if settings.is_target_by_event() => false,
        StatusCode::NOT_FOUND if settings.is_url_by_event() => false,
        // As long as the peer has accepted no request, the configuration is probably wrong.
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

/// Checks the response to an OTLP request that the server has accepted, which may report that it
/// rejected some items of the request.
///
/// # Errors
/// An error of the kind bad data if some items were rejected, or if the response cannot be read,
/// because OTLP forbids sending such a request again.
fn check_items(host: &Host, url: &Url, secrets: &Secrets, answer: &Answer) -> Result<(), Error> {
    if let Some(why) = &answer.undecoded {
        let text = format!(
            "`{url}` accepted the request, but may have rejected some of its items: cannot read the response: {why}"
        );
        return Err(Error::bad_data(text).with_policy(ErrorPolicy::DEAD_LETTER));
    }
    let Some(PartialSuccess { rejected, message }) = PartialSuccess::of(answer) else {
        return Ok(());
    };
    let message = printable(&secrets.redacted(message.as_bytes(), SHOWN));
    if rejected == 0 {
        tremor_pdk::info!(host, "`{url}` accepted a request with a message: {message}");
        return Ok(());
    }
    let text =
        format!("`{url}` accepted the request but rejected {rejected} of its items: {message}");
    Err(Error::bad_data(text).with_policy(ErrorPolicy::DEAD_LETTER))
}

/// Describes a response whose status is not a success.
fn describe(settings: &Settings, url: &Url, secrets: &Secrets, answer: &Answer) -> String {
    let status = answer.status;
    let mut text = format!("`{url}` answered with {}", status.as_u16());
    text.extend(status.canonical_reason().into_iter().flat_map(|reason| [" ", reason]));
    if let Some(location) = answer.headers.get(LOCATION).filter(|_| status.is_redirection()) {
        // Omit the query of the location, which may contain a secret.
        let location = location.as_bytes().split(|byte| *byte == b'?').next().unwrap_or_default();
        let location = printable(&secrets.redacted(location, SHOWN));
        let why = not_followed(settings, url, answer);
        let _ = write!(text, " to `{location}`; {why}");
    } else if !answer.body.is_empty() {
        let _ = write!(text, ": {}", printable(&secrets.redacted(&answer.body, SHOWN)));
    } else if let Some(why) = &answer.undecoded {
        let _ = write!(text, "; cannot read the response: {why}");
    }
    text
}

/// Returns the target of a redirect, or `None` for another response or if the target is not a URL.
fn target(url: &Url, answer: &Answer) -> Option<Url> {
    let is_redirect = matches!(
        answer.status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let location = answer.headers.get(LOCATION).filter(|_| is_redirect)?;
    url.join(location.to_str().ok()?).ok()
}

/// Returns the URL to which a response of `url` redirects a request, if the request may follow. A request never follows
/// to another origin, because the configured credentials and headers are for the origin of `url`.
pub(crate) fn redirected(url: &Url, answer: &Answer) -> Option<Url> {
    target(url, answer).filter(|target| target.is_same_origin(url))
}

/// Returns the reason for which a redirect was not followed, and the remedy.
fn not_followed(settings: &Settings, url: &Url, answer: &Answer) -> String {
    let config = &settings.config;
    match (config.redirects, target(url, answer)) {
        (0, _) if config.interval.is_none() => {
            "redirects are not followed, set `url` to the target".to_owned()
        }
        (0, _) => "redirects are not followed, set `url` to the target, or `redirects` to the number of redirects \
                   to follow"
            .to_owned(),
        (_, None) => "the target is not a URL that can be followed".to_owned(),
        (_, Some(target)) if !target.is_same_origin(url) => {
            "redirects to another scheme, host or port are not followed, set `url` to the target".to_owned()
        }
        (most, _) => format!("the request has already followed `redirects: {most}`"),
    }
}

/// Returns the delay that the header `Retry-After` requests, as a number of seconds or as a date.
fn retry_after(headers: &HeaderMap, now_ns: u64) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let time = if is_number {
        value.parse().map_or(LONGEST, Duration::from_secs)
    } else {
        let now: SystemTime = UNIX_EPOCH + Duration::from_nanos(now_ns);
        httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default()
    };
    Some(time.min(LONGEST))
}

/// Returns at most [`SHOWN`] bytes of a response as one line of text. Replaces invalid UTF-8 and
/// control characters.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let mut text = String::new();
    for chunk in shown.utf8_chunks() {
        let is_control = |it: char| if it.is_control() { ' ' } else { it };
        text.extend(chunk.valid().chars().map(is_control));
        // Do not replace a character at the end that the limit has cut off.
        if !chunk.invalid().is_empty() && text.len() + 4 < SHOWN {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    let text = text.trim();
    if bytes.len() > SHOWN { format!("{text}…") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::{HeaderMap, StatusCode, header::RETRY_AFTER};
    use tremor_pdk::{Error, ErrorPolicy, testing::TestHost};

    use super::{check, printable, retry_after};
    use crate::client::{connection::Answer, secrets::Secrets, settings::Settings};

    fn policy(
        keys: &str,
        has_accepted: bool,
        status: u16,
        body: &[u8],
    ) -> (Option<ErrorPolicy>, String) {
        let host = TestHost::new().host();
        let config = format!(r#"{{ "url": "http://a/x?key=secret" {keys} }}"#);
        let settings = Settings::new(serde_json::from_str(&config).unwrap(), &host).unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        let answer = Answer { status, body: body.to_vec(), ..Answer::default() };
        let secrets = Secrets::default();
        let checked = check(&host, &settings, &settings.url, &secrets, &answer, has_accepted);
        let error = checked.err();
        (error.as_ref().map(Error::policy), error.map_or_else(String::new, |it| it.to_string()))
    }

    #[test]
    fn status_decides_between_dead_letter_and_retry() {
        const DEAD_LETTER: ErrorPolicy = ErrorPolicy::DEAD_LETTER;
        for status in [200, 201, 202, 204] {
            assert_eq!(policy("", true, status, b"").0, None);
        }
        for status in [300, 400, 406, 409, 410, 413, 415, 422] {
            assert_eq!(policy("", false, status, b"").0, Some(DEAD_LETTER), "{status}");
        }
        for status in [401, 407, 408, 425, 429, 500, 502, 503, 504, 507] {
            assert_eq!(policy("", true, status, b"").0, Some(ErrorPolicy::RETRY), "{status}");
        }
        for status in [301, 302, 303, 307, 308, 403, 404, 405] {
            assert_eq!(policy("", false, status, b"").0, Some(ErrorPolicy::RETRY), "{status}");
            assert_eq!(policy("", true, status, b"").0, Some(DEAD_LETTER), "{status}");
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
                assert_eq!(policy(status), Some(ErrorPolicy::RETRY), "{status}");
            }
            for status in [401, 503, 403, 422] {
                assert_eq!(policy(status), Some(ErrorPolicy::DEAD_LETTER), "{status}");
            }
            let expected =
                if preset.is_empty() { ErrorPolicy::RETRY } else { ErrorPolicy::DEAD_LETTER };
            assert_eq!(policy(500), Some(expected));
        }
    }

    #[test]
    fn retry_after_is_read_as_seconds_or_date() {
        let after = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            // 1994-11-06 08:49:07 UTC.
            retry_after(&headers, 784_111_747_000_000_000)
        };
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(after("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(after("99999999999999999999"), Some(Duration::from_hours(24)));
        for wrong in ["", "-1", "soon", "1.5"] {
            assert_eq!(after(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn shown_response_is_bounded_and_on_one_line() {
        assert_eq!(printable(b"a\r\nb\x1b[31m"), "a  b [31m");
        let long = printable(&[b'x'; 1_000]);
        assert_eq!(long, "x".repeat(200) + "…");
        assert_eq!(printable("é".repeat(200).as_bytes()).chars().count(), 101);
    }
}
