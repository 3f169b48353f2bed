//! What moves a connection on: reads what comes, writes what is to be sent, asks whether the peer is there.

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

/// How many messages are read of a connection before others have their turn.
const TURN: usize = 64;

/// Header of a control frame with a mask, in bytes.
const CONTROL_HEADER: usize = 6;

/// How long a peer may take to answer a close.
const CLOSES_WITHIN: Duration = Duration::from_secs(2);

/// How much of what a peer still sends after it was refused is read and dropped, in bytes: otherwise the
/// system would reset the connection, and the peer might not read why.
const LINGER: usize = 1 << 20;

/// An idle connection is looked at so often within its timeout.
const LOOKS: u32 = 4;

/// A connection after its handshake.
pub(crate) struct Session<S> {
    stream: S,
    socket: WebSocketContext,
    link: Arc<Link>,
    inbox: Arc<Inbox>,
    host: Host,
    /// Bytes that were read and are not part of a complete message.
    unfinished: Share,
    is_flushed: bool,
    /// Why we have closed it, if we have.
    left: Option<&'static str>,
    /// What the peer has closed it with.
    closed: Option<String>,
    taken: Vec<Message>,
    keep_alive: Option<Timer>,
    /// Whether anything has come since the timer went off last, and whether the peer was asked.
    is_heard: bool,
    is_asked: bool,
    idle: Option<Timer>,
    /// How often the timer has gone off since the last message.
    idle_looks: u32,
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
            is_heard: true,
            is_asked: false,
            idle: limits.idle_timeout.map(|time| Timer::new(host, time / LOOKS)),
            idle_looks: 0,
            closing: None,
        }
    }

    /// Runs it to its end.
    pub(crate) async fn run(mut self) -> End {
        let failed = poll_fn(|context| self.poll(context)).await;
        let end = match failed {
            Ok(end) => end,
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => self.orderly(),
            // What a peer sends after its close is not looked at.
            Err(Error::Protocol(ProtocolError::ReceivedAfterClosing)) => {
                self.answer_close().await;
                self.orderly()
            }
            Err(error) if self.unfinished.is_over => {
                self.refuse(CloseCode::Again, &error).await;
                End::Crowded
            }
            Err(error) => match end::code(&error) {
                Some(code) => {
                    self.refuse(code, &error).await;
                    End::Refused(error.to_string())
                }
                // A peer that closes before it has answered our close has said all.
                None if self.left.is_some() || self.closed.is_some() => self.orderly(),
                None => End::Broken(error.to_string()),
            },
        };
        self.link.end(end.clone());
        end
    }

    /// How it has ended after both sides have closed it.
    fn orderly(&mut self) -> End {
        match (self.left, self.closed.take()) {
            (Some(reason), _) => End::Left(reason),
            (None, closed) => End::Closed(closed.unwrap_or_else(|| end::reason(None))),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<End, Error>> {
        if let Some((frame, reason, is_cut_off)) = self.link.attend(context)
            && self.left.is_none()
            && self.closed.is_none()
        {
            self.leave(frame, reason, context)?;
            if is_cut_off {
                // It was slow: nobody waits until it has read what was sent.
                let _ = self.flush(context);
                return Poll::Ready(Ok(End::Left(reason)));
            }
        }
        self.send(context)?;
        let has_more = self.receive(context)?;
        self.send(context)?;
        if let Some(end) = self.look_at_timers(context)? {
            return Poll::Ready(Ok(end));
        }
        if has_more {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Says that nothing more is sent.
    fn leave(
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

    /// Sends what there is, as far as the peer takes it.
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
                // What the system does not take now is kept, and written by the next flush.
                blocked(self.socket.write(shim, message))?;
            }
        }
    }

    /// Receives what there is. Whether there may be more at once.
    fn receive(&mut self, context: &mut Context<'_>) -> Result<bool, Error> {
        for _ in 0..TURN {
            let leaves = self.left.is_some();
            if self.inbox.poll_room(self.link.stream, leaves, context).is_pending() {
                // What the peer sends meanwhile is not heard.
                self.is_heard = true;
                self.idle_looks = 0;
                return Ok(false);
            }
            let shim = Shim { stream: &mut self.stream, context };
            let counted = &mut Counted { shim, share: &mut self.unfinished };
            let Some(message) = blocked(self.socket.read(counted))? else { return Ok(false) };
            self.is_heard = true;
            match message {
                Message::Text(text) => self.push(text.as_bytes()),
                Message::Binary(bytes) => self.push(&bytes),
                // It is answered with the next read or flush.
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
        self.idle_looks = 0;
        self.unfinished.complete(message.len());
        self.inbox.push(self.link.stream, &self.link.peer, message);
    }

    fn look_at_timers(&mut self, context: &mut Context<'_>) -> Result<Option<End>, Error> {
        if let Some(closing) = &mut self.closing {
            let is_over = closing.poll(context).is_ready();
            return Ok(is_over.then(|| self.orderly()));
        }
        while self.keep_alive.as_mut().is_some_and(|it| it.poll(context).is_ready()) {
            if std::mem::take(&mut self.is_heard) {
                self.is_asked = false;
            } else {
                if std::mem::replace(&mut self.is_asked, true) {
                    return Ok(Some(End::Silent));
                }
                self.is_flushed = false;
                let shim = &mut Shim { stream: &mut self.stream, context };
                blocked(self.socket.write(shim, Message::Ping(tungstenite::Bytes::new())))?;
                self.flush(context)?;
            }
        }
        while self.idle.as_mut().is_some_and(|it| it.poll(context).is_ready()) {
            self.idle_looks += 1;
            if self.idle_looks > LOOKS {
                self.idle = None;
                self.link.close(CloseCode::Away, "no message for too long");
                context.waker().wake_by_ref();
            }
        }
        Ok(None)
    }

    /// Sends what answers the peer's close, unless it does not take that.
    async fn answer_close(&mut self) {
        let host = self.host.clone();
        let sent = poll_fn(|context| match self.flush(context) {
            Ok(false) => Poll::Pending,
            Ok(true) | Err(_) => Poll::Ready(()),
        });
        // It may be gone.
        let _ = tremor_pdk::net::within(&host, CLOSES_WITHIN, sent).await;
    }

    /// Tells the peer what is wrong, and that nothing more comes.
    async fn refuse(&mut self, code: CloseCode, error: &Error) {
        // A reason has 123 bytes at most, and what is wrong is text of ours and of no peer.
        let reason: String = error.to_string().chars().filter(char::is_ascii).take(100).collect();
        let frame = CloseFrame { code, reason: reason.into() };
        let host = self.host.clone();
        let told = async {
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
        // Whether or not it could be told.
        let _ = tremor_pdk::net::within(&host, CLOSES_WITHIN, told).await;
    }

    /// Reads what the peer still sends, up to its end.
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

/// None if it has to wait.
fn blocked<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
