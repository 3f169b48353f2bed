//! The runtime's end of the connection to a plugin's process: calls, and their answers.

use std::{
    collections::{HashMap, VecDeque},
    future::{Future, poll_fn},
    io::{self, Read, Write},
    mem,
    os::unix::net::UnixStream,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tremor_abi::host::LogLevel;
use tremor_pdk::{Error, Result, lock};

use super::{
    body::{MetricBody, ProblemBody, shortened},
    group::Group,
    memory::Memory,
    message::{Kind, Message, Parser, flags},
};
use crate::{
    clock::Clock,
    executor::{self, Watched},
    plugin::{HostContext, Metric},
};

/// Maximum number of bytes that wait for a process that does not read.
const MAX_UNSENT: usize = 64 << 20;

/// Maximum number of bytes that are read from a process in one turn.
const MAX_TURN: usize = 1 << 20;

/// The connection to the process of a plugin.
pub(super) struct Link {
    socket: UnixStream,
    pub(super) memory: Memory,
    pub(super) host: Arc<HostContext>,
    pub(super) group: Group,
    /// Reason why the runtime has killed the process.
    killed: Mutex<Option<Error>>,
    incoming: Mutex<Incoming>,
    outgoing: Mutex<Outgoing>,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Incoming {
    parser: Parser,
    has_ended: bool,
}

#[derive(Default)]
struct Outgoing {
    /// Bytes that the socket has not accepted yet.
    unsent: VecDeque<u8>,
    /// Wakes the task that writes `unsent`.
    writer: Option<Waker>,
    /// `true` once the process has ended.
    has_ended: bool,
}

#[derive(Default)]
struct Calls {
    last: u32,
    open: HashMap<u32, Open>,
    /// Error of all calls, once the process has ended.
    ended: Option<Error>,
}

enum Open {
    Waiting(Option<Waker>),
    Answered(Message),
}

/// Result of [`Link::receive`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    /// Everything that has arrived was handled.
    All,
    /// More may have arrived.
    Part,
    /// The connection has ended, so that no message will arrive.
    Ended,
}

impl Link {
    /// Creates the connection. The socket must be non-blocking.
    pub(super) fn new(
        socket: UnixStream,
        memory: Memory,
        host: Arc<HostContext>,
        group: Group,
    ) -> Self {
        Self {
            socket,
            memory,
            host,
            group,
            killed: Mutex::default(),
            incoming: Mutex::default(),
            outgoing: Mutex::default(),
            calls: Mutex::default(),
        }
    }

    /// Returns another descriptor of the socket, to wait for.
    pub(super) fn socket(&self) -> io::Result<UnixStream> {
        self.socket.try_clone()
    }

    /// Sends a message and returns its call.
    pub(super) fn call(self: &Arc<Self>, message: Message) -> Call {
        let number = {
            let calls = &mut *lock(&self.calls);
            // 0 marks messages that are not calls. A number is free again long before it is used a second time.
            calls.last = calls.last.checked_add(1).unwrap_or(1);
            calls.open.insert(calls.last, Open::Waiting(None));
            calls.last
        };
        self.send(&Message { call: number, ..message });
        Call { link: self.clone(), number }
    }

    /// Sends a message. After the end of the process, messages are discarded.
    pub(super) fn send(&self, message: &Message) {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        let outgoing = &mut *lock(&self.outgoing);
        if outgoing.has_ended {
            return;
        }
        if outgoing.unsent.len() + bytes.len() > MAX_UNSENT {
            return self.kill(Error::internal(format_args!(
                "its process did not read: {MAX_UNSENT} bytes of messages waited for it"
            )));
        }
        let sent =
            if outgoing.unsent.is_empty() { write_to(&self.socket, &bytes) } else { Some(0) };
        // If the socket is broken, the task that waits for the end of the process finds the reason.
        let Some(sent) = sent.filter(|sent| *sent < bytes.len()) else { return };
        outgoing.unsent.extend(&bytes[sent..]);
        outgoing.writer.take().into_iter().for_each(Waker::wake);
    }

    /// Writes messages that the socket did not accept at once, until the process has ended.
    pub(super) async fn write(&self, mut writable: Watched) {
        poll_fn(|context| {
            loop {
                let outgoing = &mut *lock(&self.outgoing);
                if self.check().is_err() {
                    return Poll::Ready(());
                }
                while !outgoing.unsent.is_empty() {
                    match write_to(&self.socket, outgoing.unsent.as_slices().0) {
                        Some(0) => break,
                        Some(sent) => drop(outgoing.unsent.drain(..sent)),
                        None => return Poll::Ready(()),
                    }
                }
                if outgoing.unsent.is_empty() {
                    outgoing.writer = Some(context.waker().clone());
                    return Poll::Pending;
                }
                match writable.poll_ready(context) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
    }

    /// Handles messages until the connection ends.
    pub(super) async fn read(&self, mut readable: Watched) {
        loop {
            match self.receive() {
                Received::Ended => return,
                Received::Part => executor::yield_now().await,
                Received::All => {
                    if poll_fn(|context| readable.poll_ready(context)).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Handles messages that have arrived, without waiting.
    pub(super) fn receive(&self) -> Received {
        let mut incoming = lock(&self.incoming);
        let (mut buffer, mut total) = ([0; 16 << 10], 0);
        while !incoming.has_ended {
            match (&self.socket).read(&mut buffer) {
                Ok(len @ 1..) => {
                    total += len;
                    incoming.parser.push(&buffer[..len]);
                    self.handle_complete(&mut incoming);
                    if total >= MAX_TURN {
                        return Received::Part;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Received::All,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A socket with unread data is reset when its owner ends.
                Ok(0) | Err(_) => incoming.has_ended = true,
            }
        }
        Received::Ended
    }

    fn handle_complete(&self, incoming: &mut MutexGuard<'_, Incoming>) {
        loop {
            match incoming.parser.next() {
                Ok(Some(message)) => self.handle(message),
                Ok(None) => return,
                Err(error) => {
                    incoming.has_ended = true;
                    return self.kill(Error::internal(error).context("its process"));
                }
            }
        }
    }

    /// Kills the process, and stores the reason. Later reasons are discarded.
    pub(super) fn kill(&self, reason: Error) {
        lock(&self.killed).get_or_insert(reason);
        self.group.kill();
    }

    /// Returns the reason why the runtime has killed the process, if it has.
    pub(super) fn killed(&self) -> Option<Error> {
        lock(&self.killed).clone()
    }

    /// Handles a message of the process. Invalid messages without an answer are ignored, because they change nothing.
    fn handle(&self, message: Message) {
        if message.has(flags::ANSWER) {
            if let Some(open @ Open::Waiting(_)) = lock(&self.calls).open.get_mut(&message.call)
                && let Open::Waiting(Some(waker)) = mem::replace(open, Open::Answered(message))
            {
                waker.wake();
            }
            return;
        }
        let services = self.host.services();
        match message.kind {
            Kind::LOG => {
                let level = LogLevel(u8::try_from(message.a).unwrap_or(LogLevel::INFO.0));
                let text = String::from_utf8_lossy(&message.body);
                self.host.write_log(level, shortened(&text));
            }
            Kind::METRICS => {
                let metrics = message.read::<Vec<MetricBody>>().unwrap_or_default();
                metrics.into_iter().map(Metric::from).for_each(|it| self.host.metrics().set(&it));
            }
            Kind::PROBLEM => {
                if let Ok(ProblemBody { name, error }) = message.read() {
                    services.set_problem(shortened(&name), error.map(Error::from));
                }
            }
            Kind::CONNECTION_LOST => services.connection_lost(),
            Kind::REQUEST_STOP => {
                let reason = String::from_utf8_lossy(&message.body);
                services.request_stop(message.a != 0, shortened(&reason));
            }
            _ => {}
        }
    }

    /// Fails all open and all later calls. Only the first call of this function has an effect.
    pub(super) fn fail(&self, error: Error) {
        let wakers: Vec<_> = {
            let calls = &mut *lock(&self.calls);
            calls.ended.get_or_insert(error);
            let open = calls.open.values_mut();
            open.filter_map(|open| match open {
                Open::Waiting(waker) => waker.take(),
                Open::Answered(_) => None,
            })
            .collect()
        };
        wakers.into_iter().for_each(Waker::wake);
        // Ends the task that writes.
        let outgoing = &mut *lock(&self.outgoing);
        outgoing.has_ended = true;
        outgoing.unsent = VecDeque::new();
        outgoing.writer.take().into_iter().for_each(Waker::wake);
    }

    /// Returns the error of all calls, if the process has ended.
    ///
    /// # Errors
    /// The reason for the end of the process.
    pub(super) fn check(&self) -> Result<()> {
        lock(&self.calls).ended.clone().map_or(Ok(()), Err)
    }

    /// Blocks until a message arrives, or for `millis` milliseconds.
    fn wait_for(&self, millis: u32) {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let time = Timespec { tv_sec: 0, tv_nsec: i64::from(millis) * 1_000_000 };
        _ = poll(&mut polled, Some(&time));
    }
}

/// Writes bytes to a non-blocking socket. Returns the number of bytes that it accepted, or `None` if it is broken.
fn write_to(mut socket: &UnixStream, bytes: &[u8]) -> Option<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.write(&bytes[sent..]) {
            Ok(0) => return None,
            Ok(len) => sent += len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(sent)
}

/// A call to the process of a plugin. It completes with the answer, which may be that of a call that failed, or with
/// the reason for the end of the process. If it is dropped before, the answer is discarded.
#[must_use]
pub(super) struct Call {
    link: Arc<Link>,
    number: u32,
}

impl Call {
    /// Returns the answer if it has arrived. Does not wait.
    pub(super) fn take(&mut self) -> Option<Result<Message>> {
        let calls = &mut *lock(&self.link.calls);
        match calls.open.remove(&self.number) {
            Some(Open::Answered(message)) => Some(Ok(message)),
            Some(open @ Open::Waiting(_)) => {
                let ended = calls.ended.clone();
                if ended.is_none() {
                    calls.open.insert(self.number, open);
                }
                ended.map(Err)
            }
            None => Some(Err(Error::internal("the answer to a call was taken already"))),
        }
    }

    /// Blocks the thread until the answer has arrived, for `limit` at most.
    pub(super) fn wait(&mut self, limit: Duration) -> Option<Result<Message>> {
        // Each wait for a message is short, because a different thread may have received the answer.
        const STEP_MS: u32 = 5;
        let clock = Clock::default();
        let begun = clock.now();
        loop {
            self.link.receive();
            if let Some(answer) = self.take() {
                return Some(answer);
            }
            if clock.elapsed(begun) >= limit {
                return None;
            }
            self.link.wait_for(STEP_MS);
        }
    }
}

impl Future for Call {
    type Output = Result<Message>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(answer) = self.take() {
            return Poll::Ready(answer);
        }
        let mut calls = lock(&self.link.calls);
        match calls.open.get_mut(&self.number) {
            Some(Open::Waiting(waker)) => *waker = Some(context.waker().clone()),
            // The answer has arrived since.
            _ => context.waker().wake_by_ref(),
        }
        if calls.ended.is_some() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        lock(&self.link.calls).open.remove(&self.number);
    }
}
