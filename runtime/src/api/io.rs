//! Adapters of the executor's connections and of the clock's timers for hyper.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use hyper::rt::{Read, ReadBufCursor, Sleep, Timer, Write};

use crate::{
    clock::{Alarm, Clock},
    executor::net::Connection,
};

/// Maximum time that a write waits for the peer to accept bytes. The write then fails.
const STALLED: Duration = Duration::from_secs(30);
/// Maximum number of bytes of a single read.
const CHUNK: usize = 4 << 10;

/// Connection with hyper's interfaces for reading and writing.
pub(super) struct Io {
    connection: Connection,
    clock: Clock,
    alarm: Alarm,
    /// Time until which the peer has to accept bytes. Set while a write waits for the peer.
    until: Option<Instant>,
}

impl Io {
    pub(super) fn new(connection: Connection, clock: Clock) -> Self {
        Self { connection, alarm: clock.alarm(), clock, until: None }
    }
}

impl Read for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut chunk = [0; CHUNK];
        let most = to.remaining().min(CHUNK);
        let read = ready!(self.connection.poll_read(context, &mut chunk[..most]))?;
        to.put_slice(&chunk[..read]);
        Poll::Ready(Ok(()))
    }
}

impl Write for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { connection, clock, alarm, until } = &mut *self;
        if let Poll::Ready(written) = connection.poll_write(context, bytes) {
            *until = None;
            return Poll::Ready(written);
        }
        let until = until.get_or_insert_with(|| clock.after(STALLED));
        alarm.poll(context, *until).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.connection.end())
    }
}

/// Timers of a clock.
#[derive(Clone, Debug)]
pub(super) struct Timers(pub(super) Clock);

struct Sleeps(Pin<Box<dyn Future<Output = ()> + Send + Sync>>);

impl Timer for Timers {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Sleeps(Box::pin(self.0.sleep(duration))))
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(deadline.saturating_duration_since(self.0.now()))
    }
}

impl Sleep for Sleeps {}

impl Future for Sleeps {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}
