//! What requests are answered with.

use std::borrow::Cow;

use hyper::{
    Response, StatusCode,
    body::Bytes,
    header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER},
};

use crate::{
    otlp::{self, Encoding},
    payload::Payload,
};

/// The answer to a request.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// What people are told; nothing where all is well.
    text: Cow<'static, str>,
    header: Option<(HeaderName, HeaderValue)>,
    /// Whether it is the last one on its connection.
    is_last: bool,
    /// Where it has the form of OTLP.
    otlp: Option<Encoding>,
}

impl Answer {
    /// All is well.
    pub(crate) const fn good(status: StatusCode) -> Self {
        Self { status, text: Cow::Borrowed(""), header: None, is_last: false, otlp: None }
    }

    /// Something is wrong with the request, or here.
    pub(crate) fn bad(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, text: text.into(), header: None, is_last: false, otlp: None }
    }

    /// The same after so many seconds may be answered otherwise.
    pub(crate) fn retry_after(self, seconds: u16) -> Self {
        self.with(RETRY_AFTER, seconds.into())
    }

    /// With a header.
    pub(crate) fn with(self, name: HeaderName, value: HeaderValue) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    /// With the end of the connection.
    pub(crate) fn last(self) -> Self {
        Self { is_last: true, ..self }
    }

    /// With the status, and later the body, that OTLP has for it.
    pub(crate) fn in_otlp(self, encoding: Encoding) -> Self {
        Self { status: otlp::status(self.status), otlp: Some(encoding), ..self }
    }

    pub(crate) fn into_response(self) -> Response<Payload> {
        let text = match (self.otlp, self.text) {
            (Some(encoding), text) => encoding.body(&text),
            (None, Cow::Borrowed(text)) => Bytes::from_static(text.as_bytes()),
            (None, Cow::Owned(text)) => Bytes::from(text),
        };
        let content_type = match self.otlp {
            Some(encoding) => Some(encoding.header()),
            None if text.is_empty() => None,
            None => Some(HeaderValue::from_static("text/plain; charset=utf-8")),
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
