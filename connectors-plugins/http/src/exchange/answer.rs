//! Errors for responses whose status is not a success.

use std::{
    fmt::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hyper::{
    HeaderMap, StatusCode,
    header::{LOCATION, RETRY_AFTER},
};
use tremor_pdk::{Error, ErrorPolicy, Host};

use super::{connection::Answer, secrets::Secrets, url::Url};

/// Maximum number of bytes of a response that an error message quotes.
pub(crate) const SHOWN: usize = 200;

/// Maximum delay that a peer can request with `Retry-After`.
const LONGEST: Duration = Duration::from_hours(24);

/// Remedies that the error for a status names. The keys are those that the connector has.
#[derive(Clone, Copy)]
pub(crate) struct Remedies<'t> {
    /// Keys with the credentials of requests.
    pub(crate) credentials: &'t str,
    /// Keys with the method and the path of requests.
    pub(crate) method: &'t str,
    /// The reason why a redirect was not followed, and the remedy.
    pub(crate) not_followed: &'t str,
}

impl Default for Remedies<'_> {
    fn default() -> Self {
        Self {
            credentials: "`auth`",
            method: "`url`",
            not_followed: "redirects are not followed, set `url` to the target",
        }
    }
}

/// Returns the error for a response whose status is not a success. Its policy is to retry if `is_retried` is set,
/// otherwise to make events dead letters.
pub(crate) fn refusal(
    host: &Host,
    url: &Url,
    secrets: &Secrets,
    answer: &Answer,
    is_retried: bool,
    remedies: &Remedies<'_>,
) -> Error {
    let Remedies { credentials, method, not_followed } = remedies;
    let status = answer.status;
    let message = describe(url, secrets, answer, not_followed);
    if !is_retried {
        return Error::bad_data(message).with_policy(ErrorPolicy::DEAD_LETTER);
    }
    let error = match status {
        StatusCode::UNAUTHORIZED => {
            Error::authentication(format_args!("{message}; check {credentials} and `headers`"))
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => Error::authentication(format_args!(
            "{message}; check the name and the password in the URL of the proxy"
        )),
        StatusCode::FORBIDDEN => {
            Error::authentication(format_args!("{message}; check {credentials} and `url`"))
        }
        StatusCode::NOT_FOUND => Error::configuration(format_args!("{message}; check `url`")),
        StatusCode::METHOD_NOT_ALLOWED => {
            Error::configuration(format_args!("{message}; check {method}"))
        }
        _ if status.is_redirection() => Error::configuration(message),
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => Error::timeout(message),
        _ => Error::full(message),
    };
    let delay = retry_after(&answer.headers, host.now_ns()).unwrap_or_default();
    // The policy becomes to retry, whatever the kind is.
    error.retry_after(delay)
}

/// Describes a response whose status is not a success.
fn describe(url: &Url, secrets: &Secrets, answer: &Answer, not_followed: &str) -> String {
    let status = answer.status;
    let mut text = format!("`{url}` answered with {}", status.as_u16());
    text.extend(status.canonical_reason().into_iter().flat_map(|reason| [" ", reason]));
    if let Some(location) = answer.headers.get(LOCATION).filter(|_| status.is_redirection()) {
        // Omit the query of the location, which may contain a secret.
        let location = location.as_bytes().split(|byte| *byte == b'?').next().unwrap_or_default();
        let location = printable(&secrets.redacted(location, SHOWN));
        let _ = write!(text, " to `{location}`; {not_followed}");
    } else if !answer.body.is_empty() {
        let _ = write!(text, ": {}", printable(&secrets.redacted(&answer.body, SHOWN)));
    } else if let Some(why) = &answer.undecoded {
        let _ = write!(text, "; cannot read the response: {why}");
    }
    text
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

/// Returns at most [`SHOWN`] bytes of a response as one line of text: see [`excerpt`].
pub(crate) fn printable(bytes: &[u8]) -> String {
    excerpt(bytes, SHOWN)
}

/// Returns at most `most` bytes as one line of text. Replaces invalid UTF-8 and control characters.
pub(crate) fn excerpt(bytes: &[u8], most: usize) -> String {
    let shown = &bytes[..bytes.len().min(most)];
    let mut text = String::new();
    for chunk in shown.utf8_chunks() {
        let is_control = |it: char| if it.is_control() { ' ' } else { it };
        text.extend(chunk.valid().chars().map(is_control));
        // Do not replace a character at the end that the limit has cut off.
        if !chunk.invalid().is_empty() && text.len() + 4 < most {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    let text = text.trim();
    if bytes.len() > most { format!("{text}…") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::{HeaderMap, header::RETRY_AFTER};

    use super::{printable, retry_after};

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
