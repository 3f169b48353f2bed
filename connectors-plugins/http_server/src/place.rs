//! The place of a request in the waiting room: how it gets one, and how long it waits.

use std::{future::poll_fn, sync::Arc, task::Poll};

use hyper::StatusCode;

use crate::{
    answer::Answer,
    fate::Outcome,
    peer::{Peer, Phase},
    room::{Closed, Entry, NoMemory, Room},
    server::Server,
    ticket::Ticket,
};

/// What clients are told that come too early, in seconds.
const SOON: u16 = 1;
const LATER: u16 = 5;

/// The room of one request, until it is in the flow.
pub(crate) struct Place<'s> {
    pub(crate) server: &'s Server,
    peer: &'s Arc<Peer>,
    taken: usize,
}

impl<'s> Place<'s> {
    pub(crate) fn new(server: &'s Server, peer: &'s Arc<Peer>) -> Self {
        Self { server, peer, taken: 0 }
    }

    /// Takes more room, and waits for it.
    ///
    /// # Errors
    /// The answer, where there is none for too long.
    pub(crate) async fn grow(&mut self, bytes: usize) -> Result<(), Answer> {
        let Self { server, peer, taken } = self;
        let mut is_first = true;
        poll_fn(|context| {
            match server.room.poll_take_room(context, bytes, *taken) {
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(NoMemory)) => {
                    let text = "the flow may take no more memory\n";
                    let answer = Answer::bad(StatusCode::SERVICE_UNAVAILABLE, text);
                    return Poll::Ready(Err(answer.retry_after(SOON)));
                }
                Poll::Pending => {}
            }
            if std::mem::take(&mut is_first) {
                peer.begin(Phase::Room, &server.clock);
            }
            goes_on(server, peer)
        })
        .await?;
        if !is_first {
            peer.begin(Phase::Body, &server.clock);
        }
        *taken += bytes;
        Ok(())
    }

    /// Pending, unless the request is not to wait any longer for what comes next of it.
    pub(crate) fn poll_late<T>(&self) -> Poll<Result<T, Answer>> {
        goes_on(self.server, self.peer)
    }

    /// What has woken the connection within this poll is done with.
    pub(crate) fn ignore_wakes(&self) {
        self.peer.ignore_wakes();
    }

    /// Goes into the flow, and waits for what becomes of it.
    pub(crate) async fn wait(mut self, entry: Entry) -> Result<Outcome, Answer> {
        let (server, peer) = (self.server, self.peer);
        peer.begin(Phase::Room, &server.clock);
        let ticket = server.room.enter(peer, entry, std::mem::take(&mut self.taken));
        let waits = Waits { room: &server.room, ticket };
        poll_fn(|_| {
            // Its connection is woken once that is known, and whenever something else has changed.
            if let Some(outcome) = waits.ticket.outcome() {
                return Poll::Ready(Ok(outcome));
            }
            if peer.phase() == Phase::Flow {
                return Poll::Pending;
            }
            match goes_on::<Outcome>(server, peer) {
                Poll::Ready(Err(answer)) if server.room.leave(&waits.ticket) => {
                    Poll::Ready(Err(answer))
                }
                // It is in the flow: what becomes of it is known later.
                Poll::Ready(_) => {
                    peer.begin(Phase::Flow, &server.clock);
                    waits.ticket.outcome().map_or(Poll::Pending, |it| Poll::Ready(Ok(it)))
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

/// # Errors
/// The answer to requests that do not go into the flow now.
pub(crate) fn is_open(server: &Server) -> Result<(), Answer> {
    let text = match server.room.closed() {
        None => return Ok(()),
        Some(Closed::Paused) => "the connector is paused\n",
        Some(Closed::Draining) => "the flow ends, or starts again\n",
    };
    Err(Answer::bad(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(LATER))
}

/// Pending, unless a request is not to wait any longer.
fn goes_on<T>(server: &Server, peer: &Peer) -> Poll<Result<T, Answer>> {
    if let Err(answer) = is_open(server) {
        return Poll::Ready(Err(answer));
    }
    if !peer.is_overdue() {
        return Poll::Pending;
    }
    Poll::Ready(Err(match peer.phase() {
        Phase::Body => {
            let text = "the body took too long (`body_timeout`)\n";
            Answer::bad(StatusCode::REQUEST_TIMEOUT, text).last()
        }
        _ if server.room.is_sink_down() => {
            let text = "a sink of the flow is down\n";
            Answer::bad(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(LATER)
        }
        // While a full queue delays the last pull, the source does not know yet that the flow drains.
        _ if server.room.is_given_up() || server.host.is_draining() => {
            let text = "the flow takes no requests now\n";
            Answer::bad(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(LATER)
        }
        _ => {
            let text = "the flow is full\n";
            Answer::bad(StatusCode::TOO_MANY_REQUESTS, text).retry_after(SOON)
        }
    }))
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.server.room.give_room(self.taken);
    }
}

/// A request that waits. If its connection breaks, it leaves, unless it is in the flow.
struct Waits<'s> {
    room: &'s Room,
    ticket: Ticket,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if self.ticket.outcome().is_none() {
            self.room.leave(&self.ticket);
        }
    }
}
