//! One connection to the peer, which requests go through one after the other.

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

use tremor_pdk::{Error, Result};

use crate::{
    io::{Io, Stream},
    payload::Payload,
};

/// A response, as much of it as was asked for.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Whether there is more of the body.
    pub(crate) is_cut: bool,
}

/// A connection. It has no task: the request that goes through it drives it.
pub(crate) struct Line {
    sender: SendRequest<Payload>,
    connection: http1::Connection<Io, Payload>,
    /// How it has ended, once it has.
    over: Option<Result<()>>,
    /// Whether a byte of the last response has come.
    has_read: Arc<AtomicBool>,
}

impl Line {
    /// Of a connection that was made.
    pub(crate) async fn new(stream: Box<dyn Stream>) -> hyper::Result<Self> {
        let has_read = Arc::new(AtomicBool::new(false));
        let io = Io::new(stream, has_read.clone());
        let (sender, connection) = http1::handshake(io).await?;
        Ok(Self { sender, connection, over: None, has_read })
    }

    /// Drives the connection.
    fn poll_drive(&mut self, context: &mut Context<'_>) {
        if self.over.is_none()
            && let Poll::Ready(over) = Pin::new(&mut self.connection).poll(context)
        {
            self.over = Some(over.map_err(|error| broken(&error)));
        }
    }

    /// Whether another request can be sent: the peer has not closed its side, as far as is known.
    pub(crate) async fn is_usable(&mut self) -> bool {
        poll_fn(|context| {
            self.poll_drive(context);
            Poll::Ready(self.over.is_none() && self.sender.is_ready())
        })
        .await
    }

    /// Whether a byte of the last response has come.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_read.load(Ordering::Relaxed)
    }

    /// Sends a request, and takes so much of the response's body at most.
    ///
    /// # Errors
    /// What has become of the connection, which is of no more use.
    pub(crate) async fn send(&mut self, request: Request<Payload>, most: usize) -> Result<Answer> {
        self.has_read.store(false, Ordering::Relaxed);
        let mut response = pin!(self.sender.send_request(request));
        let (connection, over) = (&mut self.connection, &mut self.over);
        let response = poll_fn(|context| {
            // First it hands the request over, and after that it may have an answer.
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
        let mut answer =
            Answer { status: head.status, headers: head.headers, body: Vec::new(), is_cut: false };
        while let Some(frame) = self.next(&mut body).await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => return Err(self.failed(&error)),
            };
            let Ok(data) = frame.into_data() else { continue };
            let room = most - answer.body.len();
            answer.body.extend_from_slice(&data[..data.len().min(room)]);
            if data.len() > room {
                answer.is_cut = true;
                // The rest would have to be read first.
                self.over = Some(Ok(()));
                break;
            }
        }
        Ok(answer)
    }

    /// The next part of a body.
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

    /// Why a request has no answer: what ended the connection says more than what became of the request.
    fn failed(&mut self, error: &hyper::Error) -> Error {
        match self.over.replace(Ok(())) {
            Some(Err(error)) => error,
            _ => broken(error),
        }
    }
}

/// What has become of a connection, with what caused it.
fn broken(error: &hyper::Error) -> Error {
    let lost = Error::connection_lost(error);
    match std::error::Error::source(error) {
        Some(cause) => lost.caused_by(cause),
        None => lost,
    }
}
