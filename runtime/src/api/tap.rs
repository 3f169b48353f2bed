//! Events of a port as server-sent events, for as long as somebody listens.
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
use crate::{executor, redact};

/// How long there may be silence: a listener that is gone is noticed when it is written to.
const SILENCE: Duration = Duration::from_secs(15);

type Next = Pin<Box<dyn Future<Output = Option<String>>>>;
type End = Pin<Box<dyn Future<Output = ()>>>;

/// What is told of a port.
pub(super) struct Events {
    /// What comes first.
    greeting: Option<String>,
    /// One for each side of a connector.
    sources: Vec<(Receiver<String>, Next)>,
    /// The end of the run.
    end: End,
    alarm: executor::Alarm,
    silent_until: Instant,
}

impl Events {
    /// Those of `sources`, until `stopped` is closed.
    pub(super) fn of(
        sources: Vec<Receiver<String>>,
        what: &str,
        stopped: Receiver<Infallible>,
    ) -> Self {
        let source = |events: Receiver<String>| {
            let next = next(&events);
            (events, next)
        };
        Self {
            greeting: Some(format!(": {what}\n\n")),
            sources: sources.into_iter().map(source).collect(),
            end: Box::pin(async move { _ = stopped.recv().await }),
            alarm: executor::Alarm::default(),
            silent_until: executor::after(SILENCE),
        }
    }
}

/// An event as it is sent.
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
                self.silent_until = executor::after(SILENCE);
                return Poll::Ready(event.map(|json| data(&json)));
            }
        }
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        self.alarm.poll(context, self.silent_until).map(|()| {
            self.silent_until = executor::after(SILENCE);
            Some(Bytes::from_static(b": nothing yet\n\n"))
        })
    }
}
