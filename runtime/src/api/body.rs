//! Bodies of responses: a complete text, or a stream of events that ends when its receiver disconnects.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Bytes, Frame, SizeHint};

use super::slots::Answering;

/// The chunks of a response without a fixed length. `poll_next` returns one chunk at a time, and `None` at the end.
pub(super) trait Stream {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// Body of a response.
pub(super) struct Body {
    parts: Parts,
    /// Marks the request as in progress until the body is dropped.
    _answering: Option<Answering>,
}

enum Parts {
    /// Complete text; `None` once it was returned.
    Full(Option<Bytes>),
    /// Chunks that are sent as they become available.
    Stream(Box<dyn Stream>),
}

impl Body {
    /// Creates a body from a complete text.
    pub(super) fn full(text: impl Into<Bytes>) -> Self {
        Self { parts: Parts::Full(Some(text.into())), _answering: None }
    }

    /// Creates a body from a stream of chunks.
    pub(super) fn stream(stream: impl Stream + 'static) -> Self {
        Self { parts: Parts::Stream(Box::new(stream)), _answering: None }
    }

    /// Attaches a value that is dropped together with the body.
    pub(super) fn during(self, answering: Option<Answering>) -> Self {
        Self { _answering: answering, ..self }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.get_mut().parts {
            Parts::Full(text) => Poll::Ready(text.take()),
            Parts::Stream(stream) => stream.poll_next(context),
        };
        next.map(|part| part.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.parts, Parts::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.parts {
            Parts::Full(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Parts::Stream(_) => SizeHint::default(),
        }
    }
}
