//! Complete responses: JSON and text, and the form of values in them.

use std::time::Duration;

use hyper::{
    Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};
use serde::Serialize;

use super::body::Body;

/// Returns a response with the content type of JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    response(status, "application/json", value)
}

/// Returns a response that is JSON with the given content type.
pub(super) fn response(
    status: StatusCode,
    content_type: &'static str,
    value: &impl Serialize,
) -> Response<Body> {
    // The values that are serialized here have text as keys, so serializing them cannot fail.
    let text = serde_json::to_string(value).unwrap_or_default();
    plain(status, content_type, text + "\n")
}

/// Returns a response with a text.
pub(super) fn plain(
    status: StatusCode,
    content_type: &'static str,
    text: impl Into<hyper::body::Bytes>,
) -> Response<Body> {
    with(status, content_type, Body::full(text))
}

/// Returns a response with any body.
pub(super) fn with(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers: [(HeaderName, &'static str); 3] = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns a duration in seconds, rounded down to milliseconds.
pub(super) fn seconds(duration: Duration) -> f64 {
    Duration::from_millis(duration.as_millis().try_into().unwrap_or(u64::MAX)).as_secs_f64()
}

/// Decodes the percent encoding of a part of a path or of a query. Text that is encoded incorrectly stays unchanged, so
/// that it matches no name.
pub(super) fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    while let [first, after @ ..] = rest {
        let byte = match rest {
            [b'%', high, low, ..] => {
                digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low)
            }
            _ => None,
        };
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| part.to_owned())
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn percent_encoding_of_path_segments_is_decoded() {
        for (part, expected) in [
            ("a%20b", "a b"),
            ("%c3%A4", "ä"),
            ("%", "%"),
            ("%2", "%2"),
            ("%zz", "%zz"),
            ("%+1", "%+1"),
            ("%ff", "%ff"),
        ] {
            assert_eq!(decoded(part), expected);
        }
    }
}
