//! The steps of a request before it enters the flow: it reserves capacity for its bytes, and waits
//! for a pull.

use std::{future::poll_fn, sync::Arc, task::Poll};

use hyper::StatusCode;

use super::{
    answer::Answer,
    connections::Server,
    peer::{Peer, Phase},
    queue::{Closed, Entry, NoMemory, RequestQueue},
    request_state::Outcome,
    ticket::Ticket,
};

/// Values of `Retry-After` in seconds. `SOON` is for a lack of capacity or memory, and `LATER` for
/// a sink that is down, or a flow that is paused or ends.
const SOON: u16 = 1;
const LATER: u16 = 5;

/// Capacity of the queue that a request has reserved. The capacity is released when the permit is
/// dropped, unless the request has entered the queue.
pub(crate) struct Permit<'s> {
    pub(crate) server: &'s Server,
    peer: &'s Arc<Peer>,
    taken: usize,
}

impl<'s> Permit<'s> {
    pub(crate) fn new(server: &'s Server, peer: &'s Arc<Peer>) -> Self {
        Self { server, peer, taken: 0 }
    }

    /// Reserves more bytes, and waits until they are available.
    ///
    /// # Errors
    /// The response if the wait takes too long, or the flow has reached its memory limit.
    pub(crate) async fn grow(&mut self, bytes: usize) -> Result<(), Answer> {
        let Self { server, peer, taken } = self;
        let mut is_first = true;
        poll_fn(|context| {
            match server.queue.poll_reserve(context, bytes, *taken) {
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(NoMemory)) => {
                    let text = "the flow has reached its memory limit\n";
                    let answer = Answer::bad(StatusCode::SERVICE_UNAVAILABLE, text);
                    return Poll::Ready(Err(answer.retry_after(SOON)));
                }
                Poll::Pending => {}
            }
            if std::mem::take(&mut is_first) {
                peer.begin(Phase::Queued, &server.clock);
            }
            poll_rejection(server, peer)
        })
        .await?;
        if !is_first {
            peer.begin(Phase::Body, &server.clock);
        }
        *taken += bytes;
        Ok(())
    }

    /// Returns `Pending` if the request may continue to wait for its body, and otherwise the
    /// response.
    pub(crate) fn poll_rejection<T>(&self) -> Poll<Result<T, Answer>> {
        poll_rejection(self.server, self.peer)
    }

    /// Discards wakes from within the current poll.
    pub(crate) fn ignore_wakes(&self) {
        self.peer.ignore_wakes();
    }

    /// Adds the request to the queue, and waits for its result.
    pub(crate) async fn wait(mut self, entry: Entry) -> Result<Outcome, Answer> {
        let (server, peer) = (self.server, self.peer);
        peer.begin(Phase::Queued, &server.clock);
        let ticket = server.queue.enter(peer, entry, std::mem::take(&mut self.taken));
        let waiting = WaitGuard { queue: &server.queue, ticket };
        poll_fn(|_| {
            // No waker has to be registered: the task is woken when the result is set, when the
            // phase takes too long, and when the flow closes.
            if let Some(outcome) = waiting.ticket.outcome() {
                return Poll::Ready(Ok(outcome));
            }
            if peer.phase() == Phase::Flow {
                return Poll::Pending;
            }
            match poll_rejection::<Outcome>(server, peer) {
                Poll::Ready(Err(answer)) if server.queue.leave(&waiting.ticket) => {
                    Poll::Ready(Err(answer))
                }
                // The request is in the flow already and can no longer be rejected, so wait for its
                // result.
                Poll::Ready(_) => {
                    peer.begin(Phase::Flow, &server.clock);
                    waiting.ticket.outcome().map_or(Poll::Pending, |it| Poll::Ready(Ok(it)))
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

/// Returns `Ok` if the flow accepts requests.
///
/// # Errors
/// The response to a request otherwise.
pub(crate) fn is_open(server: &Server) -> Result<(), Answer> {
    let text = match server.queue.closed() {
        None => return Ok(()),
        Some(Closed::Paused) => "the connector is paused\n",
        Some(Closed::Draining) => "the flow is stopping or restarting\n",
    };
    Err(Answer::bad(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(LATER))
}

/// Returns `Pending` if a request may continue to wait, and otherwise the response.
fn poll_rejection<T>(server: &Server, peer: &Peer) -> Poll<Result<T, Answer>> {
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
        _ if server.queue.is_sink_down() => {
            let text = "a sink of the flow is down\n";
            Answer::bad(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(LATER)
        }
        // If the flow's queue is full, the source may not be closed until later, although the flow
        // drains already.
        _ if server.queue.is_pull_cancelled() || server.host.is_draining() => {
            let text = "the flow accepts no requests now\n";
            Answer::bad(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(LATER)
        }
        _ => {
            let text = "the flow is full\n";
            Answer::bad(StatusCode::TOO_MANY_REQUESTS, text).retry_after(SOON)
        }
    }))
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.server.queue.release(self.taken);
    }
}

/// Guard of a request that waits. If the connection breaks, dropping the guard removes the request
/// from the queue, unless the request is in the flow.
struct WaitGuard<'s> {
    queue: &'s RequestQueue,
    ticket: Ticket,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        if self.ticket.outcome().is_none() {
            self.queue.leave(&self.ticket);
        }
    }
}
