//! A connection to the peer, which sends one request at a time.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use hyper::{
    HeaderMap, Request, StatusCode,
    body::{Body, Bytes, Frame, Incoming},
    client::conn::http1::{self, SendRequest},
};
use tremor_pdk::{
    Error, Host, Result,
    net::futures_io::{AsyncRead, AsyncWrite},
};

use crate::{
    coding::{self, Coding},
    io::{Io, Observer},
    payload::Payload,
};

/// A response, with at most the requested number of bytes of its body.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// `true` if the body has more bytes than were read.
    pub(crate) is_cut: bool,
    /// Reason why the body, or its end, could not be decoded. `body` has the bytes before.
    pub(crate) undecoded: Option<String>,
}

/// Length in bytes above which a body is decompressed on a thread that may block.
const AT_ONCE: usize = 16 << 10;

impl Answer {
    /// Undoes the codings of the body, up to a length of `most` bytes.
    pub(crate) async fn decode(&mut self, host: &Host, most: usize) -> Result<()> {
        let codings = match Coding::of(&self.headers) {
            _ if self.body.is_empty() => return Ok(()),
            Ok(codings) if codings.is_empty() => return Ok(()),
            Ok(codings) => codings,
            Err(unsupported) => {
                self.body = Vec::new();
                self.undecoded = Some(unsupported.to_string());
                return Ok(());
            }
        };
        let body = std::mem::take(&mut self.body);
        let (body, is_cut, why) = if body.len() > AT_ONCE {
            host.blocking(move || coding::decode(&codings, body, most)).await?
        } else {
            coding::decode(&codings, body, most)
        };
        self.is_cut |= is_cut;
        // A body that was not read to its end cannot be decoded to its end.
        (self.body, self.undecoded) = (body, why.filter(|_| !self.is_cut));
        Ok(())
    }
}

/// Transport of a connection: TCP, or a protocol on top of TCP.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for S {}

/// Records that the peer has begun to respond.
impl Observer for Arc<AtomicBool> {
    const CLOSES: bool = true;

    fn received(&self) {
        self.store(true, Ordering::Relaxed);
    }
}

/// A connection to the peer. It has no task of its own: the request that uses the connection polls
/// it.
pub(crate) struct HttpConnection {
    sender: SendRequest<Payload>,
    connection: http1::Connection<Io<Box<dyn Stream>, Arc<AtomicBool>>, Payload>,
    /// Result with which the connection ended; `None` while the connection can be used.
    over: Option<Result<()>>,
    /// `true` once a byte of the last response has arrived.
    has_read: Arc<AtomicBool>,
}

impl HttpConnection {
    /// Performs the HTTP handshake on an established transport.
    pub(crate) async fn new(stream: Box<dyn Stream>) -> hyper::Result<Self> {
        let has_read = Arc::new(AtomicBool::new(false));
        let io = Io::new(stream, has_read.clone());
        let (sender, connection) = http1::handshake(io).await?;
        Ok(Self { sender, connection, over: None, has_read })
    }

    /// Polls the connection unless it has ended.
    fn poll_drive(&mut self, context: &mut Context<'_>) {
        if self.over.is_none()
            && let Poll::Ready(over) = Pin::new(&mut self.connection).poll(context)
        {
            self.over = Some(over.map_err(|error| broken(&error)));
        }
    }

    /// Returns whether another request can be sent. Polls the connection, because the peer may have
    /// closed it meanwhile.
    pub(crate) async fn is_usable(&mut self) -> bool {
        poll_fn(|context| {
            self.poll_drive(context);
            Poll::Ready(self.over.is_none() && self.sender.is_ready())
        })
        .await
    }

    /// Returns whether a byte of the last response has arrived.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_read.load(Ordering::Relaxed)
    }

    /// Sends a request, and reads at most `most` bytes of the response's body.
    ///
    /// # Errors
    /// The connection failed, and cannot be used any more.
    pub(crate) async fn send(&mut self, request: Request<Payload>, most: usize) -> Result<Answer> {
        self.has_read.store(false, Ordering::Relaxed);
        let mut response = pin!(self.sender.send_request(request));
        let (connection, over) = (&mut self.connection, &mut self.over);
        let response = poll_fn(|context| {
            // The first poll of the response passes the request to the connection, and the second
            // one may find that the response has arrived.
            for _ in 0..2 {
                if let Poll::Ready(response) = response.as_mut().poll(context) {
                    return Poll::Ready(response);
                }
                if over.is_none()
                    && let Poll::Ready(ended) = Pin::new(&mut *connection).poll(context)
                {
                    *over = Some(ended.map_err(|error| broken(&error)));
                }
            }
            Poll::Pending
        });
        let response = match response.await {
            Ok(response) => response,
            Err(error) => return Err(self.failed(&error)),
        };
        let (head, mut body) = response.into_parts();
        let mut answer = Answer { status: head.status, headers: head.headers, ..Answer::default() };
        while let Some(frame) = self.next(&mut body).await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => return Err(self.failed(&error)),
            };
            let Ok(data) = frame.into_data() else { continue };
            let capacity = most - answer.body.len();
            answer.body.extend_from_slice(&data[..data.len().min(capacity)]);
            if data.len() > capacity {
                answer.is_cut = true;
                // Do not reuse the connection, because the remainder of the body would have to be
                // read before the next response.
                self.over = Some(Ok(()));
                break;
            }
        }
        Ok(answer)
    }

    /// Returns the next frame of a body.
    async fn next(&mut self, body: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
        poll_fn(|context| {
            for _ in 0..2 {
                if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
                    return Poll::Ready(frame);
                }
                self.poll_drive(context);
            }
            Poll::Pending
        })
        .await
    }

    /// Returns the cause of a failed request: the error of the connection if there is one, because
    /// it is more specific.
    fn failed(&mut self, error: &hyper::Error) -> Error {
        match self.over.replace(Ok(())) {
            Some(Err(error)) => error,
            _ => broken(error),
        }
    }
}

/// Converts the error of a connection, with its cause.
fn broken(error: &hyper::Error) -> Error {
    let lost = Error::connection_lost(error);
    match std::error::Error::source(error) {
        Some(cause) => lost.caused_by(cause),
        None => lost,
    }
}
