//! What requests are answered with.

use std::{
    borrow::Cow,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::{
    Response, StatusCode,
    body::{Body, Bytes, Frame, SizeHint},
    header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER},
};

/// The body of an answer: a text, until it is sent.
pub(crate) struct Text(Option<Bytes>);

impl Body for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|text| Ok(Frame::data(text))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, Bytes::len) as u64)
    }
}

/// The answer to a request.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// What people are told; nothing where all is well.
    text: Cow<'static, str>,
    header: Option<(HeaderName, HeaderValue)>,
    /// Whether it is the last one on its connection.
    is_last: bool,
}

impl Answer {
    /// All is well.
    pub(crate) const fn good(status: StatusCode) -> Self {
        Self { status, text: Cow::Borrowed(""), header: None, is_last: false }
    }

    /// Something is wrong with the request, or here.
    pub(crate) fn bad(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, text: text.into(), header: None, is_last: false }
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

    pub(crate) fn into_response(self) -> Response<Text> {
        let text = match self.text {
            Cow::Borrowed("") => None,
            Cow::Borrowed(text) => Some(Bytes::from_static(text.as_bytes())),
            Cow::Owned(text) => Some(Bytes::from(text)),
        };
        let has_text = text.is_some();
        let mut response = Response::new(Text(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if has_text {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        }
        headers.extend(self.header);
        if self.is_last {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
