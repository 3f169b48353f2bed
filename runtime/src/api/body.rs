//! What an answer consists of: a text, or events for as long as somebody listens.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Bytes, Frame, SizeHint};

use super::places::Answering;

/// The parts of an answer that does not end by itself; none once there is no more.
pub(super) trait Stream {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// The body of an answer.
pub(super) struct Body {
    parts: Parts,
    /// Dropped with it.
    _answering: Option<Answering>,
}

enum Parts {
    /// A text, until it is taken.
    Full(Option<Bytes>),
    /// One part after the other.
    Stream(Box<dyn Stream>),
}

impl Body {
    /// A text.
    pub(super) fn full(text: impl Into<Bytes>) -> Self {
        Self { parts: Parts::Full(Some(text.into())), _answering: None }
    }

    /// Parts for as long as there are any.
    pub(super) fn stream(stream: impl Stream + 'static) -> Self {
        Self { parts: Parts::Stream(Box::new(stream)), _answering: None }
    }

    /// The same, with what is dropped once it is sent.
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
