//! Complete responses: JSON and text.

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
