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
    url::Url,
};

/// Maximum number of bytes of a response that an error message quotes.
pub(crate) const SHOWN: usize = 200;

/// Maximum delay that a peer can request with `Retry-After`.
const LONGEST: Duration = Duration::from_hours(24);

/// Checks the response to an OTLP request. A response with a successful status may still report
/// that the server rejected some items of the request.
///
/// # Errors
/// Returns the errors of [`check`], and an error of the kind bad data if some items were rejected
/// or the response cannot be read, because OTLP forbids sending such a request again.
pub(crate) fn check_otlp(
    host: &Host,
    url: &Url,
    secrets: &Secrets,
    answer: &Answer,
) -> Result<(), Error> {
    let Err(error) = check(host, url, secrets, answer) else {
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
        return Err(Error::bad_data(text).with_policy(ErrorPolicy::DEAD_LETTER));
    };
    Err(if otlp::may_retry(answer.status) {
        error
    } else {
        error.with_policy(ErrorPolicy::DEAD_LETTER)
    })
}

/// Checks the response to a request. Returns `Ok` if the request succeeded.
///
/// # Errors
/// An error of the kind bad data if the server would reject the same request again; otherwise an
/// error whose policy is to retry.
pub(crate) fn check(
    host: &Host,
    url: &Url,
    secrets: &Secrets,
    answer: &Answer,
) -> Result<(), Error> {
    let status = answer.status;
    if status.is_success() {
        return Ok(());
    }
    let message = || {
        let mut text = format!("`{url}` answered with {}", status.as_u16());
        text.extend(status.canonical_reason().into_iter().flat_map(|reason| [" ", reason]));
        if let Some(location) = answer.headers.get(LOCATION).filter(|_| status.is_redirection()) {
            // Omit the query of the location, which may contain a secret.
            let location =
                location.as_bytes().split(|byte| *byte == b'?').next().unwrap_or_default();
            let location = printable(&secrets.redacted(location, SHOWN));
            let _ = write!(
                text,
                " to `{location}`; redirects are not followed, set `url` to the target"
            );
        } else if !answer.body.is_empty() {
            let _ = write!(text, ": {}", printable(&secrets.redacted(&answer.body, SHOWN)));
        } else if let Some(why) = &answer.undecoded {
            let _ = write!(text, "; cannot read the response: {why}");
        }
        text
    };
    let error = match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => Error::timeout(message()),
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::TOO_EARLY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::INSUFFICIENT_STORAGE => Error::full(message()),
        _ if status.is_server_error() => Error::full(message()),
        _ => return Err(Error::bad_data(message()).with_policy(ErrorPolicy::DEAD_LETTER)),
    };
    Err(match retry_after(&answer.headers, host.now_ns()) {
        Some(time) => error.retry_after(time),
        None => error,
    })
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
    use crate::client::{connection::Answer, secrets::Secrets};

    fn policy(status: u16, body: &[u8]) -> (Option<ErrorPolicy>, String) {
        let status = StatusCode::from_u16(status).unwrap();
        let answer = Answer { status, body: body.to_vec(), ..Answer::default() };
        let url = "http://a/x?key=secret".parse().unwrap();
        let error = check(&TestHost::new().host(), &url, &Secrets::default(), &answer).err();
        (error.as_ref().map(Error::policy), error.map_or_else(String::new, |it| it.to_string()))
    }

    #[test]
    fn status_decides_between_dead_letter_and_retry() {
        for status in [200, 201, 202, 204] {
            assert_eq!(policy(status, b"").0, None);
        }
        for status in [301, 400, 401, 403, 404, 413, 422] {
            assert_eq!(policy(status, b"").0, Some(ErrorPolicy::DEAD_LETTER), "{status}");
        }
        for status in [408, 425, 429, 500, 502, 503, 504, 507] {
            assert_eq!(policy(status, b"").0, Some(ErrorPolicy::RETRY), "{status}");
        }
        let (_, text) = policy(400, b"{\"error\":\n\"no `id`\"}\x00\xff");
        assert_eq!(
            text,
            "`http://a:80/x` answered with 400 Bad Request: {\"error\": \"no `id`\"} \u{fffd}"
        );
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
