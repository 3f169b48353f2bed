//! The meaning of requests: messages of a codec, events of a protocol, or requests for a page.

use std::sync::Arc;

use hyper::{StatusCode, http::request::Parts};
use tremor_pdk::{Result, StructuredBatch};

use super::{answer::Answer, content::Content};

/// The meaning of the requests of a connector.
pub(crate) enum Service {
    /// The body of each request is a message.
    Messages,
    /// The body of each request contains events of a protocol.
    Protocol(Arc<dyn Protocol>),
    /// Each request is answered with a page, and is not an event.
    Page(Arc<dyn Page>),
}

/// A protocol whose requests contain events.
pub(crate) trait Protocol: Send + Sync + 'static {
    /// Checks the headers that describe the body.
    ///
    /// # Errors
    /// The response to a request that the protocol does not accept.
    fn check(&self, head: &Parts) -> Result<(), Answer>;

    /// Returns the length of the decoded body in bytes. The caller reserves this memory.
    ///
    /// # Errors
    /// The response if the body is malformed, or longer than `most` bytes after decoding.
    fn decoded_len(&self, body: &[u8], most: usize) -> Result<usize, Answer>;

    /// Decodes and checks a body. Returns `None` if it contains no event.
    ///
    /// # Errors
    /// The response if the body is malformed.
    fn decode(&self, body: Content) -> Result<Option<Box<dyn Events>>, Answer>;

    /// Returns the status that the protocol defines for a response.
    fn status(&self, status: StatusCode) -> StatusCode;
}

/// The events of a request that are not in the flow yet.
pub(crate) trait Events: Send {
    /// Adds events of the stream `stream` to the batch, until the batch is full. Returns `true` if no event is left.
    ///
    /// # Errors
    /// The batch cannot store an event.
    fn put(&mut self, batch: &mut StructuredBatch, stream: u64) -> Result<bool>;
}

/// A page that is created for each request.
pub(crate) trait Page: Send + Sync + 'static {
    /// Returns the body of the page. May block the thread.
    fn body(&self) -> Vec<u8>;

    /// Returns the `Content-Type` of the page.
    fn content_type(&self) -> &'static str;
}
