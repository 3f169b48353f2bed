//! Events of a port as server-sent events, which are sent until the client disconnects or
//! the run ends.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html>

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use async_channel::Receiver;
use hyper::body::Bytes;

use super::body::Stream;
use crate::{
    clock::{Alarm, Clock},
    redact,
};

/// Time without events after which a comment is sent. The server notices only when it writes that a client has
/// disconnected.
const SILENCE: Duration = Duration::from_secs(15);

type Next = Pin<Box<dyn Future<Output = Option<String>>>>;
type End = Pin<Box<dyn Future<Output = ()>>>;

/// Stream of the events of a port.
pub(super) struct Events {
    /// Comment that is sent first.
    greeting: Option<String>,
    /// Receivers of events, one for each side of a connector.
    sources: Vec<(Receiver<String>, Next)>,
    /// Completes when the run ends.
    end: End,
    clock: Clock,
    alarm: Alarm,
    silent_until: Instant,
}

impl Events {
    /// Creates the stream of the events of `sources`, which ends when `stopped` or one of `sources` is
    /// closed.
    pub(super) fn of(
        sources: Vec<Receiver<String>>,
        what: &str,
        stopped: Receiver<Infallible>,
        clock: Clock,
    ) -> Self {
        let source = |events: Receiver<String>| {
            let next = next(&events);
            (events, next)
        };
        Self {
            greeting: Some(format!(": {what}\n\n")),
            sources: sources.into_iter().map(source).collect(),
            end: Box::pin(async move { _ = stopped.recv().await }),
            alarm: clock.alarm(),
            silent_until: clock.after(SILENCE),
            clock,
        }
    }
}

/// Returns an event in the format of server-sent events.
fn data(json: &str) -> Bytes {
    format!("data: {}\n\n", redact::log_line(json)).into()
}

fn next(events: &Receiver<String>) -> Next {
    let events = events.clone();
    Box::pin(async move { events.recv().await.ok() })
}

impl Stream for Events {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(greeting) = self.greeting.take() {
            return Poll::Ready(Some(greeting.into()));
        }
        for (events, waiting) in &mut self.sources {
            if let Poll::Ready(event) = waiting.as_mut().poll(context) {
                *waiting = next(events);
                self.silent_until = self.clock.after(SILENCE);
                return Poll::Ready(event.map(|json| data(&json)));
            }
        }
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        self.alarm.poll(context, self.silent_until).map(|()| {
            self.silent_until = self.clock.after(SILENCE);
            Some(Bytes::from_static(b": nothing yet\n\n"))
        })
    }
}
