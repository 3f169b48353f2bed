//! The task of a connection: reads, writes, and sends pings.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tremor_pdk::{
    Host,
    net::futures_io::{AsyncRead, AsyncWrite},
};
use tungstenite::{
    Error, Message,
    error::ProtocolError,
    protocol::{CloseFrame, WebSocketContext, frame::coding::CloseCode},
};

use super::{
    Limits, WRITE,
    budget::Share,
    end::{self, End},
    head::poll_read_some,
    inbox::Inbox,
    link::Link,
    shim::{Counted, Shim},
    timer::Timer,
};

/// Maximum number of messages to read from a connection before the task yields to other tasks.
const MESSAGES_PER_POLL: usize = 64;

/// Length of the header of a masked control frame, in bytes.
const CONTROL_HEADER: usize = 6;

/// Maximum time to send a close frame, and maximum time to wait for the peer to end the connection
/// after it.
const CLOSES_WITHIN: Duration = Duration::from_secs(2);

/// Maximum number of bytes to read and discard after rejecting a peer. Closing a socket with unread data
/// resets the connection, and the peer might never see the reason.
const LINGER: usize = 1 << 20;

/// Number of times that a connection is checked within its `idle_timeout`.
const IDLE_CHECKS: u32 = 4;

/// Input of a connection in a period of `keep_alive`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    /// The peer has sent nothing.
    None,
    Received,
    /// The connection was not read at last, because the source's batch is full.
    Unread,
}

/// A connection after its handshake.
pub(crate) struct Session<S> {
    stream: S,
    socket: WebSocketContext,
    link: Arc<Link>,
    inbox: Arc<Inbox>,
    host: Host,
    /// Share of the budget for the bytes that were read and do not belong to a complete message.
    unfinished: Share,
    is_flushed: bool,
    /// Reason why the connector closed the connection, if it did.
    left: Option<&'static str>,
    /// Code and reason of the peer's close frame, if the peer sent one.
    closed: Option<String>,
    taken: Vec<Message>,
    keep_alive: Option<Timer>,
    /// Input since the last tick of `keep_alive`.
    input: Input,
    /// `true` if a ping was sent since the last data.
    is_ping_pending: bool,
    idle: Option<Timer>,
    /// Number of ticks of `idle` since the last message.
    idle_checks: u32,
    closing: Option<Timer>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    pub(crate) fn new(
        host: &Host,
        stream: S,
        socket: WebSocketContext,
        link: Arc<Link>,
        inbox: Arc<Inbox>,
        limits: &Limits,
    ) -> Self {
        Self {
            stream,
            socket,
            unfinished: link.share(),
            link,
            inbox,
            host: host.clone(),
            is_flushed: true,
            left: None,
            closed: None,
            taken: Vec::new(),
            keep_alive: limits.ping_interval.map(|period| Timer::new(host, period)),
            input: Input::Received,
            is_ping_pending: false,
            idle: limits.idle_timeout.map(|time| Timer::new(host, time / IDLE_CHECKS)),
            idle_checks: 0,
            closing: None,
        }
    }

    /// Runs the connection until it ends, and returns the reason of the end.
    pub(crate) async fn run(mut self) -> End {
        let failed = poll_fn(|context| self.poll(context)).await;
        let end = match failed {
            Ok(end) => end,
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => self.regular_end(),
            // Ignore data that the peer sends after its close frame.
            Err(Error::Protocol(ProtocolError::ReceivedAfterClosing)) => {
                self.answer_close().await;
                self.regular_end()
            }
            Err(error) if self.unfinished.is_over => {
                self.reject(CloseCode::Again, &error).await;
                End::OverBudget
            }
            Err(error) => match end::code(&error) {
                Some(code) => {
                    self.reject(code, &error).await;
                    End::ProtocolViolation(error.to_string())
                }
                // If the peer or the connector has sent a close frame, a broken connection counts
                // as closed.
                None if self.left.is_some() || self.closed.is_some() => self.regular_end(),
                None => End::Broken(error.to_string()),
            },
        };
        self.link.end(end.clone());
        end
    }

