//! Errors as JSON: problem details of RFC 9457.

use hyper::{Response, StatusCode, header};
use serde::Serialize;

use super::body::Body;
use crate::redact;

/// Response to a request, or the reason why the request is rejected.
pub(super) type Answer = Result<Response<Body>, Problem>;

/// Reason why a request is rejected, with advice.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    /// Methods that the path supports.
    allow: Option<&'static str>,
}

#[derive(Serialize)]
struct Json<'p> {
    title: &'p str,
    status: u16,
    detail: &'p str,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: redact::owned(detail.into()), allow: None }
    }

    /// Creates the problem of a method that the path does not support.
    pub(super) fn method(allow: &'static str) -> Self {
        let detail = format!("this path supports only {allow}");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, detail) }
    }

    #[cfg(test)]
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let Self { status, detail, allow } = self;
        let title = status.canonical_reason().unwrap_or_default();
        let json = Json { title, status: status.as_u16(), detail: &detail };
        let mut response = super::text::response(status, "application/problem+json", &json);
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(allow));
        }
        if status == StatusCode::UNAUTHORIZED {
            let bearer = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}
