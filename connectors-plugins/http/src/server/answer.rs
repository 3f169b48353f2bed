//! Responses to requests.

use std::borrow::Cow;

use hyper::{
    Response, StatusCode,
    body::Bytes,
    header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER},
};

use super::otlp::{self, Encoding};
use crate::payload::Payload;

/// Response to a request.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// Explanation in the body; empty on success.
    text: Cow<'static, str>,
    header: Option<(HeaderName, HeaderValue)>,
    /// `true` if the connection ends after this response.
    is_last: bool,
    /// Encoding of the body if the response has the form of OTLP.
    otlp: Option<Encoding>,
    /// `Content-Type` and contents of a body that is not an explanation.
    page: Option<Box<(HeaderValue, Bytes)>>,
}

impl Answer {
    /// Creates the response to a successful request.
    pub(crate) const fn good(status: StatusCode) -> Self {
        Self {
            status,
            text: Cow::Borrowed(""),
            header: None,
            is_last: false,
            otlp: None,
            page: None,
        }
    }

    /// Creates the response to a request that failed, with an explanation.
    pub(crate) fn bad(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, text: text.into(), header: None, is_last: false, otlp: None, page: None }
    }

    /// Asks the client to retry after `seconds`.
    pub(crate) fn retry_after(self, seconds: u16) -> Self {
        self.with(RETRY_AFTER, seconds.into())
    }

    /// Adds a header, and replaces an earlier one.
    pub(crate) fn with(self, name: HeaderName, value: HeaderValue) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    /// Replaces the status.
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Ends the connection after this response.
    pub(crate) fn last(self) -> Self {
        Self { is_last: true, ..self }
    }

    /// Creates a response with a page.
    pub(crate) fn page(content_type: &'static str, body: Vec<u8>) -> Self {
        let page = (HeaderValue::from_static(content_type), Bytes::from(body));
        Self { page: Some(Box::new(page)), ..Self::good(StatusCode::OK) }
    }

    /// Sets the status that OTLP defines for this response. `into_response` converts the body to
    /// `encoding`.
    pub(crate) fn in_otlp(self, encoding: Encoding) -> Self {
        Self { status: otlp::status(self.status), otlp: Some(encoding), ..self }
    }

    pub(crate) fn into_response(self) -> Response<Payload> {
        let text = match (self.otlp, self.text) {
            (Some(encoding), text) => encoding.body(&text),
            (None, Cow::Borrowed(text)) => Bytes::from_static(text.as_bytes()),
            (None, Cow::Owned(text)) => Bytes::from(text),
        };
        let (content_type, text) = match (self.otlp, self.page.map(|page| *page)) {
            (_, Some((content_type, page))) => (Some(content_type), page),
            (Some(encoding), None) => (Some(encoding.header()), text),
            (None, None) if text.is_empty() => (None, text),
            (None, None) => (Some(HeaderValue::from_static("text/plain; charset=utf-8")), text),
        };
        let mut response = Response::new(Payload::new(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.extend(content_type.map(|value| (CONTENT_TYPE, value)));
        headers.extend(self.header);
        if self.is_last {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
