//! What an answer consists of: a text, or events for as long as somebody listens.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Bytes, Frame, SizeHint};

/// The parts of an answer that does not end by itself; none once there is no more.
pub(super) trait Stream {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// The body of an answer.
pub(super) enum Body {
    /// A text, until it is taken.
    Full(Option<Bytes>),
    /// One part after the other.
    Stream(Box<dyn Stream>),
}

impl Body {
    pub(super) fn full(text: impl Into<Bytes>) -> Self {
        Self::Full(Some(text.into()))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Full(text) => Poll::Ready(text.take()),
            Self::Stream(stream) => stream.poll_next(context),
        };
        next.map(|part| part.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