    /// Returns the reason for a connection that the peer or the connector has closed.
    fn regular_end(&mut self) -> End {
        match (self.left, self.closed.take()) {
            (Some(reason), _) => End::ClosedLocally(reason),
            (None, closed) => End::ClosedByPeer(closed.unwrap_or_else(|| end::reason(None))),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<End, Error>> {
        if let Some((frame, reason, is_cut_off)) = self.link.poll_close_request(context)
            && self.left.is_none()
            && self.closed.is_none()
        {
            self.start_close(frame, reason, context)?;
            if is_cut_off {
                // Do not wait until the peer has read everything, because the peer is slow.
                let _ = self.flush(context);
                return Poll::Ready(Ok(End::ClosedLocally(reason)));
            }
        }
        self.send(context)?;
        let has_more = self.receive(context)?;
        self.send(context)?;
        if let Some(end) = self.poll_timers(context)? {
            return Poll::Ready(Ok(end));
        }
        if has_more {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Sends a close frame. No messages are sent after it.
    fn start_close(
        &mut self,
        frame: CloseFrame,
        reason: &'static str,
        context: &mut Context<'_>,
    ) -> Result<(), Error> {
        self.left = Some(reason);
        self.is_flushed = false;
        self.closing = Some(Timer::new(&self.host, CLOSES_WITHIN));
        let shim = &mut Shim { stream: &mut self.stream, context };
        blocked(self.socket.close(shim, Some(frame))).map(drop)
    }

    fn flush(&mut self, context: &mut Context<'_>) -> Result<bool, Error> {
        let shim = &mut Shim { stream: &mut self.stream, context };
        self.is_flushed = blocked(self.socket.flush(shim))?.is_some();
        Ok(self.is_flushed)
    }

    /// Sends waiting messages as far as the peer accepts them.
    fn send(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        loop {
            if !self.is_flushed && !self.flush(context)? {
                return Ok(());
            }
            self.link.written();
            if self.left.is_some() || self.closed.is_some() {
                return Ok(());
            }
            self.link.take(WRITE, &mut self.taken);
            if self.taken.is_empty() {
                return Ok(());
            }
            self.is_flushed = false;
            let shim = &mut Shim { stream: &mut self.stream, context };
            for message in self.taken.drain(..) {
                // `socket` buffers the bytes that the system does not accept now. The next flush
                // writes them.
                blocked(self.socket.write(shim, message))?;
            }
        }
    }

    /// Receives the available messages. Returns whether more messages may be available without
    /// waiting.
    fn receive(&mut self, context: &mut Context<'_>) -> Result<bool, Error> {
        for _ in 0..MESSAGES_PER_POLL {
            let is_closing = self.left.is_some();
            if self.inbox.poll_capacity(self.link.stream, is_closing, context).is_pending() {
                // The connection is not read while the source's batch is full, so it does not count
                // as silent or idle.
                self.input = Input::Unread;
                self.idle_checks = 0;
                return Ok(false);
            }
            let shim = Shim { stream: &mut self.stream, context };
            let counted = &mut Counted { shim, share: &mut self.unfinished };
            let Some(message) = blocked(self.socket.read(counted))? else { return Ok(false) };
            self.input = Input::Received;
            match message {
                Message::Text(text) => self.push(text.as_bytes()),
                Message::Binary(bytes) => self.push(&bytes),
                // `socket` sends the pong with the next read or flush.
                Message::Ping(payload) => {
                    self.is_flushed = false;
                    self.unfinished.sub(payload.len() + CONTROL_HEADER);
                }
                Message::Close(frame) => {
                    self.closed = Some(end::reason(frame.as_ref()));
                    self.is_flushed = false;
                    self.closing.get_or_insert_with(|| Timer::new(&self.host, CLOSES_WITHIN));
                }
                Message::Pong(payload) => self.unfinished.sub(payload.len() + CONTROL_HEADER),
                Message::Frame(_) => {}
            }
        }
        Ok(true)
    }

    fn push(&mut self, message: &[u8]) {
        self.idle_checks = 0;
        self.unfinished.complete(message.len());
        self.inbox.push(self.link.stream, &self.link.peer, message);
    }

    fn poll_timers(&mut self, context: &mut Context<'_>) -> Result<Option<End>, Error> {
        if let Some(closing) = &mut self.closing {
            let is_over = closing.poll(context).is_ready();
            return Ok(is_over.then(|| self.regular_end()));
        }
        while self.keep_alive.as_mut().is_some_and(|it| it.poll(context).is_ready()) {
            let input = std::mem::replace(&mut self.input, Input::None);
            let was_ping_pending =
                std::mem::replace(&mut self.is_ping_pending, input == Input::None);
            let heartbeat = match input {
                Input::Received => continue,
                Input::None if was_ping_pending => return Ok(Some(End::Silent)),
                Input::None => Message::Ping(tungstenite::Bytes::new()),
                // The pings of the peer are not read, so they get no answer. This pong tells the peer that the
                // connection works (RFC 6455, section 5.5.3).
                Input::Unread => Message::Pong(tungstenite::Bytes::new()),
            };
            self.is_flushed = false;
            let shim = &mut Shim { stream: &mut self.stream, context };
            blocked(self.socket.write(shim, heartbeat))?;
            self.flush(context)?;
        }
        while self.idle.as_mut().is_some_and(|it| it.poll(context).is_ready()) {
            self.idle_checks += 1;
            if self.idle_checks > IDLE_CHECKS {
                self.idle = None;
                self.link.close(CloseCode::Away, "no message for too long");
                context.waker().wake_by_ref();
            }
        }
        Ok(None)
    }

    /// Sends the answer to the peer's close frame, and waits at most [`CLOSES_WITHIN`] until the
    /// system accepts it.
    async fn answer_close(&mut self) {
        let host = self.host.clone();
        let sent = poll_fn(|context| match self.flush(context) {
            Ok(false) => Poll::Pending,
            Ok(true) | Err(_) => Poll::Ready(()),
        });
        // Ignore an error, because the peer may have disconnected.
        let _ = tremor_pdk::net::within(&host, CLOSES_WITHIN, sent).await;
    }

    /// Sends the reason why the connection is rejected to the peer, in a close frame.
    async fn reject(&mut self, code: CloseCode, error: &Error) {
        // A reason has at most 123 bytes. The text of the error comes from the library and quotes
        // no data of the peer.
        let reason: String = error.to_string().chars().filter(char::is_ascii).take(100).collect();
        let frame = CloseFrame { code, reason: reason.into() };
        let host = self.host.clone();
        let notified = async {
            let mut frame = Some(frame);
            let sent: Result<(), Error> = poll_fn(|context| {
                let shim = &mut Shim { stream: &mut self.stream, context };
                let sent = match frame.take() {
                    Some(frame) => self.socket.close(shim, Some(frame)),
                    None => self.socket.flush(shim),
                };
                match blocked(sent) {
                    Ok(None) => Poll::Pending,
                    Ok(Some(())) | Err(Error::ConnectionClosed) => Poll::Ready(Ok(())),
                    Err(error) => Poll::Ready(Err(error)),
                }
            })
            .await;
            if sent.is_ok() {
                let closed =
                    poll_fn(|context| Pin::new(&mut self.stream).poll_close(context)).await;
                if closed.is_ok() {
                    self.linger().await;
                }
            }
        };
        // Ignore an error, because the connection ends in either case.
        let _ = tremor_pdk::net::within(&host, CLOSES_WITHIN, notified).await;
    }

    /// Reads and discards the data that the peer still sends, until the peer closes the connection
    /// or [`LINGER`] bytes are read.
    async fn linger(&mut self) {
        let mut rest = LINGER;
        while rest > 0 {
            let read = poll_fn(|context| {
                poll_read_some::<{ super::READ }, _>(&mut self.stream, context, |_| ())
            });
            match read.await {
                Ok(0) | Err(_) => return,
                Ok(count) => rest = rest.saturating_sub(count),
            }
        }
    }
}

/// Converts the error "would block" to `Ok(None)`.
fn blocked<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
