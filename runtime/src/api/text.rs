//! Answers that are complete: JSON and text.

use hyper::{
    Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};
use serde::Serialize;

use super::body::Body;

/// An answer as JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    response(status, "application/json", value)
}

/// An answer as JSON of a kind.
pub(super) fn response(
    status: StatusCode,
    content_type: &'static str,
    value: &impl Serialize,
) -> Response<Body> {
    // What is serialised here has text as its keys, and nothing that fails.
    let text = serde_json::to_string(value).unwrap_or_default();
    plain(status, content_type, text + "\n")
}

/// An answer as text.
pub(super) fn plain(
    status: StatusCode,
    content_type: &'static str,
    text: impl Into<hyper::body::Bytes>,
) -> Response<Body> {
    with(status, content_type, Body::full(text))
}

/// An answer of any kind.
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
